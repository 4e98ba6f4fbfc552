"""Enter a named network namespace for a moment."""

from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wavebed.errors import WavebedError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["within"]

CLONE_NEWNET = 0x40000000
NAMES = "/run/netns"
"""The folder in which iproute2 keeps them."""


@contextmanager
def within(namespace: str) -> Iterator[None]:
    """Put the calling thread into a network namespace; sockets that it opens belong there for good.

    Raises
    ------
    WavebedError
        If there is no such namespace, or it may not be entered.
    """
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            there = os.open(f"{NAMES}/{namespace}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise WavebedError(f"network namespace {namespace}: {error.strerror}") from None
        try:
            _enter(there, namespace)
        finally:
            os.close(there)
        try:
            yield
        finally:
            _enter(home, "of the caller")
    finally:
        os.close(home)


def _enter(descriptor: int, name: str) -> None:
    # `os.setns` came with Python 3.12.
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(descriptor, CLONE_NEWNET) != 0:
        raise WavebedError(f"network namespace {name}: {os.strerror(ctypes.get_errno())}")
