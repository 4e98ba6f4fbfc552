"""The text of a trace file, read in blocks, with its name and the means to point at a line of it.

A trace may have ten million lines. No reader has all of them at once as Python strings: that takes ten times the
size of the file.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import re
import zlib
from decimal import Decimal
from functools import cached_property
from operator import methodcaller
from typing import TYPE_CHECKING, BinaryIO, Generic, Self, TypeVar

import numpy as np

from wavebed.errors import UserError
from wavebed.foreign import MAX_BYTES, open_foreign

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    LineOf = Callable[[int], int]

COMMENT = "#"

REMEDY = "name a trace file"
_BLOCK_BYTES = 1 << 20
_HEAD_BYTES = 1 << 16
_HEAD_LINES = 64
_MAX_QUOTED = 40
_GZIP = b"\x1f\x8b"
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_PACKED = {
    b"PK\x03\x04": "a ZIP archive or a spreadsheet: unpack it, or export the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "a spreadsheet: export the sheet as CSV",
    b"\xfd7zXZ": "compressed by xz: unpack it with xz -d",
    b"BZh": "compressed by bzip2: unpack it with bzip2 -d",
    b"\x28\xb5\x2f\xfd": "compressed by zstd: unpack it with zstd -d",
}
"""By the first bytes of the file."""


class TraceSource:
    """A trace file.

    Parameters
    ----------
    name : str
        The name of the file in messages.
    content : str, bytes or binary file
        Its whole content; a file is read from its beginning, as often as needed. Text that is compressed by gzip or
        encoded as UTF-16 (with its byte order mark) is converted to UTF-8 in memory.

    Raises
    ------
    UserError
        If the content is compressed in another way, or is damaged.
    """

    def __init__(self, name: str, content: str | bytes | BinaryIO) -> None:
        self.name = name
        self.notes: list[str] = []
        if isinstance(content, str):
            content = content.encode("utf-8", "surrogatepass")
        self._file = self._as_utf8(io.BytesIO(content) if isinstance(content, bytes) else content)

    @classmethod
    def from_path(cls, path: str | os.PathLike[str]) -> TraceSource:
        """Open a file, to be closed as a context.

        Raises
        ------
        UserError
            If it cannot be read, is not a regular file, or is too large.
        """
        file = io.BufferedReader(open_foreign(path, REMEDY))
        try:
            return cls(os.fspath(path), file)
        except UserError:
            file.close()
            raise

    def __enter__(self) -> Self:
        """Return the source, whose file is closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()

    @cached_property
    def head(self) -> list[str]:
        """The first lines, enough to recognise a format.

        Raises
        ------
        UserError
            If the file begins with something else than text.
        """
        data = self._begin(_HEAD_BYTES + 1)
        whole = data[:_HEAD_BYTES]
        if len(data) > _HEAD_BYTES:
            # The last line may be cut, also within a character.
            whole = whole[: whole.rfind(b"\n") + 1] or _whole_characters(whole)
        lines = self._decoded(whole, 1).split("\n")
        if lines[-1] == "":
            lines.pop()
        return [line.removesuffix("\r") for line in lines[:_HEAD_LINES]]

    @cached_property
    def head_rows(self) -> list[str]:
        """The first lines that are neither blank nor comments."""
        return [line for line in self.head if line.strip() and not line.startswith(COMMENT)]

    @property
    def text(self) -> str:
        """The whole text, for formats that are not made of lines."""
        return self._decoded(b"".join(self._raw()), 1)

    def blocks(self, first: int = 1) -> Iterator[tuple[int, list[str]]]:
        """Yield the lines from number `first` on, many at a time, with the number of the first of them.

        A carriage return counts as part of the end of a line.

        Raises
        ------
        UserError
            If the file cannot be read on, or holds something else than text.
        """
        for number, part in self._parts(b"\n"):
            lines = part.split("\n")
            if lines[-1] == "":
                lines.pop()
            if "\r" in part:
                lines = [line.removesuffix("\r") for line in lines]
            if number + len(lines) > first:
                skipped = max(first - number, 0)
                yield number + skipped, lines[skipped:] if skipped else lines

    def rows(self) -> Iterator[tuple[LineOf, list[str]]]:
        """Yield the rows, many at a time, with the function that gives the line of each by its place.

        Comments (lines that begin with ``#``) are skipped with a note, blank lines at the end without one.

        Raises
        ------
        UserError
            If a line amid the rows is blank, and as `blocks`.
        """
        comments, blank = 0, 0
        for begin, block in self.blocks():
            lines = block
            numbers: Sequence[int] = range(begin, begin + len(lines))
            # Blank and indented lines and comments come before all digits in the order of the characters.
            if min(lines)[:1] <= COMMENT:
                kept: list[int] = []
                for number, line in zip(numbers, lines, strict=True):
                    text = line.lstrip()
                    if text.startswith(COMMENT):
                        comments += 1
                    elif text:
                        kept.append(number)
                    else:
                        blank = blank or number
                lines = [block[number - begin] for number in kept]
                numbers = kept
            if lines and blank and blank < numbers[-1]:
                raise self.error("the line is blank; remove it", blank)
            if lines:
                yield numbers.__getitem__, lines
        if comments:
            self.note(f"{plural(comments, 'comment line')} skipped")

    def lines(self, first: int = 1) -> Iterator[tuple[int, str]]:
        """Yield each line from number `first` on with its number; see `blocks`."""
        for number, lines in self.blocks(first):
            yield from enumerate(lines, number)

    def count(self, mark: str = "\n") -> int:
        """Return at most how many lines there are, or values with a mark between them."""
        return sum(block.count(mark.encode()) for block in self._raw()) + 1

    def values(self, mark: str) -> Iterator[list[str]]:
        """Yield what stands between the marks of a file of one line, many values at a time."""
        for _, part in self._parts(mark.encode()):
            values = part.split(mark)
            if part.endswith(mark):
                values.pop()
            yield values

    def ends_with(self, mark: str) -> bool:
        """Tell whether the text, without white space at its end, ends with a mark."""
        self._file.seek(0, os.SEEK_END)
        size = self._file.tell()
        self._file.seek(max(size - _HEAD_BYTES, 0))
        return self._file.read(_HEAD_BYTES).rstrip().endswith(mark.encode())

    def is_blank(self) -> bool:
        """Tell whether there is nothing but white space."""
        return not any(part.strip() for _, part in self._parts(b"\n"))

    def note(self, message: str) -> None:
        """Keep something that the user should know."""
        self.notes.append(f"{self.name}: {message}")

    def error(self, message: str, line: int | None = None) -> UserError:
        """Make the error that names the file and, counted from 1, the line."""
        place = self.name if line is None else f"{self.name}:{line}"
        return UserError(f"{place}: {message}")

    def _as_utf8(self, file: BinaryIO) -> BinaryIO:
        """Return the file, or what it holds as UTF-8 text in memory where it is compressed or UTF-16."""
        file.seek(0)
        begin = file.read(8)
        for mark, found in _PACKED.items():
            if begin.startswith(mark):
                raise self.error(f"is {found}")
        if begin.startswith(_GZIP):
            file.seek(0)
            with file:
                return self._as_utf8(self._unpacked(file))
        encoding = _UTF16.get(begin[:2])
        if encoding is None:
            return file
        file.seek(2)
        decoder = codecs.getincrementaldecoder(encoding)()
        text = io.BytesIO()
        try:
            while block := file.read(_BLOCK_BYTES):
                text.write(decoder.decode(block).encode())
            decoder.decode(b"", final=True)
        except UnicodeError:
            raise self.error("is not UTF-16 text, as its first two bytes say; save it as UTF-8") from None
        file.close()
        return text

    def _unpacked(self, file: BinaryIO) -> BinaryIO:
        content = io.BytesIO()
        try:
            with gzip.GzipFile(fileobj=file) as packed:
                while block := packed.read(_BLOCK_BYTES):
                    content.write(block)
                    if content.tell() > MAX_BYTES:
                        raise self.error(f"is larger than {MAX_BYTES} bytes when unpacked: {REMEDY}")
        except (OSError, EOFError, zlib.error):
            raise self.error("is damaged: gzip cannot unpack it; copy the file again") from None
        return content

    def _begin(self, count: int) -> bytes:
        """Return the first bytes without a byte order mark."""
        return self._at(0, count).removeprefix(codecs.BOM_UTF8)

    def _at(self, place: int, count: int) -> bytes:
        try:
            self._file.seek(place)
            return self._file.read(count)
        except OSError as error:
            raise self.error(f"{(error.strerror or 'cannot be read').lower()}: {REMEDY}") from None

    def _raw(self) -> Iterator[bytes]:
        """Yield the bytes block by block, without a byte order mark."""
        place = 0
        while block := self._at(place, _BLOCK_BYTES):
            yield block if place else block.removeprefix(codecs.BOM_UTF8)
            place += len(block)
            if place > MAX_BYTES:
                raise self.error(f"is larger than {MAX_BYTES} bytes: {REMEDY}")

    def _parts(self, mark: bytes) -> Iterator[tuple[int, str]]:
        """Yield the text in parts that end with a mark, but for the last, with the number of each one's first line."""
        number = 1
        held: list[bytes] = []
        for block in self._raw():
            end = block.rfind(mark) + 1
            held.append(block[:end] if end else block)
            if not end:
                continue
            part = b"".join(held)
            held = [block[end:]]
            yield number, self._decoded(part, number)
            number += part.count(b"\n")
        rest = b"".join(held)
        if rest:
            yield number, self._decoded(rest, number)

    def _decoded(self, data: bytes, number: int) -> str:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = number + data.count(b"\n", 0, error.start)
            byte = f"0x{data[error.start]:02x}"
            raise self.error(f"byte {byte} is not UTF-8 text; a trace is a text file", line) from None
        if "\0" in text:
            raise self.error("holds a NUL byte; a trace is a text file", number + data.count(b"\n", 0, data.index(0)))
        return text


