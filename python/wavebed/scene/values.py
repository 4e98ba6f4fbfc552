"""Read one value of a scene: a value of TOML in; metres, seconds, hertz, decibels or a type of `model` out.

Every function raises `Problem` with the rule and the remedy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct

from wavebed.config import units
from wavebed.config.problems import Problem, at, described, unknown_key
from wavebed.config.reader import Reader, reader
from wavebed.config.values import (
    PERCENTAGE_SCHEMA,
    RATE_SCHEMA,
    TIME_SCHEMA,
    percentage,
    quantity,
    quantity_schema,
    seconds,
    text,
    time_text,
)
from wavebed.config.values import rate_bps as _rate_bps
from wavebed.radio.tables import read_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from wavebed.config.data import Json
    from wavebed.config.reader import Schema


MAX_COORDINATE_M = 100_000.0
MAX_ENTRIES = 1000


class CellLoad(Struct, frozen=True):
    """From `time_s` on, other users have this fraction (0 to 1) of the cell."""

    time_s: float
    fraction: float


class LoadProcess(Struct, frozen=True):
    """Other users come and go at random: the mean fraction of the cell that they have, and how long one stays."""

    mean: float
    time_constant_s: float


MOST_MEAN_LOAD = 0.99


_RATIO_SCHEMA = quantity_schema(("db",), signed=True)
_FREQUENCY_SCHEMA = quantity_schema(units.FREQUENCY_UNITS)


def _with_unit(unit: str) -> Callable[[float], str]:
    return lambda value: f"{value:g}{unit}"


def _numbers(*lengths: int) -> Schema:
    number: Json = {"type": "number"}
    return {"type": "array", "items": number, "minItems": min(lengths), "maxItems": max(lengths)}


speed_m_s = quantity(
    units.parse_speed, '"1.5m/s"', "SPEED", quantity_schema(units.SPEED_UNITS, signed=True), _with_unit("m/s")
)
power_dbm = quantity(units.parse_power, '"30dbm"', "POWER", quantity_schema(("dbm",), signed=True), _with_unit("dbm"))
rain_mm_per_h = quantity(
    units.parse_rain, '"25mm/h"', "RAIN", quantity_schema(("mm/h",), signed=True), _with_unit("mm/h")
)
level_db = quantity(units.parse_gain, '"-8db"', "RATIO", _RATIO_SCHEMA, _with_unit("db"))
angle_deg = quantity(units.parse_angle, '"65deg"', "ANGLE", quantity_schema(("deg",), signed=True), _with_unit("deg"))
_hertz = quantity(units.parse_frequency, '"28ghz"', "FREQUENCY", _FREQUENCY_SCHEMA, units.format_frequency)


@reader("TEXT", {"type": "string", "minLength": 1, "maxLength": 400})
def title(value: object) -> str:
    """Read text of at most 400 characters on one line."""
    read = text(value)
    if len(read) > 400:
        raise Problem(f"has {len(read)} characters: write at most 400")
    return read


@reader("[TEXT, …]", {"type": "array", "items": {"type": "string", "minLength": 1}})
def texts(value: object) -> tuple[str, ...]:
    """Read an array of texts."""
    return tuple(title(entry) for entry in _array(value, 'text such as ["cell-load: …"]'))


@reader("FREQUENCY", _FREQUENCY_SCHEMA, lambda frequency_hz: units.format_frequency(round(frequency_hz)))
def frequency_hz(value: object) -> float:
    """Read a frequency or bandwidth above zero."""
    read = _hertz(value)
    if read == 0:
        raise Problem(f"{value!r} is nothing: write more than 0hz")
    return float(read)


@reader("RATE", RATE_SCHEMA, lambda rate_bps: units.format_rate(round(rate_bps)))
def rate_bps(value: object) -> float:
    """Read a rate above zero."""
    read = _rate_bps(value)
    if read == 0:
        raise Problem(f"{value!r} is nothing: write more than 0bit")
    return float(read)


@reader("RATIO", quantity_schema(("db",)), _with_unit("db"))
def gain_db(value: object) -> float:
    """Read a loss or a noise figure, which is not negative."""
    read = level_db(value)
    if read < 0:
        raise Problem(f"{value!r} is negative: write 0db or more")
    return read


def _coordinate(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Problem(f"{described(value)} is not a number of metres: write a bare number such as 1.5")
    if not math.isfinite(value):
        raise Problem(f"{value} is not a place: write a number of metres")
    if abs(value) > MAX_COORDINATE_M:
        raise Problem(f"{value:g} is too far: write metres from -{MAX_COORDINATE_M:.0f} to {MAX_COORDINATE_M:.0f}")
    return float(value)


@reader("METRES", {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_COORDINATE_M})
def metres(value: object) -> float:
    """Read a size: a bare number of metres above zero."""
    size = _coordinate(value)
    if size <= 0:
        raise Problem(f"{size:g} is no size: write metres above 0")
    return size


def metres_within(least_m: float, most_m: float) -> Reader[float]:
    """Make a reader of sizes within bounds: a bare number of metres."""

    def read(value: object) -> float:
        size = _coordinate(value)
        if not least_m <= size <= most_m:
            raise Problem(f"{size:g} is out of range: write metres from {least_m:g} to {most_m:g}")
        return size

    return Reader(read, "METRES", {"type": "number", "minimum": least_m, "maximum": most_m})


@reader("METRES", {"type": "number", "minimum": 0, "maximum": MAX_COORDINATE_M})
def above_ground_m(value: object) -> float:
    """Read a height above the ground, which may be zero."""
    height = _coordinate(value)
    if height < 0:
        raise Problem(f"{height:g} is below the ground: write metres from 0 up")
    return height


def vector(*lengths: int) -> Reader[tuple[float, ...]]:
    """Make a reader of places with one of these numbers of coordinates."""
    form = " or ".join("[x, y, z]" if length == 3 else "[x, y]" for length in lengths)

    def read(value: object) -> tuple[float, ...]:
        if not isinstance(value, list) or len(value) not in lengths:
            raise Problem(f"{described(value)} is not a place: write metres as {form}")
        return tuple(at(axis, _coordinate, part) for axis, part in zip("xyz", value, strict=False))

    return Reader(read, form, _numbers(*lengths))


@reader(read_frame.write, read_frame.schema, read_frame.raw)
def frame(value: object) -> str:
    """Read a frame that has slots of both directions: what a special slot adds is too little for a scene's uplink."""
    slots = read_frame(value)
    for letter, direction in (("D", "downlink"), ("U", "uplink")):
        if slots and letter not in slots:
            raise Problem(f"{slots!r} has no {direction}: add a slot {letter!r}, as in DDDSU")
    return slots


