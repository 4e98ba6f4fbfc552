"""``wavebed report``: make the report of a run again from its results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.extras import TABLES, require

if TYPE_CHECKING:
    import argparse

__all__ = ["register", "run"]

_DESCRIPTION = "Write the report of a run: one HTML page that needs no network."


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("report", help=_DESCRIPTION, description=_DESCRIPTION)
    parser.add_argument("dir", metavar="DIR", type=Path, help="the folder that wavebed run or wavebed forward wrote")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="where to write it (default: DIR/report.html)"
    )


def run(args: argparse.Namespace) -> int:
    """Write it, and print where it is.

    Raises
    ------
    UserError
        If the folder holds no run, or the file cannot be written.
    """
    require("report", "a folder of results", TABLES)
    from wavebed.result.read import FORWARD, kind_of

    if kind_of(args.dir) == FORWARD:
        from wavebed.forward.report import write_forward_report

        print(write_forward_report(args.dir, args.output))
        return 0
    from wavebed.report.build import write_report

    print(write_report(args.dir, args.output))
    return 0
