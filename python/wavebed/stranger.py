"""Decode what other machines send: far hosts, workers of a cluster.

Each message has a type, each name and number a bound. What breaks one is a `StrangerError`: it costs the sender its
trial or its block, and nothing else. Other modules decode no such message themselves (`tests/unit/test_strangers.py`).
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Protocol, TypeVar

import msgspec

from wavebed.errors import WavebedError
from wavebed.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST_FILE_BYTES = 1 << 30
MOST_TRIAL_BYTES = 4 << 30
MOST_FILES = 10_000
"""In one trial."""
MOST_CAPTURED_BYTES = 64 << 20
"""Of an output stream that is kept in memory."""
_MOST_LINE = 1 << 16
_MOST_NAME = 1024
_MOST_PART = 255
_MOST_TOLD = 1000

Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Line = Annotated[str, msgspec.Meta(max_length=_MOST_TOLD)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=_MOST_NAME)]

T_co = TypeVar("T_co", covariant=True)


class StrangerError(WavebedError):
    """What another machine sent is wrong, or too much."""


class _Decoder(Protocol[T_co]):
    def decode(self, data: bytes, /) -> T_co: ...


def decode(data: bytes, decoder: _Decoder[T_co], what: str) -> T_co:
    """Return a message.

    Parameters
    ----------
    decoder : msgspec decoder
        Decoder of a `prepared` type, or of a built-in one.
    what : str
        What the message is, for the error.

    Raises
    ------
    StrangerError
        If it is malformed, or of another type.
    """
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise StrangerError(f"{what} is malformed ({one_line(str(error))})") from None


def one_line(text: str) -> str:
    """Return foreign text as one printable line of bounded length."""
    line = " ".join(printable(text[: 2 * _MOST_TOLD], keep="\n\t").split())
    return line if len(line) <= _MOST_TOLD else line[:_MOST_TOLD] + "…"


def is_inside(name: str) -> bool:
    """Return whether a name stays below a folder, and is relative, printable and not too long."""
    parts = name.split("/")
    return (
        len(name) <= _MOST_NAME
        and printable(name) == name
        and PurePosixPath(name).as_posix() == name
        and all(part not in ("", ".", "..") and len(part.encode()) <= _MOST_PART for part in parts)
    )


def lines_of(file: Path) -> Iterator[str]:
    """Yield the lines of a text that came from another machine, without their ends; one that is cut off is left out.

    Raises
    ------
    StrangerError
        If one is longer than 64 KiB, or is not UTF-8.
    """
    with file.open(encoding="utf-8", newline="\n") as stream:
        try:
            while line := stream.readline(_MOST_LINE):
                if line.endswith("\n"):
                    yield line[:-1]
                elif len(line) == _MOST_LINE:
                    raise StrangerError(f"{file.name}: a line is longer than {_MOST_LINE} characters")
        except UnicodeDecodeError:
            raise StrangerError(f"{file.name}: is not UTF-8") from None


class Budget:
    """What one machine may send in a trial.

    Parameters
    ----------
    most_bytes, most_files : int
        In all.
    """

    def __init__(self, most_bytes: int = MOST_TRIAL_BYTES, most_files: int = MOST_FILES) -> None:
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._bytes = 0
        self._files = 0

    def take(self, size: int) -> None:
        """Count bytes.

        Raises
        ------
        StrangerError
            If they are too many.
        """
        self._bytes += size
        if self._bytes > self._most_bytes:
            raise StrangerError(f"more than {self._most_bytes} bytes came in one trial")

    def file(self, name: str, size: int) -> None:
        """Count a file.

        Raises
        ------
        StrangerError
            If its name leads out of its folder, or it is too large, or one too many.
        """
        if not is_inside(name):
            raise StrangerError(f"{one_line(name)!r} came as the name of a file")
        if not 0 <= size <= MOST_FILE_BYTES:
            raise StrangerError(f"{name}: has {size} bytes, and may have {MOST_FILE_BYTES}")
        self._files += 1
        if self._files > self._most_files:
            raise StrangerError(f"more than {self._most_files} files came in one trial")
        self.take(size)
