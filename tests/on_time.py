"""What a late machine does to a run: its trials are invalid, and what the test asks of them is left open."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["LATE", "assert_ended", "assert_usable", "lateness", "left_open", "only_late"]

LATE = {"late", "late-packets", "gaps", "suspended", "clock-step"}
"""Codes of the checks that a late machine fails."""


def lateness(record: Any) -> str:
    """Return why the machine makes a trial invalid; empty where it does not, or not alone."""
    failed = [check for check in record["checks"] if not check["holds"] and check["severity"] == "invalid"]
    late = [check["evidence"] for check in failed if check["code"] in LATE]
    return ", ".join(late) if len(late) == len(failed) else ""


def assert_ended(done: subprocess.CompletedProcess[str], out: Path) -> None:
    """Fail unless all trials of a run ended, and nothing but a late machine made one of them invalid."""
    if not (done.returncode == 1 and only_late(_records(out))):
        assert done.returncode == 0, done.stderr


def assert_usable(done: subprocess.CompletedProcess[str], out: Path) -> None:
    """Fail unless a run ended with usable trials; inconclusive if only the machine made them invalid."""
    if done.returncode == 1 and (late := only_late(_records(out))):
        pytest.skip(f"inconclusive: {late}")
    assert done.returncode == 0, done.stderr


def _records(out: Path) -> list[Path]:
    return sorted(out.glob("trials/*/trial.json"))


def only_late(files: Iterable[Path]) -> str:
    """Return why trials are invalid; empty if a trial failed, or is invalid for another reason than a late machine."""
    records = [json.loads(file.read_text()) for file in files]
    late = [lateness(record) for record in records if record["verdict"] == "invalid"]
    failed = any(record["verdict"] == "failed" for record in records)
    return late[0] if late and all(late) and not failed else ""


def left_open(folder: Path) -> str:
    """Return why a trial of the runs in a folder is invalid in all its attempts, if only the machine made it so."""
    trials: dict[tuple[Path, int, str], list[str]] = {}
    for file in sorted(folder.rglob("trials/*/trial.json")):
        record = json.loads(file.read_text())
        trial = (file.parents[2], record["block"], record["treatment"])
        trials.setdefault(trial, []).append(lateness(record))
    return next((late[-1] for late in trials.values() if all(late)), "")
