"""The text of a trace file, with its name and the means to point at a line of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from wavebed.errors import UserError

__all__ = ["MAX_FILE_BYTES", "Source"]

MAX_FILE_BYTES = 1 << 30
_MAX_QUOTED = 40


@dataclass(frozen=True)
class Source:
    """A trace file as it was read.

    Parameters
    ----------
    name : str
        What messages call the file.
    text : str
        Its whole content.
    notes : list of str
        What the reader wants the user to know: assumptions made and things left out.
    """

    name: str
    text: str
    notes: list[str] = field(default_factory=list)

    @classmethod
    def from_path(cls, path: str | os.PathLike[str]) -> Source:
        """Read a file.

        Raises
        ------
        UserError
            If the file cannot be read, is too large, or is not UTF-8 text.
        """
        name = os.fspath(path)
        try:
            with Path(path).open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UserError(f"{name}: cannot be read: {reason}; give the path of a trace file") from None
        return cls.from_bytes(name, data)

    @classmethod
    def from_bytes(cls, name: str, data: bytes) -> Source:
        """Decode a file's content.

        Raises
        ------
        UserError
            If it is too large or is not UTF-8 text.
        """
        if len(data) > MAX_FILE_BYTES:
            raise UserError(f"{name}: larger than {MAX_FILE_BYTES} bytes; cut the trace into parts")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise UserError(
                f"{name}:{line}: byte 0x{data[error.start]:02x} is not UTF-8 text; a trace is a text file"
            ) from None
        if "\0" in text:
            line = text.count("\n", 0, text.index("\0")) + 1
            raise UserError(f"{name}:{line}: holds a NUL byte; a trace is a text file")
        return cls(name, text)

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their ends; a carriage return counts as part of the end."""
        lines = self.text.split("\n")
        if lines[-1] == "":
            lines.pop()
        if "\r" in self.text:
            lines = [line.removesuffix("\r") for line in lines]
        return lines

    @cached_property
    def head(self) -> list[str]:
        """The first lines, enough to recognise a format."""
        lines = self.text[: 1 << 16].split("\n")
        if (len(self.text) > 1 << 16 and len(lines) > 1) or lines[-1] == "":
            lines.pop()
        return [line.removesuffix("\r") for line in lines[:64]]

    def note(self, message: str) -> None:
        """Keep something that the user should know."""
        self.notes.append(f"{self.name}: {message}")

    def error(self, message: str, line: int | None = None) -> UserError:
        """Make the error that names the file and, counted from 1, the line."""
        place = self.name if line is None else f"{self.name}:{line}"
        return UserError(f"{place}: {message}")


def plural(count: int, noun: str) -> str:
    """Write ``1 value`` or ``2 values``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def quote(text: str) -> str:
    """Quote a piece of a file for a message, shortened where it is long."""
    short = text if len(text) <= _MAX_QUOTED else text[:_MAX_QUOTED] + "…"
    return repr(short)
