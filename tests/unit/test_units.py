"""Quantities of scenarios and scenes."""

from __future__ import annotations

import argparse

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.config import suggest, units
from wavebed.config.units import Limit
from wavebed.errors import UserError

NOT_A_RATE = "{!r} is not a rate: write a decimal number and its unit, as in 10gbit, 2.5gbit, 54mbit"


@pytest.mark.parametrize(
    ("text", "rate_bps"),
    [("10gbit", 10**10), ("2.5gbit", 2_500_000_000), ("54mbit", 54_000_000), ("0bit", 0), ("1.5KBIT", 1500)],
)
def test_rate_is_read_in_powers_of_1000(text: str, rate_bps: int) -> None:
    assert units.parse_rate(text) == rate_bps


@pytest.mark.parametrize(
    ("text", "time_ns"), [("10ms", 10**7), ("125us", 125_000), ("2s", 2 * 10**9), ("100ns", 100), ("0.1us", 100)]
)
def test_time_is_read_to_the_nanosecond(text: str, time_ns: int) -> None:
    assert units.parse_time(text) == time_ns


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("64kb", Limit(bytes=64_000)),
        ("64kib", Limit(bytes=65_536)),
        ("1mb", Limit(bytes=10**6)),
        ("1500b", Limit(bytes=1500)),
        ("1000p", Limit(packets=1000)),
        ("20ms", Limit(time_ns=20_000_000)),
    ],
)
def test_limit_is_bytes_packets_or_time(text: str, limit: Limit) -> None:
    assert units.parse_limit(text) == limit
    assert units.parse_limit(units.format_limit(limit)) == limit


def test_limit_as_json_names_its_unit() -> None:
    assert msgspec.to_builtins(units.parse_limit("20ms")) == {"time_ns": 20_000_000}


