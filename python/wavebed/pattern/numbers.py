"""Exact columns of numbers: decimal text to scaled integers and back.

Many values are checked at once; only when something is wrong is the first bad value looked for. That keeps a
million rows within seconds and every message exact.
"""

from __future__ import annotations

import re
from decimal import Decimal
from operator import methodcaller
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from wavebed.errors import UserError
from wavebed.pattern.source import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from wavebed.pattern.source import Source

    LineOf = Callable[[int], int]

_Scalar = TypeVar("_Scalar", bound=np.generic)

__all__ = [
    "Rows",
    "decimals",
    "format_probability",
    "format_scaled",
    "integers",
    "measured",
    "probabilities",
    "split_columns",
    "words",
]

_DECIMAL = re.compile(r"[0-9]+(?:\.[0-9]+)?", re.ASCII)
_SIGNED_DECIMAL = re.compile(rf"-?{_DECIMAL.pattern}", re.ASCII)
_MEASURED = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_MAX_DIGITS = 40
#: Powers of ten beyond which no column reaches; an integer of such a number would fill the memory.
_MAX_EXPONENT = 40
_EXACT_BELOW = 1e14


def _too_large(source: Source, line: int, text: str, what: str, most: str) -> Exception:
    return source.error(f"{what} {quote(text)} is too large; the most is {most}", line)


def integers(
    source: Source, texts: Sequence[str], line_of: LineOf, what: str, *, most: int, signed: bool = False
) -> NDArray[np.int64]:
    """Read whole numbers from 0 (or, if signed, from ``-most``) to ``most``."""
    joined = "".join(texts)
    plain = joined.isascii() and joined.isdigit() and "" not in texts
    if not plain:
        pattern = re.compile(r"-?[0-9]+" if signed else r"[0-9]+", re.ASCII)
        for position, text in enumerate(texts):
            if pattern.fullmatch(text) is None:
                fault = f"{quote(text)} is not a whole number" if text else "is missing"
                raise source.error(f"{what} {fault}; write digits only", line_of(position))
    if texts and max(map(len, texts)) <= 18:
        values = np.array(list(map(int, texts)), dtype=np.int64)
        if (np.abs(values) <= most).all():
            return values
    for position, text in enumerate(texts):
        if len(text) > _MAX_DIGITS or int(text) > most:
            raise _too_large(source, line_of(position), text, what, str(most))
        if int(text) < -most:
            raise source.error(f"{what} {quote(text)} is too small; the least is -{most}", line_of(position))
    return np.array(list(map(int, texts)), dtype=np.int64)


def decimals(
    source: Source, texts: Sequence[str], line_of: LineOf, what: str, *, digits: int, most: int, signed: bool = False
) -> NDArray[np.int64]:
    """Read plain decimals exactly, scaled by 10**digits; more digits after the point are refused.

    Parameters
    ----------
    most : int
        The largest scaled value.
    signed : bool
        Values may have a minus sign, and the least is ``-most``.
    """
    quick = _quick_decimals(texts, digits, signed=signed)
    if quick is not None and int(np.abs(quick).max()) <= most:
        return quick
    scale = 10**digits
    zeros = "0" * digits
    values: list[int] = []
    for position, text in enumerate(texts):
        minus = signed and text.startswith("-")
        whole, point, fraction = text[minus:].partition(".")
        good = whole.isdigit() and len(fraction) <= digits and (fraction.isdigit() or not point) and text.isascii()
        if not good:
            raise _decimal_error(source, line_of(position), text, what, digits, signed=signed)
        value = int(whole + (fraction + zeros)[:digits]) if len(whole) <= _MAX_DIGITS else most + 1
        if value > most:
            bound = str(Decimal(most) / scale)
            if minus:
                raise source.error(f"{what} {quote(text)} is too small; the least is -{bound}", line_of(position))
            raise _too_large(source, line_of(position), text, what, bound)
        values.append(-value if minus else value)
    return np.array(values, dtype=np.int64)


def _quick_decimals(texts: Sequence[str], digits: int, *, signed: bool) -> NDArray[np.int64] | None:
    """Read well-formed decimals that are small enough for binary arithmetic to be exact, else return None.

    Below 10¹⁴ the scaled value is off by less than 0.03 before it is rounded: half a unit in the last place of the
    parsed number, and as much from the product.
    """
    if not texts or not _all_match(texts, rf"{'-?' if signed else ''}[0-9]+(?:\.[0-9]{{1,{digits}}})?"):
        return None
    values = np.array(list(map(float, texts)), dtype=np.float64)
    scaled = values * 10.0**digits
    return np.rint(scaled).astype(np.int64) if float(np.abs(scaled).max()) < _EXACT_BELOW else None


def _all_match(texts: Sequence[str], pattern: str) -> bool:
    """Tell in one pass whether each text matches; none holds an end of line."""
    return re.fullmatch(rf"(?:{pattern}\n)*+", "\n".join(texts) + "\n", re.ASCII) is not None


class Rows(Generic[_Scalar]):
    """A column that comes part by part.

    All its memory is taken at once, for parts that are put together in the end would stand there twice. What is not
    filled costs nothing: the kernel gives memory when it is written.

    Parameters
    ----------
    most : int
        How many rows there can be.
    """

    def __init__(self, most: int, kind: type[_Scalar]) -> None:
        self._values: NDArray[_Scalar] = np.empty(most, dtype=kind)
        self._count = 0

    def __len__(self) -> int:
        """Return how many rows have come."""
        return self._count

    def add(self, values: NDArray[_Scalar]) -> None:
        """Append some rows."""
        end = self._count + len(values)
        if end > len(self._values):
            raise UserError("the file was changed while it was read; try again")
        self._values[self._count : end] = values
        self._count = end

    def replace(self, values: NDArray[_Scalar]) -> None:
        """Put other rows, at most as many, in place of all."""
        self._values[: len(values)] = values
        self._count = len(values)

    def whole(self) -> NDArray[_Scalar]:
        """Return all rows."""
        return self._values[: self._count]


