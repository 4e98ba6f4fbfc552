"""`wavebed check` over real laboratories: the times it measures hold on a machine that is on time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from wavebed.cli import main

if TYPE_CHECKING:
    from pathlib import Path

PATH = ("--rate", "20mbit", "--delay", "20ms", "--attempts", "4")


def check(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """Run a check; return its exit status and what it printed."""
    status = main(["check", *PATH, "-o", str(folder / "run"), "--json", *words])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    if found["outcome"] == "inconclusive":
        undecided = [each for each in found["requirements"] if each["outcome"] == "inconclusive"]
        pytest.skip(f"inconclusive: {undecided[0]['reasons'][0]}")
    return status, found


def test_an_exit_status_can_be_required_and_wall_time_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--seeds", "1", "--require", "exit status every = 3", "--require", "wall time max < 5 s"]
    line = "ping -c 1 {server} >/dev/null; sleep 0.3; exit 3"
    words += ["--require", "wall time min > 0.3 s", "--", "sh", "-c", line]
    status, found = check(tmp_path, capsys, *words)
    assert status == 0, found
    assert found["requirements"][1]["value"] == 3
