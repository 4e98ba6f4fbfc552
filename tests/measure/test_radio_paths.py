"""Real laboratories with radios and devices: the round trips and the rate of their settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.lab.programs import least_rtt_ms, rtts_ms, transfer

from wavebed.path.api import Path

if TYPE_CHECKING:
    from wavebed.path.lab import Laboratory


def closed_books(lab: Laboratory) -> list[dict[str, Any]]:
    assert lab.summary is not None
    links = cast("list[dict[str, Any]]", lab.summary["links"])
    for link in links:
        gone = link["delivered_segments"] + sum(link["dropped_segments"].values()) + link["queued_segments"]
        assert link["offered_segments"] + link["duplicated_segments"] == gone
        assert link["unaccounted_segments"] == 0
    return links


@pytest.mark.parametrize(
    ("preset", "slot_ms", "prepare_ms", "decode_ms"),
    [("nr-15khz", 1.0, 2.0, 0.1), ("lte", 1.0, 2.0, 1.5)],
)
def test_an_idle_round_trip_is_preparing_a_slot_and_decoding_there_and_back(
    preset: str, slot_ms: float, prepare_ms: float, decode_ms: float
) -> None:
    with Path.of(rate="100mbit", radio={"preset": preset, "grants": "off"}).up() as lab:
        rtt_ms = least_rtt_ms(lab)
    least_ms = 2 * (prepare_ms + slot_ms + decode_ms)
    # Each way may wait for the next slot to begin.
    assert least_ms <= rtt_ms < least_ms + 2 * slot_ms + 0.5
    closed_books(lab)


def test_a_datagram_of_an_idle_client_waits_for_a_request_and_its_grant() -> None:
    # The first grant holds one datagram: 56 bytes, 28 of UDP and IP, 10 of the radio.
    radio = {"preset": "nr-15khz", "grants": {"first": "94b"}}
    with Path.of(rate="100mbit", radio=radio).up() as lab:
        found_ms = sorted(rtts_ms(lab))
    # Up: a request in the slot that begins, two slots to the grant, two to the granted slot, that slot, decoding.
    least_ms = (2 + 2 + 1 + 0.1) + (2 + 1 + 0.1)
    # The request may follow preparing (2 ms) and wait 10 ms for its slot; the way back may wait for a slot to begin.
    assert least_ms <= found_ms[0]
    assert found_ms[len(found_ms) // 2] < least_ms + 2 + 10 + 1 + 0.5


def test_a_device_passes_its_packets_per_second() -> None:
    with Path.of(ue_limit={"packets-per-second": 2000, "queue": "droptail:50p"}).up() as lab:
        mbps, _, _ = transfer(lab, 3_000_000)
    # 2000 packets of 1448 bytes of payload are 23.2 Mbit/s.
    assert 15 < mbps < 24
    closed_books(lab)
