"""``wavebed doctor``: what this machine can and cannot do, and how to mend it."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, cast

from wavebed._core import find_core
from wavebed.errors import MachineError, WavebedError

if TYPE_CHECKING:
    import argparse

__all__ = ["register", "run"]

_DESCRIPTION = "Try what a laboratory needs, and say how to mend what does not work. Status 3 if none can run."
_MARKS = {"ok": "ok", "warn": "warning", "fail": "FAIL"}
_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


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
        _print(cast("list[dict[str, str | None]]", report["checks"]), can_run=report["can_run"])
    return 0 if report["can_run"] else MachineError.exit_status


def _print(checks: list[dict[str, str | None]], *, can_run: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for check in checks:
        status, found, remedy = str(check["status"]), Text(str(check["found"])), check["remedy"]
        table.add_row(str(check["name"]), Text(_MARKS.get(status, status), _STYLES.get(status, "")), found)
        if remedy:
            table.add_row("", "", Text(f"→ {remedy}"))
    console = Console(width=shutil.get_terminal_size((100, 24)).columns)
    with console.capture() as drawn:
        console.print(table)
    print("\n".join(line.rstrip() for line in drawn.get().splitlines()))
    warnings = sum(check["status"] == "warn" for check in checks)
    if not can_run:
        print("\nNo laboratory can run on this machine yet: mend what says FAIL.")
    else:
        print(f"\nLaboratories run on this machine.{f' Warnings: {warnings}.' if warnings else ''}")
