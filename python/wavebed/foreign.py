"""Read files that others made (traces, scenarios, recordings, results): regular files only, of bounded size.

A named pipe would block for ever, a device has no end and may act when it is opened, a link may be exchanged between
a look and a read. All of these end here, each with one line that names the file and the rule. Inside a folder of
results no link is followed (`wavebed.beneath`).
"""

from __future__ import annotations

import io
import json
import os
import re
import stat
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from wavebed.beneath import is_beneath, place_of
from wavebed.errors import UserError
from wavebed.prepared import prepared

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

MAX_BYTES = 1 << 30
MAX_TEXT_BYTES = 1_000_000
"""For hand-written files: scenarios, scenes, specifications of sites."""
_CHUNK_BYTES = 1 << 20
_HALF_CHARACTER = rb"\ud"
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
}

MOST_KEY_PARTS = 32
MOST_DEPTH = 64
"""Of arrays and tables inside each other."""
_STRINGS = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+"{0,5}|\'\'\'(?:[^\']|\'(?!\'\'))*+\'{0,5}|"(?:[^"\\\n]|\\.)*+"?|\'[^\'\n]*+\'?|#[^\n]*+',
    re.DOTALL,
)
"""Strings and comments of TOML; in what is left, dots stand in keys, numbers and times."""
_BETWEEN_KEYS = re.compile(r"[\n=,\[\]{}]")
_BRACKETS = re.compile(r"[\[\]{}]")

_DESCRIPTOR = re.compile(r"(?:/dev|/proc/self)/fd/([0-9]+)", re.ASCII)
"""The name of a descriptor of this process, as a shell writes it for ``<(COMMAND)``."""

_NOTED: ContextVar[set[Path] | None] = ContextVar("noted", default=None)


@contextmanager
def noted_files() -> Iterator[set[Path]]:
    """Yield the set of files that are opened here in the block, by their absolute names."""
    noted: set[Path] = set()
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)


def is_file(name: str | os.PathLike[str]) -> bool:
    """Return whether a regular file has the name that a user wrote; ``False`` for a name that no file can have."""
    return os.path.isfile(name)  # noqa: PTH113 - Path.is_file raises where the name is too long


def is_there(name: str | os.PathLike[str]) -> bool:
    """Return whether anything has the name that a user wrote; ``False`` for a name that no file can have."""
    return os.path.exists(name)  # noqa: PTH110 - Path.exists raises where the name is too long


def descriptor_of(name: str | os.PathLike[str]) -> int | None:
    """Return the number of the descriptor that ``/dev/fd/63`` names; ``None`` for another name."""
    match = _DESCRIPTOR.fullmatch(os.fspath(name))
    return None if match is None else int(match[1])


def folder_of(file: Path) -> Path:
    """Return the folder that names in a file are relative to: its own, or for a descriptor the working directory."""
    return file.parent if descriptor_of(file) is None else Path()


def openable(file: Path) -> Path:
    """Return the name under which programs that this process starts open the file too, if it is a descriptor here."""
    descriptor = descriptor_of(file)
    return file if descriptor is None else Path(f"/proc/{os.getpid()}/fd/{descriptor}")


def open_foreign(file: str | os.PathLike[str], remedy: str, *, most: int = MAX_BYTES, follow: bool = True) -> io.FileIO:
    """Open a regular file for reading.

    Parameters
    ----------
    file : path-like
        Its name, as messages call it.
    remedy : str
        What the user should do instead, such as ``name a scene file``.
    most : int
        Largest size, bytes.
    follow : bool
        Whether a symbolic link is followed; inside a folder of results none is.

    Raises
    ------
    UserError
        If it is missing, not readable, not a regular file, or too large.
    """
    name = os.fspath(file)
    try:
        if is_beneath(name):
            with place_of(name) as (at, last):
                descriptor = _opened(last, name, remedy, most, at=at, follow=False)
        else:
            descriptor = _opened(name, name, remedy, most, at=None, follow=follow)
    except (OSError, ValueError) as error:
        raise _unreadable(name, error, remedy) from None
    noted = _NOTED.get()
    if noted is not None:
        noted.add(Path(name).absolute())
    return io.FileIO(descriptor, "rb")


