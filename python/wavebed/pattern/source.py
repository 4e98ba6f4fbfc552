"""The text of a trace file, read in blocks, with its name and the means to point at a line of it.

A trace may have ten million lines. No reader has all of them at once as Python strings: that takes ten times the
size of the file.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import zlib
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO, Self

from wavebed.errors import UserError
from wavebed.foreign import MAX_BYTES, open_foreign

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wavebed.pattern.numbers import LineOf

__all__ = ["COMMENT", "Source", "plural", "quote"]

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


class Source:
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
    def from_path(cls, path: str | os.PathLike[str]) -> Source:
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
