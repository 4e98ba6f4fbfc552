"""Write files named by a user, and files that must be replaced atomically.

A regular file, or one that does not exist yet, is replaced by a new file in the same folder. The new file has no name
while it is written, where the file system can do that (``O_TMPFILE``), so that even SIGKILL leaves nothing behind.
Everything else (devices, FIFOs, symbolic links such as ``/dev/stdout``) is opened and written directly, as by ``>`` of
a shell, and never replaced. Inside a folder of results (`wavebed.beneath`), which may be anybody's, no link is followed
and whatever has the name is replaced.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from wavebed.beneath import is_beneath, place_of
from wavebed.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

FIFO_PATIENCE_S = 10.0
"""How long a FIFO without a reader is waited for: enough to start the reader in another terminal."""
FORMULA = r"^[=+\-@\t\r\n\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}]"
"""How a cell begins that a spreadsheet would run, as RE2 writes it; the last four are the wide forms."""
_BEGINS_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LOOK_AGAIN_S = 0.02
_NO_TMPFILE = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOSYS})
"""What a file system or a kernel without ``O_TMPFILE`` answers."""


def csv_cell(value: object) -> object:
    """Return a value as a cell of CSV: an apostrophe keeps a spreadsheet from running a text; numbers stay numbers."""
    if not isinstance(value, str):
        return value
    guard = "'" if value.startswith(_BEGINS_FORMULA) and not _NUMBER.fullmatch(value) else ""
    return guard + value.replace("\r", " ")  # the csv module leaves it bare, and it would begin a row


def csv_rows(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV; unknown values are empty."""
    import csv  # most commands write none

    target = io.StringIO()
    # Most cells are numbers: a call for each would double the time.
    written = ([csv_cell(each) if isinstance(each, str) else each for each in row] for row in rows)
    csv.writer(target, lineterminator="\n").writerows(written)
    return target.getvalue()


def toml_text(document: Mapping[str, object]) -> str:
    """Return a document as TOML: its tables with headings, all below them inline."""
    plain, tables = [], []
    for key, value in document.items():
        if isinstance(value, dict):
            tables += ["", f"[{_toml_string(key)}]", *_toml_lines(value)]
        elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            for each in value:
                tables += ["", f"[[{_toml_string(key)}]]", *_toml_lines(each)]
        else:
            plain += _toml_lines({key: value})
    return "\n".join([*plain, *tables]) + "\n"


def _toml_lines(table: Mapping[str, object]) -> list[str]:
    return [f"{_toml_string(key)} = {_toml_value(value)}" for key, value in table.items()]


def _toml_value(value: object) -> str:
    if isinstance(value, str):
        return _toml_string(value, bare=False)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{ " + ", ".join(_toml_lines(value)) + " }" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    return str(value) if isinstance(value, int | float) else str(getattr(value, "isoformat", str)())


def _toml_string(text: str, *, bare: bool = True) -> str:
    if bare and re.fullmatch(r"[A-Za-z0-9_-]+", text):
        return text
    import json  # most commands write no TOML

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def write_output(path: str | os.PathLike[str], data: bytes | str, option: str = "-o") -> None:
    """Write a file that the user named.

    Parameters
    ----------
    data : bytes or str
        The whole content; text is written as UTF-8.
    option : str
        The option that named it, for the error.

    Raises
    ------
    UserError
        If it cannot be written, in one line. An existing regular file is unchanged then.
    BrokenPipeError
        If the reader of a pipe left.
    """
    target = Path(path)
    content = data.encode() if isinstance(data, str) else data
    try:
        if _is_replaceable(target):
            replace_file(target, content)
        else:
            _write_directly(target, content)
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = error.strerror or "cannot be written"
        reason = reason[:1].lower() + reason[1:]
        raise UserError(f"{target}: {reason}: name another file with {option}") from None


def replace_file(file: Path, data: bytes) -> None:
    """Replace a file atomically.

    Raises
    ------
    OSError
        If it cannot be written; an existing file is unchanged.
    """
    with replacing(file) as stream:
        stream.write(data)


@contextmanager
def replacing(file: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Yield a new file that replaces `file` at the end of the block.

    If the block fails, `file` is unchanged and nothing else is left. The new file is on the disk before it gets its
    name.

    Parameters
    ----------
    mode : int
        Mode of a new file, before the umask; a replaced regular file keeps its mode.

    Raises
    ------
    OSError
        If the new file cannot be made, written or renamed.
    """
    with place_of(file) as (folder, last):
        name: str | None = None
        try:
            descriptor, name = _new_file(folder, mode)
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
                stream.flush()
                _take_after(stream.fileno(), folder, last)
                os.fsync(stream.fileno())
                if name is None:
                    name = _give_name(stream.fileno(), folder)
            os.rename(name, last, src_dir_fd=folder, dst_dir_fd=folder)
            name = None
        finally:
            if name is not None:
                with suppress(OSError):
                    os.unlink(name, dir_fd=folder)


def _new_file(folder: int, mode: int) -> tuple[int, str | None]:
    """Make a file for writing, if possible without a name."""
    try:
        return os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, mode, dir_fd=folder), None
    except OSError as error:
        if error.errno not in _NO_TMPFILE:
            raise
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    name = _random_name()
    return os.open(name, flags, mode, dir_fd=folder), name


def _give_name(descriptor: int, folder: int) -> str:
    """Give a file without a name a random one; linkat(2) cannot replace a file, so the last step is a rename."""
    name = _random_name()
    # With `dst_dir_fd` Python calls linkat with AT_SYMLINK_FOLLOW, as open(2) says under O_TMPFILE.
    os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=folder)
    return name


def _random_name() -> str:
    return f".wavebed-{os.urandom(8).hex()}"


def _take_after(descriptor: int, folder: int, name: str) -> None:
    """Copy the mode and, if allowed, the owner of the replaced regular file."""
    try:
        before = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(before.st_mode):
        return
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        with suppress(OSError):
            os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode) & 0o777)


def _is_replaceable(target: Path) -> bool:
    if is_beneath(target):
        return True
    try:
        return stat.S_ISREG(target.lstat().st_mode)
    except FileNotFoundError:
        return True


def _write_directly(target: Path, data: bytes) -> None:
    own = _own_stream(target)
    descriptor = os.dup(own) if own is not None else _open(target)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)


def _own_stream(target: Path) -> int | None:
    """Return 1 or 2 if `target` is standard output or error, which must not be opened again."""
    try:
        wanted = target.stat()
    except OSError:
        return None
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        with suppress(OSError):
            if os.path.samestat(wanted, os.fstat(number)):
                if stream is not None:
                    stream.flush()
                return number
    return None


def _open(target: Path) -> int:
    """Open for writing as a shell does, but wait for the reader of a FIFO for a bounded time."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    end_s = time.monotonic() + FIFO_PATIENCE_S
    while True:
        try:
            descriptor = os.open(target, flags, 0o666)
        except OSError as error:
            if error.errno != errno.ENXIO or not target.is_fifo():
                raise
        else:
            os.set_blocking(descriptor, True)
            return descriptor
        if time.monotonic() >= end_s:
            raise OSError(errno.ENXIO, f"nothing has read this FIFO for {FIFO_PATIENCE_S:g} s")
        time.sleep(_LOOK_AGAIN_S)
