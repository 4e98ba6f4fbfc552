"""The curves of recordings over links whose rate, delay, loss and outages are known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.errors import WavebedError
from wavebed.record.build import direction, filled
from wavebed.workload.record_curves import GRID_NS, Clocks, Curves, curves, read_received

if TYPE_CHECKING:
    from collections.abc import Callable

MS = 1_000_000
PAYLOAD, HEADER = 1372, 28
BITS = 8 * (PAYLOAD + HEADER)
NO_DRIFT = Clocks(np.array([0.0, 1e12]), np.array([0.0, 0.0]), 0.0)


@dataclass
class Link:
    """A queue with a rate over time and a delay; heavy packets are sent with a window of `ahead` packets."""

    rate_bps: Callable[[float], float]
    delay_ns: int = 15 * MS
    lines: list[str] = field(default_factory=lambda: ["start,1,0"])
    number: int = 0
    _free_ns: float = 0.0

    def serve(self, at_ns: float, bits: float) -> int:
        """Return the arrival of a packet that comes to the queue."""
        begin = max(at_ns, self._free_ns)
        while self.rate_bps(begin) <= 0:
            begin += MS
        self._free_ns = begin + bits / self.rate_bps(begin) * 1e9
        return round(self._free_ns) + self.delay_ns

    def light(self, begin_ns: int, end_ns: int, lost: Callable[[int], bool] = lambda _: False) -> None:
        """Send a probe each 20 ms, and a train of ten each 100 ms."""
        for place, at_ns in enumerate(range(begin_ns, end_ns, 20 * MS)):
            count, size = (10, PAYLOAD) if place and place % 5 == 0 else (1, 64)
            for index in range(count):
                arrival = self.serve(at_ns, 8 * (size + HEADER))
                if not lost(self.number):
                    self.lines.append(f"p,{arrival},{self.number},{at_ns},{size},{index},{count}")
                self.number += 1

    def heavy(self, begin_ns: int, end_ns: int, wait_ns: int = 60 * MS, kind: str = "d") -> None:
        """Send so that each packet waits about `wait_ns`; each is a line."""
        at_ns = float(begin_ns)
        while at_ns < end_ns:
            arrival = self.serve(at_ns, BITS)
            sent = round(at_ns)
            self.lines.append(f"b,{kind},{PAYLOAD},1,0,{arrival},{arrival},{sent},{sent},{arrival - sent}")
            at_ns = max(at_ns, self._free_ns - wait_ns)

    def curves(self, duration_ns: int) -> Curves:
        """Return what the recording says."""
        received = read_received("\n".join([*self.lines, "sent,0,0,0"]), "client")
        return curves(
            received,
            sign=1,
            clocks=NO_DRIFT,
            duration_ns=duration_ns,
            pause_ns=1000 * MS,
            header_bytes=HEADER,
        )


def cycles(link: Link, count: int = 4) -> Curves:
    for number in range(count):
        link.light(number * 4000 * MS, number * 4000 * MS + 1000 * MS)
        link.heavy(number * 4000 * MS + 1000 * MS, number * 4000 * MS + 3000 * MS)
    return link.curves(count * 4000 * MS)


def test_a_step_of_the_rate_is_found_at_its_time() -> None:
    found = cycles(Link(lambda at: 80e6 if at % 4e9 < 2e9 else 20e6))
    before, after = (round(at * 1e9 / GRID_NS) for at in (1.9, 2.2))
    assert found.rate_bps[before] == pytest.approx(80e6, rel=0.1)
    assert found.rate_bps[after] == pytest.approx(20e6, rel=0.25)


def test_a_link_that_was_not_filled_has_no_rate() -> None:
    link = Link(lambda _: 50e6)
    link.light(0, 1000 * MS)
    for at_ns in range(1000 * MS, 3000 * MS, MS):  # 11 Mbit/s on 50
        arrival = link.serve(at_ns, BITS)
        link.lines.append(f"b,d,{PAYLOAD},1,0,{arrival},{arrival},{at_ns},{at_ns},{arrival - at_ns}")
    found = link.curves(3000 * MS)
    assert found.busy_ns == 0
    with pytest.raises(WavebedError, match="never certainly filled"):
        direction(found, "down")


def test_an_outage_in_heavy_load_is_a_rate_of_zero() -> None:
    found = cycles(Link(lambda at: 0 if 1.5e9 <= at < 2.0e9 else 50e6), count=2)
    inside = found.rate_bps[round(1.6e9 / GRID_NS) : round(1.95e9 / GRID_NS)]
    assert not np.isnan(inside).any()
    assert inside.max() == 0


def test_an_outage_in_light_load_is_an_outage_and_no_delay() -> None:
    found = cycles(Link(lambda at: 0 if 4.3e9 <= at < 4.7e9 else 50e6), count=2)
    ((begin_ns, end_ns),) = found.outages_ns.tolist()
    assert begin_ns / 1e9 == pytest.approx(4.3, abs=0.04)
    assert end_ns / 1e9 == pytest.approx(4.715, abs=0.02)
    assert found.delay_ns.max() < 40 * MS
    rates = direction(found, "down").rate_bps
    assert rates[round(4.4e9 / GRID_NS) : round(4.6e9 / GRID_NS)].max() == 0


def test_losses_of_light_load_are_counted_and_an_outage_is_none() -> None:
    link = Link(lambda _: 50e6)
    link.light(0, 10_000 * MS, lambda number: number % 20 == 7)
    link.heavy(10_000 * MS, 11_000 * MS)
    found = link.curves(11_000 * MS)
    assert found.loss_lost.sum() / found.loss_sent.sum() == pytest.approx(0.05, abs=0.005)


def test_the_limit_of_a_queue_is_what_waits_ahead() -> None:
    link = Link(lambda _: 40e6)
    link.light(0, 1000 * MS)
    link.heavy(1000 * MS, 3000 * MS, wait_ns=500 * MS, kind="f")
    found = link.curves(3000 * MS)
    assert found.queue_ns / 1e6 == pytest.approx(500, abs=5)
    assert found.queue_bytes * 8 == pytest.approx(40e6 * 0.5, rel=0.03)


def test_drift_of_the_clocks_is_taken_out() -> None:
    link = Link(lambda _: 50e6)
    link.light(0, 1000 * MS)
    received = read_received("\n".join([*link.lines, "sent,0,0,0"]), "client")
    drift = Clocks(np.array([0.0, 1e9]), np.array([0.0, 5e6]), 0.0)
    found = [
        curves(received, sign=sign, clocks=drift, duration_ns=1000 * MS, pause_ns=MS, header_bytes=HEADER)
        for sign in (1, -1)
    ]
    for each, slope in zip(found, (1, -1), strict=True):
        grown = each.delay_ns[-1] - each.delay_ns[0]
        assert grown == pytest.approx(slope * 5e6, rel=0.05)


def test_what_was_not_known_of_the_clocks_at_the_start_is_taken_out() -> None:
    found = Clocks.of([[10.0, 0.052, 0.001], [20.0, 0.053, 0.0005]], 10.0, 0.050)
    assert found is not None
    assert found.ahead_ns(np.array([0, 5_000_000_000, 10_000_000_000])) == pytest.approx([2e6, 2.5e6, 3e6])
    assert found.error_ns == pytest.approx(1e6)
    assert Clocks.of([], 10.0, 0.0) is None


@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=1, max_size=60))
def test_filled_gaps_have_known_values_and_known_ones_stay(values: list[int | None]) -> None:
    given_ = np.array([np.nan if each is None else float(each) for each in values])
    found = filled(given_)
    known = ~np.isnan(given_)
    np.testing.assert_array_equal(found[known], given_[known])
    if known.any():
        assert set(found.tolist()) <= set(given_[known].tolist())


def test_a_gap_is_mirrored_from_both_ends() -> None:
    given_ = np.array([1.0, 2.0, np.nan, np.nan, np.nan, np.nan, 5.0, 6.0])
    assert filled(given_).tolist() == [1, 2, 2, 1, 6, 5, 5, 6]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("start,1,0\n", "not complete"),
        ("start,9,0\nsent,0,0,0\n", "version 9"),
        ("start,1,0\nx,1\nsent,0,0,0\n", "line 2"),
        ("start,1,0\np,1,2,3,4,5,x\nsent,0,0,0\n", "no whole number"),
        ("start,1,0\nb,d,1\nsent,0,0,0\n", "line 2"),
    ],
)
def test_a_damaged_recording_is_refused(text: str, said: str) -> None:
    with pytest.raises(WavebedError, match=said):
        read_received(text, "client")
