"""``wavebed demo``: the main job on shipped input, ending in a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.cli import run as run_command

if TYPE_CHECKING:
    import argparse

__all__ = ["register", "run"]

_DESCRIPTION = (
    "Run the shipped scenario `demo`: on the 5G path of the study kau-e5g a download of 200 MB, a web page in Chromium,"
    " and ping all the while, by cubic and by bbr, with two seeds each. Prints a table and writes report.html. Takes"
    " under three minutes. It is `wavebed run demo`, which takes more options."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("demo", help="the main job on shipped input", description=_DESCRIPTION)
    run_command.add_output_options(parser)


def run(args: argparse.Namespace) -> int:
    """Run it."""
    args.scenario, args.changes, args.workload, args.trials = "demo", [], [], None
    return run_command.run(args)
