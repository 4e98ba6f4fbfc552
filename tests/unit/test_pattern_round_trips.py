"""Each format gives back what was written, at its own resolution, also by way of the native format."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from wavebed.pattern import Pattern, ReadOptions, Source, WriteOptions, read_source, render, to_native
from wavebed.pattern.model import STATES, opportunities, packets, steps

U32_MAX = 2**32 - 1
RATES = st.integers(0, 10**12)
SHARES = st.floats(0, 1)
DECIBELS = st.integers(-100_000, 100_000)


def ints(values) -> np.ndarray:
    return np.array(list(values), dtype=np.int64)


def floats(values) -> np.ndarray:
    return np.array(list(values), dtype=np.float64)


@st.composite
def starts_and_period(draw, unit: int, most: int, min_rows: int = 1, max_rows: int = 12) -> tuple[np.ndarray, int]:
    """Strictly increasing starts from 0 and a period after them, in multiples of the unit."""
    lengths = draw(st.lists(st.integers(1, most), min_size=min_rows, max_size=max_rows))
    ends = np.cumsum(ints(lengths)) * unit
    return np.concatenate((ints([0]), ends[:-1])), int(ends[-1])


def columns(draw, values: st.SearchStrategy, index: np.ndarray) -> list:
    return draw(st.lists(values, min_size=len(index), max_size=len(index)))


@st.composite
def rate_steps(draw, unit: int = 1, most: int = 10**10, rates: st.SearchStrategy = RATES) -> Pattern:
    index, period = draw(starts_and_period(unit, most))
    return steps(index, period, rate_bps=ints(columns(draw, rates, index)))


@st.composite
def full_steps(draw, unit: int = 1, losses: st.SearchStrategy = SHARES) -> Pattern:
    index, period = draw(starts_and_period(unit, 10**9))
    delays = st.integers(0, 10**10)
    return steps(
        index,
        period,
        rate_bps=ints(columns(draw, RATES, index)),
        delay_ns=ints(columns(draw, delays, index)),
        loss=floats(columns(draw, losses, index)),
    )


@st.composite
def radio_steps(draw) -> Pattern:
    """Steps of a radio channel; a row may have a state without a rate and errors, not errors without a rate."""
    index, period = draw(starts_and_period(1, 10**9))
    codes = columns(draw, st.integers(0, len(STATES) - 1), index)
    rated = draw(st.booleans())
    erring = rated and draw(st.booleans())
    measured = rated and draw(st.booleans())
    both = rated and draw(st.booleans())
    both_measured = both and draw(st.booleans())
    light = rated and draw(st.booleans())
    return steps(
        index,
        period,
        rate_bps=ints(columns(draw, RATES, index)) if rated else None,
        bler=floats(columns(draw, SHARES, index)) if erring else None,
        sinr_mdb=ints(columns(draw, DECIBELS, index)) if measured else None,
        need_mdb=ints(columns(draw, DECIBELS, index)) if measured else None,
        state=np.array(codes, dtype=np.uint8),
        fallback_rate_bps=ints(columns(draw, RATES, index)) if both else None,
        fallback_sinr_mdb=ints(columns(draw, DECIBELS, index)) if both_measured else None,
        fallback_need_mdb=ints(columns(draw, DECIBELS, index)) if both_measured else None,
        light_rate_bps=ints(columns(draw, RATES, index)) if light else None,
        light_bytes=draw(st.integers(1, 10**9)) if light else None,
        light_idle_ns=draw(st.integers(1, 10**18)) if light else None,
    )


@st.composite
def deliveries(draw, packet_bytes: int) -> Pattern:
    times = sorted(draw(st.sets(st.integers(0, 5000), min_size=1, max_size=20)))
    if times[-1] == 0:
        times = [1]
    counts = draw(st.lists(st.integers(1, 9), min_size=len(times), max_size=len(times)))
    index = ints(times) * 10**6
    return opportunities(index, int(index[-1]), ints(counts) * packet_bytes)


def assert_round_trip(pattern: Pattern, name: str, options: ReadOptions | None = None) -> None:
    text = render(pattern, name)
    again = read_source(Source("trace", text), name, options)
    assert again.same_series(pattern)
    native = read_source(Source("pattern", to_native(again)), "native")
    assert render(native, name) == text


KEYS = st.text("abcdefghijklmnopqrstuvwxyz_-.0123456789", min_size=1, max_size=8).map(lambda key: "x" + key)
VALUES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=20).map(str.strip)


@given(full_steps(), st.dictionaries(KEYS, VALUES, max_size=3))
def test_native_steps_come_back_with_their_header(pattern: Pattern, header: dict[str, str]) -> None:
    whole = replace(pattern, header=tuple(header.items()))
    text = to_native(whole)
    again = read_source(Source("pattern", text), "native")
    assert again == whole
    assert to_native(again) == text
    assert read_source(Source("pattern", text.replace("\n", "\r\n")), "native") == whole


@given(radio_steps())
def test_native_steps_of_a_radio_come_back(pattern: Pattern) -> None:
    text = to_native(pattern)
    again = read_source(Source("pattern", text), "native")
    assert again == pattern
    assert to_native(again) == text


@given(st.data())
def test_native_opportunities_come_back(data) -> None:
    times = sorted(data.draw(st.lists(st.integers(0, 10**12), min_size=1, max_size=12)))
    sizes = data.draw(st.lists(st.integers(1, 10**9), min_size=len(times), max_size=len(times)))
    pattern = opportunities(ints(times), times[-1] + data.draw(st.integers(0 if times[-1] else 1, 10**12)), ints(sizes))
    assert read_source(Source("pattern", to_native(pattern))) == pattern


@given(st.data())
def test_native_packets_come_back(data) -> None:
    index, count = data.draw(starts_and_period(1, 10**6))
    losses = floats(columns(data.draw, SHARES, index))
    delays = ints(columns(data.draw, st.integers(0, 10**12), index))
    pattern = packets(index, count, loss=losses, delay_ns=delays)
    assert read_source(Source("pattern", to_native(pattern))) == pattern


@given(deliveries(1500))
def test_mahimahi_comes_back(pattern: Pattern) -> None:
    assert_round_trip(pattern, "mahimahi")


@given(deliveries(1400))
def test_cellreplay_heavy_comes_back(pattern: Pattern) -> None:
    assert_round_trip(pattern, "cellreplay-heavy")


@given(st.data())
def test_cellreplay_light_comes_back(data) -> None:
    index, period = data.draw(starts_and_period(10**6, 10**4, min_rows=2))
    delays = ints(columns(data.draw, st.integers(0, 10**4), index)) * 10**6
    assert_round_trip(steps(index, period, delay_ns=delays), "cellreplay-light")


@given(rate_steps())
def test_seconds_mbit_comes_back(pattern: Pattern) -> None:
    assert_round_trip(pattern, "seconds-mbit")


@given(rate_steps(unit=10**6, most=10**6))
def test_kaunet_comes_back_when_told_its_duration(pattern: Pattern) -> None:
    assert_round_trip(pattern, "kaunet", ReadOptions(duration_ns=pattern.period))


@settings(max_examples=50)
@given(rate_steps(unit=10**6, most=30, rates=st.integers(0, 10**6).map(lambda rate: rate * 8000)))
def test_ns3_mmwave_comes_back(pattern: Pattern) -> None:
    assert_round_trip(pattern.merged(), "ns3-mmwave")


@given(rate_steps(unit=10**9, most=1000))
def test_lumos5g_comes_back(pattern: Pattern) -> None:
    assert_round_trip(pattern, "lumos5g")


LOSSES_32 = st.integers(0, U32_MAX).map(lambda units: units / U32_MAX)


@given(full_steps(unit=1000, losses=LOSSES_32), st.sampled_from(["theaterq", "theaterq-extended"]))
def test_theaterq_comes_back(pattern: Pattern, name: str) -> None:
    assert_round_trip(pattern, name)


@given(full_steps(), st.sets(st.sampled_from(["rate", "delay", "loss"]), min_size=1))
def test_netem_trace_comes_back(pattern: Pattern, kept: set[str]) -> None:
    part = steps(
        pattern.index,
        pattern.period,
        rate_bps=pattern.rate_bps if "rate" in kept else None,
        delay_ns=pattern.delay_ns if "delay" in kept else None,
        loss=pattern.loss if "loss" in kept else None,
    )
    assert_round_trip(part, "netem-trace")


@given(rate_steps(unit=10**6, most=10**6))
def test_a_table_with_columns_reads_what_a_native_pattern_holds(pattern: Pattern) -> None:
    body = "\n".join(line for line in to_native(pattern).splitlines() if not line.startswith("#"))
    options = ReadOptions(columns=("time=time_s:s", "rate=rate_bps:bit"), duration_ns=pattern.period)
    assert read_source(Source("table.csv", body), None, options).same_series(pattern)


@settings(max_examples=60)
@given(rate_steps(most=3 * 10**8, rates=st.integers(0, 10**9)), st.sampled_from([1400, 1500]))
def test_a_rate_as_opportunities_delivers_the_same_bytes_within_one_packet(pattern: Pattern, size: int) -> None:
    name = {1400: "cellreplay-heavy", 1500: "mahimahi"}[size]
    options = WriteOptions()
    text = render(pattern, name, options)
    count = len(text.splitlines())
    added = sum("added at the end" in note for note in options.notes)
    assert (count - added) * size * 8 <= pattern.total_bits() < (count - added + 1) * size * 8
    again = read_source(Source("trace", text), name)
    assert again.period == -(-pattern.period // 10**6) * 10**6


@given(st.data())
def test_opportunities_of_any_size_lose_less_than_one_packet_in_mahimahi(data) -> None:
    times = sorted(data.draw(st.lists(st.integers(0, 10**9), min_size=1, max_size=12)))
    sizes = data.draw(st.lists(st.integers(1, 10**5), min_size=len(times), max_size=len(times)))
    pattern = opportunities(ints(times), times[-1] + 1, ints(sizes))
    options = WriteOptions()
    count = len(render(pattern, "mahimahi", options).splitlines())
    added = sum("added at the end" in note for note in options.notes)
    assert (count - added) * 1500 <= sum(sizes) < (count - added + 1) * 1500


@given(st.binary(max_size=300))
def test_any_bytes_end_in_a_pattern_or_one_line(data: bytes) -> None:
    from wavebed.errors import UserError
    from wavebed.pattern.formats import FORMATS

    for name in (None, *FORMATS):
        try:
            read_source(Source("trace", data), name)
        except UserError as error:
            assert "\n" not in str(error)


NEAR_MISS = st.lists(
    st.sampled_from(
        [
            *'0123456789.,- \n\t#{}[]":eE',
            "rate_bps",
            "time_s",
            "state",
            "bler",
            "sinr_db",
            "need_db",
            "fallback_rate_bps",
            "light_rate_bps",
            "light_bytes",
            "light_idle_s",
            "los",
            "DL",
        ]
    ),
    max_size=60,
)


@settings(max_examples=300)
@given(NEAR_MISS.map("".join), st.sampled_from(["", "# wavebed pattern 1\n# kind = steps\n# duration_s = 5\n"]))
def test_text_like_a_trace_ends_in_a_pattern_or_one_line(text: str, start: str) -> None:
    from wavebed.errors import UserError
    from wavebed.pattern.formats import FORMATS

    for name in (None, *FORMATS):
        try:
            read_source(Source("trace", start + text), name, ReadOptions(columns=()))
        except UserError as error:
            assert "trace" in str(error)
