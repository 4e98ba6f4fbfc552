"""The points of a laboratory as a stream of events (Server-Sent Events)."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from wavebed.errors import WavebedError
from wavebed.path.control import understood
from wavebed.ui.messages import RefusedError
from wavebed.ui.points import COLUMNS, Meter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wavebed.path.watch import Head as WatchHead
    from wavebed.path.watch import Sample, Watch

__all__ = ["FLUSH_S", "KIND", "MOST_STREAMS", "Head", "Points", "Streams"]

KIND = "text/event-stream"
FLUSH_S = 0.02
"""Points of so long travel in one event: a page draws no more often."""
SILENCE_S = 5.0
"""Without a point for so long, a comment keeps the connection."""
MOST_STREAMS = 16
"""Of one server: each has a thread there and samples of its own."""

Value: TypeAlias = int | float | str | None


class Head(Struct, frozen=True):
    """The first event: the names that the values of points have, in their order."""

    links: tuple[str, ...]
    directions: Annotated[tuple[str, ...], Meta(description="`HOST-HOST.down` or `.up`, which have a one-way delay")]
    columns: Annotated[tuple[str, ...], Meta(description="the values of a link")]
    every_ms: int


class TimelineNow(Struct, frozen=True):
    """Where a timeline is."""

    position_s: Annotated[float, Meta(description="time within it; its duration once it has ended")]
    stretch: Annotated[str, Meta(description="the stretch there")]
    playing: Annotated[bool, Meta(description="false in a pause")]
    speed: Annotated[float, Meta(description="1: as written")]


class Points(Struct, frozen=True):
    """One or more points, the oldest first."""

    time_s: Annotated[list[float], Meta(description="the end of each interval, since time zero")]
    links: Annotated[list[list[list[Value]]], Meta(description="by point, by link, by column")]
    transit_ms: Annotated[
        list[list[float | None]],
        Meta(description="by point, by direction: mean one-way delay as emulated; null without segments"),
    ]
    lost: Annotated[int, Meta(description="samples lost since the stream began, because it was read too slowly")]
    timeline: Annotated[TimelineNow | None, Meta(description="at the last of these points; null without")] = None


class Streams:
    """The streams of one server."""

    def __init__(self) -> None:
        self._room = threading.BoundedSemaphore(MOST_STREAMS)

    def open(self, open_watch: Callable[[], Watch]) -> Iterator[bytes]:
        """Yield the events of a laboratory until it ends; closing the iterator ends the watch.

        Raises
        ------
        RefusedError
            Before the first event, if there are too many streams.
        """
        if not self._room.acquire(blocking=False):
            raise RefusedError(503, f"{MOST_STREAMS} streams are open, which is as many as there may be")
        try:
            watch = open_watch()
            try:
                head = watch.head
                names = tuple(column.name for column in COLUMNS)
                yield _event("head", Head(head.links, head.directions, names, head.every_ms))
                yield from _points(watch)
            finally:
                watch.close()
        finally:
            self._room.release()


def _points(watch: Watch) -> Iterator[bytes]:
    meter = Meter(watch.head)
    batch = Points([], [], [], 0)
    sent_s = time.monotonic()
    while True:
        try:
            sample = watch.next(SILENCE_S)
            with understood(watch.name):
                point, now = meter.point(sample), _now(watch.head, sample)
        except TimeoutError:
            yield b": no sample\n\n"
            continue
        except WavebedError as error:
            yield _event("end", {"error": str(error)})
            return
        if point is None:
            continue
        batch.time_s.append(round(point.time_s, 6))
        batch.links.append(point.links)
        batch.transit_ms.append(point.transit_ms)
        if time.monotonic() - sent_s >= FLUSH_S:
            yield _event("points", msgspec.structs.replace(batch, lost=sample.lost, timeline=now))
            batch = Points([], [], [], 0)
            sent_s = time.monotonic()


def _now(head: WatchHead, sample: Sample) -> TimelineNow | None:
    if head.timeline is None or sample.timeline is None:
        return None
    now = dict(zip(head.timeline_columns, sample.timeline, strict=True))
    stretch = head.timeline.stretches[int(now["stretch"])].name
    return TimelineNow(round(now["position_ns"] / 1e9, 6), stretch, bool(now["playing"]), now["speed"])


def _event(name: str, value: object) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"
