"""Quantities of scenes: frequency, power, ratio, speed and angle."""

from __future__ import annotations

import pytest

from wavebed.config import units
from wavebed.errors import UserError


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
        (units.parse_frequency, "28", "'28' has no unit: write a frequency as in 28ghz, 3.5ghz, 400mhz"),
        (units.parse_frequency, "1thz", "'1thz' has an unknown unit 'thz': a frequency is in hz, khz, mhz, ghz"),
        (units.parse_power, "30", "'30' has no unit: write a power as in 30dbm, -10dbm"),
        (units.parse_power, "1w", "'1w' has an unknown unit 'w': a power is in dbm"),
        (units.parse_gain, "infdb", "'infdb' is not a ratio: write a decimal number and its unit, as in 5db, -8db"),
        (units.parse_gain, "301db", "'301db' is out of range: a ratio is from -300 to 300 db"),
        (units.parse_speed, "-1m/s", "'-1m/s' is out of range: a speed is from 0 to 1000 m/s"),
        (units.parse_angle, "400deg", "'400deg' is out of range: an angle is from -360 to 360 deg"),
    ],
)  # fmt: skip
def test_a_wrong_quantity_names_the_rule_and_the_remedy(parse, text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(text)
    assert str(caught.value) == message
