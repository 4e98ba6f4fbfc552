"""``wavebed report``, ``explain``, ``export`` and ``compare``: what is made of folders of results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.cli.outputs import print_json
from wavebed.config.problems import at
from wavebed.config.units import argument, parse_time
from wavebed.config.values import number
from wavebed.errors import UserError, WavebedError
from wavebed.extras import TABLES, require, spare_pandas
from wavebed.printable import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from wavebed.compare.find import RunComparison
    from wavebed.export.trial import ExportedTrial
    from wavebed.kinds import ComparedFolders, ResultKind

_DESCRIPTION = "Write the report of a run, a campaign or a forwarding test: one HTML page that needs no network."


def register_report(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed report`` to the program's parser."""
    parser = subparsers.add_parser("report", help=_DESCRIPTION, description=_DESCRIPTION)
    parser.add_argument(
        "dir", metavar="DIR", type=Path, help="a folder of results, of wavebed run, campaign, forward or reproduce"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="where to write it (default: DIR/report.html)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the file's name")


def run_report(args: argparse.Namespace) -> int:
    """Write it, and print where it is.

    Raises
    ------
    UserError
        If the folder holds no results, or the file cannot be written.
    """
    require("report", "a folder of results", ("jinja2", *TABLES))
    if args.is_own_process:
        spare_pandas()
    from wavebed.kinds import kind_at

    page = kind_at(args.dir).write_report(args.dir, args.output)
    if args.json:
        print_json("report", {"report": str(page)})
    else:
        print(page)
    return 0


_EXPLAIN_DESCRIPTION = (
    "Say why packets of a trial were late or lost: the one-way delay of each packet split by cause (queue, slot, grant,"
    " outage, HARQ, RLC, reordering, host, …), the drops by reason, the worst moments, and what happened on the path"
    " when a video stalled, a call froze or a page loaded."
)
_EPILOG = (
    "With a packet log (wavebed run … --set path.packet-log=true) the causes of a packet sum to its delay. Without, the"
    " series per millisecond tell queues, outages and losses only."
)
MOST_WORST = 1000
LEAST_STEP_NS = 1_000_000


