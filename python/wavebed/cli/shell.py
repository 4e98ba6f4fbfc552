"""``wavebed shell``: run a command on the client, behind an emulated path.

Python resolves the options and is replaced by ``wavebed-core``: nothing stays in front of the laboratory.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import wavebed.cli.quick_msgspec  # noqa: F401 - before those that import msgspec
from wavebed._core import find_core
from wavebed.cli.times import add_memory_option, add_time_options, guest_memory
from wavebed.config.problems import Problem, at
from wavebed.config.values import end_wait
from wavebed.config.values import name as read_name
from wavebed.path.core import clean_environment, make_folder, write_laboratory
from wavebed.path.laboratory import LabPlan, laboratory_file, random_name, resolve_network
from wavebed.path.model import scene_maps
from wavebed.path.tables import add_path_options, chosen_path
from wavebed.path.traces import Traces

if TYPE_CHECKING:
    import argparse

    from wavebed.config.data import Json
    from wavebed.path.model import PathModel

__all__ = ["register", "run"]

_GUEST = "guest"
"""Name of a laboratory in a guest, which nothing outside reaches: the same in each run."""
_DESCRIPTION = "Run CMD (default: your shell) on the client, behind an emulated path."
_EPILOG = (
    "Inside, the hosts are called server, edge and client; $WAVEBED_SERVER, and {server} in the command, are the"
    " server's address. The exit status is that of CMD. Variables that name a proxy are removed."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("shell", help=_DESCRIPTION, description=_DESCRIPTION, epilog=_EPILOG)
    parser.usage = "wavebed shell [PATH OPTIONS] [--virtual-time] [--server CMD]… [-- CMD…]"
    add_path_options(parser)
    group = parser.add_argument_group("programs and outputs")
    group.add_argument(
        "--confine",
        action="store_true",
        help="run CMD and the servers as a user of their own, without privileges, variables and homes",
    )
    group.add_argument(
        "--server",
        metavar="CMD",
        action="append",
        default=[],
        help="a shell command that runs on the server beside CMD",
    )
    group.add_argument(
        "--drain",
        metavar="TIME",
        default="5s",
        help="longest time after the end of CMD in which its last data may arrive and be read (default: 5s)",
    )
    group.add_argument(
        "--grace", metavar="TIME", default="5s", help="time from SIGTERM to SIGKILL for the servers (default: 5s)"
    )
    add_time_options(group)
    add_memory_option(group)
    group.add_argument("--name", help="name of the laboratory, for wavebed ctl (default: drawn)")
    group.add_argument("--log", metavar="DIR", type=Path, help="write each link's series, a row per millisecond")
    group.add_argument(
        "--pcap", metavar="DIR", type=Path, help="capture wire segments at the entry and the exit of each link"
    )
    group.add_argument("--summary", metavar="FILE", type=Path, help="write the packet counters at the end as JSON")
    group.add_argument(
        "--print-laboratory", action="store_true", help="print the laboratory file as resolved, and run nothing"
    )
    parser.add_argument("argv", metavar="CMD", nargs="*", help="the command and its arguments, after --")


def _check_virtual(args: argparse.Namespace, path: PathModel) -> None:
    """Check that a laboratory can be in a guest.

    Raises
    ------
    Problem
        If it has no command, or its path needs the outside.
    """
    from wavebed.virtual.guest import outside_of_path

    if not args.argv and not args.print_laboratory:
        raise Problem("time stands still at the prompt of a shell: write a command after --", "--virtual-time")
    if why := outside_of_path(path):
        raise Problem(f"{why}: leave the option out", "--virtual-time")


def _rules() -> dict[str, Json]:
    from wavebed.lab.confine import confinement_rules

    return confinement_rules()


def run(args: argparse.Namespace) -> int:
    """Become ``wavebed-core``; return only if nothing is to be run."""
    traces = Traces()
    path, timeline = chosen_path(args, traces)
    is_virtual = args.time == "virtual"
    memory_bytes = guest_memory(args)
    if is_virtual:
        _check_virtual(args, path)
    elif memory_bytes is not None:
        raise Problem("is for virtual time: add --virtual-time, or leave it out", "--guest-memory")
    plan = LabPlan(
        name=(_GUEST if is_virtual else random_name()) if args.name is None else at("--name", read_name, args.name),
        seed=path.seed,
        command=args.argv or [os.environ.get("SHELL") or "/bin/sh"],
        background=[("server", ("/bin/sh", "-c", command)) for command in args.server],
        log_dir=args.log,
        pcap_dir=args.pcap,
        confine=_rules() if args.confine else None,
        confined=args.confine,
        drain_s=at("--drain", end_wait, args.drain),
        grace_s=at("--grace", end_wait, args.grace),
        maps=scene_maps(path),
        timeline=timeline,
        summary_file=args.summary if args.summary or not args.log else args.log / "summary.json",
    )
    # An ssh agent or a display may be wanted; in a guest there is none.
    laboratory = laboratory_file(resolve_network(path, traces, outside_sockets=not is_virtual), plan)
    for note in traces.notes:
        print(f"wavebed: note: {note}", file=sys.stderr)
    if any(host.remedies for host in path.hosts):
        print("wavebed: note: remedies run in trials only: start one by hand, or use wavebed run", file=sys.stderr)
    if args.print_laboratory:
        import json

        print(json.dumps(laboratory, indent=2))
        return 0
    for folder, option in ((args.log, "--log"), (args.pcap, "--pcap")):
        if folder is not None:
            make_folder(folder, option)
    if is_virtual:
        from wavebed.cli.signals import end_on_signals
        from wavebed.virtual.shell import run_laboratory

        end_on_signals()
        return run_laboratory(laboratory, path.seed, memory_bytes, args.name or "")
    core = find_core()
    descriptor = write_laboratory(laboratory)
    sys.stdout.flush()
    arguments = [core, "lab", f"/proc/self/fd/{descriptor}"]
    os.execve(core, arguments, clean_environment(os.environ))  # noqa: S606 - becoming the program is the point
    raise AssertionError("execve does not return")
