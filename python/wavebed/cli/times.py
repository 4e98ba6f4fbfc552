"""The options that say in which time trials run; ``wavebed shell`` imports no more than it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

if TYPE_CHECKING:
    import argparse

__all__ = ["AUTO", "add_memory_option", "add_processor_option", "add_time_options", "guest_memory"]

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


def add_memory_option(parser: argparse._ActionsContainer) -> None:
    """Add the option that says how much memory a guest has."""
    parser.add_argument(
        "--guest-memory",
        metavar="SIZE",
        help="most memory of a guest, from 1gib to 4000mib; the machine gives what is used (default: what is needed)",
    )


def add_processor_option(parser: argparse._ActionsContainer) -> None:
    """Add the option that says what computing costs in a guest."""
    from wavebed.spec.trial import Processor

    parser.add_argument(
        "--processor",
        choices=get_args(Processor),
        help="in virtual time: exact: computing takes no time, a system call 1 µs; infinite: both take no time; host:"
        " computing takes this machine's time (default: the scenario's, or exact)",
    )


def guest_memory(args: argparse.Namespace) -> int | None:
    """Return what the option says, bytes.

    Raises
    ------
    Problem
        If it is no size, or out of range.
    """
    if args.guest_memory is None:
        return None
    from wavebed.config.problems import at
    from wavebed.run.lab_table import guest_bytes

    return at("--guest-memory", guest_bytes, args.guest_memory)
