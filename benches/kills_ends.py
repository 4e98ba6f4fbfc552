"""The ends of the transfers of ``kills.py``: processes that send and receive bytes that depend on their place."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import random
import select
import signal
import socket
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PATTERN_BYTES = 1_000_003
"""A prime, so that the repetition meets every boundary of a buffer."""
CHUNK_BYTES = 1 << 18
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Transfer:
    """What one transfer is to be."""

    total: int
    seed: int
    is_download: bool
    victim: str
    moment: float
    """When the victim is killed, as a part of the time that an undisturbed transfer takes."""


class Content:
    """The bytes of a transfer, which depend on their place."""

    def __init__(self, transfer: Transfer) -> None:
        self._total = transfer.total
        self._start = transfer.seed * 7919
        # Twice, so that every chunk is one piece.
        self._pattern = memoryview(random.Random(transfer.seed).randbytes(PATTERN_BYTES) * 2)

    def piece(self, place: int, most: int) -> memoryview:
        """Return the bytes from a place on."""
        at = (self._start + place) % PATTERN_BYTES
        return self._pattern[at : at + max(0, min(most, self._total - place))]


def send(one: socket.socket, transfer: Transfer) -> dict[str, Any]:
    """Send everything, and wait for the receiver's answer: the hash of what arrived."""
    content, digest, sent = Content(transfer), hashlib.sha256(), 0
    try:
        while piece := content.piece(sent, CHUNK_BYTES):
            one.sendall(piece)
            digest.update(piece)
            sent += len(piece)
        one.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: one.recv(64), b""))
    except OSError as error:
        return failed(error, sent)
    finally:
        one.close()
    return {"ended": "whole" if answer == digest.digest() else "cut", "bytes": sent}


def receive(one: socket.socket, transfer: Transfer) -> dict[str, Any]:
    """Receive to the end, compare every byte, and answer with the hash."""
    content, digest, place = Content(transfer), hashlib.sha256(), 0
    buffer = memoryview(bytearray(CHUNK_BYTES))
    try:
        while count := one.recv_into(buffer):
            if buffer[:count] != content.piece(place, count):
                return {"ended": "wrong", "bytes": place}
            digest.update(buffer[:count])
            place += count
        if place == transfer.total:
            one.sendall(digest.digest())
            linger(one, None)
    except OSError as error:
        return failed(error, place)
    finally:
        one.close()
    return {"ended": "whole" if place == transfer.total else "cut", "bytes": place, "sha256": digest.hexdigest()}


def failed(error: OSError, place: int) -> dict[str, Any]:
    """Say how a connection failed; to wait for ever is no failure that an end notices."""
    if isinstance(error, TimeoutError) and error.errno is None:
        return {"ended": "never", "bytes": place}
    return {"ended": "error", "error": errno.errorcode.get(error.errno or 0, str(error)), "bytes": place}


def linger(one: socket.socket, seconds: int | None) -> None:
    """Set SO_LINGER: zero makes a close, also by the kernel, a reset."""
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", seconds is not None, seconds or 0))


class End:
    """A process that sends or receives."""

    def __init__(self, body: Callable[[Callable[[], None]], dict[str, Any]]) -> None:
        self._pipe, pipe = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(self._pipe)
            status = 1
            with contextlib.suppress(BaseException):
                result = body(lambda: drop_result(os.write(pipe, b"\n")))
                os.write(pipe, json.dumps(result).encode())
                status = 0
            os._exit(status)
        os.close(pipe)

    def wait_until_connected(self) -> bool:
        """Whether it connects in time."""
        return bool(self._ready(PATIENCE_S)) and os.read(self._pipe, 1) == b"\n"

    def kill(self) -> None:
        """Kill it."""
        os.kill(self.process, signal.SIGKILL)

    def result(self) -> dict[str, Any] | None:
        """Wait for its end: what it says, or nothing if it was killed."""
        text = b""
        end = time.monotonic() + PATIENCE_S
        while self._ready(end - time.monotonic()):
            part = os.read(self._pipe, 1 << 16)
            if not part:
                break
            text += part
        else:
            self.kill()
            text = b'{"ended": "never", "bytes": 0}'
        os.waitpid(self.process, 0)
        os.close(self._pipe)
        return json.loads(text) if text else None

    def _ready(self, seconds: float) -> bool:
        return bool(select.select([self._pipe], [], [], max(0.0, seconds))[0])


def drop_result(_: object) -> None:
    """Take no notice."""
