"""Packets of a voice flow are lost or late in each direction apart."""

from __future__ import annotations

import pytest

from wavebed.config.problems import Problem
from wavebed.workload import read_workload
from wavebed.workload.emodel import CODECS, rate
from wavebed.workload.latency_windows import Probe
from wavebed.workload.voice_packets import Packet, best_rated, direction_of, jitter_ms, rated

PROBES = [
    Probe(0, 0.00, 40.0, 20.0, 20.0),
    Probe(1, 0.02, None, lost="up"),
    Probe(2, 0.04, None, lost="down"),
    Probe(3, 0.06, 150.0, 100.0, 50.0),
    Probe(4, 0.08, None, lost="somewhere"),
]


def test_a_packet_that_was_lost_on_its_way_up_has_none_on_its_way_down() -> None:
    up = direction_of(PROBES, "up", 60.0)
    assert [packet.lost for packet in up] == [False, True, False, False, True]
    down = direction_of(PROBES, "down", 60.0)
    assert [packet.lost for packet in down] == [False, True, False]


def test_a_packet_is_late_when_it_exceeds_the_least_delay_by_more_than_the_buffer() -> None:
    assert [packet.late for packet in direction_of(PROBES, "up", 60.0)] == [False, False, False, True, False]
    assert not any(packet.late for packet in direction_of(PROBES, "up", 80.0))


def test_jitter_is_the_mean_of_the_running_estimate_of_rfc_3550() -> None:
    packets = [Packet(index / 50, ms, lost=False, late=False) for index, ms in enumerate([20.0, 36.0, 20.0])]
    # J: 16/16 = 1, then 1 + (16 - 1)/16.
    assert jitter_ms(packets) == pytest.approx((1 + 1.9375) / 2)
    assert jitter_ms(packets[:1]) is None
    assert jitter_ms([Packet(0.0, 20.0, lost=False, late=False)] * 9) == 0


def test_the_best_buffer_is_long_where_the_delay_varies_and_short_where_one_packet_is_late() -> None:
    codec = CODECS["g711"]
    ramp = [Packet(index / 50, 20.0 + 2 * index, lost=False, late=index > 30) for index in range(100)]
    best = best_rated(ramp, codec)
    assert best is not None
    # Nothing late at 20 + 218 ms, or a few late at less: better than 69 % late at 100 ms.
    assert best.r >= rate(codec, 20 + 218, 0.0).r
    assert best.r > (rated(ramp, codec, 100.0) or best).r + 50
    single = [Packet(index / 50, 900.0 if index == 50 else 20.0, lost=False, late=False) for index in range(100)]
    best = best_rated(single, codec)
    assert best is not None
    assert (best.loss_percent, best.r) == pytest.approx((1.0, rate(codec, 40, 1.0).r))


def test_fewer_than_20_packets_are_not_rated() -> None:
    few = [Packet(index / 50, 20.0, lost=False, late=False) for index in range(19)]
    assert rated(few, CODECS["g711"], 100.0) is None
    assert best_rated(few, CODECS["g711"]) is None
    lost = [Packet(index / 50, None, lost=True, late=False) for index in range(50)]
    assert best_rated(lost, CODECS["g711"]) is None


@pytest.mark.parametrize(
    ("key", "given", "words"),
    [("codec", "opus", "not a choice"), ("jitter-buffer", "2s", "from 0s to 1s"), ("interval", "20ms", "unknown key")],
)
def test_a_wrong_key_is_named_with_its_rule(key: str, given: object, words: str) -> None:
    with pytest.raises(Problem, match=words) as caught:
        read_workload({"kind": "voice", key: given})
    assert caught.value.key == key
