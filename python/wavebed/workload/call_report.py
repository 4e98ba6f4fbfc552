"""Metrics of both directions of a call from the WebRTC statistics of its ends."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from wavebed.workload.model import Event, Metric, Outcome, Series
from wavebed.workload.percentiles import percentile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Stamps

__all__ = ["EVERY_MS", "Direction", "call_outcome", "known_call_metrics", "read_direction"]

EVERY_MS = 250
"""Time between two samples of the statistics."""

CPU_FRACTION = 0.1
"""A call is suspect if the processor limited it for more than this fraction of the time."""

FPS_FRACTION = 2 / 3
"""A call is suspect if a sender not limited by the path encodes less than this fraction of its camera's pictures."""

STANDSTILL_S = 0.5
"""A picture unchanged for this long at the end is a freeze; Chromium counts a freeze only at the next picture."""

Row: TypeAlias = "dict[str, Json]"


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction of a call.

    Parameters
    ----------
    name : str
        ``down``: what the client's end receives; ``up``: what the server's end receives.
    first_frame_ms : float or None
        From the moment when both ends have the other's session description to the first picture.
    from_s, end_s : float
        From the first picture to the end of the call, seconds since time zero.
    rows : sequence
        Its receiver's samples: seconds since time zero, and the counters of the incoming video.
    sender : mapping
        The last counters of its sender's outgoing video.
    freezes : sequence of Event
        With their beginning and end.
    """

    name: str
    first_frame_ms: float | None
    from_s: float
    end_s: float
    rows: Sequence[tuple[float, Mapping[str, float]]]
    sender: Mapping[str, Json]
    freezes: Sequence[Event]

    @property
    def last(self) -> Mapping[str, float]:
        """Its receiver's last counters."""
        return self.rows[-1][1] if self.rows else {}

    @property
    def seconds(self) -> float:
        """From the first picture to the end."""
        return self.end_s - self.from_s


def read_direction(
    name: str, receiver: Mapping[str, Json], sender: Mapping[str, Json], clock: Stamps, told_s: float
) -> Direction:
    """Read the statistics of the receiver and the sender of a direction.

    Parameters
    ----------
    clock : Stamps
        That of the receiver.
    told_s : float
        When both ends had the other's session description, seconds since time zero.
    """
    marks = cast("dict[str, float]", receiver["marks"])
    samples = cast("list[Row]", receiver["samples"])
    rows = [
        (clock.of_unix_s(cast("float", sample["at"]) / 1e3), cast("dict[str, float]", sample["inbound-rtp"]))
        for sample in samples
        if "inbound-rtp" in sample
    ]
    first = marks.get("firstFrame")
    outgoing = [
        cast("Row", row["outbound-rtp"]) for row in cast("list[Row]", sender["samples"]) if "outbound-rtp" in row
    ]
    end_s = clock.of_unix_s(marks["end"] / 1e3)
    from_s = clock.of_unix_s((marks["end"] if first is None else first) / 1e3)
    return Direction(
        name=name,
        first_frame_ms=None if first is None else 1e3 * (from_s - told_s),
        from_s=from_s,
        end_s=end_s,
        rows=rows,
        sender=outgoing[-1] if outgoing else {},
        freezes=_freezes(name, rows, end_s),
    )


def _freezes(name: str, rows: Sequence[tuple[float, Mapping[str, float]]], end_s: float) -> list[Event]:
    events = []
    for (_, before), (at_s, after) in pairwise(rows):
        if after.get("freezeCount", 0) > before.get("freezeCount", 0):
            lasted_s = after["totalFreezesDuration"] - before.get("totalFreezesDuration", 0)
            events.append(
                Event("freeze", at_s - lasted_s, at_s, name, after["freezeCount"] - before.get("freezeCount", 0))
            )
    still_s = [
        at_s
        for (_, before), (at_s, after) in pairwise(rows)
        if after.get("framesDecoded", 0) > before.get("framesDecoded", 0)
    ]
    if still_s and end_s - still_s[-1] > STANDSTILL_S + EVERY_MS / 1e3:
        events.append(Event("freeze", still_s[-1], end_s, name, 1.0))
    return events


