"""Two runs at once: each learns of the other."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.unit.test_machine_lock import lock  # noqa: F401

from wavebed.experiment.machine_lock import measuring

if TYPE_CHECKING:
    from collections.abc import Iterator

_OTHER = """
import sys
from wavebed.experiment.machine_lock import measuring
with measuring(alone="alone" in sys.argv):
    print("measures", flush=True)
    input()
"""


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
