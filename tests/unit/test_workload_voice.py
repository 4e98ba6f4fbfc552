"""Voice: what irtt tells of each packet, and the E-model of ITU-T G.107."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.config.problems import Problem
from wavebed.workload import read_workload
from wavebed.workload.probing import EchoProbe
from wavebed.workload.voice import (
    CODECS,
    Packet,
    best_rated,
    burst_ratio,
    delay_impairment,
    direction_of,
    jitter_ms,
    mos,
    rate,
    rated,
)

PROBES = [
    EchoProbe(0, 0.00, 40.0, 20.0, 20.0),
    EchoProbe(1, 0.02, None, lost="up"),
    EchoProbe(2, 0.04, None, lost="down"),
    EchoProbe(3, 0.06, 150.0, 100.0, 50.0),
    EchoProbe(4, 0.08, None, lost="somewhere"),
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


G711, G711_BARE, G729 = CODECS["g711"], CODECS["g711-without-plc"], CODECS["g729a"]


def test_without_impairment_r_is_93_2_and_mos_4_41() -> None:
    rating = rate(G711, 0.0, 0.0)
    assert rating.r == 93.2
    # ITU-T G.107, annex B: 4.41 is the most that the default values give.
    assert rating.mos == pytest.approx(4.41, abs=0.005)


@pytest.mark.parametrize(("r", "score"), [(90, 4.34), (80, 4.03), (70, 3.60), (60, 3.10), (50, 2.58)])
def test_mos_has_the_values_of_the_table_of_annex_b(r: float, score: float) -> None:
    # The table is rounded to two places, 80 upwards.
    assert mos(r) == pytest.approx(score, abs=0.01)


@pytest.mark.parametrize(("r", "score"), [(-5, 1.0), (0, 1.0), (100, 4.5), (120, 4.5)])
def test_mos_ends_at_1_and_at_4_5(r: float, score: float) -> None:
    assert mos(r) == score


@pytest.mark.parametrize(
    ("delay_ms", "idd"),
    # By hand from clause 7.4: X = 0.585, 1 and 2 for 150, 200 and 400 ms.
    [(0, 0.0), (100, 0.0), (150, 0.163), (200, 3.04), (400, 24.07)],
)
def test_delay_costs_nothing_to_100_ms_and_then_more_and_more(delay_ms: float, idd: float) -> None:
    assert delay_impairment(delay_ms) == pytest.approx(idd, abs=0.02)


def test_random_loss_costs_what_the_codec_conceals() -> None:
    # 95·1/(1 + Bpl)
    assert rate(G711, 0, 1).loss_impairment == pytest.approx(95 / 26.1)
    assert rate(G711_BARE, 0, 1).loss_impairment == pytest.approx(95 / 5.3)
    # 11 + 84·2/(2 + 19)
    assert rate(G729, 0, 2).loss_impairment == pytest.approx(19.0)
    assert rate(G729, 0, 0).r == pytest.approx(82.2)


def test_loss_in_bursts_costs_more_than_the_same_loss_spread() -> None:
    spread, together = rate(G711, 0, 5, 1.0), rate(G711, 0, 5, 4.0)
    assert together.r < spread.r
    assert together.loss_impairment == pytest.approx(95 * 5 / (5 / 4 + 25.1))


def test_burst_ratio_is_the_mean_run_over_that_of_random_loss() -> None:
    # Two runs of two among ten: 2·(1 - 0.4).
    assert burst_ratio([True, True, False, False, False, True, True, False, False, False]) == pytest.approx(1.2)


@pytest.mark.parametrize("lost", [[], [False] * 5, [True] * 5, [True, False] * 5])
def test_burst_ratio_is_1_where_nothing_is_in_bursts(lost: list[bool]) -> None:
    assert burst_ratio(lost) == 1.0


@given(st.floats(0, 5000), st.floats(0, 100), st.floats(1, 8), st.sampled_from(sorted(CODECS)))
def test_more_delay_or_loss_never_makes_a_call_better(delay_ms: float, loss: float, burst: float, name: str) -> None:
    codec = CODECS[name]
    here = rate(codec, delay_ms, loss, burst)
    assert 0 <= here.r <= 93.2
    assert 1 <= here.mos <= 4.5
    assert rate(codec, delay_ms + 10, loss, burst).r <= here.r + 1e-9
    assert rate(codec, delay_ms, min(100.0, loss + 1), burst).r <= here.r + 1e-9
