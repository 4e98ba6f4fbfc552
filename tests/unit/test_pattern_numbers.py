"""Patterns: numbers, and traces that several options share."""

from __future__ import annotations

import cmath
import csv
import math
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.traces import SECONDS, trace

from wavebed.errors import UserError
from wavebed.pattern import ReadOptions, Source, read_trace, render
from wavebed.pattern.numbers import decimals, format_probability, format_scaled, measured, probabilities, split_columns
from wavebed.radio.presets import SLEEP

if TYPE_CHECKING:
    from pathlib import Path


SOURCE = Source("trace", "")
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
