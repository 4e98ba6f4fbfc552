"""What a mistyped word or quantity probably means: the nearest name, or the same amount in a unit that is known.

Only error messages need it; modules import it there.
"""

from __future__ import annotations

import difflib
import re
from fractions import Fraction
from typing import TYPE_CHECKING

from wavebed.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

LEAST_SIMILARITY = 0.6

_AMOUNT = re.compile(r"\s*([+-]?[0-9]{1,40}(?:[.,][0-9]{1,40})?)\s*([^\s0-9].*?)?\s*")
_RATE = re.compile(r"([kmg]?)(i?)(b|bit|bits|byte|bytes|)(?:ps|/s|/sec|/second| per second|)", re.IGNORECASE)
_SIZE = re.compile(r"([kmg]?)(i?)(?:b|byte|bytes|)", re.IGNORECASE)
_FREQUENCY = re.compile(r"([kmg]?)(?:hz|hertz|)", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3}
_TIMES = {
    "ns": ("ns", "nsec", "nsecs", "nanosecond", "nanoseconds"),
    "us": ("us", "µs", "μs", "usec", "usecs", "microsecond", "microseconds"),
    "ms": ("ms", "msec", "msecs", "milli", "millis", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
}
_LONG_TIMES = {60: ("m", "min", "mins", "minute", "minutes"), 3600: ("h", "hr", "hour", "hours")}
_PHYSICAL = {
    "m/s": ("m/s", "mps", "m s-1"),
    "km/h": ("km/h", "kmh", "kph", "kmph"),
    "dbm": ("dbm",),
    "db": ("db", "dbi"),
    "mm/h": ("mm/h", "mmh", "mm/hour"),
    "deg": ("deg", "°", "degree", "degrees"),
}


def nearest(word: str, known: Iterable[str], least: float = LEAST_SIMILARITY) -> str | None:
    """Return the known word that is most like one that was typed; ``None`` if none is.

    Case does not count, nor do ``_`` and blanks for ``-``. A beginning of one known word alone stands for it.
    """
    by_form = {_form(each): each for each in known}
    form = _form(word)
    near = difflib.get_close_matches(form, by_form, 1, least)
    if near:
        return by_form[near[0]]
    longer = [each for each in by_form if least <= LEAST_SIMILARITY and len(form) > 1 and each.startswith(form)]
    return by_form[longer[0]] if len(longer) == 1 else None


def _form(word: str) -> str:
    return word.casefold().replace("_", "-").replace(" ", "-")


def meant(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return ``did you mean 'NEAREST'?``, or what a message says instead if no known word is near."""
    near = nearest(word, known)
    return otherwise if near is None else f"did you mean {near!r}?"


def quantities(text: str, kind: str, read: Callable[[str], object]) -> list[str]:
    """Return the amounts that a text may mean, the likeliest first.

    Parameters
    ----------
    kind : str
        ``rate``, ``time``, ``size``, ``limit``, ``number of packets``, ``frequency``, ``percentage``, ``a power``,
        ``a ratio``, ``a speed``, ``a rain rate`` or ``an angle``.
    read : callable
        The reader of this kind: an amount that it refuses is left out.
    """
    match = _AMOUNT.fullmatch(text)
    if match is None or kind not in _KINDS:
        return []
    number, unit = match[1].replace(",", "."), match[2] or ""
    possible = [each for each in dict.fromkeys(_KINDS[kind](number, unit)) if each != text.strip()]
    return [each for each in possible if _is_read(read, each)]


def quantity_meant(text: str, kind: str, otherwise: str, read: Callable[[str], object]) -> str:
    """Return ``did you mean 'AMOUNT'?``, or what a message says instead if the text means none."""
    found = quantities(text, kind, read)
    return f"did you mean {' or '.join(repr(each) for each in found)}?" if found else otherwise


def _is_read(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except UserError:
        return False
    return True


def _scaled(number: str, scale: Fraction | int, names: Mapping[str, int]) -> list[str]:
    """Return an amount of the smallest unit, times `scale`, in the largest unit in which it is 1 or more."""
    value = Fraction(number) * scale
    name, size = max((each for each in names.items() if each[1] == 1 or each[1] <= value), key=lambda each: each[1])
    amount = value / size
    return [f"{float(amount):.15g}{name}"] if value.denominator == 1 else []


def _rates(number: str, unit: str) -> list[str]:
    match = _RATE.fullmatch(unit)
    if match is None:
        return []
    prefix, binary, what = match[1].lower(), bool(match[2]), match[3]
    if not unit:
        return [f"{number}mbit"] if Fraction(number) < 10_000 else [f"{number}bit"]
    is_bytes = what.lower().startswith("byte") or (what == "B" and not unit.isupper()) or unit in ("KB", "MB", "GB")
    if not (is_bytes or binary):
        return [f"{number}{prefix}bit"]
    scale = (1024 if binary else 1000) ** _POWERS[prefix] * (8 if is_bytes else 1)
    return _scaled(number, scale, {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9})


def _times(number: str, unit: str) -> list[str]:
    if not unit:
        return [f"{number}ms", f"{number}s"]
    known = _TIMES | {str(scale): names for scale, names in _LONG_TIMES.items()}
    name = next((each for each, names in known.items() if unit.lower() in names), None)
    if name is None:
        return []
    return _scaled(number, int(name), {"s": 1}) if name.isdecimal() else [f"{number}{name}"]


def _sizes(number: str, unit: str) -> list[str]:
    match = _SIZE.fullmatch(unit)
    return [] if match is None else [f"{number}{match[1].lower()}{match[2].lower()}b"]


def _packets(number: str, unit: str) -> list[str]:
    return [f"{number}p"] if unit.lower() in ("", "p", "pkt", "pkts", "packet", "packets") else []


def _limits(number: str, unit: str) -> list[str]:
    found = _packets(number, unit)
    if not unit:
        return found
    times = [] if unit.lower() in ("m", "h") else _times(number, unit)  # a queue of 1M is no queue of a minute
    return [*found, *times, *_sizes(number, unit)]


def _frequencies(number: str, unit: str) -> list[str]:
    match = _FREQUENCY.fullmatch(unit)
    if match is None:
        return []
    return [f"{number}ghz", f"{number}mhz"] if not unit else [f"{number}{match[1].lower()}hz"]


def _percentages(number: str, unit: str) -> list[str]:
    if unit.lower() in ("%", "percent", "pct"):
        return [f"{number}%"]
    if unit:
        return []
    value = Fraction(number)
    hundredfold = format(float(value * 100), ".15g")
    return [f"{number}%", f"{hundredfold}%"] if value < 1 and "e" not in hundredfold else [f"{number}%"]


def _physical(*names: str) -> Callable[[str, str], list[str]]:
    def make(number: str, unit: str) -> list[str]:
        return [f"{number}{name}" for name in names if not unit or unit.lower() in _PHYSICAL[name]]

    return make


_KINDS: Mapping[str, Callable[[str, str], list[str]]] = {
    "rate": _rates,
    "time": _times,
    "size": _sizes,
    "limit": _limits,
    "number of packets": _packets,
    "frequency": _frequencies,
    "percentage": _percentages,
    "a power": _physical("dbm"),
    "a ratio": _physical("db"),
    "a speed": _physical("m/s", "km/h"),
    "a rain rate": _physical("mm/h"),
    "an angle": _physical("deg"),
}
