"""JSON-RPC 2.0 over lines: reading with a bound, and writing whole messages from any thread."""

from __future__ import annotations

import threading
from typing import IO, TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wavebed.config.data import Json

__all__ = ["INTERNAL", "INVALID_PARAMS", "INVALID_REQUEST", "MOST_LINE_BYTES", "NO_METHOD", "PARSE_ERROR"]
__all__ += ["Writer", "lines"]

MOST_LINE_BYTES = 1 << 20
"""A longer message is refused."""
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
"""Codes of JSON-RPC 2.0."""


def lines(stream: IO[bytes]) -> Iterator[bytes | None]:
    """Yield each line of a stream; ``None`` for one that is too long, which is read over."""
    while line := stream.readline(MOST_LINE_BYTES + 1):
        if len(line) <= MOST_LINE_BYTES:
            if line.strip():
                yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(MOST_LINE_BYTES)
        yield None


class Writer:
    """Writes messages; a client that has gone takes none."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def result(self, number: Json, result: object) -> None:
        """Answer a request."""
        self._write({"jsonrpc": "2.0", "id": number, "result": result})

    def error(self, number: Json, code: int, message: str) -> None:
        """Refuse a request; `number` is ``None`` where it is not known."""
        problem: dict[str, Json] = {"code": code, "message": message}
        self._write({"jsonrpc": "2.0", "id": number, "error": problem})

    def notify(self, method: str, params: object) -> None:
        """Send a notification."""
        self._write({"jsonrpc": "2.0", "method": method, "params": params})

    def _write(self, message: object) -> None:
        line = msgspec.json.encode(message) + b"\n"
        with self._lock:
            try:
                self._stream.write(line)
                self._stream.flush()
            except (OSError, ValueError):
                return
