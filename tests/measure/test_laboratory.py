"""Real laboratories: round trips, and the rates of links and devices."""

from __future__ import annotations

from tests.lab.programs import least_rtt_ms, transfer
from tests.lab.test_laboratory import acknowledgements_per_segment

from wavebed.path.api import Path


def test_the_directions_have_their_own_delays() -> None:
    with Path.of(down_delay="5ms", up_delay="20ms").up() as lab:
        assert 25.0 <= least_rtt_ms(lab) < 27


def test_a_transfer_gets_the_rate_less_its_headers() -> None:
    with Path.of(rate="100mbit", delay="2ms").up() as lab:
        mbps, _, _ = transfer(lab, 10_000_000)
    # 1448 of 1500 bytes are payload with IPv4 and time stamps, 1428 with IPv6.
    assert 85 < mbps < 97


def test_a_device_passes_its_packets_per_second() -> None:
    with Path.of(ue_limit={"packets-per-second": 2000, "queue": "droptail:50p"}).up() as lab:
        mbps, _, _ = transfer(lab, 3_000_000)
    # 2000 packets of 1448 bytes of payload are 23.2 Mbit/s.
    assert 15 < mbps < 24


def test_coalesced_segments_have_a_third_of_the_acknowledgements_at_most() -> None:
    assert acknowledgements_per_segment("5ms") < acknowledgements_per_segment("off") / 3