def _whole_characters(data: bytes) -> bytes:
    """Leave out a character that is cut at the end."""
    return data.decode("utf-8", "ignore").encode() if len(data) and data[-1] >= 0x80 else data


def plural(count: int, noun: str) -> str:
    """Write ``1 value`` or ``2 values``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def quote(text: str) -> str:
    """Quote a piece of a file for a message, shortened where it is long."""
    short = text if len(text) <= _MAX_QUOTED else text[:_MAX_QUOTED] + "…"
    return repr(short)


_Scalar = TypeVar("_Scalar", bound=np.generic)


_DECIMAL = re.compile(r"[0-9]+(?:\.[0-9]+)?", re.ASCII)
_SIGNED_DECIMAL = re.compile(rf"-?{_DECIMAL.pattern}", re.ASCII)
_MEASURED = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_MAX_DIGITS = 40
#: Powers of ten beyond which no column reaches; an integer of such a number would fill the memory.
_MAX_EXPONENT = 40
_EXACT_BELOW = 1e14


def _too_large(source: TraceSource, line: int, text: str, what: str, most: str) -> Exception:
    return source.error(f"{what} {quote(text)} is too large; the most is {most}", line)


def integers(
    source: TraceSource, texts: Sequence[str], line_of: LineOf, what: str, *, most: int, signed: bool = False
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
    source: TraceSource,
    texts: Sequence[str],
    line_of: LineOf,
    what: str,
    *,
    digits: int,
    most: int,
    signed: bool = False,
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


def _decimal_error(source: TraceSource, line: int, text: str, what: str, digits: int, *, signed: bool) -> Exception:
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
    source: TraceSource,
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


def probabilities(source: TraceSource, texts: Sequence[str], line_of: LineOf, what: str) -> NDArray[np.float64]:
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


def words(
    source: TraceSource, texts: Sequence[str], line_of: LineOf, what: str, known: Sequence[str]
) -> NDArray[np.uint8]:
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
