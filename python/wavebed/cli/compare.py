"""``wavebed compare``: folders of results beside each other, of runs or of forwarding tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from wavebed.errors import UserError
from wavebed.extras import TABLES, require
from wavebed.printable import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

__all__ = ["register", "run"]

_DESCRIPTION = (
    "Compare folders of results. Of wavebed run: the median of each metric, and its difference to the first folder. Of"
    " wavebed forward: throughput, small packets, processor, ranks with the intervals that support them."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("compare", help=_DESCRIPTION, description=_DESCRIPTION)
    parser.add_argument(
        "dirs",
        metavar="DIR",
        type=Path,
        nargs="+",
        help="folders that wavebed run wrote, or wavebed forward: two or more of one kind",
    )
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="also write a page: one HTML file")
    parser.add_argument("--csv", metavar="FILE", type=Path, help="also write the figures as CSV")
    parser.add_argument("--json", action="store_true", help="print one JSON object in place of tables")


def run(args: argparse.Namespace) -> int:
    """Print the tables, and write what was asked for.

    Raises
    ------
    UserError
        If the folders cannot be compared, or a file cannot be written.
    """
    require("report", "a folder of results", TABLES)
    from wavebed.output import write_output

    folders = [each for folder in args.dirs for each in _folders(folder)]
    if len(folders) < 2:
        raise UserError(f"{args.dirs[0]}: is one folder: name two or more (wavebed report shows one)")
    written = _forwarding_tests(folders) if _kind(folders) == "forward" else _runs(folders)
    if args.csv is not None:
        write_output(args.csv, written.csv(), "--csv")
    if args.output is not None:
        write_output(args.output, written.page())
    if args.json:
        print(json.dumps(written.json(), allow_nan=False, ensure_ascii=False))
    else:
        print(printable(written.text(), keep="\n"))
        if args.output is not None:
            print(f"page: {args.output}")
    return 0


class _Written(NamedTuple):
    """A comparison in each form."""

    text: Callable[[], str]
    json: Callable[[], object]
    csv: Callable[[], str]
    page: Callable[[], str]


def _folders(folder: Path) -> list[Path]:
    """Return the folder, or those of the devices of a reproduction."""
    from wavebed.result.names import DEVICES_FOLDER
    from wavebed.result.read import kind_of

    return sorted((folder / DEVICES_FOLDER).iterdir()) if kind_of(folder) == "reproduction" else [folder]


def _kind(folders: Sequence[Path]) -> str:
    """Return what all folders hold."""
    from wavebed.result.read import kind_of

    kinds = [kind_of(folder) for folder in folders]
    for folder, kind in zip(folders, kinds, strict=True):
        if kind != kinds[0]:
            said = {"run": "a run of a scenario", "forward": "a forwarding test", "reproduction": "a reproduction"}
            raise UserError(
                f"{folder}: holds {said[kind]}, and {folders[0]} {said[kinds[0]]}: compare folders of one kind"
            )
    return kinds[0]


def _runs(folders: Sequence[Path]) -> _Written:
    from wavebed.report.compare import compare_runs, runs_csv, runs_json, runs_text
    from wavebed.report.compare_page import runs_page

    found = compare_runs(folders)
    return _Written(
        lambda: runs_text(found), lambda: runs_json(found), lambda: runs_csv(found), lambda: runs_page(found)
    )


def _forwarding_tests(folders: Sequence[Path]) -> _Written:
    from wavebed.forward.read import read_forward
    from wavebed.forward.report.compare import comparison_page
    from wavebed.forward.table_text import comparison_text
    from wavebed.forward.tables import compare, comparison_csv, comparison_json

    found = compare([read_forward(folder).result for folder in folders])
    return _Written(
        lambda: comparison_text(found),
        lambda: comparison_json(found),
        lambda: comparison_csv(found),
        lambda: comparison_page(found),
    )
