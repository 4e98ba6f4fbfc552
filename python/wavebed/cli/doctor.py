"""``wavebed doctor``: check this machine for a laboratory, and name the remedies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, cast

from wavebed._core import find_core
from wavebed.cli.doctor_checks import apparmor_check, extra_checks, kernel_check, program_checks
from wavebed.cli.outputs import print_json
from wavebed.errors import MachineError, WavebedError
from wavebed.printable import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from wavebed.cli.doctor_checks import Check

__all__ = ["register", "run"]

_DESCRIPTION = (
    "Check the kernel features of a laboratory, list the programs and packages of workloads and commands, and name the"
    " remedy of each fault. Status 3 if no laboratory can run."
)
_MARKS = {"ok": "ok", "warn": "warning", "fail": "FAIL"}
_COLOURS = {"ok": "32", "warn": "33", "fail": "31;1"}


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("doctor", help=_DESCRIPTION, description=_DESCRIPTION)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Examine the machine; the status is 3 if no laboratory can run."""
    core = find_core()
    can_run, checks = _kernel(core)
    checks.append(apparmor_check(core, {check["name"]: check["status"] for check in checks}))
    checks.append(kernel_check())
    programs, extras = program_checks(), extra_checks()
    if args.json:
        print_json("doctor", {"can_run": can_run, "checks": checks, "programs": programs, "extras": extras})
    else:
        print(_text(checks, programs, extras, can_run=can_run))
    return 0 if can_run else MachineError.exit_status


def _kernel(core: str) -> tuple[bool, list[Check]]:
    """Return whether a laboratory can run, and the checks of ``wavebed-core``."""
    done = subprocess.run(
        [core, "doctor", "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    try:
        report = json.loads(done.stdout)
    except ValueError:
        reason = done.stderr.strip() or f"it ended with {done.returncode}"
        raise WavebedError(f"wavebed-core doctor: {reason}") from None
    return report["can_run"], cast("list[Check]", report["checks"])


def _text(checks: Sequence[Check], programs: Sequence[Check], extras: Sequence[Check], *, can_run: bool) -> str:
    every = [*checks, *programs, *extras]
    width = max(len(check["name"]) for check in every)
    tables = [_table(part, width) for part in (checks, programs, extras)]
    parts = [tables[0], f"Programs\n{tables[1]}", f"Packages\n{tables[2]}"]
    warnings = sum(check["status"] == "warn" for check in every)
    if not can_run:
        parts.append("No laboratory can run on this machine yet: correct each FAIL.")
    elif warnings:
        parts.append(f"Laboratories run on this machine. Warnings: {warnings}.")
    else:
        parts.append("Laboratories run on this machine.")
    return "\n\n".join(parts)


def _table(checks: Sequence[Check], width: int) -> str:
    margin = width + 11
    room = max(40, shutil.get_terminal_size((100, 24)).columns - margin)
    lines = []
    for check in checks:
        mark = _MARKS[check["status"]].ljust(7)
        if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
            mark = f"\x1b[{_COLOURS[check['status']]}m{mark}\x1b[0m"
        first, *more = [*_found(check, room), *_needs(check, room), *_remedy(check, room)]
        lines += [f"{check['name'].ljust(width)}  {mark}  {first}", *(" " * margin + line for line in more)]
    return "\n".join(lines)


def _found(check: Check, room: int) -> list[str]:
    found = printable(check["found"])
    if "package" in check:  # a version: its end is a list of libraries
        return [textwrap.shorten(found, room, placeholder=" …")]
    return textwrap.wrap(found, room)


def _needs(check: Check, room: int) -> list[str]:
    users = check.get("needed_by")
    return textwrap.wrap(f"for {', '.join(users)}", room, subsequent_indent="  ") if users else []


def _remedy(check: Check, room: int) -> list[str]:
    """Return the lines of the remedy; those that are to be typed begin with blanks and are not broken."""
    lines = []
    for number, line in enumerate((check["remedy"] or "").splitlines()):
        arrow = "→ " if number == 0 else "  "
        typed = line.startswith("  ")
        lines += [f"  {line}"] if typed else textwrap.wrap(f"{arrow}{line}", room, subsequent_indent="  ")
    return lines
