"""Numbers as text, round values for axes, and the words between which a name may break."""

from __future__ import annotations

import math
import re

MISSING = "–"
_THIN = "\N{NARROW NO-BREAK SPACE}"
_DIGITS = 3
_INITIALS = ("rtt", "udp", "tcp", "rpm", "mos")
_MOST_PLACES = 12
LONGEST_WORD = 16
"""Characters of a word that a column makes room for; a longer one is broken."""
_WORD = re.compile(r".*?(?:[-_/:,=+ ]+|\.(?=[^\W\d])|$)", re.DOTALL)


def figure(value: float | None) -> str:
    """Return a value with three significant digits and no exponent; numbers from 1000 on in full.

    Parameters
    ----------
    value : float or None
        ``None``, NaN and infinities become a dash.
    """
    if value is None or not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    rounded = float(f"{value:.{_DIGITS}g}")
    places = max(0, _DIGITS - 1 - math.floor(math.log10(abs(rounded))))
    if places == 0:
        rounded = float(round(value))
    if abs(rounded) >= 10_000:
        text = f"{rounded:,.0f}".replace(",", _THIN)
    elif value == int(value) and abs(value) < 10_000:
        text = f"{value:.0f}"
    else:
        text = f"{rounded:.{min(places, _MOST_PLACES)}f}"
    return text.replace("-", "−")


def readable(unit: str, most: float) -> tuple[str, float]:
    """Return the unit for values of up to `most`, and what to divide them by: kB or MB instead of many bytes."""
    if unit == "bytes" and most >= 1e6:
        return "MB", 1e6
    return ("kB", 1e3) if unit == "bytes" and most >= 1e4 else (unit, 1.0)


def amount(value: float | None, unit: str, *, sign: bool = False) -> str:
    """Return a value with its unit, many bytes in kB or MB; the space between them does not break."""
    unit, factor = readable(unit, abs(value or 0.0))
    text = (signed if sign else figure)(None if value is None else value / factor)
    return f"{text}\N{NO-BREAK SPACE}{unit}" if unit else text


def capital(name: str) -> str:
    """Return a name as the beginning of a line: ``Download time``, ``RTT loaded p95``."""
    first, space, rest = name.partition(" ")
    return f"{first.upper() if first in _INITIALS else first[:1].upper() + first[1:]}{space}{rest}"


def signed(value: float | None) -> str:
    """Return a difference with its sign."""
    text = figure(value)
    return f"+{text}" if value is not None and math.isfinite(value) and value > 0 else text


def nice_step(width: float, about: int) -> float:
    """Return 1, 2, 2.5 or 5 times a power of ten, near `width` / `about`."""
    raw = width / about
    power = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)


def nice_ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Return round values from at most `low` to at least `high`."""
    if high <= low:
        high = low + 1
    step = nice_step(high - low, about)
    return [index * step for index in range(math.floor(low / step), math.ceil(high / step - 1e-9) + 1)]


def ticks_between(low: float, high: float, about: int = 8) -> list[float]:
    """Return round values from `low` to `high`."""
    step = nice_step(high - low, about)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, 9) for index in range(first, last + 1)]


def tick_text(value: float) -> str:
    """Return a round value beside an axis, in full."""
    return figure(value) if abs(value) >= 10_000 else f"{value:.6g}".replace("-", "−")


def words(name: str) -> list[str]:
    """Return the parts of a name between which it may break; together they are the name."""
    return [word for word in _WORD.findall(name) if word]


def longest_word(name: str) -> int:
    """Return the number of characters of the longest part that must stay together, at most `LONGEST_WORD`."""
    return min(LONGEST_WORD, max(map(len, words(name)), default=0))