def call_outcome(
    server: Mapping[str, Json], client: Mapping[str, Json], fps: int, clocks: tuple[Stamps, Stamps]
) -> Outcome:
    """Return the results of both directions.

    Parameters
    ----------
    server, client : mapping
        Results of the two ends: ``samples``, ``marks``, ``state``.
    fps : int
        Pictures per second of the cameras.
    clocks : tuple of Stamps
        Those of the server and of the client.
    """
    for name, end in (("server", server), ("client", client)):
        if "connected" not in cast("dict[str, float]", end["marks"]):
            return Outcome("failed", f"the {name}'s end never connected: its state was {end['state']!r}")
    of_server, of_client = clocks
    # The answer of the client comes to the server last.
    told_s = of_server.of_unix_s(cast("dict[str, float]", server["marks"])["begin"] / 1e3)
    directions = [
        read_direction("down", client, server, of_client, told_s),
        read_direction("up", server, client, of_server, told_s),
    ]
    rtt = {"server": _rtt(server, of_server), "client": _rtt(client, of_client)}
    if all(direction.first_frame_ms is None for direction in directions):
        return Outcome("failed", "the ends connected, but no picture came to either")
    metrics = [metric for direction in directions for metric in _metrics(direction)]
    metrics.extend(_rtt_metrics([ms for pairs in rtt.values() for _, ms in pairs if ms is not None]))
    return Outcome(
        metrics=metrics,
        series=[*(one for direction in directions for one in _series(direction)), *_rtt_series(rtt["client"])],
        events=sorted((event for direction in directions for event in direction.freezes), key=lambda one: one.time_s),
        details={
            "codec": "VP8",
            "state": {"server": server["state"], "client": client["state"]},
            "implementation": {direction.name: _implementation(direction) for direction in directions},
        },
        doubts=[doubt for direction in directions for doubt in _doubts(direction, fps)],
    )


def known_call_metrics() -> list[Metric]:
    """Return the metrics of a call without values."""
    both = [Direction(name, None, 0.0, 0.0, [], {}, []) for name in ("down", "up")]
    return [*(metric for direction in both for metric in _metrics(direction)), *_rtt_metrics([])]


def _metrics(direction: Direction) -> list[Metric]:
    last, name, seconds = direction.last, direction.name, direction.seconds
    seen = direction.first_frame_ms is not None and seconds > 0
    frozen_s = sum((event.end_s or event.time_s) - event.time_s for event in direction.freezes)
    heights = [row["frameHeight"] for _, row in direction.rows if "frameHeight" in row]
    received, lost = last.get("packetsReceived", 0.0), max(0.0, last.get("packetsLost", 0.0))
    total_bytes = _bytes(last) - _bytes(_at(direction.rows, direction.from_s))
    since = "from the first picture to the end of the call"
    stats = "WebRTC statistics of the receiver"
    return [
        Metric(
            f"frame rate {name}",
            last["framesDecoded"] / seconds if seen else None,
            "1/s",
            "higher",
            f"pictures decoded per second {since}; {stats}",
        ),
        Metric(
            f"freezes {name}",
            sum(event.value or 0 for event in direction.freezes) if seen else None,
            "",
            "lower",
            f"freezeCount, and a standstill at the end; {stats}",
        ),
        Metric(
            f"frozen {name}",
            100 * frozen_s / seconds if seen else None,
            "%",
            "lower",
            f"totalFreezesDuration and standstill at the end, as a fraction of the time {since}; {stats}",
        ),
        Metric(
            f"resolution {name}",
            float(np.median(heights)) if heights else None,
            "px",
            "higher",
            f"median of frameHeight, sampled every {EVERY_MS} ms; {stats}",
        ),
        Metric(
            f"bitrate {name}",
            8 * total_bytes / seconds / 1e6 if seen else None,
            "Mbit/s",
            "higher",
            f"RTP headers and payload of video, retransmissions included, {since}; {stats}",
        ),
        Metric(
            f"packet loss {name}",
            100 * lost / (received + lost) if received + lost else None,
            "%",
            "lower",
            f"packetsLost / (packetsLost + packetsReceived) of video; {stats}",
        ),
        Metric(
            f"time to first frame {name}",
            direction.first_frame_ms,
            "ms",
            "lower",
            "from when both ends have the other's session description to the first picture: 2",
        ),
    ]


