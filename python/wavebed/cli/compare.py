"""``wavebed compare``: folders of results beside each other, of runs or of forwarding tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from wavebed.cli.outputs import print_json
from wavebed.errors import UserError, WavebedError
from wavebed.extras import TABLES, require
from wavebed.printable import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from wavebed.compare.find import Comparison

__all__ = ["register", "run"]

_DESCRIPTION = (
    "Compare folders of results. Of wavebed run and wavebed campaign run: a verdict on each metric beside the first"
    " folder. Of wavebed forward: throughput, small packets, processor, ranks with the intervals that support them."
    " With --baseline: whether one folder is worse than another by more than the margins of its primary metrics."
)
_EPILOG = (
    "docs/guides/continuous.md shows --baseline in continuous integration. Its exit status is 1 if a primary metric is"
    " worse by more than its margin, or has no value."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("compare", help=_DESCRIPTION, description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument(
        "dirs",
        metavar="DIR",
        type=Path,
        nargs="+",
        help="folders of results of one kind: two or more, with --baseline one",
    )
    parser.add_argument(
        "--baseline", metavar="DIR", type=Path, help="folder with which DIR is compared, to pass or fail"
    )
    parser.add_argument(
        "--margin",
        metavar="WORKLOAD.METRIC=VALUE",
        action="append",
        default=[],
        help="smallest difference of a metric that matters, a share (5%%) or a value (20 ms); the metric is primary;"
        " repeat for more (default: those of the first folder's campaign)",
    )
    parser.add_argument(
        "--undecided",
        choices=("pass", "fail"),
        help="with --baseline: whether a regression that the intervals do not exclude is a failure (default: pass)",
    )
    parser.add_argument(
        "--markdown", metavar="FILE", type=Path, help="with --baseline: also write the table as Markdown"
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
    if args.baseline is not None:
        written, passed = _with_baseline(args)
    else:
        written, passed = _beside_the_first(args), True
    _write(args, written)
    if args.json:
        print_json(written.output, written.json())
    else:
        print(printable(written.text(), keep="\n"))
        if args.output is not None:
            print(f"page: {args.output}")
    return 0 if passed else WavebedError.exit_status


def _write(args: argparse.Namespace, written: _Written) -> None:
    from wavebed.output import write_output

    if args.csv is not None:
        write_output(args.csv, written.csv(), "--csv")
    if args.markdown is not None and written.markdown is not None:
        write_output(args.markdown, written.markdown(), "--markdown")
    if args.output is not None:
        write_output(args.output, written.page())


class _Written(NamedTuple):
    """A comparison in each form, and the name of its JSON output."""

    output: str
    text: Callable[[], str]
    json: Callable[[], object]
    csv: Callable[[], str]
    page: Callable[[], str]
    markdown: Callable[[], str] | None = None


def _beside_the_first(args: argparse.Namespace) -> _Written:
    for option, given in (("--undecided", args.undecided), ("--markdown", args.markdown)):
        if given is not None:
            raise UserError(f"{option}: belongs to --baseline: write --baseline DIR DIR")
    folders = [each for folder in args.dirs for each in _folders(folder)]
    if len(folders) < 2:
        raise UserError(f"{args.dirs[0]}: is one folder: name two or more (wavebed report shows one)")
    kind = _kind(folders)
    if kind != "forward":
        return _of_comparison(_compared(folders, kind, args.margin))
    if args.margin:
        raise UserError("--margin: forwarding tests take it with --baseline only: write --baseline DIR DIR")
    return _forwarding_tests(folders)


def _with_baseline(args: argparse.Namespace) -> tuple[_Written, bool]:
    from wavebed.compare.gate import regressions_json, regressions_markdown, regressions_text
    from wavebed.compare.regression import regressions

    if len(args.dirs) > 1:
        raise UserError(f"{args.dirs[1]}: is a second folder beside --baseline: name one")
    folders = [args.baseline, args.dirs[0]]
    kind = _kind(folders)
    if kind == "reproduction":
        raise UserError(f"{folders[0]}: is a reproduction: name the folder of one device in it")
    comparison = _compared(folders, kind, args.margin, explore=args.csv is not None or args.output is not None)
    if not comparison.primaries:
        raise UserError(_without_primaries(args.baseline, args.dirs[0], comparison))
    found = regressions(comparison, undecided_fails=args.undecided == "fail")
    whole = _of_comparison(comparison)
    written = _Written(
        "compare-baseline",
        lambda: regressions_text(found),
        lambda: regressions_json(found),
        whole.csv,
        whole.page,
        lambda: regressions_markdown(found),
    )
    return written, found.passed


def _without_primaries(baseline: Path, folder: Path, comparison: Comparison) -> str:
    if all(column.base is None for column in comparison.columns):
        return f"{folder}: has no treatment of {baseline}: name results of the same treatments"
    return f"{baseline}: has no primary metric with a value: add --margin WORKLOAD.METRIC=VALUE"


def _compared(folders: Sequence[Path], kind: str, margins: Sequence[str], *, explore: bool = True) -> Comparison:
    from wavebed.compare.find import compare_folders
    from wavebed.compare.forwarding import read_forward_samples
    from wavebed.compare.samples import read_samples

    read = read_forward_samples if kind == "forward" else read_samples
    short = [folder.resolve().name for folder in folders]
    names = short if len(set(short)) == len(short) else [str(folder) for folder in folders]
    found = [read(folder, name) for folder, name in zip(folders, names, strict=True)]
    return compare_folders(found, margins, explore=explore)


def _of_comparison(comparison: Comparison) -> _Written:
    from wavebed.compare.page import comparison_page
    from wavebed.compare.text import comparison_text
    from wavebed.compare.written import comparison_csv, comparison_json

    return _Written(
        "compare",
        lambda: comparison_text(comparison),
        lambda: comparison_json(comparison),
        lambda: comparison_csv(comparison),
        lambda: comparison_page(comparison),
    )


def _folders(folder: Path) -> list[Path]:
    """Return the folder, or those of the devices of a reproduction."""
    from wavebed.result.names import DEVICES_FOLDER
    from wavebed.store.records import kind_of

    return sorted((folder / DEVICES_FOLDER).iterdir()) if kind_of(folder) == "reproduction" else [folder]


def _kind(folders: Sequence[Path]) -> str:
    """Return what all folders hold."""
    from wavebed.store.records import kind_of

    kinds = [kind_of(folder) for folder in folders]
    for folder, kind in zip(folders, kinds, strict=True):
        if kind != kinds[0]:
            said = {"run": "a run of a scenario", "forward": "a forwarding test", "reproduction": "a reproduction"}
            raise UserError(
                f"{folder}: holds {said[kind]}, and {folders[0]} {said[kinds[0]]}: compare folders of one kind"
            )
    return kinds[0]


def _forwarding_tests(folders: Sequence[Path]) -> _Written:
    from wavebed.forward.read import read_forward
    from wavebed.forward.report.compare import comparison_page
    from wavebed.forward.table_text import comparison_text
    from wavebed.forward.tables import compare, comparison_csv, comparison_json

    found = compare([read_forward(folder).result for folder in folders])
    return _Written(
        "compare-forward",
        lambda: comparison_text(found),
        lambda: comparison_json(found),
        lambda: comparison_csv(found),
        lambda: comparison_page(found),
    )
