"""``wavebed doctor``: what this machine can and cannot do, and how to mend it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, cast

from wavebed._core import find_core
from wavebed.errors import MachineError, WavebedError

if TYPE_CHECKING:
    import argparse

__all__ = ["register", "run"]

_DESCRIPTION = "Try what a laboratory needs, and say how to mend what does not work. Status 3 if none can run."
_MARKS = {"ok": "ok", "warn": "warning", "fail": "FAIL"}
_COLOURS = {"ok": "32", "warn": "33", "fail": "31;1"}


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("doctor", help=_DESCRIPTION, description=_DESCRIPTION)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Examine the machine; the status is 3 if no laboratory can run."""
    done = subprocess.run(
        [find_core(), "doctor", "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    try:
        report = json.loads(done.stdout)
    except ValueError:
        reason = done.stderr.strip() or f"it ended with {done.returncode}"
        raise WavebedError(f"wavebed-core doctor: {reason}") from None
    if args.json:
        print(json.dumps(report))
    else:
        print(_table(cast("list[dict[str, str | None]]", report["checks"]), can_run=report["can_run"]))
    return 0 if report["can_run"] else MachineError.exit_status


def _table(checks: list[dict[str, str | None]], *, can_run: bool) -> str:
    names = [str(check["name"]) for check in checks]
    width = max(len(name) for name in names)
    colourful = sys.stdout.isatty()
    margin = width + 11
    room = max(40, shutil.get_terminal_size((100, 24)).columns - margin)
    lines = []
    for name, check in zip(names, checks, strict=True):
        status = str(check["status"])
        mark = _MARKS.get(status, status).ljust(7)
        if colourful:
            mark = f"\x1b[{_COLOURS.get(status, '0')}m{mark}\x1b[0m"
        for number, line in enumerate(textwrap.wrap(str(check["found"]), room) or [""]):
            lines.append(f"{name.ljust(width)}  {mark}  {line}" if number == 0 else " " * margin + line)
        if check["remedy"]:
            wrapped = textwrap.wrap(f"→ {check['remedy']}", room, subsequent_indent="  ")
            lines += [" " * margin + line for line in wrapped]
    warnings = sum(check["status"] == "warn" for check in checks)
    if not can_run:
        lines.append("\nNo laboratory can run on this machine yet: mend what says FAIL.")
    elif warnings:
        lines.append(f"\nLaboratories run on this machine. Warnings: {warnings}.")
    else:
        lines.append("\nLaboratories run on this machine.")
    return "\n".join(lines)
