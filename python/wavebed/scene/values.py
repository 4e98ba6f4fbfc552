"""Read one value of a scene: what TOML gave in; metres, seconds, hertz, decibels or a type of `model` out.

Every function raises `Problem` with the rule and the remedy.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from wavebed.config.problems import Problem, at, described
from wavebed.config.units import parse_angle, parse_frequency, parse_gain, parse_power, parse_rate, parse_speed
from wavebed.config.values import boolean, name, number, quantity, share, size_bytes, text, time_ns, word
from wavebed.scene.model import Share

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "MAX_COORDINATE_M",
    "above_ground_m",
    "angle_deg",
    "boolean",
    "frame",
    "frequency_hz",
    "gain_db",
    "level_db",
    "metres",
    "name",
    "number",
    "others",
    "periods",
    "power_dbm",
    "rate_bps",
    "seconds",
    "share",
    "size_bytes",
    "speed_m_s",
    "symbols",
    "text",
    "texts",
    "title",
    "vector",
    "word",
]

MAX_COORDINATE_M = 100_000.0
MAX_ENTRIES = 1000
_SLOTS_OF_A_FRAME = 160  # 20 ms, the longest TDD period of TS 38.213 11.1 with both patterns, at 120 kHz

speed_m_s = quantity(parse_speed, '"1.5m/s"')
power_dbm = quantity(parse_power, '"30dbm"')
level_db = quantity(parse_gain, '"-8db"')
angle_deg = quantity(parse_angle, '"65deg"')
_hertz = quantity(parse_frequency, '"28ghz"')
_bits = quantity(parse_rate, '"100mbit"')


def title(value: object) -> str:
    """Read text of at most 400 characters on one line."""
    read = text(value)
    if len(read) > 400:
        raise Problem(f"has {len(read)} characters: write at most 400")
    return read


def texts(value: object) -> tuple[str, ...]:
    """Read an array of texts."""
    return tuple(title(entry) for entry in _array(value, 'text such as ["others: …"]'))


def frequency_hz(value: object) -> float:
    """Read a frequency or bandwidth above zero."""
    read = _hertz(value)
    if read == 0:
        raise Problem(f"{value!r} is nothing: write more than 0hz")
    return float(read)


def rate_bps(value: object) -> float:
    """Read a rate above zero."""
    read = _bits(value)
    if read == 0:
        raise Problem(f"{value!r} is nothing: write more than 0bit")
    return float(read)


def gain_db(value: object) -> float:
    """Read a loss or a noise figure, which is not negative."""
    read = level_db(value)
    if read < 0:
        raise Problem(f"{value!r} is negative: write 0db or more")
    return read


def seconds(least_s: float = 0.0) -> Callable[[object], float]:
    """Make a reader of times of at least `least_s`."""

    def read(value: object) -> float:
        time_s = time_ns(value) / 1e9
        if time_s < least_s:
            raise Problem(f"{value!r} is too short: write at least {least_s * 1000:g}ms")
        return time_s

    return read


def _coordinate(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Problem(f"{described(value)} is not a number of metres: write a bare number such as 1.5")
    if not math.isfinite(value):
        raise Problem(f"{value} is not a place: write a number of metres")
    if abs(value) > MAX_COORDINATE_M:
        raise Problem(f"{value:g} is too far: write metres from -{MAX_COORDINATE_M:.0f} to {MAX_COORDINATE_M:.0f}")
    return float(value)


def metres(value: object) -> float:
    """Read a size: a bare number of metres above zero."""
    size = _coordinate(value)
    if size <= 0:
        raise Problem(f"{size:g} is no size: write metres above 0")
    return size


def above_ground_m(value: object) -> float:
    """Read a height above the ground, which may be zero."""
    height = _coordinate(value)
    if height < 0:
        raise Problem(f"{height:g} is below the ground: write metres from 0 up")
    return height


def vector(*lengths: int) -> Callable[[object], tuple[float, ...]]:
    """Make a reader of places with one of these numbers of coordinates."""
    form = " or ".join("[x, y, z]" if length == 3 else "[x, y]" for length in lengths)

    def read(value: object) -> tuple[float, ...]:
        if not isinstance(value, list) or len(value) not in lengths:
            raise Problem(f"{described(value)} is not a place: write metres as {form}")
        return tuple(at(axis, _coordinate, part) for axis, part in zip("xyz", value, strict=False))

    return read


def frame(value: object) -> str:
    """Read ``fdd`` (an empty frame) or the slots of a TDD period."""
    if value == "fdd":
        return ""
    if not isinstance(value, str) or not re.fullmatch(r"[DSU]+", value, re.ASCII):
        raise Problem(f"{described(value)} is not a frame: write the slots of a period as D, S and U, or fdd")
    if len(value) > _SLOTS_OF_A_FRAME:
        raise Problem(f"has {len(value)} slots: write at most {_SLOTS_OF_A_FRAME}")
    for letter, direction in (("D", "downlink"), ("U", "uplink")):
        if letter not in value:
            raise Problem(f"{value!r} has no {direction}: add a slot {letter!r}, as in DDDSU")
    return value


def symbols(value: object) -> tuple[int, int, int]:
    """Read the downlink, guard and uplink symbols of a special slot."""
    form = "write downlink, guard and uplink symbols that sum to 14, as in [10, 2, 2]"
    if not isinstance(value, list) or len(value) != 3:
        raise Problem(f"{described(value)} is not three numbers: {form}")
    down, guard, up = (at(str(index), number(0, 14), count) for index, count in enumerate(value))
    if down + guard + up != 14:
        raise Problem(f"{value} sums to {down + guard + up}: {form}")
    return down, guard, up


def _array(value: object, example: str) -> list[object]:
    if not isinstance(value, list):
        raise Problem(f"{described(value)} is not an array: write {example}")
    if len(value) > MAX_ENTRIES:
        raise Problem(f"has {len(value)} entries: write at most {MAX_ENTRIES}")
    return value


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


def others(value: object) -> tuple[Share, ...]:
    """Read what others use of a cell: one share, or pairs of time and share."""
    if isinstance(value, str):
        return (Share(0.0, share(value)),)
    example = '"30%", or times and shares such as [["0s", "30%"], ["10s", "60%"]]'
    read: list[Share] = []
    for index, pair in enumerate(_array(value, example)):
        key = str(index)
        if not isinstance(pair, list) or len(pair) != 2:
            raise Problem(f"{described(pair)} is not a pair: write {example}", key)
        step = Share(at(key, seconds(), pair[0]), at(key, share, pair[1]))
        if read and step.time_s <= read[-1].time_s:
            raise Problem(f"begins at {step.time_s:g} s, not after the one above: write them in order", key)
        read.append(step)
    if not read or read[0].time_s != 0:
        raise Problem(f"does not say what holds from 0s on: write {example}")
    return tuple(read)
