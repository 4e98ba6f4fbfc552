"""Pipes that a shell passes as files: ``<(COMMAND)`` becomes the name of a descriptor, ``/dev/fd/63``."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.foreign import MAX_BYTES, descriptor_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["keep_pipes"]

_CHUNK_BYTES = 1 << 20


def keep_pipes(arguments: Iterable[str], most_bytes: int = MAX_BYTES) -> None:
    """Replace each pipe that an argument names by a file in memory with the same number.

    A pipe can be read once. A trace or a scenario is read several times, also by programs that are started here.
    Arguments after ``--`` belong to another program: their pipes stay.

    Parameters
    ----------
    arguments : iterable of str
        The arguments of the program; one may be ``--option=NAME``.
    most_bytes : int
        Largest content.

    Raises
    ------
    UserError
        If the content of a pipe is larger.
    """
    for argument in arguments:
        if argument == "--":
            return
        name = argument.rpartition("=")[2]
        descriptor = descriptor_of(name)
        if descriptor is not None and _is_pipe(descriptor):
            _keep(descriptor, name, most_bytes)


def _is_pipe(descriptor: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except (OSError, OverflowError):
        return False


def _keep(descriptor: int, name: str, most_bytes: int) -> None:
    memory = os.memfd_create("pipe")
    try:
        with open(memory, "wb", closefd=False) as kept:
            while chunk := os.read(descriptor, _CHUNK_BYTES):
                if kept.tell() + len(chunk) > most_bytes:
                    raise UserError(f"{name}: is larger than {most_bytes} bytes: name a smaller file")
                kept.write(chunk)
        os.dup2(memory, descriptor)
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise UserError(f"{name}: {reason}: name a file") from None
    finally:
        os.close(memory)
