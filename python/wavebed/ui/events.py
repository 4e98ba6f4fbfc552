"""Two samples of counters become the values of the interval between them: rates, delays, losses, conditions."""

from __future__ import annotations

import os
import stat
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Struct

from wavebed.errors import UserError, WavebedError
from wavebed.path.control import understood
from wavebed.ui.guard import RequestRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from wavebed.path.control import LinkSample, SampleHead, Watch


_MODULUS = 1 << 64


class PointColumn(NamedTuple):
    """A value of a point: its name with its unit, and its meaning."""

    name: str
    meaning: str


COLUMNS = (
    PointColumn("offered_bps", "IP bits that entered, per second"),
    PointColumn("delivered_bps", "IP bits that left at the far end, per second"),
    PointColumn("dropped_segments", "segments dropped in the interval"),
    PointColumn("marked_segments", "segments marked CE in the interval"),
    PointColumn("queued_bytes", "IP bytes in the link at its end"),
    PointColumn("queued_segments", "segments in the link at its end"),
    PointColumn("wait_ms", "mean time in the queue of the segments that left it; null without"),
    PointColumn("rate_bps", "rate of the link at its end; null without"),
    PointColumn("delay_ms", "delay beside queueing at its end; null without"),
    PointColumn("loss", "probability of loss at its end, 0 to 1; null where unknown"),
    PointColumn("blocks_sent", "transmissions of radio blocks in the interval"),
    PointColumn("blocks_failed", "failed ones"),
    PointColumn("air_share", "air time of radio blocks in the interval, as a part of it"),
    PointColumn("link_failures", "failures of the radio link"),
    PointColumn("state", "state of the radio at its end; null without"),
    PointColumn("sinr_db", "effective SINR of the data at its end; null without"),
)
"""The values of a link over one interval, in the order of events and recordings; null where nobody counts."""

Row: TypeAlias = "list[Value]"


class Point(NamedTuple):
    """The values of one interval.

    Parameters
    ----------
    time_s : float
        Its end, since time zero.
    links : list
        The values of each link, then of each modelled user of a cell, in the order of `COLUMNS`.
    transit_ms : list
        The mean emulated one-way delay of each direction; ``None`` without segments.
    """

    time_s: float
    links: list[Row]
    transit_ms: list[float | None]


class Meter:
    """Makes points of the samples of one laboratory.

    Parameters
    ----------
    head : SampleHead
        The names of their values.
    """

    def __init__(self, head: SampleHead) -> None:
        self._places = {name: place for place, name in enumerate(head.link_columns)}
        self._of_users = {name: place for place, name in enumerate(head.user_columns)}
        self._before: LinkSample | None = None

    def point(self, sample: LinkSample) -> Point | None:
        """Return the values since the last sample; ``None`` after the first one, or if no time has passed.

        A sample of another form raises what `wavebed.path.control.understood` catches.
        """
        before = self._before
        if before is None:
            self._before = sample
            return None
        at = self._places["at_ns"]
        if any(_number(now[at]) <= _number(then[at]) for then, now in zip(before.links, sample.links, strict=True)):
            return None
        self._before = sample
        links = [self._row(then, now) for then, now in zip(before.links, sample.links, strict=True)]
        links += [self._of_user(then, now) for then, now in zip(before.users, sample.users, strict=True)]
        transit = [_mean_ms(*then, *now) for then, now in zip(before.directions, sample.directions, strict=True)]
        return Point(max(_number(row[at]) for row in sample.links) / 1e9, links, transit)

    def _of_user(self, then: Sequence[Value], now: Sequence[Value]) -> Row:
        """Return the values of a modelled user, in the columns of a link."""

        def grown(name: str) -> int | float:
            return _number(now[self._of_users[name]]) - _number(then[self._of_users[name]])

        seconds = max(grown("at_ns"), 1) / 1e9
        values: dict[str, Value] = {
            "offered_bps": round(grown("offered_bytes") * 8 / seconds),
            "delivered_bps": round(grown("served_bytes") * 8 / seconds),
            "queued_bytes": now[self._of_users["queued_bytes"]],
            "air_share": round(grown("air_ns") / 1e9 / seconds, 4),
        }
        return [values.get(column.name) for column in COLUMNS]

    def _row(self, then: Sequence[Value], now: Sequence[Value]) -> Row:
        def grown(name: str) -> int | None:
            first, last = then[self._places[name]], now[self._places[name]]
            return None if first is None or last is None else int(_number(last) - _number(first))

        def bps(name: str) -> int | None:
            count = grown(name)
            return None if count is None else round(count * 8 / seconds)

        def held(name: str) -> Value:
            return now[self._places[name]]

        def pair(sample: Sequence[Value]) -> tuple[Value, Value]:
            return sample[self._places["waited_ns"]], sample[self._places["waited_segments"]]

        seconds = (grown("at_ns") or 0) / 1e9
        air_ns = grown("air_ns")
        delay_ns = held("delay_ns")
        return [
            bps("offered_bytes"),
            bps("delivered_bytes"),
            grown("dropped_segments"),
            grown("marked_segments"),
            held("queued_bytes"),
            held("queued_segments"),
            _mean_ms(*pair(then), *pair(now)),
            held("rate_bps"),
            None if delay_ns is None else _number(delay_ns) / 1e6,
            held("loss"),
            grown("blocks_sent"),
            grown("blocks_failed"),
            None if air_ns is None else round(air_ns / 1e9 / seconds, 4),
            grown("link_failures"),
            held("state"),
            held("sinr_db"),
        ]


