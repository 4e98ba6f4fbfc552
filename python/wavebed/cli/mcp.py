"""``wavebed mcp``: a server of the Model Context Protocol for agents, over standard input and output."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.config.problems import Problem, at
from wavebed.config.units import argument, parse_time
from wavebed.config.values import number
from wavebed.extras import require

if TYPE_CHECKING:
    import argparse
    from types import FrameType

_DESCRIPTION = (
    "Serve wavebed to an agent by the Model Context Protocol over standard input and output, one JSON message in each"
    " line: tools list, resolve, run, status, cancel, compare and explain. Runs are made in real time on this machine,"
    " one at a time, within bounds; all ends with the server."
)
_EPILOG = (
    "DIR holds the runs, and scenario files (NAME.toml) that the agent may name. Scenarios that run programs (workload"
    " `command`), use real hosts or the network of this machine, or name files elsewhere are refused without"
    " --allow-commands."
)
MOST_TRIALS = 10_000
_NS = 1_000_000_000


def register_mcp(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed mcp`` to the program's parser."""
    parser = subparsers.add_parser("mcp", help="a server for agents", description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("folder", metavar="DIR", type=Path, help="folder of the runs; nothing is written elsewhere")
    parser.add_argument(
        "--most-run", metavar="T", type=argument(parse_time), default=600 * _NS, help="time of a run (default: 600s)"
    )
    parser.add_argument(
        "--most-call",
        metavar="T",
        type=argument(parse_time),
        default=60 * _NS,
        help="time of another call (default: 60s)",
    )
    parser.add_argument("--most-trials", metavar="N", default="20", help="trials of a run (default: 20)")
    parser.add_argument(
        "--allow-commands",
        action="store_true",
        help="allow scenarios that run any program, use real hosts, or read files anywhere",
    )


def run_mcp(args: argparse.Namespace) -> int:
    """Serve until the input ends.

    Raises
    ------
    Problem
        If there is no such folder.
    """
    trials = at("--most-trials", number(1, MOST_TRIALS), args.most_trials)
    if not args.folder.is_dir():
        raise Problem(f"{args.folder} is no folder: make it, or name one that is there", "DIR")
    require("mcp", "wavebed mcp")
    from wavebed.mcp.server import AgentServer
    from wavebed.mcp.tools import ServerBounds, Tools

    bounds = ServerBounds(args.most_call / _NS, args.most_run / _NS, trials, args.allow_commands)
    # Nothing else may write to the client, whatever a library prints.
    with os.fdopen(os.dup(1), "wb") as writing:
        os.dup2(2, 1)
        signal.signal(signal.SIGTERM, _end)
        # A client may ignore it, and its programs inherit that: the kernel then keeps no status of their children.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        AgentServer(Tools(args.folder, bounds), bounds, sys.stdin.buffer, writing).serve()
    return 0


def _end(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(128 + signal.SIGTERM)
