"""A running trial between real hosts, for other terminals: it is listed and answers as a laboratory of namespaces does.

Its link in each direction has what the interfaces of the two hosts count, its samples the round trip of the workloads'
TCP connections. The hosts are asked once a second, and only while somebody looks.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import socket
import struct
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, cast

from wavebed.accept import accept
from wavebed.errors import WavebedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from wavebed.config.data import Json


EVERY_MS = 1000
"""Between two questions to the hosts, which go through the network under test."""
MOST_CONNECTIONS = 16
_COLUMNS = (
    "at_ns", "offered_segments", "offered_bytes", "delivered_segments", "delivered_bytes", "dropped_segments",
    "marked_segments", "blocks_sent", "blocks_failed", "air_ns", "link_failures", "queued_segments", "queued_bytes",
    "waited_ns", "waited_segments", "rate_bps", "delay_ns", "loss", "state", "sinr_db",
)  # fmt: skip
_UNCOUNTED = ("duplicated_segments", "l4s_marked_segments", "l4s_dropped_segments", "corrupted_segments")
_LINKS = (("network.down", "server", "client"), ("network.up", "client", "server"))
"""Each with the host that sends and the one that receives."""
_ROUND_TRIP = "tcp-rtt"
_MOST_LINE = 1 << 16


class HostsState(NamedTuple):
    """What the hosts said at one time.

    Parameters
    ----------
    at_ns : int
        Since time zero.
    grown : dict
        What the counters of each host's interface grew by since then; ``None`` where it is not known.
    flows : dict
        ``count`` and ``max_rtt_us`` of the server's connections.
    hosts : list
        Both, as `wavebed.path.control.HostState` has them.
    """

    at_ns: int
    grown: dict[str, dict[str, int | None]]
    flows: dict[str, Json]
    hosts: list[Json]

    def row(self, link: int) -> dict[str, Json]:
        """Return the values of a link; what nobody counts is missing."""
        _, sender, receiver = _LINKS[link]
        sent, received = self.grown[sender], self.grown[receiver]
        drops = [count for count in (sent.get("tx_dropped"), received.get("rx_dropped")) if count is not None]
        return {
            "at_ns": self.at_ns,
            "offered_bytes": sent.get("tx_bytes"),
            "delivered_bytes": received.get("rx_bytes"),
            "dropped_segments": sum(drops) if drops else None,
        }


class Answers:
    """The answers of one trial, from what its hosts say.

    Parameters
    ----------
    name : str
        Of the trial, as `wavebed ctl` lists it.
    zero_ns : int
        Time zero on ``CLOCK_MONOTONIC``.
    look : callable
        Asks the hosts.
    """

    def __init__(self, name: str, zero_ns: int, look: Callable[[], HostsState]) -> None:
        self.name = name
        self._zero_ns = zero_ns
        self._look = look
        self._lock = threading.Lock()
        self._last: HostsState | None = None
        self._next_s = 0.0
        self._sums = (0, 0)
        """Of the round trips of all looks, nanoseconds, and how many there were."""

    def seen(self) -> tuple[HostsState, tuple[int, int]]:
        """Ask the hosts, unless somebody did within the last second."""
        with self._lock:
            now_s = time.monotonic()
            if self._last is None or now_s >= self._next_s:
                self._last = self._look()
                self._next_s = now_s + EVERY_MS / 1000 * 0.9
                rtt_us = self._last.flows.get("max_rtt_us")
                if isinstance(rtt_us, int):
                    self._sums = (self._sums[0] + rtt_us * 1000, self._sums[1] + 1)
            return self._last, self._sums

    def show(self) -> dict[str, Json]:
        """Return the state, as `wavebed.path.control.LabState` describes it."""
        seen, _ = self.seen()
        links: list[Json] = []
        for place, (name, _, _) in enumerate(_LINKS):
            row = seen.row(place)
            drops = row.pop("dropped_segments")
            blank: dict[str, Json] = dict.fromkeys((*_COLUMNS, *_UNCOUNTED))
            link = {**blank, **row, "name": name, "takes": []}
            link["dropped_segments"] = {} if drops is None else {"interface": drops}
            del link["at_ns"]
            links.append(link)
        return {
            "name": self.name, "links": links, "hosts": seen.hosts, "hops": [], "now_ns": seen.at_ns,
            "zero_ns": self._zero_ns, "flows": seen.flows,
        }  # fmt: skip

    def head(self, every_ms: int) -> dict[str, Json]:
        """Return the names of the values of samples."""
        return {
            "links": [name for name, _, _ in _LINKS], "directions": [_ROUND_TRIP], "link_columns": [*_COLUMNS],
            "direction_columns": ["transit_ns", "transit_segments"], "every_ms": every_ms, "zero_ns": self._zero_ns,
        }  # fmt: skip

    def sample(self) -> dict[str, Json]:
        """Return one sample."""
        seen, sums = self.seen()
        rows: list[Json] = []
        for place in range(len(_LINKS)):
            row = seen.row(place)
            rows.append([row.get(column) for column in _COLUMNS])
        return {"links": rows, "directions": [[*sums]], "lost": 0}

    def answer(self, request: dict[str, Json]) -> dict[str, Json]:
        """Answer a request other than a watch."""
        if request.get("do") == "show":
            return self.show()
        if request.get("do") == "maps":
            return {"maps": []}
        if request.get("do") == "set":
            return {"error": 'with backend = "hosts" the network is not ours to change'}
        return {"error": "do: is not show, maps, watch or set"}


class LiveTrial:
    """Listens for other terminals until it is closed; serves its own user and root only.

    Parameters
    ----------
    answers : Answers
        What it says.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._over = threading.Event()
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(f"\0wavebed/{os.geteuid()}/{answers.name}/{secrets.token_hex(16)}")
        self._listener.listen(MOST_CONNECTIONS)
        threading.Thread(target=self._accept, name="live trial", daemon=True).start()

    def close(self) -> None:
        """End it, with all connections."""
        self._over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # closing alone would leave accept waiting
        self._listener.close()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                taken = accept(self._listener)
            except OSError:
                return
            if taken is None:
                continue
            stream, _ = taken
            if _uid(stream) not in (0, os.geteuid()) or not self._room.acquire(blocking=False):
                stream.close()
                continue
            threading.Thread(target=self._serve, args=(stream,), name="live trial", daemon=True).start()

    def _serve(self, stream: socket.socket) -> None:
        try:
            with stream, suppress(OSError, WavebedError):
                stream.settimeout(EVERY_MS / 1000)
                self._converse(stream)
        finally:
            self._room.release()

    def _converse(self, stream: socket.socket) -> None:
        rest = b""
        while not self._over.is_set():
            line, found, rest = rest.partition(b"\n")
            if not found:
                rest = line
                try:
                    data = stream.recv(_MOST_LINE)
                except TimeoutError:
                    continue
                if not data or len(rest) > _MOST_LINE:
                    return
                rest += data
                continue
            request = _request(line)
            every_ms = request.get("every_ms")
            if request.get("do") == "watch" and isinstance(every_ms, int):
                self._watch(stream, max(every_ms, EVERY_MS))
                return
            _send(stream, self._answers.answer(request))

    def _watch(self, stream: socket.socket, every_ms: int) -> None:
        _send(stream, {"watching": self._answers.head(every_ms)})
        due_s = time.monotonic()
        while not self._over.wait(max(0.0, due_s - time.monotonic())):
            if select.select([stream], [], [], 0)[0]:
                return  # its reader has left
            _send(stream, self._answers.sample())
            due_s = max(due_s + every_ms / 1000, time.monotonic())


def _request(line: bytes) -> dict[str, Json]:
    try:
        request = json.loads(line)
    except ValueError:
        return {}
    return cast("dict[str, Json]", request) if isinstance(request, dict) else {}


def _send(stream: socket.socket, answer: dict[str, Json]) -> None:
    stream.sendall(json.dumps(answer).encode() + b"\n")


def _uid(stream: socket.socket) -> int:
    credentials = stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid: int = struct.unpack("3i", credentials)[1]
    return uid
