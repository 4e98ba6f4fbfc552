"""Which folders of results may run their programs again without ``--trust``: the user's own, if all are confined."""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from typing import TYPE_CHECKING

from wavebed.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from wavebed.run.scenario import Plan

__all__ = ["add_trust", "check_owner", "check_trust"]


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add the option to a command."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run its programs although another user owns the folder, or they are not confined: read them first",
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
    with suppress(KeyError):
        return f"{pwd.getpwuid(user).pw_name} (user {user})"
    return f"user {user}"
