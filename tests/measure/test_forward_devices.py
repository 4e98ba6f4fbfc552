"""Emulated devices: how many packets a second a shaped one forwards."""

from __future__ import annotations

import pytest
from tests.lab.test_forward_devices import ask


def test_a_shaped_device_lets_its_packet_rate_through() -> None:
    # The bucket holds 0.2 s: a busy machine does not always press.
    rate, burst = 2000, 400
    answer = ask("press", f"shaped:rate={rate},burst={burst}", "2", "0.001")
    assert answer["sent"] > 2 * rate * answer["took_s"], "it was pressed"
    # The bucket fills by the kernel's clock: what comes in this time, and what it held, to a percent.
    assert answer["received"] == pytest.approx(rate * answer["took_s"] + burst, rel=0.01)
