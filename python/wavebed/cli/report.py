"""``wavebed report``: make the report again from a folder of results, of a run, a campaign or a forwarding test."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.cli.outputs import print_json
from wavebed.extras import TABLES, require, spare_pandas

if TYPE_CHECKING:
    import argparse

__all__ = ["register", "run"]

_DESCRIPTION = "Write the report of a run, a campaign or a forwarding test: one HTML page that needs no network."


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("report", help=_DESCRIPTION, description=_DESCRIPTION)
    parser.add_argument(
        "dir", metavar="DIR", type=Path, help="a folder of results, of wavebed run, campaign, forward or reproduce"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="where to write it (default: DIR/report.html)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the file's name")


def run(args: argparse.Namespace) -> int:
    """Write it, and print where it is.

    Raises
    ------
    UserError
        If the folder holds no results, or the file cannot be written.
    """
    require("report", "a folder of results", TABLES)
    if args.is_own_process:
        spare_pandas()
    from wavebed.kinds import kind_at

    page = kind_at(args.dir).write_report(args.dir, args.output)
    if args.json:
        print_json("report", {"report": str(page)})
    else:
        print(page)
    return 0