def _at(rows: Sequence[tuple[float, Mapping[str, float]]], moment_s: float) -> Mapping[str, float]:
    """Return the last counters at a moment; empty before the first sample."""
    return next((row for at_s, row in reversed(rows) if at_s <= moment_s), {})


def _bytes(row: Mapping[str, float]) -> float:
    return row.get("bytesReceived", 0.0) + row.get("headerBytesReceived", 0.0)


def _rtt(end: Mapping[str, Json], clock: Stamps) -> list[tuple[float, float | None]]:
    found = []
    for sample in cast("list[Row]", end["samples"]):
        report = cast("dict[str, float]", sample.get("remote-inbound-rtp", {}))
        rtt_s = report.get("roundTripTime")
        found.append((clock.of_unix_s(cast("float", sample["at"]) / 1e3), None if rtt_s is None else rtt_s * 1e3))
    return found


def _rtt_metrics(values: Sequence[float]) -> list[Metric]:
    text = f"roundTripTime by RTCP (RFC 3550), the latest every {EVERY_MS} ms, both ends together"
    return [Metric(f"rtt p{rank}", percentile(values, rank), "ms", "lower", text) for rank in (50, 95)]


def _rtt_series(pairs: Sequence[tuple[float, float | None]]) -> list[Series]:
    return [Series("rtt", "ms", [at_s for at_s, _ in pairs], [ms for _, ms in pairs])]


def _series(direction: Direction) -> list[Series]:
    rates: list[float | None] = []
    frames: list[float | None] = []
    buffers: list[float | None] = []
    for (before_s, before), (at_s, after) in pairwise(direction.rows):
        passed_s = at_s - before_s
        grown = {key: after.get(key, 0.0) - before.get(key, 0.0) for key in _GROWING}
        emitted = grown["jitterBufferEmittedCount"]
        rates.append(8 * (grown["bytesReceived"] + grown["headerBytesReceived"]) / passed_s / 1e6 if passed_s else None)
        frames.append(grown["framesDecoded"] / passed_s if passed_s else None)
        buffers.append(1e3 * grown["jitterBufferDelay"] / emitted if emitted else None)
    later = direction.rows[1:]
    time_s = [at_s for at_s, _ in later]
    heights = [row.get("frameHeight") for _, row in later]
    return [
        Series(f"frame rate {direction.name}", "1/s", time_s, frames),
        Series(f"bitrate {direction.name}", "Mbit/s", time_s, rates),
        Series(f"resolution {direction.name}", "px", time_s, heights),
        Series(f"jitter buffer {direction.name}", "ms", time_s, buffers),
    ]


_GROWING = ("bytesReceived", "headerBytesReceived", "framesDecoded", "jitterBufferDelay", "jitterBufferEmittedCount")


def _implementation(direction: Direction) -> dict[str, Json]:
    return {
        "encoder": direction.sender.get("encoderImplementation"),
        "decoder": direction.last.get("decoderImplementation"),
        "limited by": direction.sender.get("qualityLimitationDurations"),
    }


def _doubts(direction: Direction, fps: int) -> list[str]:
    if direction.first_frame_ms is None:
        return [f"no picture came {direction.name}"]
    limited_s = cast("dict[str, float]", direction.sender.get("qualityLimitationDurations") or {})
    total_s = sum(limited_s.values())
    if not total_s:
        return []
    by_processor = limited_s.get("cpu", 0.0) / total_s
    if by_processor > CPU_FRACTION:
        return [f"the processor, not the path, limited the call {direction.name} for {by_processor:.0%} of the time"]
    made = cast("float", direction.sender.get("framesEncoded") or 0.0) / total_s
    if limited_s.get("none", 0.0) / total_s > 0.5 and made < FPS_FRACTION * fps:
        return [f"the sender {direction.name} encoded {made:.0f} of {fps} pictures per second with enough bitrate"]
    return []