def _array(value: object, example: str) -> list[object]:
    if not isinstance(value, list):
        raise Problem(f"{described(value)} is not an array: write {example}")
    if len(value) > MAX_ENTRIES:
        raise Problem(f"has {len(value)} entries: write at most {MAX_ENTRIES}")
    return value


_TIMES: Schema = {"type": "array", "items": {"type": "array", "items": dict(TIME_SCHEMA), "minItems": 2, "maxItems": 2}}
_STEPS: Schema = {
    "type": "array",
    "items": {"type": "array", "prefixItems": [dict(TIME_SCHEMA), dict(PERCENTAGE_SCHEMA)]},
}


@reader('[["7s", "8s"], …]', _TIMES)
def periods(value: object) -> tuple[tuple[float, float], ...]:
    """Read times of presence: pairs of times, in order, that do not overlap."""
    example = 'pairs of times such as [["7s", "8s"]]'
    read: list[tuple[float, float]] = []
    for index, pair in enumerate(_array(value, example)):
        key = str(index)
        if not isinstance(pair, list) or len(pair) != 2:
            raise Problem(f"{described(pair)} is not a pair: write {example}", key)
        start_s, end_s = (at(key, seconds(), time) for time in pair)
        if end_s <= start_s:
            raise Problem(f"ends at {end_s:g} s, not after {start_s:g} s: write the earlier time first", key)
        if read and start_s < read[-1][1]:
            raise Problem(f"begins at {start_s:g} s, before the one above ends: write them in order, or as one", key)
        read.append((start_s, end_s))
    if not read:
        raise Problem(f"is empty: write {example}, or leave the key out for something that is always there")
    return tuple(read)


