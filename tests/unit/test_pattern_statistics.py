"""Figures and edits against naive reckoning."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.errors import UserError
from wavebed.pattern.edit import cut, scale_rate, scale_time, scale_to_mean
from wavebed.pattern.model import Pattern, opportunities, packets, steps
from wavebed.pattern.resample import window_rates
from wavebed.pattern.statistics import PERCENTILES, outages, state_spans, summarise, weighted_percentiles


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@st.composite
def small_steps(draw) -> Pattern:
    lengths = draw(st.lists(st.integers(1, 20), min_size=1, max_size=8))
    rates = draw(st.lists(st.integers(0, 5), min_size=len(lengths), max_size=len(lengths)))
    ends = np.cumsum(lengths)
    index = np.concatenate(([0], ends[:-1])).astype(np.int64)
    return steps(index, int(ends[-1]), rate_bps=ints(*rates) * 10**9)


def spread(pattern: Pattern) -> list[int]:
    """The rate of each nanosecond."""
    return [
        rate for rate, length in zip(pattern.rate_bps.tolist(), pattern.lengths(), strict=True) for _ in range(length)
    ]


@given(small_steps())
def test_percentiles_are_those_of_the_values_of_each_nanosecond(pattern: Pattern) -> None:
    values = sorted(spread(pattern))
    found = weighted_percentiles(pattern.rate_bps, pattern.lengths())
    for percentile in PERCENTILES:
        rank = -(-len(values) * percentile // 100)
        assert found[percentile] == values[rank - 1]


@given(small_steps(), st.integers(0, 4))
def test_outages_are_the_runs_of_nanoseconds_at_or_below_the_threshold(pattern: Pattern, threshold: int) -> None:
    low = "".join("x" if rate <= threshold * 10**9 else " " for rate in spread(pattern))
    found = outages(pattern, threshold * 10**9)
    assert found.total_ns == low.count("x")
    assert len(found.spans_ns) == len(low.split())
    assert found.longest_ns == max(map(len, low.split()), default=0)


@given(small_steps())
def test_the_mean_is_that_of_each_nanosecond(pattern: Pattern) -> None:
    values = spread(pattern)
    assert pattern.total_bits() == sum(values) // 10**9
    assert summarise(pattern).peak_bps == max(values)


@given(small_steps(), st.integers(1, 30))
def test_windows_hold_the_average_of_their_nanoseconds(pattern: Pattern, window: int) -> None:
    values = spread(pattern)
    for position, rate in enumerate(window_rates(pattern, window).rate_bps.tolist()):
        part = values[position * window : (position + 1) * window]
        assert abs(Fraction(sum(part), len(part)) - rate) <= Fraction(1, 2)


def test_opportunities_are_counted_in_windows_and_one_at_the_end_in_the_last() -> None:
    pattern = opportunities(ints(0, 10**8, 3 * 10**8), 3 * 10**8, ints(1500, 3000, 1500))
    assert window_rates(pattern, 10**8).rate_bps.tolist() == [120_000, 240_000, 120_000]
    summary = summarise(pattern)
    assert summary.rate_window_ns == 10**8
    assert summary.mean_bps == 160_000


def test_delay_and_loss_are_weighted_by_time() -> None:
    pattern = steps(ints(0, 9), 10, delay_ns=ints(10, 110), loss=np.array([0.0, 1.0]))
    summary = summarise(pattern)
    assert summary.mean_delay_ns == 20
    assert summary.mean_loss == pytest.approx(0.1)
    assert summary.delay_percentiles_ns[95] == 110
    assert summary.mean_bps is None


def radio(rates: tuple[int, ...], states: tuple[int, ...], times: tuple[int, ...], period: int) -> Pattern:
    return steps(
        ints(*times),
        period,
        rate_bps=ints(*rates),
        bler=np.array(rates, dtype=np.float64) / 10,
        sinr_mdb=ints(*(1000 * rate - 2500 for rate in rates)),
        need_mdb=ints(*(1000 * rate for rate in rates)),
        state=np.array(states, dtype=np.uint8),
    )


def test_block_errors_and_states_are_weighted_by_time() -> None:
    summary = summarise(radio((1, 1, 5, 0), (0, 0, 1, 3), (0, 2, 4, 9), 10))
    assert summary.mean_bler == pytest.approx(0.4 * 0.1 + 0.5 * 0.5)
    assert (summary.bler_percentiles[50], summary.bler_percentiles[75]) == (0.1, 0.5)
    assert summary.mean_sinr_db == pytest.approx(0.4 * -1.5 + 0.5 * 2.5 + 0.1 * -2.5)
    assert (summary.sinr_percentiles_db[5], summary.sinr_percentiles_db[75]) == (-2.5, 2.5)
    assert (summary.mean_need_db, summary.need_percentiles_db[75]) == (pytest.approx(2.9), 5.0)
    assert summary.state_fractions == {"los": 0.4, "nlos": 0.5, "outage": 0.1}
    assert summarise(steps(ints(0), 10, rate_bps=ints(1))).state_fractions is None


def test_times_in_one_state_are_joined_over_rows() -> None:
    pattern = radio((1, 1, 5, 0, 2), (0, 0, 1, 3, 0), (0, 2, 4, 8, 9), 10)
    assert state_spans(pattern) == {"los": [(0, 4), (9, 10)], "nlos": [(4, 8)], "outage": [(8, 9)]}


def test_cutting_scaling_and_merging_keep_block_errors_and_states() -> None:
    pattern = radio((4, 4, 4, 8), (0, 0, 1, 1), (0, 2, 4, 8), 10)
    part = cut(pattern, 3, 9)
    assert (part.index.tolist(), part.state.tolist(), part.bler.tolist()) == ([0, 1, 5], [0, 1, 1], [0.4, 0.4, 0.8])
    assert (part.sinr_mdb.tolist(), part.need_mdb.tolist()) == ([1500, 1500, 5500], [4000, 4000, 8000])
    for scaled in (scale_rate(pattern, Fraction(2)), scale_time(pattern, Fraction(3))):
        assert (scaled.state.tolist(), scaled.bler.tolist()) == ([0, 0, 1, 1], [0.4, 0.4, 0.4, 0.8])
    assert pattern.merged().index.tolist() == [0, 4, 8]
    assert replace(pattern, sinr_mdb=ints(1, 2, 3, 3)).merged().index.tolist() == [0, 2, 4, 8]
    assert replace(pattern, need_mdb=ints(1, 2, 3, 3)) != pattern


def light_steps(rates: tuple[int, ...], light: tuple[int, ...]) -> Pattern:
    index = np.arange(len(rates), dtype=np.int64) * 10
    keys = {"light_bytes": 9, "light_idle_ns": 3}
    return steps(index, len(rates) * 10, rate_bps=ints(*rates), light_rate_bps=ints(*light), **keys)


def test_a_light_rate_is_weighted_by_time_and_is_not_the_rate() -> None:
    summary = summarise(light_steps((4, 4, 0), (1, 3, 8)))
    assert (summary.mean_light_bps, summary.light_percentiles_bps[50]) == (4, 3)
    assert (summary.light_bytes, summary.light_idle_ns) == (9, 3)
    assert (summary.peak_bps, summary.outages.total_ns) == (4, 10)
    plain = summarise(steps(ints(0), 10, rate_bps=ints(1)))
    assert (plain.mean_light_bps, plain.light_percentiles_bps, plain.light_bytes) == (None, None, None)


def test_editing_a_pattern_keeps_its_light_rate() -> None:
    pattern = light_steps((4, 4, 8), (1, 1, 6))
    for changed in (cut(pattern, 5, 25), scale_time(pattern, Fraction(3)), pattern.merged()):
        assert (changed.light_bytes, changed.light_idle_ns) == (9, 3)
        assert changed.light_rate_bps.tolist()[-1] == 6
    assert pattern.merged().index.tolist() == [0, 20]
    assert replace(pattern, light_rate_bps=ints(1, 2, 6)).merged().index.tolist() == [0, 10, 20]
    double = scale_rate(pattern, Fraction(2))
    assert (double.rate_bps.tolist(), double.light_rate_bps.tolist()) == ([8, 8, 16], [2, 2, 12])
    wide = window_rates(pattern, 15)
    assert (wide.rate_bps.tolist(), wide.light_rate_bps.tolist()) == ([4, 7], [1, 4])
    assert (wide.light_bytes, wide.light_idle_ns) == (9, 3)


def test_patterns_with_other_light_rates_are_different() -> None:
    pattern = light_steps((4, 4), (1, 1))
    for other in (
        replace(pattern, light_bytes=8),
        replace(pattern, light_idle_ns=4),
        replace(pattern, light_rate_bps=ints(1, 2)),
        replace(pattern, light_rate_bps=None, light_bytes=None, light_idle_ns=None),
    ):
        assert other != pattern
        assert not other.same_series(pattern)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"light_bytes": 0}, "light_bytes 0 is not from 1"),
        ({"light_bytes": 10**9 + 1}, "light_bytes 1000000001 is not from 1"),
        ({"light_idle_ns": 0}, "light_idle_ns 0 is not from 1"),
        ({"light_rate_bps": ints(-1)}, "light_rate_bps -1 is not from 0"),
        ({"light_rate_bps": None}, "stand together beside rate_bps or not at all"),
        ({"light_bytes": None}, "stand together"),
        ({"light_idle_ns": None}, "stand together"),
        ({"rate_bps": None}, "stand together"),
    ],
)
def test_a_light_rate_with_a_part_missing_or_out_of_range_is_refused(columns, said: str) -> None:
    whole = {"rate_bps": ints(1), "light_rate_bps": ints(1), "light_bytes": 1, "light_idle_ns": 1}
    steps(ints(0), 10, **whole)
    with pytest.raises(UserError, match=said):
        steps(ints(0), 10, **{**whole, **columns})


def test_sinr_and_need_stand_together_beside_a_rate_and_in_their_range() -> None:
    for columns in ({"sinr_mdb": ints(0)}, {"need_mdb": ints(0)}):
        with pytest.raises(UserError, match="together or not at all"):
            steps(ints(0), 10, rate_bps=ints(1), **columns)
    with pytest.raises(UserError, match="without rate_bps"):
        steps(ints(0), 10, sinr_mdb=ints(0), need_mdb=ints(0))
    with pytest.raises(UserError, match=r"row 2: need_mdb -100001 is not from -100000 to 100000"):
        steps(ints(0, 1), 10, rate_bps=ints(1, 1), sinr_mdb=ints(0, 0), need_mdb=ints(0, -100_001))


def test_block_errors_without_a_rate_and_unknown_states_are_refused() -> None:
    with pytest.raises(UserError, match="without rate_bps"):
        steps(ints(0), 10, bler=np.array([0.1]))
    with pytest.raises(UserError, match="state 6 is not from 0 to 5"):
        steps(ints(0), 10, state=np.array([6], dtype=np.uint8))


@given(small_steps(), st.data())
def test_a_cut_holds_the_same_nanoseconds(pattern: Pattern, data) -> None:
    start = data.draw(st.integers(0, pattern.period - 1))
    end = data.draw(st.integers(start + 1, pattern.period))
    assert spread(cut(pattern, start, end)) == spread(pattern)[start:end]


def test_a_cut_of_opportunities_keeps_the_one_at_the_very_end_only_at_the_end() -> None:
    pattern = opportunities(ints(0, 5, 10), 10, ints(1, 2, 3))
    assert cut(pattern, 0, 5).size_bytes.tolist() == [1]
    late = cut(pattern, 5)
    assert (late.index.tolist(), late.size_bytes.tolist(), late.period) == ([0, 5], [2, 3], 5)


def test_a_cut_of_packets_counts_packets() -> None:
    pattern = packets(ints(0, 4), 10, loss=np.array([0.0, 1.0]))
    part = cut(pattern, 3, 6)
    assert (part.index.tolist(), part.loss.tolist(), part.period) == ([0, 1], [0.0, 1.0], 3)


@pytest.mark.parametrize(("start", "end"), [(5, 5), (6, 5), (0, 11), (10, None)])
def test_a_cut_outside_is_refused(start: int, end: int | None) -> None:
    with pytest.raises(UserError, match="not within the pattern"):
        cut(steps(ints(0), 10, rate_bps=ints(1)), start, end)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=20), st.fractions(Fraction(1, 100), 10))
def test_scaled_opportunities_carry_fractions_of_a_byte(sizes: list[int], factor: Fraction) -> None:
    pattern = opportunities(np.arange(len(sizes), dtype=np.int64), len(sizes), ints(*sizes))
    total = sum(sizes) * factor
    if total < 1:
        with pytest.raises(UserError, match="no opportunity is left"):
            scale_rate(pattern, factor)
        return
    scaled = scale_rate(pattern, factor)
    assert 0 <= total - int(scaled.size_bytes.sum()) < 1


@given(small_steps(), st.integers(1, 10**11))
def test_scaling_to_a_mean_gives_that_mean_within_half_a_bit_per_second(pattern: Pattern, mean: int) -> None:
    if not any(spread(pattern)):
        with pytest.raises(UserError, match="mean rate is 0"):
            scale_to_mean(pattern, mean)
        return
    try:
        values = spread(scale_to_mean(pattern, mean))
    except UserError as error:
        assert "1000gbit" in str(error)
        return
    assert abs(Fraction(sum(values), len(values)) - mean) <= Fraction(1, 2)


def test_scaling_time_stretches_and_refuses_to_merge_rows() -> None:
    pattern = steps(ints(0, 3), 10, rate_bps=ints(1, 2))
    longer = scale_time(pattern, Fraction(5, 2))
    assert (longer.index.tolist(), longer.period) == ([0, 8], 25)
    with pytest.raises(UserError, match="two rows fall on one nanosecond"):
        scale_time(pattern, Fraction(1, 10))