def _opened(last: str, name: str, remedy: str, most: int, *, at: int | None, follow: bool) -> int:
    """Return a descriptor of the regular file `last` in the folder `at`; messages call it `name`."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    # Looking first keeps a device from being opened at all; looking again finds a name that was exchanged.
    _check(name, os.stat(last, dir_fd=at, follow_symlinks=follow), remedy, most)
    descriptor = os.open(last, flags, dir_fd=at)
    try:
        _check(name, os.fstat(descriptor), remedy, most)
    except UserError:
        os.close(descriptor)
        raise
    return descriptor


def read_bytes(file: str | os.PathLike[str], remedy: str, *, most: int = MAX_BYTES, follow: bool = True) -> bytes:
    """Return the content of a regular file; see `open_foreign`."""
    name = os.fspath(file)
    try:
        with open_foreign(file, remedy, most=most, follow=follow) as stream:
            return _read(stream, name, remedy, most)
    except OSError as error:
        raise _unreadable(name, error, remedy) from None


def read_text(file: str | os.PathLike[str], remedy: str, *, most: int = MAX_BYTES, errors: str = "strict") -> str:
    """Return the text of a regular file of UTF-8; see `open_foreign`."""
    try:
        return read_bytes(file, remedy, most=most).decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise UserError(f"{os.fspath(file)}: byte {error.start}: is not UTF-8: save the file as UTF-8") from None


def read_private(file: str | os.PathLike[str], remedy: str, *, most: int) -> str:
    """Return the text of a file that its owner alone may read, who is this user or root; see `open_foreign`.

    Raises
    ------
    UserError
        If others own it or may read it: they may know what stands in it, or have chosen it.
    """
    name = os.fspath(file)
    with open_foreign(file, remedy, most=most) as stream:
        found = os.fstat(stream.fileno())
        if found.st_uid not in (os.geteuid(), 0):
            raise UserError(f"{name}: belongs to user {found.st_uid}: name a file of your own")
        if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise UserError(f"{name}: others can read it: chmod 600 it")
        try:
            return _read(stream, name, remedy, most).decode()
        except UnicodeDecodeError:
            raise UserError(f"{name}: is not UTF-8: {remedy}") from None


def read_json(file: str | os.PathLike[str], remedy: str, *, most: int = MAX_BYTES) -> object:
    """Return the content of a JSON file; see `open_foreign`."""
    try:
        data = read_bytes(file, remedy, most=most)
        value: object = json.loads(data)
        if _HALF_CHARACTER in data.lower():
            # An escaped half of a surrogate pair is JSON, but no text: nothing could write it again.
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UserError(f"{os.fspath(file)}: holds half of a character (a lone surrogate): {remedy}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{os.fspath(file)}: is not JSON ({error}): {remedy}") from None
    return value


def read_record(file: str | os.PathLike[str], kind: type[T], remedy: str, *, most: int = MAX_BYTES) -> T:
    """Return the content of a JSON file as a type of msgspec, which checks it; see `open_foreign`."""
    import msgspec

    try:
        return msgspec.json.decode(read_bytes(file, remedy, most=most), type=prepared(kind))
    except msgspec.MsgspecError as error:
        raise UserError(f"{os.fspath(file)}: is not as documented ({error}): {remedy}") from None


def read_toml(file: str | os.PathLike[str], remedy: str) -> dict[str, object]:
    """Return the content of a TOML file of at most `MAX_TEXT_BYTES`; see `open_foreign`."""
    return parse_toml(read_text(file, remedy, most=MAX_TEXT_BYTES), os.fspath(file))


def parse_toml(text: str, name: str) -> dict[str, object]:
    """Return the content of a TOML text; `name` is its file, for messages.

    Raises
    ------
    UserError
        If it is not TOML.
    """
    import tomllib  # 5 ms of the start-up of commands that read none

    _check_shape(text, name)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{name}: is not TOML: {error}: see https://toml.io") from None
    except (RecursionError, ValueError):
        raise UserError(f"{name}: is not TOML: nested too deeply, or a number too long") from None


def _check_shape(text: str, name: str) -> None:
    """Check what costs more than linear time or a deep stack, before anything parses it."""
    if len(text) > MAX_TEXT_BYTES:
        raise UserError(f"{name}: is larger than {MAX_TEXT_BYTES} bytes: write less TOML")
    plain = _STRINGS.sub("s", text)
    if any(key.count(".") >= MOST_KEY_PARTS for key in _BETWEEN_KEYS.split(plain)):
        raise UserError(
            f"{name}: a key has more than {MOST_KEY_PARTS} parts: write at most {MOST_KEY_PARTS}, with dots"
        )
    depth = 0
    for bracket in _BRACKETS.findall(plain):
        depth += 1 if bracket in "[{" else -1
        if depth > MOST_DEPTH:
            raise UserError(f"{name}: is nested more than {MOST_DEPTH} deep: write fewer brackets inside each other")


def _check(name: str, found: os.stat_result, remedy: str, most: int) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise UserError(f"{name}: is a symbolic link, which is not followed here: {remedy}")
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "of an unknown kind")
        raise UserError(f"{name}: is {kind}, not a regular file: {remedy}")
    if found.st_size > most:
        raise _too_large(name, remedy, most)


def _read(stream: BinaryIO | io.RawIOBase, name: str, remedy: str, most: int) -> bytes:
    """Read to the end, also of a file that grows or has no size."""
    size = os.fstat(stream.fileno()).st_size
    parts = [stream.read(size + 1) or b""]
    total = len(parts[0])
    while parts[-1]:
        parts.append(stream.read(_CHUNK_BYTES) or b"")
        total += len(parts[-1])
        if total > most:
            raise _too_large(name, remedy, most)
    return parts[0] if total == len(parts[0]) else b"".join(parts)


def _too_large(name: str, remedy: str, most: int) -> UserError:
    return UserError(f"{name}: is larger than {most} bytes: {remedy}")


def _unreadable(name: str, error: OSError | ValueError, remedy: str) -> UserError:
    reason = error.strerror if isinstance(error, OSError) else None
    return UserError(f"{name}: {(reason or 'cannot be read').lower()}: {remedy}")
