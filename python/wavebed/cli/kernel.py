"""``wavebed kernel``: build or install the guest kernel of virtual time, and print where it is."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.cli.outputs import print_json
from wavebed.config.problems import at
from wavebed.config.values import number
from wavebed.printable import printable

if TYPE_CHECKING:
    import argparse

__all__ = ["register", "run"]

_DESCRIPTION = "Build, install or find the kernel of virtual time: Linux as an ordinary program, in which trials run."
_EPILOG = (
    "The kernel is kept in the cache ($WAVEBED_CACHE, or ~/.cache/wavebed). It is built again only if its source, its"
    " patch or its configuration changes."
)
_BUILD = "Build the kernel from its pinned source, unless it is installed."
_INSTALL = "Install a kernel that the same version of wavebed built on another machine."
_STATUS = "Print where the kernel is. The status is 3 if it is not installed."
_MOST_JOBS = 1024


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("kernel", help=_DESCRIPTION, description=_DESCRIPTION, epilog=_EPILOG)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    build = actions.add_parser("build", help=_BUILD, description=_BUILD)
    build.add_argument(
        "--source",
        metavar="FILE",
        type=Path,
        help="Debian package of the kernel's source (default: download it from the Debian archive)",
    )
    build.add_argument("--jobs", metavar="N", help="compilers at the same time (default: one for each processor)")
    install = actions.add_parser("install", help=_INSTALL, description=_INSTALL)
    install.add_argument("program", metavar="FILE", type=Path, help="the program that `wavebed kernel build` made")
    status = actions.add_parser("status", help=_STATUS, description=_STATUS)
    for each in (build, install, status):
        each.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Build or install the kernel, and print where it is."""
    from wavebed.virtual.kernel import build, install, needed_kernel

    if args.action == "build":
        processors = len(os.sched_getaffinity(0))
        jobs = processors if args.jobs is None else at("--jobs", number(1, _MOST_JOBS), args.jobs)
        build(args.source, _say, jobs)
    elif args.action == "install":
        install(args.program)
    file, built = needed_kernel()
    if args.json:
        print_json("kernel", {"file": str(file), "release": built.release, "sha256": built.sha256})
    else:
        print(f"Linux {built.release}: {printable(str(file))}")
    return 0


def _say(line: str) -> None:
    print(f"wavebed kernel: {line}", file=sys.stderr, flush=True)
