"""``wavebed export``: a trial in the format of another program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.extras import TABLES, require

if TYPE_CHECKING:
    import argparse

__all__ = ["register", "run"]

_DESCRIPTION = (
    "Write one trial of a run as a data file of flent, which then plots and compares it: flent FILE.flent.gz -p totals."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("export", help=_DESCRIPTION, description=_DESCRIPTION)
    parser.add_argument("folder", metavar="DIR", type=Path, help="folder of a run, or of one of its trials")
    parser.add_argument("--trial", metavar="NAME", help="folder of the trial, where the run has several")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, required=True, help="the file; its name ends with .flent.gz"
    )


def run(args: argparse.Namespace) -> int:
    """Write the file, and say which test of flent it is.

    Raises
    ------
    UserError
        If it is not clear which trial is meant, or there is nothing that flent could plot.
    """
    import sys

    require("report", "a folder of results", TABLES)
    from wavebed.result.flent import export_flent

    test = export_flent(args.folder, args.output, args.trial)
    print(f"{args.output}: as flent's test {test}", file=sys.stderr)
    return 0
