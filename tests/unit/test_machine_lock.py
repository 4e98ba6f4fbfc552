"""Two runs at once: each learns of the other."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from wavebed.experiment.machine_lock import VARIABLE, measuring

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OTHER = """
import sys
from wavebed.experiment.machine_lock import measuring
with measuring(alone="alone" in sys.argv):
    print("measures", flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "lock"))
    return tmp_path / "lock"


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", _OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "measures\n"
        yield process
        if process.poll() is None:
            process.communicate("\n", timeout=60)


def test_a_run_alone_has_nothing_to_say(lock: Path) -> None:
    with measuring() as neighbours:
        assert neighbours.check().holds
    assert lock.read_bytes() == b""


def test_another_run_makes_a_trial_doubtful_and_is_named(other: subprocess.Popen[str]) -> None:
    with measuring() as neighbours:
        check = neighbours.check()
        assert (check.holds, check.severity) == (False, "suspect")
        assert check.evidence == f"another run measured at the same time (process {other.pid})"


def test_one_that_ended_within_the_trial_counts_for_this_trial_only(other: subprocess.Popen[str]) -> None:
    with measuring() as neighbours:
        neighbours.look()
        other.kill()
        other.wait(60)
        assert not neighbours.check().holds
        assert neighbours.check().holds


@pytest.mark.timed
@pytest.mark.parametrize(("first", "second"), [("alone", ""), ("alone", "alone"), ("", "alone")])
def test_one_that_is_alone_is_waited_for_and_waits(first: str, second: str) -> None:
    words = [sys.executable, "-c", _OTHER]
    with subprocess.Popen([*words, first], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "measures\n"
        waited: list[str] = []

        def waiting(processes: str) -> None:
            waited.append(processes)
            if len(waited) == 2:
                other.kill()
                other.wait(60)

        with measuring(waiting, alone=bool(second)) as neighbours:
            assert neighbours.check().holds
    assert waited == [str(other.pid)] * 2


def test_without_a_place_for_the_lock_nothing_is_known_and_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none" / "lock"))
    with measuring() as neighbours:
        assert neighbours.check().holds


def test_a_fifo_in_the_place_of_the_lock_does_not_hang(lock: Path) -> None:
    os.mkfifo(lock)
    with measuring() as neighbours:
        assert neighbours.check().holds
