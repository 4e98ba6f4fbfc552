"""The options that say in which time trials run; ``wavebed shell`` imports no more than it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

__all__ = ["AUTO", "add_time_options"]

AUTO = "--virtual-time where the guest kernel is installed and the path needs nothing outside of the guest"
"""The default of commands whose answer is a verdict."""


def add_time_options(parser: argparse._ActionsContainer, default: str = "--real-time") -> None:
    """Add the options that say in which time trials run."""
    pair = parser.add_mutually_exclusive_group()
    pair.add_argument(
        "--virtual-time",
        action="store_const",
        dest="time",
        const="virtual",
        help="run in a guest, whose time stands still while programs compute: the same result on any machine",
    )
    pair.add_argument(
        "--real-time",
        action="store_const",
        dest="time",
        const="real",
        help=f"run in this machine's time (default: {default})",
    )