@pytest.mark.parametrize(("text", "share"), [("0.01%", 0.0001), ("100%", 1.0), ("0%", 0.0), ("0.1%", 0.001)])
def test_a_percentage_is_a_fraction(text: str, share: float) -> None:
    assert units.parse_percentage(text) == share


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (units.parse_rate, "10", "'10' has no unit: did you mean '10mbit'?"),
        (units.parse_rate, "10mbps", "'10mbps' has an unknown unit 'mbps': did you mean '10mbit'?"),
        (units.parse_rate, "10xbit", "'10xbit' has an unknown unit 'xbit': a rate is in bit, kbit, mbit, gbit"),
        (units.parse_rate, "1.5bit", "'1.5bit' is finer than 1 bit: use fewer digits after the point"),
        (units.parse_rate, "1001gbit", "'1001gbit' is too large: a rate is at most 1000000000000 bit"),
        (units.parse_rate, "1e3mbit", NOT_A_RATE.format("1e3mbit")),
        (units.parse_rate, "", NOT_A_RATE.format("")),
        (units.parse_time, "-1s", "'-1s' is not a time: write a decimal number and its unit, as in 10ms, 125us, 2s"),
        (units.parse_time, "0.5ns", "'0.5ns' is finer than 1 ns: use fewer digits after the point"),
        (units.parse_time, "5m", "'5m' has an unknown unit 'm': did you mean '300s'?"),
        (units.parse_limit, "1000", "'1000' has no unit: did you mean '1000p'?"),
        (units.parse_limit, "1.5p", "'1.5p' is finer than 1 p: use fewer digits after the point"),
        (units.parse_percentage, "0.01", "'0.01' has no percent sign: did you mean '0.01%' or '1%'?"),
        (units.parse_percentage, "101%", "'101%' is more than 100%: a percentage is from 0% to 100%"),
        (
            units.parse_percentage,
            "x%",
            "'x%' is not a percentage: write a decimal number and the percent sign, as in 0.01%",
        ),
    ],
)  # fmt: skip
def test_a_wrong_quantity_names_the_rule_and_the_remedy(parse, text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(text)
    assert str(caught.value) == message


_MEANT = [
    ("100M", "rate", ["100mbit"]),
    ("100mbps", "rate", ["100mbit"]),
    ("100 mbit", "rate", ["100mbit"]),
    ("1Gb", "rate", ["1gbit"]),
    ("100Mbit/s", "rate", ["100mbit"]),
    ("10MB/s", "rate", ["80mbit"]),
    ("1kibps", "rate", ["1.024kbit"]),
    ("2,5gbit", "rate", ["2.5gbit"]),
    ("-5mbit", "rate", []),
    ("10xbit", "rate", []),
    ("10", "time", ["10ms", "10s"]),
    ("10 ms", "time", ["10ms"]),
    ("10msec", "time", ["10ms"]),
    ("1.5min", "time", ["90s"]),
    ("64 KiB", "size", ["64kib"]),
    ("1M", "limit", ["1mb"]),
    ("1000packets", "limit", ["1000p"]),
    ("1 %", "percentage", ["1%"]),
    ("30 dBm", "a power", ["30dbm"]),
    ("10kmh", "a speed", ["10km/h"]),
    ("65°", "an angle", ["65deg"]),
]


_READERS = {
    "rate": units.parse_rate,
    "time": units.parse_time,
    "size": units.parse_size,
    "limit": units.parse_limit,
    "percentage": units.parse_percentage,
    "a power": units.parse_power,
    "a speed": units.parse_speed,
    "an angle": units.parse_angle,
}


@pytest.mark.parametrize(("text", "kind", "meant"), _MEANT)
def test_a_mistyped_quantity_is_answered_with_amounts_that_are_read(text: str, kind: str, meant: list[str]) -> None:
    assert suggest.quantities(text, kind, _READERS[kind]) == meant


@given(st.integers(0, units.MAX_RATE_BPS))
def test_rate_survives_writing_and_reading(rate_bps: int) -> None:
    assert units.parse_rate(units.format_rate(rate_bps)) == rate_bps


@given(st.integers(0, units.MAX_TIME_NS))
def test_time_survives_writing_and_reading(time_ns: int) -> None:
    assert units.parse_time(units.format_time(time_ns)) == time_ns


@given(st.integers(0, 10**15))
def test_size_survives_writing_and_reading(size_bytes: int) -> None:
    assert units.parse_size(units.format_size(size_bytes)) == size_bytes


@given(st.floats(0, 1))
def test_a_percentage_survives_writing_and_reading(share: float) -> None:
    assert units.parse_percentage(units.format_percentage(share)) == share


def test_an_option_with_a_wrong_quantity_is_named() -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("--rate", type=units.argument(units.parse_rate))
    with pytest.raises(argparse.ArgumentError, match="argument --rate: '10' has no unit"):
        parser.parse_args(["--rate", "10"])


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (units.parse_frequency, "28ghz", 28_000_000_000),
        (units.parse_frequency, "1.4MHz", 1_400_000),
        (units.parse_power, "30dbm", 30.0),
        (units.parse_power, "-10.5dBm", -10.5),
        (units.parse_gain, "+3db", 3.0),
        (units.parse_gain, "-8db", -8.0),
        (units.parse_speed, "1.5m/s", 1.5),
        (units.parse_speed, "36km/h", 10.0),
        (units.parse_angle, "-90deg", -90.0),
    ],
)
def test_a_quantity_is_read_with_its_sign_and_unit(parse, text: str, value: float) -> None:
    assert parse(text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (units.parse_frequency, "28", "'28' has no unit: did you mean '28ghz' or '28mhz'?"),
        (units.parse_frequency, "1thz", "'1thz' has an unknown unit 'thz': a frequency is in hz, khz, mhz, ghz"),
        (units.parse_power, "30", "'30' has no unit: did you mean '30dbm'?"),
        (units.parse_power, "1w", "'1w' has an unknown unit 'w': a power is in dbm"),
        (units.parse_gain, "infdb", "'infdb' is not a ratio: write a decimal number and its unit, as in 5db, -8db"),
        (units.parse_gain, "301db", "'301db' is out of range: a ratio is from -300 to 300 db"),
        (units.parse_speed, "-1m/s", "'-1m/s' is out of range: a speed is from 0 to 1000 m/s"),
        (units.parse_angle, "400deg", "'400deg' is out of range: an angle is from -360 to 360 deg"),
    ],
)  # fmt: skip
def test_a_wrong_quantity_of_a_scene_names_the_rule_and_the_remedy(parse, text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(text)
    assert str(caught.value) == message
