"""Patterns: numbers, statistics, and traces that several options share."""

from __future__ import annotations

import cmath
import csv
import math
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.traces import SECONDS, trace

from wavebed.errors import UserError
from wavebed.pattern import ReadOptions, TraceSource, read_source, read_trace, render
from wavebed.pattern.curves import PERCENTILES, outages, state_spans, summarise, weighted_percentiles
from wavebed.pattern.curves import draw as draw_curves
from wavebed.pattern.model import Pattern, cut, opportunities, packets, scale_rate, scale_time, scale_to_mean, steps
from wavebed.pattern.resample import window_rates
from wavebed.pattern.source import decimals, format_probability, format_scaled, measured, probabilities, split_columns
from wavebed.radio.presets import SLEEP

if TYPE_CHECKING:
    from pathlib import Path


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


def test_a_slow_steady_link_has_no_outages() -> None:
    slow = steps(np.array([0]), 60 * 10**9, rate_bps=np.array([16_000]))
    pattern = read_source(TraceSource("slow.down", render(slow, "mahimahi")))
    summary = summarise(pattern)
    assert summary.outages is not None
    assert len(summary.outages.spans_ns) == 0
    assert summary.rate_window_ns == 1_500_000_000
    assert draw_curves(pattern, "slow").outages == []


def test_an_outage_of_a_slow_link_is_found() -> None:
    times = [*range(750, 15_001, 750), *range(30_000, 45_001, 750)]
    pattern = read_source(TraceSource("slow.down", "".join(f"{time}\n" for time in times)))
    summary = summarise(pattern)
    assert summary.outages is not None
    assert summary.outages.spans_ns.tolist() == [[16_500_000_000, 30_000_000_000]]


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


SOURCE = TraceSource("trace", "")
MOST = 10**18


def line_of(position: int) -> int:
    return position + 1


@given(st.lists(st.integers(0, 10**14) | st.integers(0, MOST), min_size=1, max_size=20))
@example([10**14 - 1])
@example([10**14, 10**14 + 1])
@example([99_999_999_999_999, 1])
def test_decimals_come_back_to_the_nanosecond(values: list[int]) -> None:
    texts = [format_scaled(value, 9) for value in values]
    assert decimals(SOURCE, texts, line_of, "time", digits=9, most=MOST).tolist() == values


@given(st.lists(st.integers(-(10**5), 10**5) | st.integers(-MOST, MOST), min_size=1, max_size=20))
@example([-(10**14), 1])
@example([-1, 0])
def test_signed_decimals_come_back_to_the_thousandth(values: list[int]) -> None:
    texts = [format_scaled(value, 3) for value in values]
    assert decimals(SOURCE, texts, line_of, "SINR", digits=3, most=MOST, signed=True).tolist() == values


@given(st.lists(st.text("0123456789.-+", max_size=7), min_size=1, max_size=3))
def test_only_plain_decimals_with_a_minus_sign_are_read_as_signed(texts: list[str]) -> None:
    magnitudes = [text.removeprefix("-") for text in texts]
    plain = all(
        all(part.isdigit() for part in text.split(".", 1)) and len(text.partition(".")[2]) <= 3 for text in magnitudes
    )
    try:
        values = decimals(SOURCE, texts, line_of, "SINR", digits=3, most=100_000, signed=True)
    except UserError:
        assert not plain or max(map(Decimal, magnitudes)) > 100
        return
    assert plain
    assert values.tolist() == [int(Decimal(text) * 1000) for text in texts]


@given(st.lists(st.text("0123456789.-e ", max_size=12), min_size=1, max_size=4))
def test_only_plain_decimals_are_read(texts: list[str]) -> None:
    plain = all(
        all(part.isdigit() for part in text.split(".", 1)) and len(text.partition(".")[2]) <= 9 for text in texts
    )
    try:
        values = decimals(SOURCE, texts, line_of, "time", digits=9, most=MOST)
    except UserError:
        assert not plain or max(map(Decimal, texts)) * 10**9 > MOST
        return
    assert plain
    assert values.tolist() == [int(Decimal(text) * 10**9) for text in texts]


@given(st.decimals(0, 10**6, allow_nan=False, places=12), st.sampled_from([1, 10**3, 10**6, 10**9]))
def test_measured_values_are_rounded_to_the_nearest(value: Decimal, scale: int) -> None:
    found = measured(SOURCE, [f"{value:f}", f"{value:e}"], line_of, "rate", scale=scale, most=MOST)
    expected = int((value * scale).quantize(Decimal(1), ROUND_HALF_EVEN))
    assert found.tolist() == [expected, expected]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_shares_come_back(values: list[float]) -> None:
    assert probabilities(SOURCE, [format_probability(value) for value in values], line_of, "loss").tolist() == values


@given(st.lists(st.lists(st.text("ab ", max_size=3), min_size=2, max_size=4), min_size=1, max_size=8))
def test_columns_are_split_or_the_first_line_of_another_width_is_named(rows: list[list[str]]) -> None:
    width = len(rows[0])
    found = split_columns([",".join(row) for row in rows], width)
    odd = [position for position, row in enumerate(rows) if len(row) != width]
    if odd:
        assert found == odd[0]
    else:
        assert found == [list(column) for column in zip(*rows, strict=True)]


