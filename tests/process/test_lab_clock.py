"""The clock that jumps keeps the order of a real one, without its waits; both answer alike."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

import pytest
from tests.unit.test_lab_clock import clock  # noqa: F401
from tests.virtual_clock import VirtualClock

from wavebed.lab.clock import MachineClock

if TYPE_CHECKING:
    from wavebed.lab.protocol import Clock


def test_a_day_passes_in_a_moment(clock: VirtualClock) -> None:
    clock.sleep(86_400)
    assert clock.now_s() == 86_400


def test_time_does_not_pass_while_somebody_works(clock: VirtualClock) -> None:
    ended = clock.start(lambda: time.sleep(0.01), "works")
    assert clock.wait(ended, 5.0)
    assert clock.now_s() == 0


@pytest.mark.parametrize("kind", [MachineClock, VirtualClock])
def test_every_clock_answers_alike(kind: type[VirtualClock | MachineClock]) -> None:
    made = kind()
    zero_ns = made.begin() if isinstance(made, VirtualClock) else time.monotonic_ns()
    if isinstance(made, MachineClock):
        made.begin(zero_ns)
    clock: Clock = made
    assert clock.of_monotonic_ns(zero_ns + 1_500_000_000) == 1.5
    before_s, monotonic_s = clock.now_s(), clock.monotonic_s()
    clock.sleep(0.01)
    assert clock.now_s() - before_s >= 0.01
    assert clock.monotonic_s() - monotonic_s >= 0.01 - 1e-6
    reading, writing = os.pipe()
    assert not clock.wait_readable(reading, 0.01)
    os.close(writing)
    assert clock.wait_readable(reading, 60.0)
    os.close(reading)
    ended = clock.start(lambda: None, "nothing")
    assert clock.wait(ended, 60.0)
    assert not clock.wait(threading.Event(), 0.01)