def names_of(head: SampleHead) -> tuple[str, ...]:
    """Return the names of the rows of a point: links, then modelled users as ``radio.neighbour-1.down``."""
    return (*head.links, *head.users)


def _mean_ms(sum_before: Value, count_before: Value, sum_now: Value, count_now: Value) -> float | None:
    """Return the mean of the times that were added in between; their sums count modulo 2^64."""
    if None in (sum_before, count_before, sum_now, count_now):
        return None
    count = _number(count_now) - _number(count_before)
    if count == 0:
        return None
    return round((_number(sum_now) - _number(sum_before)) % _MODULUS / count / 1e6, 4)


def _number(value: Value) -> int | float:
    if not isinstance(value, int | float):
        raise TypeError("a counter is a number")
    return value


KIND = "text/event-stream"
FLUSH_S = 0.02
"""Period of points in one event: a page draws no more often."""
SILENCE_S = 5.0
"""Send an SSE comment after this long without data, as keep-alive."""
MOST_STREAMS = 16
"""Of one server: each has a thread there and samples of its own."""

Value: TypeAlias = int | float | str | None


class PointHead(Struct, frozen=True):
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
            raise RequestRefusedError(503, f"{MOST_STREAMS} streams are open, which is as many as there may be")
        try:
            watch = open_watch()
            try:
                head = watch.head
                names = tuple(column.name for column in COLUMNS)
                yield _event("head", PointHead(names_of(head), head.directions, names, head.every_ms))
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


def _now(head: SampleHead, sample: LinkSample) -> TimelineNow | None:
    if head.timeline is None or sample.timeline is None:
        return None
    now = dict(zip(head.timeline_columns, sample.timeline, strict=True))
    stretch = head.timeline.stretches[int(now["stretch"])].name
    return TimelineNow(round(now["position_ns"] / 1e9, 6), stretch, bool(now["playing"]), now["speed"])


def _event(name: str, value: object) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"


MOST_RUNNING = 4
MOST_KEPT = 100
MOST_BYTES = 4 << 30
"""Of one file: days of a laboratory with two links each 10 ms."""
_LOOK_S = 0.2
_STOP_S = 30.0
"""What is written last may wait for the disk."""
_FLUSH_S = 1.0
_CHUNK_BYTES = 1 << 18

State: TypeAlias = Literal["running", "stopped", "ended", "full", "failed"]


class Recorded(Struct, frozen=True):
    """A recording: a CSV file with a row for each link and point."""

    id: int
    lab: str
    file: Annotated[str, Meta(description="its name in the folder of `--record-to`")]
    every_ms: int
    started: Annotated[str, Meta(description="UTC, ISO 8601")]
    state: Annotated[
        State,
        Meta(description="`ended`: the laboratory did; `full`: the file has 4 GiB; `failed`: it cannot be written"),
    ]
    points: int
    lost: Annotated[int, Meta(description="samples that are missing because this machine was late")]
    bytes: int