def register_explain(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed explain`` to the program's parser."""
    parser = subparsers.add_parser(
        "explain", help="why packets of a trial were late or lost", description=_EXPLAIN_DESCRIPTION, epilog=_EPILOG
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="folder of a run, or of one of its trials")
    parser.add_argument("--trial", metavar="NAME", help="folder of the trial, where the run has several")
    parser.add_argument(
        "--from", dest="start", metavar="T", type=argument(parse_time), help="packets sent from then on (default: 0s)"
    )
    parser.add_argument(
        "--to",
        dest="end",
        metavar="T",
        type=argument(parse_time),
        help="and before (default: end of the last workload)",
    )
    parser.add_argument(
        "--worst", metavar="N", default="5", help="number of worst moments of each direction (default: 5)"
    )
    parser.add_argument(
        "--step",
        metavar="T",
        type=argument(parse_time),
        help="length of the steps in --json and --plot, from 1ms (default: 100ms)",
    )
    parser.add_argument("--plot", metavar="FILE", type=Path, help="draw the causes over time, as PNG")
    parser.add_argument("--json", action="store_true", help="print one JSON object, the unit in each key")


def run_explain(args: argparse.Namespace) -> int:
    """Explain the trial.

    Raises
    ------
    UserError
        If it is not clear which trial is meant, or it has no emulated links.
    """
    most = at("--worst", number(0, MOST_WORST), args.worst)
    if args.step is not None and args.step < LEAST_STEP_NS:
        raise UserError("--step: is shorter than a millisecond: write 1ms or more")
    if args.plot is not None and args.plot.suffix != ".png":
        raise UserError(f"--plot {args.plot}: the name of the picture must end in .png")
    require("report", "a folder of results", TABLES)
    if args.plot is not None:
        require("report", "--plot", ("matplotlib",))
    from wavebed.explain.build import STEP_NS, explain_trial
    from wavebed.explain.plot import explanation_text
    from wavebed.export.trial import open_trial

    trial = open_trial(args.folder, args.trial)
    window = trial.window(args.start, args.end)
    found = explain_trial(trial, window, step_ns=args.step or STEP_NS, most=most)
    if args.plot is not None:
        from wavebed.explain.plot import explanation_png
        from wavebed.output import write_output

        write_output(args.plot, explanation_png(found))
    if args.json:
        print_json("explain", found)
    else:
        print(printable(explanation_text(found), keep="\n"))
    return 0


_EXPORT_DESCRIPTION = """\
Write one trial of a run for another program: flent; Perfetto (ui.perfetto.dev), with each packet in queues, transport
blocks and HARQ if the trial has a packet log (--set path.packet-log=true); qlog, merged from the files of QUIC programs
in the trial; or CSV."""
_FORMATS = ("flent", "perfetto", "qlog", "csv")
_ENDINGS = {"flent": ".flent.gz", "perfetto": ".perfetto-trace", "qlog": ".qlog", "csv": "-csv"}
_ONLY = {
    "start": ("--from", ("perfetto",)),
    "end": ("--to", ("perfetto",)),
    "most_events": ("--most-events", ("perfetto",)),
    "table": ("--table", ("csv",)),
}
"""Options that fit some formats only."""


def register_export(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed export`` to the program's parser."""
    parser = subparsers.add_parser(
        "export", help="write a trial for flent, Perfetto, qlog tools or as CSV", description=_EXPORT_DESCRIPTION
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="folder of a run, or of one of its trials")
    parser.add_argument("--trial", metavar="NAME", help="folder of the trial, where the run has several")
    parser.add_argument("--format", choices=_FORMATS, default="flent", help="default: flent")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="the file; for csv a folder, or with --table a file (default: the trial's name with the ending .flent.gz,"
        " .perfetto-trace, .qlog or -csv, in this folder)",
    )
    of_perfetto = parser.add_argument_group("perfetto")
    of_perfetto.add_argument(
        "--from", dest="start", metavar="T", type=argument(parse_time), help="begin of the part (default: 0s)"
    )
    of_perfetto.add_argument(
        "--to", dest="end", metavar="T", type=argument(parse_time), help="its end (default: end of the last workload)"
    )
    of_perfetto.add_argument(
        "--most-events", metavar="N", type=int, help="refuse to write a larger trace (default: 1000000, some 80 MB)"
    )
    of_csv = parser.add_argument_group("csv")
    of_csv.add_argument(
        "--table", metavar="NAME", help="one table (metrics, links, …), to standard output or FILE (default: all)"
    )


def run_export(args: argparse.Namespace) -> int:
    """Write the file, and say on standard error what it has.

    Raises
    ------
    UserError
        If it is not clear which trial is meant, or it has nothing in that format.
    """
    for name, (option, formats) in _ONLY.items():
        if getattr(args, name) is not None and args.format not in formats:
            raise UserError(f"{option}: fits --format {formats[0]} only: add that, or leave it out")
    require("report", "a folder of results", TABLES)
    if args.format == "perfetto":
        require("report", "--format perfetto", ("perfetto",))
    from wavebed.export.trial import open_trial

    trial = open_trial(args.folder, args.trial)
    file = args.output or Path(f"{trial.record.folder}{_ENDINGS[args.format]}")
    told = {"flent": _flent, "perfetto": _perfetto, "qlog": _qlog, "csv": _csv}[args.format](trial, file, args)
    if told:
        print(f"{file}: {told}", file=sys.stderr)
    return 0


def _flent(trial: ExportedTrial, file: Path, args: argparse.Namespace) -> str:  # noqa: ARG001 - it has no options
    from wavebed.export.flent import export_flent

    return f"as flent's test {export_flent(trial, file)}"


def _perfetto(trial: ExportedTrial, file: Path, args: argparse.Namespace) -> str:
    from wavebed.export.perfetto import MOST_EVENTS, export_perfetto

    most = MOST_EVENTS if args.most_events is None else args.most_events
    window = trial.window(args.start, args.end)
    found = export_perfetto(trial, file, window, most)
    if not trial.has_packet_log:
        print(
            "wavebed export: the trial has no packet log, so the trace has no packets: run it with"
            " --set path.packet-log=true",
            file=sys.stderr,
        )
    return (
        f"{window.start_ns / 1e9:g} s to {window.end_ns / 1e9:g} s, {found.segments} wire segments,"
        f" {found.blocks} radio blocks, {found.events} events, {found.bytes / 1e6:.1f} MB; open it in"
        " https://ui.perfetto.dev"
    )


def _qlog(trial: ExportedTrial, file: Path, args: argparse.Namespace) -> str:  # noqa: ARG001 - it has no options
    from wavebed.export.qlog import export_qlog

    merged = export_qlog(trial, file)
    for source in merged.unmoved:
        print(f"wavebed export: {source}: its clock is not known: its times are unchanged", file=sys.stderr)
    return f"{merged.traces} traces, {merged.events} events"


def _csv(trial: ExportedTrial, file: Path, args: argparse.Namespace) -> str:
    from wavebed.export.trial import NAMES, export_csv, table_csv
    from wavebed.output import write_output

    if args.table is None:
        return ", ".join(export_csv(trial, file))
    if args.table not in NAMES:
        raise UserError(f"--table: {args.table!r} is no table: it must be one of {', '.join(NAMES)}")
    write_output("/dev/stdout" if args.output is None else file, table_csv(trial, args.table))
    return ""


_COMPARE_DESCRIPTION = (
    "Compare folders of results. Of wavebed run and wavebed campaign run: a verdict on each metric beside the first"
    " folder. Of wavebed forward: throughput, small packets, processor, ranks with the intervals that support them."
    " With --baseline: whether one folder is worse than another by more than the margins of its primary metrics."
)
_COMPARE_EPILOG = (
    "docs/guides/ci.md shows --baseline in continuous integration. Its exit status is 1 if a primary metric is"
    " worse by more than its margin, or has no value."
)


def register_compare(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed compare`` to the program's parser."""
    parser = subparsers.add_parser(
        "compare", help=_COMPARE_DESCRIPTION, description=_COMPARE_DESCRIPTION, epilog=_COMPARE_EPILOG
    )
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


def run_compare(args: argparse.Namespace) -> int:
    """Print the tables, and write what was asked for.

    Raises
    ------
    UserError
        If the folders cannot be compared, or a file cannot be written.
    """
    require("report", "a folder of results", ("jinja2", *TABLES) if args.output is not None else TABLES)
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


def _without_primaries(baseline: Path, folder: Path, comparison: RunComparison) -> str:
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
