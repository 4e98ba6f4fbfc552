"""``wavebed compare``: folders of results beside each other, of runs or of forwarding tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.cli.outputs import print_json
from wavebed.errors import UserError, WavebedError
from wavebed.extras import TABLES, require
from wavebed.printable import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from wavebed.compare.find import Comparison
    from wavebed.kinds import ComparedFolders, ResultKind

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


def _write(args: argparse.Namespace, written: ComparedFolders) -> None:
    from wavebed.output import write_output

    if args.csv is not None:
        write_output(args.csv, written.csv(), "--csv")
    if args.markdown is not None and written.markdown is not None:
        write_output(args.markdown, written.markdown(), "--markdown")
    if args.output is not None:
        write_output(args.output, written.page())


def _beside_the_first(args: argparse.Namespace) -> ComparedFolders:
    for option, given in (("--undecided", args.undecided), ("--markdown", args.markdown)):
        if given is not None:
            raise UserError(f"{option}: belongs to --baseline: write --baseline DIR DIR")
    from wavebed.kinds import kind_at

    folders = [each for folder in args.dirs for each in kind_at(folder).parts(folder)]
    if len(folders) < 2:
        raise UserError(f"{args.dirs[0]}: is one folder: name two or more (wavebed report shows one)")
    return _kind(folders).compare(folders, args.margin)


def _with_baseline(args: argparse.Namespace) -> tuple[ComparedFolders, bool]:
    from wavebed.compare.find import regressions
    from wavebed.compare.gate import regressions_json, regressions_markdown, regressions_text
    from wavebed.kinds import compared_by_metric

    if len(args.dirs) > 1:
        raise UserError(f"{args.dirs[1]}: is a second folder beside --baseline: name one")
    folders = [args.baseline, args.dirs[0]]
    explore = args.csv is not None or args.output is not None
    comparison = _kind(folders).compare_metrics(folders, args.margin, explore=explore)
    if not comparison.primaries:
        raise UserError(_without_primaries(args.baseline, args.dirs[0], comparison))
    found = regressions(comparison, undecided_fails=args.undecided == "fail")
    written = compared_by_metric(comparison)._replace(
        output="compare-baseline",
        text=lambda: regressions_text(found),
        json=lambda: regressions_json(found),
        markdown=lambda: regressions_markdown(found),
    )
    return written, found.passed


def _without_primaries(baseline: Path, folder: Path, comparison: Comparison) -> str:
    if all(column.base is None for column in comparison.columns):
        return f"{folder}: has no treatment of {baseline}: name results of the same treatments"
    return f"{baseline}: has no primary metric with a value: add --margin WORKLOAD.METRIC=VALUE"


def _kind(folders: Sequence[Path]) -> ResultKind:
    """Return what all folders hold."""
    from wavebed.kinds import kind_at

    first, *others = (kind_at(folder) for folder in folders)
    for folder, kind in zip(folders[1:], others, strict=True):
        if type(kind) is not type(first):
            raise UserError(
                f"{folder}: holds {kind.title}, and {folders[0]} {first.title}: compare folders of one kind"
            )
    return first
