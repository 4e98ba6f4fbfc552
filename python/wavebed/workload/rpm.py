"""Working latency in round trips per minute, from new connections of curl to wavebed's web server.

The formula comes from draft-ietf-ippm-responsiveness after its version 07. It has two parts: F from separate (foreign)
connections, and L from requests on the connections with the load. Here other programs own the loaded connections, so
only F is measured, and named so.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, cast

from wavebed.errors import WavebedError
from wavebed.workload.model import Metric, Series
from wavebed.workload.probing import WINDOWS, window_of
from wavebed.workload.programs import create, end_within, output_of, wait_for_end
from wavebed.workload.serve import VirtualHost, start_web_server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Host
    from wavebed.workload.model import TimeSpan, TrialContext
    from wavebed.workload.serve import Certificate, RunningServer


FORMULA = (
    "foreign-only variant of draft-ietf-ippm-responsiveness after -07: F = 60000/((TM(tcp_f)+TM(tls_f)+TM(http_f))/3),"
    " TM the mean in ms without the largest 5 %; without L, as the load's own connections cannot be probed"
)
LEAST_EXCHANGES = 10
"""With fewer exchanges in a window, its metrics are missing."""

EVERY_S = 0.25
"""Interval between exchanges: a start of curl takes about 10 ms of a processor."""

_KEPT_PERCENT = 95
_LONGEST_S = 10
_OBJECT = "probe"
_CUT = "ended with the workload"
_PARTS = {
    "tcp_ms": ("tcp_f", "TCP handshake (curl: connect - namelookup)"),
    "tls_ms": ("tls_f", "TLS 1.3 handshake (curl: appconnect - connect)"),
    "http_ms": ("http_f", "request of one byte by HTTP/2 to its first byte (curl: starttransfer - appconnect)"),
}


@dataclass(frozen=True, slots=True)
class Exchange:
    """One new connection: TCP handshake, TLS handshake, one request and the first byte of its answer.

    Parameters
    ----------
    start_s : float
        Start of curl, seconds since time zero.
    tcp_ms, tls_ms, http_ms : float or None
        Duration of each part; ``None`` if the exchange failed.
    """

    start_s: float
    tcp_ms: float | None
    tls_ms: float | None
    http_ms: float | None


class RpmProber:
    """Opens one connection after the other until `end`.

    Parameters
    ----------
    context : TrialContext
        Its server serves an object of one byte.
    port : int
        TCP port of the web server.
    certificate : Certificate
        For the name of the server's host.
    """

    name = "rpm"

    def __init__(self, context: TrialContext, port: int, certificate: Certificate) -> None:
        folder = context.folder / "rpm"
        root = folder / "www"
        root.mkdir(parents=True)
        (root / _OBJECT).write_bytes(b"1")
        self._server: RunningServer = start_web_server(
            context.server, [VirtualHost(context.server.name, "*", port, root)], "h2", folder, certificate
        )
        self._client: Host = context.client
        self._clock = context.clock
        self._output = context.folder / "rpm.jsonl"
        self._argv = [
            context.client.program("curl"), "-sS", "-4", "--noproxy", "*",
            "--http2", "--tlsv1.3", *certificate.curl_options(),
            "--max-time", str(_LONGEST_S), "-o", "/dev/null", "-w", "%{json}\n",
            f"https://{context.server.name}:{port}/{_OBJECT}",
        ]  # fmt: skip
        self._over = threading.Event()
        self._error: WavebedError | None = None
        self._ended: threading.Event | None = None

    def start(self) -> None:
        """Begin."""
        self._ended = self._clock.start(self._probe, self.name)

    def look(self) -> None:
        """Check that it still works.

        Raises
        ------
        WavebedError
            If curl cannot be run.
        """
        if self._error is not None:
            raise self._error

    def end(self) -> None:
        """End the exchange that runs, and all."""
        self._over.set()
        if self._ended is not None:
            self._clock.wait(self._ended)
        self._server.stop()
        self.look()

    def exchanges(self) -> list[Exchange]:
        """Return its exchanges."""
        return read_exchanges(self._output) if self._output.exists() else []

    def _probe(self) -> None:
        try:
            with create(self._output) as output:
                while not self._over.is_set():
                    next_s = self._clock.monotonic_s() + EVERY_S
                    output.write(json.dumps(self._exchange()).encode() + b"\n")
                    self._clock.wait(self._over, max(0.0, next_s - self._clock.monotonic_s()))
        except (WavebedError, OSError, ValueError) as error:
            self._error = error if isinstance(error, WavebedError) else WavebedError(f"rpm: {error}")

    def _exchange(self) -> dict[str, Json]:
        start_s = self._clock.now_s()
        process = self._client.start(self._argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, confined=True)
        wait_for_end(process, self._over)
        if not end_within(process, 0.001, signal.SIGKILL):
            return {"start_s": start_s, "error": _CUT}
        said, complaint = process.output()
        if process.returncode != 0:
            return {"start_s": start_s, "error": (complaint or "").strip() or f"curl ended with {process.returncode}"}
        return {"start_s": start_s, "curl": cast("Json", json.loads(said or ""))}


def read_exchanges(file: Path) -> list[Exchange]:
    """Return the exchanges that `RpmProber` wrote; the one that was cut off at the end is left out."""
    exchanges = []
    for line in output_of(file).splitlines():
        row = cast("dict[str, Json]", json.loads(line))
        start_s = cast("float", row["start_s"])
        if "curl" in row:
            exchanges.append(Exchange(start_s, *_parts(cast("dict[str, float]", row["curl"]))))
        elif row["error"] != _CUT:
            exchanges.append(Exchange(start_s, None, None, None))
    return exchanges


def _parts(said: Mapping[str, float]) -> tuple[float, float, float]:
    marks_s = [said[f"time_{name}"] for name in ("namelookup", "connect", "appconnect", "starttransfer")]
    tcp_ms, tls_ms, http_ms = (1e3 * (later - earlier) for earlier, later in pairwise(marks_s))
    return tcp_ms, tls_ms, http_ms


def trimmed_mean(values: Sequence[float]) -> float:
    """Return the mean of the smallest 95 % of the values, rounded up to whole values."""
    kept = sorted(values)[: ceil(len(values) * _KEPT_PERCENT / 100)]
    return sum(kept) / len(kept)


def foreign_rpm(tcp_ms: float, tls_ms: float, http_ms: float) -> float:
    """Return F, in round trips per minute, from the trimmed means of the three parts."""
    return 60_000 / ((tcp_ms + tls_ms + http_ms) / 3)


def rpm_metrics(exchanges: Sequence[Exchange], loads: Sequence[TimeSpan]) -> list[Metric]:
    """Return F and its parts on the idle and on the loaded path, and the failures."""
    metrics = []
    for window in WINDOWS:
        some = [exchange for exchange in exchanges if window_of(exchange.start_s, loads) == window]
        columns = {name: [ms for ms in (getattr(one, name) for one in some) if ms is not None] for name in _PARTS}
        enough = len(columns["tcp_ms"]) >= LEAST_EXCHANGES
        means = [trimmed_mean(columns[name]) if enough else None for name in _PARTS]
        value = foreign_rpm(*(mean for mean in means if mean is not None)) if enough else None
        metrics.append(Metric(f"rpm foreign {window}", value, "1/min", "higher", FORMULA))
        metrics.extend(
            Metric(f"rpm {label} {window}", mean, "ms", "lower", f"{text}; trimmed mean, {FORMULA}")
            for (label, text), mean in zip(_PARTS.values(), means, strict=True)
        )
    failed = sum(exchange.tcp_ms is None for exchange in exchanges)
    percent = 100 * failed / len(exchanges) if exchanges else None
    text = f"new connections without an answer within {_LONGEST_S} s; excluded from the means"
    return [*metrics, Metric("rpm failed", percent, "%", "lower", text)]


def rpm_series(exchanges: Sequence[Exchange]) -> list[Series]:
    """Return the durations of the parts of each exchange."""
    time_s = [exchange.start_s for exchange in exchanges]
    return [
        Series(f"rpm {label}", "ms", time_s, [getattr(exchange, name) for exchange in exchanges])
        for name, (label, _) in _PARTS.items()
    ]
