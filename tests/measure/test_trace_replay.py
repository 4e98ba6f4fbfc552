"""Traces, replayed on the real stack and compared with themselves, window by window."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from programs import python, wait_for_datagrams
from tests.traces import trace

from wavebed.path.api import Path
from wavebed.pattern import Pattern, read_trace

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    from numpy.typing import NDArray

#: File, format, and where the replay begins, seconds: where the rate changes most.
MADE_UP = [
    ("made-up-lte.down", "mahimahi", 3),
    ("made-up-walk.txt", "seconds-mbit", 3),
]
SECONDS = 5
WINDOW_MS = 100
PAYLOAD = 1472

_FLOOD = """
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_UDP, 103, {payload})  # UDP_SEGMENT
data = bytes({payload} * {burst})
address = socket.getaddrinfo("client", {port}, socket.AF_INET)[0][4]
start = time.monotonic()
sent = 0
while (now := time.monotonic() - start) < {seconds}:
    if sent * {burst} * 12000 <= now * {rate_bps}:
        s.sendto(data, address)
        sent += 1
    else:
        time.sleep(0.0005)
"""

_SINK = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_UDP, 104, 1)  # UDP_GRO
s.bind(("0.0.0.0", {port}))
print("ready", flush=True)
s.settimeout(2)
total = 0
try:
    while True:
        total += len(s.recv(70000))
except TimeoutError:
    print(total)
"""


def _rows(file: FilePath) -> list[dict[str, str]]:
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


@pytest.mark.parametrize(
    ("name", "kind", "start_s"),
    MADE_UP,
    ids=[name for name, *_ in MADE_UP],
)
def test_the_link_delivers_what_the_trace_says(name: str, kind: str, start_s: int, tmp_path: FilePath) -> None:
    file = trace(name, tmp_path)
    pattern = read_trace(file, kind)
    seconds = (start_s + np.arange(SECONDS + 1)) * 10**9
    peak_bps = float(np.diff(_allowed_bytes(pattern, seconds)).max() * 8)
    emulated = Path.of(down_trace=str(file), trace_format=kind, start_at=f"{start_s}s", down_queue="droptail:3mb")
    with emulated.up(log=tmp_path / "log") as lab:
        lab.client.start(python(_SINK), stdout=-1)
        wait_for_datagrams(lab, "client")
        lab.server.run(
            python(_FLOOD, payload=PAYLOAD, burst=20, seconds=SECONDS, rate_bps=int(peak_bps * 1.3)), check=True
        )
    assert lab.summary is not None
    assert cast("list[dict[str, Any]]", lab.summary["links"])[0]["unaccounted_segments"] == 0
    _compare(pattern, start_s, tmp_path / "log")


def _allowed_bytes(pattern: Pattern, at_ns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return what the pattern allows from its start to each time, bytes, from its plain columns."""
    if pattern.kind == "opportunities":
        assert pattern.size_bytes is not None
        total = np.concatenate(([0], np.cumsum(pattern.size_bytes)))
        # An opportunity at the edge itself is used a moment later: it belongs to the next window.
        return total[np.searchsorted(pattern.index, at_ns, side="left")].astype(float)
    assert pattern.rate_bps is not None
    edges = np.append(pattern.index, pattern.period)
    total = np.concatenate(([0.0], np.cumsum(np.diff(edges) * pattern.rate_bps / 8e9)))
    return np.interp(at_ns, edges, total)


def _compare(pattern: Pattern, start_s: int, folder: FilePath) -> None:
    """Compare the bytes that were really handed over, by the clock, with those that the trace allows."""
    handed = np.zeros(SECONDS * 1000)
    on_time = np.ones(SECONDS * 1000 // WINDOW_MS, dtype=bool)
    for row in _rows(folder / "departures.server-client.down.csv"):
        at_ms = int(row["time_ms"])
        if at_ms < len(handed):
            handed[at_ms] = int(row["bytes"])
        if int(row["late_max_ns"]) > 500_000:
            # What is late is missing in the window in which it was due, and too much in the one in which it left.
            due_ms = max(0, at_ms - 1 - int(row["late_max_ns"]) // 10**6)
            on_time[due_ms // WINDOW_MS : at_ms // WINDOW_MS + 1] = False
    edges = start_s * 10**9 + np.arange(0, SECONDS * 1000 + 1, WINDOW_MS) * 10**6
    allowed = np.diff(_allowed_bytes(pattern, edges.astype(np.int64)))
    found = handed.reshape(-1, WINDOW_MS).sum(axis=1)
    # A queue that holds at the end of a millisecond what the link can send in the next one does not run empty in it.
    backlogged = np.zeros(len(handed), dtype=bool)
    most_bytes = allowed.max() / WINDOW_MS
    for row in _rows(folder / "radio.down.csv"):
        if int(row["queue_bytes"]) >= most_bytes and int(row["time_ms"]) + 1 < len(handed):
            backlogged[int(row["time_ms"]) + 1] = True
    backlogged = backlogged.reshape(-1, WINDOW_MS).all(axis=1)
    # A sender that was held up, and the time that it needs to start, say nothing about the link.
    judged = np.flatnonzero((np.arange(len(found)) >= 10) & on_time & backlogged)
    if len(judged) < len(found) / 3:
        pytest.skip(f"inconclusive: the machine was late in all but {len(judged)} of {len(found)} windows")
    error = np.abs(found - allowed)[judged]
    # Half a per cent; a segment or two, since one LTE segment can last two windows; and what is due in the last
    # quarter of a millisecond, which may leave in the next window: where the rate falls, that is much for the next.
    before = np.concatenate((allowed[:1], allowed[:-1]))
    slip = np.maximum(allowed, before) * 0.25 / WINDOW_MS
    within = error <= (0.005 * allowed + slip + 2 * (PAYLOAD + 28))[judged]
    assert within.mean() >= 0.99, f"windows {judged[~within]}: {found[judged][~within]} for {allowed[judged][~within]}"
    assert found[judged].sum() == pytest.approx(allowed[judged].sum(), rel=0.005, abs=6_000)
