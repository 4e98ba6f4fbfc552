"""``wavebed explain``: each lost or late millisecond of a trial, by cause."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.cli.outputs import print_json
from wavebed.config.problems import at
from wavebed.config.units import argument, parse_time
from wavebed.config.values import number
from wavebed.errors import UserError
from wavebed.extras import TABLES, require
from wavebed.printable import printable

if TYPE_CHECKING:
    import argparse

__all__ = ["register", "run"]

_DESCRIPTION = (
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


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser(
        "explain", help="why packets of a trial were late or lost", description=_DESCRIPTION, epilog=_EPILOG
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


def run(args: argparse.Namespace) -> int:
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