MOST_LENGTHS = 101
_LENGTHS: Schema = {
    "anyOf": [
        dict(TIME_SCHEMA),
        {"type": "array", "items": dict(TIME_SCHEMA), "minItems": 2, "maxItems": MOST_LENGTHS},
    ]
}


def _write_lengths(lengths_s: tuple[float, ...]) -> Json:
    written: list[Json] = [time_text(each) for each in lengths_s]
    return written[0] if len(written) == 1 else written


@reader('TIME or ["40ms", "90ms", …]', _LENGTHS, _write_lengths)
def lengths(value: object) -> tuple[float, ...]:
    """Read one length of time, or lengths at equal steps of probability, from the least to the greatest, seconds."""
    if not isinstance(value, list):
        return (seconds()(value),)
    if not 2 <= len(value) <= MOST_LENGTHS:
        raise Problem(f"has {len(value)} entries: write one time, or 2 to {MOST_LENGTHS} in an array")
    read = tuple(at(str(index), seconds(), each) for index, each in enumerate(value))
    if list(read) != sorted(read):
        raise Problem("is not in order: write the least time first, at equal steps of probability")
    return read


_PROCESS: Schema = {
    "type": "object",
    "properties": {"mean": dict(PERCENTAGE_SCHEMA), "time-constant": dict(TIME_SCHEMA)},
    "required": ["mean", "time-constant"],
    "additionalProperties": False,
}


def _load_process(value: dict[str, object]) -> LoadProcess:
    keys = ("mean", "time-constant")
    for key in value:
        if key not in keys:
            raise unknown_key(key, keys)
    for key, example in zip(keys, ('"40%"', '"5s"'), strict=True):
        if key not in value:
            raise Problem(f"is missing: write {key} = {example}", key)
    mean = at("mean", percentage, value["mean"])
    if mean > MOST_MEAN_LOAD:
        raise Problem(f"{value['mean']!r} is out of range: write at most {MOST_MEAN_LOAD:.0%}", "mean")
    return LoadProcess(mean, at("time-constant", seconds(0.001), value["time-constant"]))


@reader(
    'PERCENT, [["0s", PERCENT], …] or { mean = PERCENT, time-constant = TIME }',
    {"anyOf": [dict(PERCENTAGE_SCHEMA), dict(_STEPS), dict(_PROCESS)]},
    lambda steps: units.format_percentage(steps[0].fraction),
)
def cell_load(value: object) -> tuple[CellLoad, ...] | LoadProcess:
    """Read the load of a cell: one fraction, pairs of time and fraction, or a process."""
    if isinstance(value, str):
        return (CellLoad(0.0, percentage(value)),)
    if isinstance(value, dict):
        return _load_process(value)
    example = (
        '"30%", times and fractions such as [["0s", "30%"], ["10s", "60%"]], or { mean = "30%", time-constant = "5s" }'
    )
    read: list[CellLoad] = []
    for index, pair in enumerate(_array(value, example)):
        key = str(index)
        if not isinstance(pair, list) or len(pair) != 2:
            raise Problem(f"{described(pair)} is not a pair: write {example}", key)
        step = CellLoad(at(key, seconds(), pair[0]), at(key, percentage, pair[1]))
        if read and step.time_s <= read[-1].time_s:
            raise Problem(f"begins at {step.time_s:g} s, not after the one above: write them in order", key)
        read.append(step)
    if not read or read[0].time_s != 0:
        raise Problem(f"has no value from 0s on: write {example}")
    return tuple(read)
