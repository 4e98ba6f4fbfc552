"""Options that several commands have: the time of trials, trust in a folder's programs, the folder of results."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, get_args

from wavebed.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from wavebed.run.scenario import Plan

AUTO = "default: virtual if usable"
"""The default of commands whose answer is a verdict: virtual time where the guest kernel is and suffices."""


def add_time_options(parser: argparse._ActionsContainer, default: str = "the default") -> None:
    """Add the options that say in which time trials run."""
    pair = parser.add_mutually_exclusive_group()
    pair.add_argument(
        "--virtual-time",
        action="store_const",
        dest="time",
        const="virtual",
        help="run in virtual time: the same result on any machine",
    )
    pair.add_argument(
        "--real-time",
        action="store_const",
        dest="time",
        const="real",
        help=f"run in this machine's time ({default})",
    )


def add_memory_option(parser: argparse._ActionsContainer) -> None:
    """Add the option that says how much memory a guest has."""
    parser.add_argument(
        "--guest-memory",
        metavar="SIZE",
        help="memory of a guest, up to 64000mib (default: as needed)",
    )


def add_processor_option(parser: argparse._ActionsContainer) -> None:
    """Add the option that says what computing costs in a guest."""
    from wavebed.spec.trial import Processor

    parser.add_argument(
        "--processor",
        choices=get_args(Processor),
        metavar="COST",
        help="virtual time: computing costs exact, infinite or host",
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


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add the option to a command."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run its programs although another user owns them, or they are not confined: read them first",
    )


def check_trust(plan: Plan, places: Sequence[Path]) -> None:
    """Check that a stored trial is one's own and that its programs are confined.

    Parameters
    ----------
    places : sequence of pathlib.Path
        The folders and files that it comes from.

    Raises
    ------
    UserError
        If not.
    """
    check_owner(places)
    for treatment in plan.treatments:
        for workload in treatment.workloads:
            if getattr(workload.options, "confined", True) is False:
                raise UserError(
                    f"{places[-1]}: workload {workload.name} runs a program with your privileges (confined = false):"
                    " read the file, then add --trust"
                )


def check_owner(places: Iterable[Path]) -> None:
    """Check that the user owns files and folders. The user who called sudo counts too.

    Raises
    ------
    UserError
        If another user owns one.
    """
    own = {os.geteuid()}
    if (called := os.environ.get("SUDO_UID", "")).isdecimal():
        own.add(int(called))
    for place in places:
        owner = place.stat().st_uid
        if owner not in own:
            raise UserError(
                f"{place}: belongs to {_name(owner)}, whose programs would run with your privileges: read what they"
                " are, then add --trust"
            )


def _name(user: int) -> str:
    import pwd

    with suppress(KeyError):
        return f"{pwd.getpwuid(user).pw_name} (user {user})"
    return f"user {user}"