def split_columns(lines: Sequence[str], width: int) -> list[list[str]] | int:
    """Split lines at commas into columns; the position of the first line of another width if there is one."""
    counts = list(map(methodcaller("count", ","), lines))
    if counts.count(width - 1) != len(lines):
        return next(position for position, count in enumerate(counts) if count != width - 1)
    flat = ",".join(lines).split(",")
    return [flat[column::width] for column in range(width)]


def _decimal_error(source: Source, line: int, text: str, what: str, digits: int, *, signed: bool) -> Exception:
    if not text:
        return source.error(f"{what} is missing; write a decimal number", line)
    if (_SIGNED_DECIMAL if signed else _DECIMAL).fullmatch(text):
        return source.error(f"{what} {quote(text)} has more than {digits} digits after the point; round it", line)
    refused = "plus sign, exponent" if signed else "sign, exponent"
    return source.error(
        f"{what} {quote(text)} is not a plain decimal number; write digits and at most one point, "
        f"no {refused} or space",
        line,
    )


LEAVE_OUT = "write a decimal number, or leave the row out"


def measured(
    source: Source,
    texts: Sequence[str],
    line_of: LineOf,
    what: str,
    *,
    scale: int,
    most: int,
    shift: int = 0,
    remedy: str = LEAVE_OUT,
) -> NDArray[np.int64]:
    """Read numbers as other programs print them (also with an exponent), scaled and rounded to the nearest.

    Parameters
    ----------
    scale : int
        Base units per unit of the column.
    most : int
        The largest result, in base units.
    shift : int
        Base units that are taken off each value before ``most`` is applied, for time stamps since an epoch.
    remedy : str
        What to do about a value that is no number, or is negative.
    """
    values: list[int] = []
    for position, text in enumerate(texts):
        if _MEASURED.fullmatch(text) is None or len(text) > _MAX_DIGITS:
            message = f"{what} is missing" if not text else f"{what} {quote(text)} is not a number"
            raise source.error(f"{message}; {remedy}", line_of(position))
        try:
            value = _scaled(text, scale) - shift
        except ArithmeticError:
            raise _too_large(source, line_of(position), text, what, str(Decimal(most) / scale)) from None
        if value < 0:
            fault = "is negative; it must be 0 or more"
            fault += "" if remedy == LEAVE_OUT else f": {remedy}"
            raise source.error(f"{what} {quote(text)} {fault}", line_of(position))
        if value > most:
            raise _too_large(source, line_of(position), text, what, str(Decimal(most) / scale))
        values.append(value)
    return np.array(values, dtype=np.int64)


def _scaled(text: str, scale: int) -> int:
    whole, _, fraction = text.partition(".")
    if whole.isdigit() and (fraction.isdigit() or not fraction):
        denominator: int = 10 ** len(fraction)
        numerator = int(whole + fraction) * scale
        quotient, rest = divmod(numerator, denominator)
        return quotient + (2 * rest > denominator or (2 * rest == denominator and quotient & 1))
    value = Decimal(text)
    if value.adjusted() > _MAX_EXPONENT:
        raise OverflowError(text)
    return round(value * scale)


def first_value(text: str, scale: int) -> int:
    """Read the first of some time stamps for `measured`'s ``shift``; 0 where it is not a number."""
    if _MEASURED.fullmatch(text) is None or len(text) > _MAX_DIGITS:
        return 0
    try:
        return _scaled(text, scale)
    except ArithmeticError:
        return 0


def probabilities(source: Source, texts: Sequence[str], line_of: LineOf, what: str) -> NDArray[np.float64]:
    """Read plain decimals from 0 to 1."""
    plain = _all_match(texts, _DECIMAL.pattern)
    for position, text in enumerate(() if plain else texts):
        if _DECIMAL.fullmatch(text) is None:
            message = f"{what} is missing" if not text else f"{what} {quote(text)} is not a plain decimal number"
            raise source.error(f"{message}; write a probability from 0 to 1, as 0.01", line_of(position))
    values = np.array(list(map(float, texts)), dtype=np.float64)
    bad = np.flatnonzero(values > 1)
    if len(bad):
        position = int(bad[0])
        raise source.error(
            f"{what} {quote(texts[position])} is more than 1; write a probability from 0 to 1", line_of(position)
        )
    return values


def words(source: Source, texts: Sequence[str], line_of: LineOf, what: str, known: Sequence[str]) -> NDArray[np.uint8]:
    """Read words as their places among those that are known."""
    places = {word: place for place, word in enumerate(known)}
    if not places.keys() >= set(texts):
        position = next(position for position, text in enumerate(texts) if text not in places)
        fault = f"{quote(texts[position])} is unknown" if texts[position] else "is missing"
        raise source.error(f"{what} {fault}; write {', '.join(known[:-1])} or {known[-1]}", line_of(position))
    return np.array(list(map(places.__getitem__, texts)), dtype=np.uint8)


def format_scaled(value: int, digits: int) -> str:
    """Write a scaled integer as the shortest decimal: 2100000000 with nine digits is ``2.1``."""
    if value < 0:
        return "-" + format_scaled(-value, digits)
    whole, rest = divmod(value, 10**digits)
    return f"{whole}.{rest:0{digits}d}".rstrip("0") if rest else str(whole)


def format_probability(value: float) -> str:
    """Write a probability as the shortest decimal that reads back the same, without an exponent."""
    text = repr(value)  # the shortest too, in less time
    return np.format_float_positional(value, trim="-") if "e" in text else text.removesuffix(".0")