def test_a_value_past_the_most_is_named_with_its_line() -> None:
    with pytest.raises(UserError, match=r"trace:2: SINR '-100\.001' is too small; the least is -100"):
        decimals(SOURCE, ["1", "-100.001"], line_of, "SINR", digits=3, most=100_000, signed=True)
    with pytest.raises(UserError, match="trace:2: time '1000000001' is too large; the most is 1000000000"):
        decimals(SOURCE, ["1", "1000000001"], line_of, "time", digits=9, most=MOST)


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("made-up-walk.txt", SECONDS),
        ("lumos5g_32_walking.txt", 800),
        ("lumos5g_116_walking.txt", 799),
        ("lumos5g_103_driving.txt", 236),
        ("lumos5g_100_walking.txt", 800),
    ],
)
def test_a_walk_has_its_duration_and_the_mean_of_its_samples(name: str, seconds: int, tmp_path: Path) -> None:
    path = trace(name, tmp_path)
    samples = [Fraction(line.split()[1]) for line in path.read_text().splitlines()]
    pattern = read_trace(path)
    assert pattern.period == seconds * 10**9
    assert Fraction(pattern.bit_ns(), pattern.period) == sum(samples) * 10**6 / len(samples)
    written = render(pattern, "seconds-mbit")
    assert [tuple(map(float, line.split())) for line in written.splitlines()] == [
        tuple(map(float, line.split())) for line in path.read_text().splitlines()
    ]


@pytest.mark.parametrize(
    ("name", "milliseconds"),
    [
        ("made-up-lte.down", SECONDS * 1000),
        ("ATT-LTE-driving-2016.down", 120_002),
        ("ATT-LTE-driving-2016.up", 120_002),
        ("Verizon-LTE-short.down", 140_000),
        ("Verizon-LTE-short.up", 140_000),
    ],
)
def test_mahimahi_has_its_duration_its_bytes_and_the_same_lines_again(
    name: str, milliseconds: int, tmp_path: Path
) -> None:
    path = trace(name, tmp_path)
    pattern = read_trace(path)
    lines = path.read_text().splitlines()
    assert pattern.period == milliseconds * 10**6
    assert pattern.bit_ns() == len(lines) * 1500 * 8 * 10**9
    assert render(pattern, "mahimahi").splitlines() == lines


@pytest.mark.parametrize("name", ["made-up-sinr.csv", "mmwave_sinr_throughput.csv"])
def test_mmwave_measurements_are_read_by_column(name: str, tmp_path: Path) -> None:
    path = trace(name, tmp_path)
    with path.open() as file:
        rates = [round(Fraction(row["downlink_Mbps"]) * 10**6) for row in csv.DictReader(file)]
    pattern = read_trace(path, options=ReadOptions(columns=("every=1s", "rate=downlink_Mbps:mbit")))
    assert pattern.period == len(rates) * 10**9
    assert pattern.rate_bps.tolist() == rates


@pytest.mark.parametrize("name", ["made-up-probes.csv", "rrc_probe_verizon_nsa_mmwave.csv"])
def test_idle_probes_are_read_as_delays(name: str, tmp_path: Path) -> None:
    path = trace(name, tmp_path)
    with path.open() as file:
        delays = [int(row["RTT1"]) * 10**6 for row in csv.DictReader(file)]
    pattern = read_trace(path, options=ReadOptions(columns=("every=10s", "delay=RTT1:ms")))
    assert pattern.delay_ns.tolist() == delays
    assert pattern.period == len(delays) * 10**10


DRX, RRC = SLEEP["nr"]


@pytest.fixture(scope="module")
def probes(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[float, float]]:
    """Idle time before a probe and its round trip, in milliseconds."""
    path = trace("rrc_probe_verizon_nsa_mmwave.csv", tmp_path_factory.getbasetemp())
    with path.open(encoding="utf-8") as file:
        return [(float(row["interval"]) * 1000, float(row["RTT1"])) for row in csv.DictReader(file)]


def in_step(probes: list[tuple[float, float]], period_ms: float) -> float:
    """Return how well answers keep to one phase of a period: 1 if all do, about 0 by chance (mean resultant length)."""
    turns = [cmath.exp(2j * math.pi * (idle_ms + rtt_ms) / period_ms) for idle_ms, rtt_ms in probes]
    return abs(sum(turns)) / len(turns)


def test_answers_after_long_idling_keep_step_with_paging(probes: list[tuple[float, float]]) -> None:
    idle = [probe for probe in probes if probe[0] >= 13_000]
    periods_ms = range(640, 2561, 80)
    assert max(periods_ms, key=lambda period_ms: in_step(idle, period_ms)) == RRC.paging_ns / 1e6
    assert in_step(idle, RRC.paging_ns / 1e6) > 0.99


def test_answers_of_a_connected_device_keep_step_with_the_long_cycle(probes: list[tuple[float, float]]) -> None:
    connected = [probe for probe in probes if 2000 <= probe[0] < 10_000]
    cycles_ms = (20, 32, 40, 60, 64, 80, 128, 160, 256, 320)
    assert max(cycles_ms, key=lambda cycle_ms: in_step(connected, cycle_ms)) == DRX.long_cycle_ns / 1e6


def test_the_connection_is_released_after_the_inactivity_timer(probes: list[tuple[float, float]]) -> None:
    before = [rtt_ms for idle_ms, rtt_ms in probes if idle_ms < RRC.inactivity_ns / 1e6]
    after = sorted(rtt_ms for idle_ms, rtt_ms in probes if idle_ms >= 13_000)
    assert max(before) < 300
    # The shortest answers met the paging at once: beside an ordinary round trip, what is left is the promotion. A
    # hundredth is left out: in some probes something else had woken the device.
    ordinary_ms = sorted(before)[len(before) // 20]
    assert after[len(after) // 100] - ordinary_ms == pytest.approx(RRC.promotion_ns / 1e6, abs=40)