class Recordings:
    """The recordings of one server.

    Parameters
    ----------
    folder : path or None
        Where the files go; without one, no recording is possible.

    Raises
    ------
    UserError
        If the folder cannot be made or opened.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder: int | None = None
        self._lock = threading.Lock()
        self._kept: dict[int, _Recording] = {}
        self._last = 0
        if folder is None:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            reason = (error.strerror or "cannot be opened").lower()
            raise UserError(f"--record-to: {str(folder)!r}: {reason}: name a folder that can be made") from None

    @property
    def possible(self) -> bool:
        """Whether there is a folder for them."""
        return self._folder is not None

    def all(self) -> list[Recorded]:
        """Return their states, the oldest first."""
        with self._lock:
            return [each.state() for each in self._kept.values()]

    def start(self, lab: str, every_ms: int, open_watch: Callable[[], Watch]) -> Recorded:
        """Start one.

        Raises
        ------
        RefusedError
            If there is no folder, too many run, or the file cannot be made.
        """
        with self._lock:
            folder = self._folder
            if folder is None:
                raise RequestRefusedError(409, "this server records nothing: start it with wavebed ui --record-to DIR")
            if sum(each.runs for each in self._kept.values()) >= MOST_RUNNING:
                raise RequestRefusedError(
                    409, f"{MOST_RUNNING} recordings run, which is as many as there may be: stop one"
                )
            watch = open_watch()
            self._last += 1
            try:
                made = _Recording(self._last, lab, every_ms, folder, watch)
            except OSError as error:
                watch.close()
                reason = (error.strerror or "cannot be made").lower()
                raise RequestRefusedError(409, f"the file of the recording: {reason}") from None
            except BaseException:
                watch.close()
                raise
            self._kept[self._last] = made
            for number in [number for number, each in self._kept.items() if not each.runs][:-MOST_KEPT]:
                del self._kept[number]
        return made.state()

    def stop(self, number: int) -> Recorded:
        """Stop one and return its state; one that has ended stays as it is.

        Raises
        ------
        RefusedError
            If there is none of this number.
        """
        recording = self._of(number)
        recording.stop()
        return recording.state()

    def read(self, number: int) -> tuple[str, Iterator[bytes]]:
        """Return the name and the content of a file, as far as it is written.

        Raises
        ------
        RefusedError
            If there is none of this number, or the file is gone.
        """
        recording = self._of(number)
        try:
            return recording.name, recording.content()
        except OSError:
            raise RequestRefusedError(410, f"the file {recording.name} is gone") from None

    def close(self) -> None:
        """Stop all of them."""
        with self._lock:
            kept = list(self._kept.values())
            folder, self._folder = self._folder, None
            if folder is not None:
                os.close(folder)
        for each in kept:
            each.stop()

    def _of(self, number: int) -> _Recording:
        with self._lock:
            found = self._kept.get(number)
        if found is None:
            raise RequestRefusedError(404, f"there is no recording {number}")
        return found


class _Recording:
    """One recording, with its thread."""

    def __init__(self, number: int, lab: str, every_ms: int, folder: int, watch: Watch) -> None:
        began = time.gmtime()
        self.name = f"{lab}-{time.strftime('%Y%m%d-%H%M%S', began)}-{number}.csv"
        self._facts = (number, lab, self.name, every_ms, time.strftime("%Y-%m-%dT%H:%M:%SZ", began))
        self._watch = watch
        self._state: State = "running"
        self._points = self._lost = self._bytes = 0
        self._stop = threading.Event()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._folder = os.dup(folder)
        weakref.finalize(self, os.close, self._folder)
        self._file = os.fdopen(os.open(self.name, flags, 0o666, dir_fd=folder), "w", encoding="ascii", newline="")
        self._thread = threading.Thread(target=self._run, name=f"recording {number}", daemon=True)
        self._thread.start()

    @property
    def runs(self) -> bool:
        return self._state == "running"

    def state(self) -> Recorded:
        number, lab, name, every_ms, started = self._facts
        return Recorded(number, lab, name, every_ms, started, self._state, self._points, self._lost, self._bytes)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(_STOP_S)

    def content(self) -> Iterator[bytes]:
        """Return the present content of the file, which is opened again by its own name in the folder."""
        found = os.stat(self.name, dir_fd=self._folder, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):
            raise FileNotFoundError(self.name)
        return self._read(found.st_size)

    def _read(self, size: int) -> Iterator[bytes]:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self.name, flags, dir_fd=self._folder), "rb") as stream:
            while size > 0 and (chunk := stream.read(min(size, _CHUNK_BYTES))):
                size -= len(chunk)
                yield chunk

    def _run(self) -> None:
        end: State = "failed"
        try:
            end = self._record()
        except OSError:
            pass  # the disk is full, or the folder is gone: the state says so
        finally:
            self._watch.close()
            with suppress(OSError):
                self._file.close()
            self._state = end

    def _record(self) -> State:
        head = self._watch.head
        meter = Meter(head)
        self._write(",".join(("time_s", "link", *(column.name for column in COLUMNS))) + "\r\n")
        flushed_s = time.monotonic()
        while not self._stop.is_set():
            try:
                sample = self._watch.next(_LOOK_S)
                self._lost = sample.lost
                with understood(self._watch.name):
                    point = meter.point(sample)
                    if point is not None:
                        self._write("".join(_rows(names_of(head), point)))
                        self._points += 1
            except TimeoutError:
                continue
            except WavebedError:
                return "ended"
            if time.monotonic() - flushed_s >= _FLUSH_S:
                self._file.flush()
                flushed_s = time.monotonic()
            if self._bytes >= MOST_BYTES:
                return "full"
        self._file.flush()
        return "stopped"

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._bytes += len(text)


def _rows(links: tuple[str, ...], point: Point) -> Iterator[str]:
    for name, row in zip(links, point.links, strict=True):
        values = ("" if value is None else str(value) for value in row)
        yield ",".join((f"{point.time_s:.6f}", name, *values)) + "\r\n"
