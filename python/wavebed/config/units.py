"""Read and write quantities as users type them: ``10gbit``, ``125us``, ``64kib``, ``1000p``, ``0.01%``.

Every quantity needs its unit; a bare number is refused, since its meaning would be a guess. Numbers are decimal
and exact: a quantity that is not a whole number of its base unit (bit/s, nanosecond, byte) is refused, never
rounded.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, TypeVar

from msgspec import Meta, Struct

from wavebed.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_RATE_BPS = 10**12
MAX_TIME_NS = 10**18
MAX_SIZE_BYTES = 10**15
MAX_PACKETS = 10**12
MAX_FREQUENCY_HZ = 10**12

RATE_UNITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
TIME_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
SIZE_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
PACKET_UNITS = {"p": 1}
FREQUENCY_UNITS = {"hz": 1, "khz": 10**3, "mhz": 10**6, "ghz": 10**9}
SPEED_UNITS = {"m/s": 1.0, "km/h": 1 / 3.6}

_Value = TypeVar("_Value")
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z%/]*)", re.ASCII)
_SIGNED = re.compile(r"([+-]?[0-9]{1,40}(?:\.[0-9]{1,40})?)([A-Za-z/]*)", re.ASCII)


class Limit(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How much a queue may hold; exactly one of the three is set.

    Parameters
    ----------
    bytes, packets, time_ns : int or None
        IP bytes of wire segments, number of them, or nanoseconds of queueing.

    Raises
    ------
    ValueError
        If none or several of them are set.
    """

    bytes: Annotated[int, Meta(ge=1)] | None = None
    packets: Annotated[int, Meta(ge=1)] | None = None
    time_ns: Annotated[int, Meta(ge=1, le=MAX_TIME_NS)] | None = None

    def __post_init__(self) -> None:
        if sum(value is not None for value in (self.bytes, self.packets, self.time_ns)) != 1:
            raise ValueError("a limit is in bytes, packets or time_ns: write one of them")


def _ratio(digits: str) -> tuple[int, int]:
    whole, _, fraction = digits.partition(".")
    return int(whole + fraction), 10 ** len(fraction)


def _refused(text: str, rule: str, kind: str, otherwise: str, read: Callable[[str], object]) -> UserError:
    """Return the mistake in a quantity, with what its author probably meant, or with what would be right."""
    from wavebed.config.suggest import quantity_meant  # few commands are mistyped

    return UserError(f"{text!r} {rule}: {quantity_meant(text, kind, otherwise, read)}")


def _parse(text: str, kind: str, units: dict[str, int], examples: str, most: int) -> int:
    def again(other: str) -> int:
        return _parse(other, kind, units, examples, most)

    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise _refused(text, f"is not a {kind}", kind, f"write a decimal number and its unit, as in {examples}", again)
    digits, unit = match.groups()
    if not unit:
        raise _refused(text, "has no unit", kind, f"write a {kind} as in {examples}", again)
    scale = units.get(unit.lower())
    if scale is None:
        raise _refused(text, f"has an unknown unit {unit!r}", kind, f"a {kind} is in {', '.join(units)}", again)
    if len(digits) > 40:
        raise UserError(f"{text[:20]!r}… has too many digits: write a {kind} as in {examples}")
    numerator, denominator = _ratio(digits)
    value, rest = divmod(numerator * scale, denominator)
    base = next(iter(units))
    if rest:
        raise UserError(f"{text!r} is finer than 1 {base}: use fewer digits after the point")
    if value > most:
        raise UserError(f"{text!r} is too large: a {kind} is at most {most} {base}")
    return value


def parse_rate(text: str) -> int:
    """Read a rate such as ``10gbit`` as bits of IP packets per second (powers of 1000).

    Raises
    ------
    UserError
        If the unit is missing or unknown, or the value is not a whole number up to 10¹² bit/s.
    """
    return _parse(text, "rate", RATE_UNITS, "10gbit, 2.5gbit, 54mbit", MAX_RATE_BPS)


