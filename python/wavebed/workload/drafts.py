"""Files of the cache: whole, or not there."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from wavebed.errors import MachineError
from wavebed.output import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["drafted"]


@contextmanager
def drafted(file: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Give a new file to be written, which takes the place of `file` at the end of the block.

    If the block fails, or the process is killed, nothing of it is left.

    Parameters
    ----------
    mode : int
        Of the file, before the umask.

    Raises
    ------
    MachineError
        If the system refuses, for want of space for instance.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file, mode) as draft:
            yield draft
    except OSError as error:
        raise MachineError(f"{file}: cannot be made: {(error.strerror or str(error)).lower()}") from None
