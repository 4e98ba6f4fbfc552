"""``wavebed compare``: several devices beside each other, from the folders of their forwarding tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.extras import TABLES, require
from wavebed.printable import printable

if TYPE_CHECKING:
    import argparse

    from wavebed.forward.findings import DeviceResult

__all__ = ["register", "run"]

_DESCRIPTION = "Compare devices: throughput, small packets, processor, ranks with the intervals that support them."


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("compare", help=_DESCRIPTION, description=_DESCRIPTION)
    parser.add_argument(
        "dirs", metavar="DIR", type=Path, nargs="+", help="folders that wavebed forward wrote, two or more"
    )
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="also write a page with plots: one HTML file")
    parser.add_argument("--csv", metavar="FILE", type=Path, help="also write the figures and ranks as CSV")
    parser.add_argument("--json", action="store_true", help="print one JSON object in place of tables")


def run(args: argparse.Namespace) -> int:
    """Print the tables, and write what was asked for.

    Raises
    ------
    UserError
        If a folder is not a forwarding test, or a file cannot be written.
    """
    require("forward", "a folder of results", TABLES)
    from wavebed.forward.report.compare import comparison_page
    from wavebed.forward.table_text import comparison_text
    from wavebed.forward.tables import compare, comparison_csv, comparison_json
    from wavebed.output import write_output

    if len(args.dirs) < 2:
        raise UserError(f"{args.dirs[0]}: is one test: name two or more folders (wavebed report shows one)")
    comparison = compare([_result(folder) for folder in args.dirs])
    if args.csv is not None:
        write_output(args.csv, comparison_csv(comparison), "--csv")
    if args.output is not None:
        write_output(args.output, comparison_page(comparison))
    if args.json:
        print(json.dumps(comparison_json(comparison), allow_nan=False, ensure_ascii=False))
    else:
        print(printable(comparison_text(comparison), keep="\n"))
        if args.output is not None:
            print(f"page: {args.output}")
    return 0


def _result(folder: Path) -> DeviceResult:
    from wavebed.forward.read import read_forward
    from wavebed.result.names import RUN_FILE
    from wavebed.result.read import FORWARD, kind_of

    if (folder / RUN_FILE).is_file() and kind_of(folder) != FORWARD:
        raise UserError(
            f"{folder}: holds no forwarding test: compare sets folders of wavebed forward beside each other; treatments"
            " of one wavebed run are compared in its report"
        )
    return read_forward(folder).result
