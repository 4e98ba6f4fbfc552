"""The clock that jumps keeps the order of a real one, without its waits; both answer alike."""

from __future__ import annotations

import threading
import time

import pytest
from tests.virtual_clock import VirtualClock

from wavebed.lab.clock import MachineClock


@pytest.fixture
def clock() -> VirtualClock:
    made = VirtualClock()
    made.begin()
    return made


def test_threads_go_on_in_the_order_of_their_moments(clock: VirtualClock) -> None:
    seen: list[tuple[str, float]] = []
    for name, at_s in (("late", 3.0), ("early", 1.0), ("middle", 2.0), ("also early", 1.0)):
        clock.at(at_s, lambda name=name: seen.append((name, clock.now_s())))  # type: ignore[misc]
    clock.sleep(10)
    assert seen == [("early", 1.0), ("also early", 1.0), ("middle", 2.0), ("late", 3.0)]


def test_an_event_ends_a_wait_before_its_limit(clock: VirtualClock) -> None:
    event = threading.Event()
    clock.at(4.0, event.set)
    assert clock.wait(event, 60)
    assert clock.now_s() == 4.0


def test_a_wait_ends_at_its_limit_without_the_event(clock: VirtualClock) -> None:
    assert not clock.wait(threading.Event(), 5.0)
    assert clock.now_s() == 5.0


def test_waiting_for_what_never_comes_is_a_mistake_and_no_hang(clock: VirtualClock) -> None:
    with pytest.raises(RuntimeError, match="waits for ever"):
        clock.wait(threading.Event())


def test_the_systems_clock_and_the_monotonic_one_name_the_same_moments() -> None:
    clock = MachineClock()
    clock.begin(time.monotonic_ns())
    assert clock.of_unix_s(time.time()) == pytest.approx(clock.now_s(), abs=1)
