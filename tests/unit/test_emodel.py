"""The E-model gives what G.107 gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.workload.emodel import CODECS, burst_ratio, delay_impairment, mos, rate

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
