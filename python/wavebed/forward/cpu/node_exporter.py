"""The processors of a device that runs node_exporter: its page of metrics, in the text format of Prometheus."""

from __future__ import annotations

import http
import http.client
import re
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from wavebed.errors import WavebedError
from wavebed.forward.cpu.model import LIMIT_S, CpuMeter, Reading, Ticks
from wavebed.secret import redacted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["NodeExporterMeter", "parse_metrics"]

_MOST_BYTES = 32 << 20
_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?[ \t]+([^ \t]+)(?:[ \t]+-?\d+)?[ \t]*")
_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)')
_IDLE = {"idle", "iowait"}
_CPU, _TIME, _START = "node_cpu_seconds_total", "node_time_seconds", "node_boot_time_seconds"
_DROPPED, _SQUEEZED = "node_softnet_dropped_total", "node_softnet_times_squeezed_total"
_FAMILIES = {_CPU, _TIME, _START, _DROPPED, _SQUEEZED}


class NodeExporterMeter(CpuMeter):
    """Fetches the page at an address, without a proxy and without following redirections."""

    def __init__(self, address: str) -> None:
        super().__init__(redacted(address))
        self._address = address

    def read(self) -> Reading:
        """Fetch the counters now.

        Raises
        ------
        WavebedError
            If there is no page of node_exporter, or it takes longer than `LIMIT_S`.
        """
        try:
            return _reading(_Fetch(self._address).page())
        except WavebedError as error:
            raise WavebedError(f"--cpu {self.source}: {error}") from None


class _Fetch:
    """One request, in a thread of its own: neither name service nor a server that drips bytes holds up the test."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname or "", parts.port, timeout=LIMIT_S)
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._data = b""
        self._failure = ""
        self._over = threading.Event()

    def page(self) -> str:
        """Return the text, or raise `WavebedError` with the reason."""
        threading.Thread(target=self._run, daemon=True).start()
        if not self._over.wait(LIMIT_S):
            self._failure = f"no answer within {LIMIT_S:.0f} s"
            socket_then = self._connection.sock
            if socket_then is not None:
                with suppress(OSError):
                    socket_then.shutdown(socket.SHUT_RDWR)
        if self._failure:
            raise WavebedError(self._failure)
        return self._data.decode("utf-8", "replace")

    def _run(self) -> None:
        try:
            self._connection.request("GET", self._path, headers={"Accept": "text/plain"})
            answer = self._connection.getresponse()
            if answer.status != http.HTTPStatus.OK:
                self._failure = f"it answers {answer.status}: is the path /metrics?"
                return
            self._data = answer.read(_MOST_BYTES + 1)
            if len(self._data) > _MOST_BYTES:
                self._failure = f"the page is longer than {_MOST_BYTES >> 20} MiB"
        except (OSError, ValueError, http.client.HTTPException) as error:
            self._failure = self._failure or str(error) or type(error).__name__
        finally:
            self._connection.close()
            self._over.set()


def parse_metrics(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Read the lines of the families that matter: name, labels, value.

    Raises
    ------
    WavebedError
        If such a line is malformed.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if re.split(r"[{ \t]", line, maxsplit=1)[0] not in _FAMILIES:
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise WavebedError(f"line {number} is not in the text format of Prometheus")
        name, inside, value = match.groups()
        try:
            yield name, _labels(inside or ""), float(value)
        except ValueError:
            raise WavebedError(f"line {number} is not in the text format of Prometheus") from None


def _labels(text: str) -> dict[str, str]:
    labels = {}
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None:
            raise ValueError(text)
        labels[match.group(1)] = match.group(2)
        at = match.end()
    return labels


def _reading(text: str) -> Reading:
    modes: dict[int, dict[str, float]] = {}
    single: dict[str, float] = {}
    counts: dict[str, dict[int, int]] = {_DROPPED: {}, _SQUEEZED: {}}
    for name, labels, value in parse_metrics(text):
        core = int(labels["cpu"]) if labels.get("cpu", "").isdigit() else None
        if core is None:
            single[name] = value
        elif name == _CPU:
            modes.setdefault(core, {})[labels.get("mode", "")] = value
        elif name in counts:
            counts[name][core] = int(value)
    if not modes or _TIME not in single:
        raise WavebedError(f"the page lacks {_TIME if modes else _CPU}: is it that of node_exporter on Linux?")
    return Reading(
        single[_TIME],
        {core: _ticks(seconds) for core, seconds in modes.items()},
        started_s=single.get(_START),
        dropped=counts[_DROPPED] or None,
        squeezed=counts[_SQUEEZED] or None,
    )


def _ticks(modes: Mapping[str, float]) -> Ticks:
    total = sum(modes.values())
    idle = sum(seconds for mode, seconds in modes.items() if mode in _IDLE)
    return Ticks(total - idle, modes.get("softirq", 0.0), total, modes.get("steal", 0.0))