def parse_time(text: str) -> int:
    """Read a time such as ``125us`` as nanoseconds, up to 10⁹ s.

    Raises
    ------
    UserError
        If the unit is missing or unknown, or the value is not a whole number of nanoseconds.
    """
    return _parse(text, "time", TIME_UNITS, "10ms, 125us, 2s", MAX_TIME_NS)


def parse_size(text: str) -> int:
    """Read a size such as ``64kb`` (1000) or ``64kib`` (1024) as bytes.

    Raises
    ------
    UserError
        If the unit is missing or unknown, or the value is not a whole number of bytes.
    """
    return _parse(text, "size", SIZE_UNITS, "1500b, 64kb, 64kib, 1mb", MAX_SIZE_BYTES)


def parse_limit(text: str) -> Limit:
    """Read a queue limit in bytes (``1mb``), packets (``1000p``) or time (``20ms``).

    Raises
    ------
    UserError
        If the text is none of the three.
    """
    examples = "1mb, 1000p, 20ms"
    match = _QUANTITY.fullmatch(text.strip())
    unit = match.group(2).lower() if match else ""
    if unit in PACKET_UNITS:
        return Limit(packets=_parse(text, "number of packets", PACKET_UNITS, "1000p", MAX_PACKETS))
    if unit in TIME_UNITS:
        return Limit(time_ns=_parse(text, "limit", TIME_UNITS, examples, MAX_TIME_NS))
    if unit in SIZE_UNITS:
        return Limit(bytes=_parse(text, "limit", SIZE_UNITS, examples, MAX_SIZE_BYTES))
    every = SIZE_UNITS | PACKET_UNITS | TIME_UNITS
    return Limit(bytes=_parse(text, "limit", every, examples, MAX_SIZE_BYTES))


def parse_percentage(text: str) -> float:
    """Read a percentage such as ``0.01%`` as a number from 0 to 1.

    Raises
    ------
    UserError
        If the percent sign is missing or the value is beyond 100 %.
    """
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match.group(2) not in {"", "%"}:
        otherwise = "write a decimal number and the percent sign, as in 0.01%"
        raise _refused(text, "is not a percentage", "percentage", otherwise, parse_percentage)
    if match.group(2) == "":
        otherwise = "write a percentage as in 0.01% (1% is one in a hundred)"
        raise _refused(text, "has no percent sign", "percentage", otherwise, parse_percentage)
    if len(match.group(1)) > 400:
        raise UserError(f"{text[:20]!r}… has too many digits: write a percentage as in 0.01%")
    numerator, denominator = _ratio(match.group(1))
    if numerator > 100 * denominator:
        raise UserError(f"{text!r} is more than 100%: a percentage is from 0% to 100%")
    return numerator / (100 * denominator)


def parse_frequency(text: str) -> int:
    """Read a frequency or a bandwidth such as ``28ghz`` as hertz, up to 10¹².

    Raises
    ------
    UserError
        If the unit is missing or unknown, or the value is not a whole number of hertz.
    """
    return _parse(text, "frequency", FREQUENCY_UNITS, "28ghz, 3.5ghz, 400mhz", MAX_FREQUENCY_HZ)


def _parse_physical(text: str, kind: str, units: dict[str, float], examples: str, least: float, most: float) -> float:
    def again(other: str) -> float:
        return _parse_physical(other, kind, units, examples, least, most)

    match = _SIGNED.fullmatch(text.strip())
    if match is None:
        raise _refused(text, f"is not {kind}", kind, f"write a decimal number and its unit, as in {examples}", again)
    digits, unit = match.groups()
    if not unit:
        raise _refused(text, "has no unit", kind, f"write {kind} as in {examples}", again)
    if unit.lower() not in units:
        raise _refused(text, f"has an unknown unit {unit!r}", kind, f"{kind} is in {', '.join(units)}", again)
    value = float(digits) * units[unit.lower()]
    if not least <= value <= most:
        raise UserError(f"{text!r} is out of range: {kind} is from {least:g} to {most:g} {next(iter(units))}")
    return value


