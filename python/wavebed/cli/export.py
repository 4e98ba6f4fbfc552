"""``wavebed export``: a trial in the format of another program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.config.units import argument, parse_time
from wavebed.errors import UserError
from wavebed.extras import TABLES, require

if TYPE_CHECKING:
    import argparse

    from wavebed.export.trial import Trial

__all__ = ["register", "run"]

_DESCRIPTION = """\
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


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser(
        "export", help="write a trial for flent, Perfetto, qlog tools or as CSV", description=_DESCRIPTION
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


def run(args: argparse.Namespace) -> int:
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


def _flent(trial: Trial, file: Path, args: argparse.Namespace) -> str:  # noqa: ARG001 - it has no options
    from wavebed.export.flent import export_flent

    return f"as flent's test {export_flent(trial, file)}"


def _perfetto(trial: Trial, file: Path, args: argparse.Namespace) -> str:
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


def _qlog(trial: Trial, file: Path, args: argparse.Namespace) -> str:  # noqa: ARG001 - it has no options
    from wavebed.export.qlog import export_qlog

    merged = export_qlog(trial, file)
    for source in merged.unmoved:
        print(f"wavebed export: {source}: its clock is not known: its times are unchanged", file=sys.stderr)
    return f"{merged.traces} traces, {merged.events} events"


def _csv(trial: Trial, file: Path, args: argparse.Namespace) -> str:
    from wavebed.export.trial import NAMES, export_csv, table_csv
    from wavebed.output import write_output

    if args.table is None:
        return ", ".join(export_csv(trial, file))
    if args.table not in NAMES:
        raise UserError(f"--table: {args.table!r} is no table: it must be one of {', '.join(NAMES)}")
    write_output("/dev/stdout" if args.output is None else file, table_csv(trial, args.table))
    return ""
