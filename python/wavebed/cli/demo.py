"""``wavebed demo``: the main job on shipped input, ending in a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.cli import campaign as campaign_command
from wavebed.cli.run import add_folder_options
from wavebed.cli.times import AUTO, add_memory_option, add_time_options

if TYPE_CHECKING:
    import argparse

__all__ = ["register", "run"]

_DESCRIPTION = (
    "Run the shipped campaign `demo`: a download, a web page in Chromium and ping over the radio of a 5G phone, by"
    " cubic and by bbr, six times each, every time over another realisation of the channel. Answers whether bbr keeps"
    " ping shorter, and writes report.html. Takes under three minutes. It is `wavebed campaign run demo`."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("demo", help="the main job on shipped input", description=_DESCRIPTION)
    add_folder_options(parser)
    add_time_options(parser, AUTO)
    add_memory_option(parser)


def run(args: argparse.Namespace) -> int:
    """Run it."""
    args.action, args.file, args.executor = "run", "demo", "local"
    args.resume = args.accept_changes = args.trust = False
    args.only, args.jobs = [], None
    return campaign_command.run(args)