def parse_power(text: str) -> float:
    """Read a power such as ``30dbm`` or ``-10dbm``, from -100 to 100 dBm.

    Raises
    ------
    UserError
        If the unit is missing or unknown, or the value is out of range.
    """
    return _parse_physical(text, "a power", {"dbm": 1.0}, "30dbm, -10dbm", -100.0, 100.0)


def parse_gain(text: str) -> float:
    """Read a gain, a loss or a ratio such as ``5db`` or ``-8db``, from -300 to 300 dB.

    Raises
    ------
    UserError
        If the unit is missing or unknown, or the value is out of range.
    """
    return _parse_physical(text, "a ratio", {"db": 1.0}, "5db, -8db", -300.0, 300.0)


def parse_speed(text: str) -> float:
    """Read a speed such as ``1.5m/s`` or ``30km/h`` as metres per second, up to 1000 m/s.

    Raises
    ------
    UserError
        If the unit is missing or unknown, or the value is out of range.
    """
    return _parse_physical(text, "a speed", SPEED_UNITS, "1.5m/s, 30km/h", 0.0, 1000.0)


def parse_rain(text: str) -> float:
    """Read a rain rate such as ``25mm/h``, up to 300 mm/h.

    Raises
    ------
    UserError
        If the unit is missing or unknown, or the value is out of range.
    """
    return _parse_physical(text, "a rain rate", {"mm/h": 1.0}, "25mm/h", 0.0, 300.0)


def parse_angle(text: str) -> float:
    """Read an angle such as ``65deg`` or ``-90deg``, from -360 to 360 degrees.

    Raises
    ------
    UserError
        If the unit is missing or unknown, or the value is out of range.
    """
    return _parse_physical(text, "an angle", {"deg": 1.0}, "65deg, -90deg", -360.0, 360.0)


def argument(parse: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """Make a parser fit for argparse's ``type=``, so that its error names the option.

    Parameters
    ----------
    parse : callable
        One of the ``parse_…`` functions.
    """

    def convert(text: str) -> _Value:
        from argparse import ArgumentTypeError

        try:
            return parse(text)
        except UserError as error:
            raise ArgumentTypeError(str(error)) from None

    return convert


def _format(value: int, units: dict[str, int]) -> str:
    unit, scale = max(
        ((name, scale) for name, scale in units.items() if scale == 1 or value >= scale), key=lambda item: item[1]
    )
    whole, rest = divmod(value, scale)
    if not rest:
        return f"{whole}{unit}"
    digits = len(str(scale)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0") + unit


def format_rate(rate_bps: int) -> str:
    """Write bits per second so that `parse_rate` reads the same number back."""
    return _format(rate_bps, RATE_UNITS)


def format_time(time_ns: int) -> str:
    """Write nanoseconds so that `parse_time` reads the same number back."""
    return _format(time_ns, TIME_UNITS) if time_ns else "0s"


def format_size(size_bytes: int) -> str:
    """Write bytes so that `parse_size` reads the same number back, in MiB where they are whole."""
    if size_bytes and size_bytes % 2**20 == 0:
        return f"{size_bytes >> 20}mib"
    return _format(size_bytes, {name: SIZE_UNITS[name] for name in ("b", "kb", "mb", "gb")})


def format_frequency(frequency_hz: int) -> str:
    """Write hertz so that `parse_frequency` reads the same number back."""
    return _format(frequency_hz, FREQUENCY_UNITS)


def format_percentage(fraction: float) -> str:
    """Write a fraction from 0 to 1 in percent so that `parse_percentage` reads the same number back."""
    from decimal import Decimal

    text = format(Decimal(repr(float(fraction))) * 100, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) + "%"


def format_limit(limit: Limit) -> str:
    """Write a queue limit so that `parse_limit` reads the same one back."""
    if limit.packets is not None:
        return f"{limit.packets}p"
    if limit.time_ns is not None:
        return format_time(limit.time_ns)
    assert limit.bytes is not None, "a limit has one member"
    return format_size(limit.bytes)
