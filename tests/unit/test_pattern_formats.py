"""Foreign formats of traces, and what is kept on the way to one and back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavebed.errors import UserError
from wavebed.pattern import FORMATS, Pattern, ReadOptions, TraceSource, WriteOptions, read_source, render, to_native
from wavebed.pattern.formats import detect
from wavebed.pattern.model import STATES, opportunities, packets, steps


def read(text: str, format_name: str | None = None, name: str = "trace", **options) -> tuple[Pattern, list[str]]:
    source = TraceSource(name, text)
    return read_source(source, format_name, ReadOptions(**options)), source.notes


def rows(pattern: Pattern) -> list[tuple[float, int]]:
    values = pattern.size_bytes if pattern.rate_bps is None else pattern.rate_bps
    return list(zip((pattern.index / 1e9).tolist(), values.tolist(), strict=True))


def test_native_keeps_nanoseconds_and_header() -> None:
    text = (
        "# wavebed pattern 1\n# kind = steps\n# duration_s = 40.000000001\n# title = a = b, c\n"
        "time_s,loss,delay_s\n0,0.5,0.011\n39.999999999,1,0\n"
    )
    pattern, _ = read(text)
    assert pattern.period == 40_000_000_001
    assert pattern.index.tolist() == [0, 39_999_999_999]
    assert pattern.delay_ns.tolist() == [11_000_000, 0]
    assert pattern.header == (("title", "a = b, c"),)


def test_native_header_lines_may_be_spaced_as_one_likes() -> None:
    text = "# wavebed pattern 1\n#kind=steps\n#  duration_s =4 \n# my  key= a=b \ntime_s,rate_bps\n0,5\n"
    pattern, _ = read(text)
    assert (pattern.kind, pattern.period, pattern.header) == ("steps", 4 * 10**9, (("my  key", "a=b"),))


@pytest.mark.parametrize(("key", "value"), [("a=b", "c"), ("a", "b\nc"), (" a", "b"), ("a", "b "), ("", "b")])
def test_a_header_that_would_not_come_back_is_not_written(key: str, value: str) -> None:
    zero = np.array([0], dtype=np.int64)
    with pytest.raises(UserError, match="cannot be written"):
        render(Pattern("steps", zero, 1, rate_bps=zero, header=((key, value),)))


def test_mahimahi_lines_are_1500_bytes_and_the_last_is_the_period() -> None:
    pattern, _ = read("0\n0\n7\n20\n", name="link.down")
    assert rows(pattern) == [(0.0, 3000), (0.007, 1500), (0.02, 1500)]
    assert pattern.period == 20_000_000


def test_cellreplay_heavy_lines_are_1400_bytes() -> None:
    pattern, _ = read("7\n20\n", name="traces/down-pdo")
    assert rows(pattern) == [(0.007, 1400), (0.02, 1400)]


def test_cellreplay_light_gives_the_base_delay_and_says_what_is_left_out() -> None:
    pattern, notes = read("100 20 0 3 5\n300 25 0\n600 30 0 1\n")
    assert pattern.index.tolist() == [0, 200_000_000]
    assert pattern.delay_ns.tolist() == [20_000_000, 25_000_000]
    assert pattern.period == 500_000_000
    assert any("light opportunities" in note for note in notes)
    assert any("at 100 ms" in note for note in notes)


def test_a_seconds_mbit_sample_covers_the_time_that_ends_with_it() -> None:
    pattern, notes = read("1.0\t91.0\n2.0\t0\n4.5\t3.000001\n")
    assert rows(pattern) == [(0.0, 91_000_000), (1.0, 0), (2.0, 3_000_001)]
    assert pattern.period == 4_500_000_000
    assert notes == []


def test_a_seconds_mbit_sample_at_zero_covers_nothing_and_that_is_said() -> None:
    pattern, notes = read("0.0 50\n0.5 1e1\n")
    assert rows(pattern) == [(0.0, 10_000_000)]
    assert "covers no time" in notes[0]


def test_a_seconds_mbit_sample_at_the_time_of_the_one_before_covers_nothing_and_that_is_said() -> None:
    pattern, notes = read("1 50\n2 60\n2 70\n3 80\n")
    assert rows(pattern) == [(0.0, 50_000_000), (1.0, 60_000_000), (2.0, 80_000_000)]
    assert notes == ["trace: left out: 1 sample at the time of the row before (a sample covers the time up to it)"]


def test_measured_values_are_rounded_half_to_even_to_the_bit_and_nanosecond() -> None:
    pattern, _ = read("1.00000000049 0.0000025\n2.0000000005 0.0000015\n177.33900000000003 3097.225239000001\n")
    assert pattern.rate_bps.tolist() == [2, 2, 3_097_225_239]
    assert (pattern.index + pattern.lengths()).tolist() == [1_000_000_000, 2_000_000_000, 177_339_000_000]


def test_kaunet_scenario_1_lasts_40_s_when_told_so() -> None:
    pattern, notes = read("0,945000000,2100,318000000,22100,1005000000\n", duration_ns=40 * 10**9)
    assert rows(pattern) == [(0.0, 945_000_000), (2.1, 318_000_000), (22.1, 1_005_000_000)]
    assert pattern.period == 40 * 10**9
    assert notes == []


def test_kaunet_without_a_duration_holds_the_last_rate_as_long_as_the_one_before_and_says_so() -> None:
    pattern, notes = read("0,5,10,6,30,7\n")
    assert pattern.period == 50_000_000
    assert "--duration" in notes[0]


NS3 = "\ttime\tframe\tsubF\tslot\t1stSym\tsymbol#\tcellId\trnti\tccId\ttbSize\tmcs\trv\tSINR(dB)\tcorrupt\tTBler\n"


def ns3_row(link: str, time: str, size: int, corrupt: int) -> str:
    return f"{link}\t{time}\t0\t0\t0\t1\t12\t1\t1\t0\t{size}\t28\t0\t37.2\t{corrupt}\t0\n"


def test_ns3_sums_uncorrupted_downlink_blocks_by_header_name() -> None:
    text = NS3 + "".join(
        (
            ns3_row("DL", "2.5e-04", 1000, 0),
            ns3_row("DL", "0.0005", 500, 0),
            ns3_row("UL", "0.0005", 9999, 0),
            ns3_row("DL", "0.0011", 700, 1),
            ns3_row("DL", "0.0031", 100, 0),
        )
    )
    pattern, notes = read(text)
    assert rows(pattern) == [(0.0, 12_000_000), (0.001, 0), (0.003, 800_000)]
    assert pattern.period == 4_000_000
    assert "1 ms" in notes[0]
    wide, _ = read(text, window_ns=2_000_000)
    assert rows(wide) == [(0.0, 6_000_000), (0.002, 400_000)]


def test_lumos5g_reads_the_run_that_is_asked_for() -> None:
    text = "run_num,seq_num,nrStatus,Throughput\n1,1,NR,5\n1,2,NR,6\n2,1,NR,7\n2,3,NR,8.5\n"
    pattern, _ = read(text, run=2)
    assert rows(pattern) == [(0.0, 7_000_000), (1.0, 8_500_000)]
    assert pattern.period == 3 * 10**9


def test_theaterq_keeps_latency_rate_and_loss_and_skips_comments() -> None:
    pattern, notes = read("KEEP,LATENCY,RATE,LOSS,LIMIT\n1000,20000000,10000000,0,1000\n500,0,-1,4294967295,7\n")
    assert rows(pattern) == [(0.0, 10_000_000), (0.001, 10**12)]
    assert pattern.delay_ns.tolist() == [20_000_000, 0]
    assert pattern.loss.tolist() == [0.0, 1.0]
    assert pattern.period == 1_500_000
    assert any("-1" in note for note in notes)
    assert any("queue limit" in note for note in notes)


@pytest.mark.parametrize("tail", ["", ",2", ",2,1"])
def test_theaterq_extended_says_that_jitter_is_left_out(tail: str) -> None:
    pattern, notes = read(f"1000,5,9,10000000,0,1000,0,0{tail}\n")
    assert rows(pattern) == [(0.0, 10_000_000)]
    assert any("jitter_ns" in note for note in notes)
    assert any("route_id" in note for note in notes) == bool(tail)


def test_netem_trace_repeats_nest_and_quantities_combine() -> None:
    text = """[{"RepeatedBwPatternConfig": {"count": 0, "pattern": [
      {"RepeatedBwPatternConfig": {"count": 2, "pattern": [
        {"StaticBwConfig": {"bw": "1.5Mbps 1bps", "duration": "500ms"}}]}},
      {"StaticBwConfig": {"bw": {"gbps": 2, "bps": 5}, "duration": {"secs": 1, "nanos": 7}}}]}},
     {"StaticLossConfig": {"loss": [0.25], "duration": "2s 7ns"}}]"""
    pattern, _ = read(text)
    assert rows(pattern) == [(0.0, 1_500_001), (0.5, 1_500_001), (1.0, 2_000_000_005)]
    assert pattern.loss.tolist() == [0.25] * 3
    assert pattern.period == 2_000_000_007


def test_a_table_row_holds_until_the_next_and_time_begins_with_the_first() -> None:
    text = "Timestamp;rsrp;dl\n1700000000.25;-80;5\n1700000001.25;-81;6.5\n1700000003.25;-82;0\n"
    pattern, notes = read(text, columns=("time=Timestamp:s", "rate=dl:mbit"))
    assert rows(pattern) == [(0.0, 5_000_000), (1.0, 6_500_000), (3.0, 0)]
    assert pattern.period == 5 * 10**9
    assert any("time begins with the first row, at 1700000000.25 s (2023-11-14 22:13:20 UTC" in note for note in notes)
    assert any("--duration" in note for note in notes)


def test_a_table_without_times_takes_every() -> None:
    pattern, _ = read("rtt,l\n96,1\n70,0.5\n", columns=("every=100ms", "delay=rtt:ms", "loss=l:%"))
    assert pattern.delay_ns.tolist() == [96_000_000, 70_000_000]
    assert pattern.loss.tolist() == [0.01, 0.005]
    assert pattern.period == 200_000_000


@pytest.mark.parametrize("name", [name for name, form in FORMATS.items() if form.write is not None])
def test_what_a_format_writes_is_recognised_as_it(name: str) -> None:
    column = np.array([8000, 16000, 0], dtype=np.int64)
    index = np.array([0, 10**9, 3 * 10**9], dtype=np.int64)
    if name == "cellreplay-light":
        pattern = steps(index, 4 * 10**9, delay_ns=column * 1000)
    else:
        pattern = steps(index, 4 * 10**9, rate_bps=column * 1000)
    found = FORMATS[name]
    suffix = found.suffixes[0] if found.suffixes else ""
    assert detect(TraceSource("file" + suffix, render(pattern, name))) is found


@pytest.mark.parametrize("name", ["mahimahi", "seconds-mbit", "kaunet", "ns3-mmwave", "lumos5g", "cellreplay-heavy"])
def test_a_format_without_delay_and_loss_says_that_they_are_lost(name: str) -> None:
    one = np.array([0], dtype=np.int64)
    pattern = steps(one, 10**9, rate_bps=one + 8 * 10**6, delay_ns=one, loss=one.astype(np.float64))
    options = WriteOptions()
    render(pattern, name, options)
    assert any("delay and loss cannot be written" in note for note in options.notes)


@pytest.mark.parametrize(
    "name", [name for name, form in FORMATS.items() if form.write is not None and name not in {"native", "mahimahi"}]
)
def test_a_foreign_format_says_that_block_errors_and_states_are_lost(name: str) -> None:
    one = np.array([0], dtype=np.int64)
    share = one.astype(np.float64)
    light = name == "cellreplay-light"
    pattern = steps(
        one,
        10**9,
        rate_bps=one + 8 * 10**6,
        delay_ns=one if light else None,
        bler=share,
        sinr_mdb=one - 2500,
        need_mdb=one,
        state=one.astype(np.uint8),
    )
    options = WriteOptions()
    render(pattern, name, options)
    lost = "rate, bler, sinr and state" if light else "bler, sinr and state"
    assert f"{lost} cannot be written in this format" in options.notes


@pytest.mark.parametrize(
    "name", [name for name, form in FORMATS.items() if form.write is not None and name not in {"native", "mahimahi"}]
)
def test_a_foreign_format_says_that_the_light_rate_is_lost_and_holds_the_rest(name: str) -> None:
    index = np.array([0, 10**9], dtype=np.int64)
    delay = index if name == "cellreplay-light" else None
    plain = steps(index, 2 * 10**9 + 1, rate_bps=np.array([8 * 10**6, 0]), delay_ns=delay)
    light = replace(plain, light_rate_bps=np.array([5, 7]), light_bytes=9, light_idle_ns=1)
    options = WriteOptions()
    assert render(light, name, options) == render(plain, name)
    lost = "rate and light rate" if delay is not None else "light rate"
    assert f"{lost} cannot be written in this format" in options.notes


@pytest.mark.parametrize("name", ["mahimahi", "seconds-mbit", "netem-trace", "cellreplay-light"])
def test_states_alone_are_not_written_to_formats_without_them(name: str) -> None:
    pattern = steps(np.array([0], dtype=np.int64), 10**9, state=np.array([3], dtype=np.uint8))
    with pytest.raises(UserError, match="write --to native"):
        render(pattern, name)


@pytest.mark.parametrize(
    "name",
    ["mahimahi", "seconds-mbit", "kaunet", "ns3-mmwave", "lumos5g", "theaterq", "netem-trace", "cellreplay-light"],
)
def test_a_pattern_over_packets_is_not_written_to_formats_over_time(name: str) -> None:
    pattern = packets(np.array([0], dtype=np.int64), 5, loss=np.array([1.0]))
    with pytest.raises(UserError, match="write --to native"):
        render(pattern, name)


def test_the_file_name_decides_only_between_formats_that_both_fit() -> None:
    assert detect(TraceSource("x.down", "1\n2\n")).name == "mahimahi"
    assert detect(TraceSource("x/up-pdo", "1\n2\n")).name == "cellreplay-heavy"
    assert detect(TraceSource("x.down", "1.0 5\n2.0 6\n")).name == "seconds-mbit"
    with pytest.raises(UserError, match="--format mahimahi or --format cellreplay-heavy"):
        detect(TraceSource("x.txt", "1\n2\n"))


def test_times_off_the_grid_are_averaged_and_said() -> None:
    pattern = steps(np.array([0, 500_000], dtype=np.int64), 10**6, rate_bps=np.array([8000, 16000], dtype=np.int64))
    options = WriteOptions()
    assert render(pattern, "kaunet", options) == "0,12000\n"
    assert any("averaged" in note for note in options.notes)


@pytest.mark.parametrize("time", ["888888e8888000", "1e999999", "9e41"])
def test_a_number_beyond_all_bounds_is_refused_at_once(time: str) -> None:
    with pytest.raises(UserError, match=r"too large|more than|at most"):
        read_source(TraceSource("file", f"{time}\t10000\n"), "seconds-mbit")


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
    again = read_source(TraceSource("trace", text), name, options)
    assert again.same_series(pattern)
    native = read_source(TraceSource("pattern", to_native(again)), "native")
    assert render(native, name) == text


KEYS = st.text("abcdefghijklmnopqrstuvwxyz_-.0123456789", min_size=1, max_size=8).map(lambda key: "x" + key)
VALUES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=20).map(str.strip)


@given(full_steps(), st.dictionaries(KEYS, VALUES, max_size=3))
def test_native_steps_come_back_with_their_header(pattern: Pattern, header: dict[str, str]) -> None:
    whole = replace(pattern, header=tuple(header.items()))
    text = to_native(whole)
    again = read_source(TraceSource("pattern", text), "native")
    assert again == whole
    assert to_native(again) == text
    assert read_source(TraceSource("pattern", text.replace("\n", "\r\n")), "native") == whole


@given(radio_steps())
def test_native_steps_of_a_radio_come_back(pattern: Pattern) -> None:
    text = to_native(pattern)
    again = read_source(TraceSource("pattern", text), "native")
    assert again == pattern
    assert to_native(again) == text


@given(st.data())
def test_native_opportunities_come_back(data) -> None:
    times = sorted(data.draw(st.lists(st.integers(0, 10**12), min_size=1, max_size=12)))
    sizes = data.draw(st.lists(st.integers(1, 10**9), min_size=len(times), max_size=len(times)))
    pattern = opportunities(ints(times), times[-1] + data.draw(st.integers(0 if times[-1] else 1, 10**12)), ints(sizes))
    assert read_source(TraceSource("pattern", to_native(pattern))) == pattern


@given(st.data())
def test_native_packets_come_back(data) -> None:
    index, count = data.draw(starts_and_period(1, 10**6))
    losses = floats(columns(data.draw, SHARES, index))
    delays = ints(columns(data.draw, st.integers(0, 10**12), index))
    pattern = packets(index, count, loss=losses, delay_ns=delays)
    assert read_source(TraceSource("pattern", to_native(pattern))) == pattern


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
    assert read_source(TraceSource("table.csv", body), None, options).same_series(pattern)


@settings(max_examples=60)
@given(rate_steps(most=3 * 10**8, rates=st.integers(0, 10**9)), st.sampled_from([1400, 1500]))
def test_a_rate_as_opportunities_delivers_the_same_bytes_within_one_packet(pattern: Pattern, size: int) -> None:
    name = {1400: "cellreplay-heavy", 1500: "mahimahi"}[size]
    options = WriteOptions()
    text = render(pattern, name, options)
    count = len(text.splitlines())
    added = sum("added at the end" in note for note in options.notes)
    assert (count - added) * size * 8 <= pattern.total_bits() < (count - added + 1) * size * 8
    again = read_source(TraceSource("trace", text), name)
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
            read_source(TraceSource("trace", data), name)
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
            read_source(TraceSource("trace", start + text), name, ReadOptions(columns=()))
        except UserError as error:
            assert "trace" in str(error)
