"""Emulated devices: each kind forwards a frame that was made by hand, as such a device should."""

from __future__ import annotations

import itertools

import pytest
from tests.lab.test_forward_devices import ask


def test_a_shaped_device_lets_its_packet_rate_through() -> None:
    # The bucket holds 0.2 s: a busy machine does not always press.
    rate, burst = 2000, 400
    answer = ask("press", f"shaped:rate={rate},burst={burst}", "2", "0.001")
    assert answer["sent"] > 2 * rate * answer["took_s"], "it was pressed"
    # The bucket fills by the kernel's clock: what comes in this time, and what it held, to a percent.
    assert answer["received"] == pytest.approx(rate * answer["took_s"] + burst, rel=0.01)


def test_a_router_loses_nothing_that_comes_slowly_enough() -> None:
    answer = ask("press", "routing", "0.5", "0.002")
    # The interface also counts what the device itself sends: it asks for its neighbours' addresses.
    assert 0 <= answer["received"] - answer["sent"] <= 5


def test_a_rebooting_device_loses_its_link_and_gets_it_back() -> None:
    answer = ask("links", "rebooting:after=300ms,down=100ms")
    states = answer["states"]
    falls = sum(before and not after for before, after in itertools.pairwise(states))
    rises = sum(after and not before for before, after in itertools.pairwise(states))
    assert falls >= 1
    assert rises >= 1
    assert answer["up_afterwards"]
