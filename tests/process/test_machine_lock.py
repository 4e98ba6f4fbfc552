"""Two runs at once, each of which learns of the other, and the watch on the machine."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from tests.machine import Watch
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


def test_the_watch_sees_a_process_that_is_woken_late() -> None:
    watch = Watch().begin()
    time.sleep(0.2)
    found = watch.end()
    watch.close()
    assert 0 < found.p99_ms <= found.worst_ms
    assert 0 <= found.stolen <= 1


def test_the_watch_sees_that_it_stood_still_when_it_was_asked() -> None:
    watch = Watch().begin()
    watch._process.send_signal(signal.SIGSTOP)
    goes_on = threading.Timer(0.3, watch._process.send_signal, [signal.SIGCONT])
    goes_on.start()
    assert watch.end().worst_ms > 100
    goes_on.join()
    watch.close()
