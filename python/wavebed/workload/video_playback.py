"""Read the page's record: presented frames, stalls, switches, requests."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypedDict

from wavebed.workload.media.ladder import FRAMES_PER_S
from wavebed.workload.qoe import Chunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.lab.protocol import Clock
    from wavebed.workload.media.ladder import Representation

__all__ = ["OK_STATUS", "Frame", "Interval", "Playback", "Record", "Request", "Switch", "read"]

PICTURE_STALL_S = 0.5
"""A picture unchanged for longer is a stall, even if the player's clock continues (audio only)."""
JUMP_S = 0.5
"""Frames further apart in the media are a jump: the media between them was not shown."""
_RUNNING = (0.5, 1.5)
"""A clock with a speed in this range of real time was not stalled, despite such events."""
_END_SLACK_S = 1 / FRAMES_PER_S
OK_STATUS = 200
MEDIA_ERRORS = (3, 4)
"""``MEDIA_ERR_DECODE`` and ``MEDIA_ERR_SRC_NOT_SUPPORTED`` of HTML; dash.js has no such codes of its own."""


class RequestRecord(TypedDict):
    """One entry of Resource Timing."""

    url: str
    start: float
    request: float
    response: float
    end: float
    bytes: int
    transferred: int
    status: int
    protocol: str


class Record(TypedDict):
    """The file that the agent writes; times are milliseconds of the page's clock."""

    started: float
    ended: float
    outcome: str
    position: float
    decoded: int
    dropped: int
    events: list[tuple[float, str, float]]
    samples: list[tuple[float, float, float]]
    frames: list[tuple[float, float, int, int]]
    errors: list[tuple[float, int | None, str]]
    requests: list[RequestRecord]
    origin_ns: int
    uncertainty_ns: int


@dataclass(frozen=True, slots=True)
class Frame:
    """A presented frame: its time, its time in the media, and its representation."""

    time_s: float
    media_s: float
    representation: Representation


@dataclass(frozen=True, slots=True)
class Interval:
    """A stall: its start and end, and its time in the media."""

    start_s: float
    end_s: float
    media_s: float

    @property
    def duration_s(self) -> float:
        """Its duration."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class Switch:
    """The first frame of another representation."""

    time_s: float
    before: Representation
    after: Representation


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the player over the network.

    `status` is 0 without an answer; `request_s` is the time of sending, `end_s` that of the last byte.
    """

    path: str
    request_s: float
    end_s: float
    bytes: int
    transferred: int
    status: int

    @property
    def segment(self) -> int | None:
        """The number of a video segment, from 1; none of other requests."""
        folder, _, name = self.path.rpartition("/")
        number = name.removesuffix(".m4s")
        return int(number) if folder != "audio" and name != number and number.isdecimal() else None

    @property
    def is_complete(self) -> bool:
        """Whether it came over the network, whole."""
        return self.status == OK_STATUS and self.transferred > 0


@dataclass(frozen=True, slots=True)
class Playback:
    """One session. Times are seconds since time zero, ``None`` for what did not happen.

    `position_s` is the time in the media at its end.
    """

    start_s: float
    first_frame_s: float | None
    begin_s: float | None
    end_s: float
    outcome: str
    frames: Sequence[Frame]
    stalls: Sequence[Interval]
    switches: Sequence[Switch]
    buffer: Sequence[tuple[float, float]]
    requests: Sequence[Request]
    errors: Sequence[tuple[int | None, str]]
    decoded: int
    dropped: int
    position_s: float
    uncertainty_s: float

    @property
    def watched_s(self) -> float:
        """Time from the start of playback to its end, stalls included; 0 if it never started."""
        return 0.0 if self.begin_s is None else max(0.0, self.end_s - self.begin_s)

    @property
    def stalled_s(self) -> float:
        """Time stalled after the start."""
        return sum(stall.duration_s for stall in self.stalls)

    @property
    def skipped_s(self) -> float:
        """Media time not shown: the player jumped over it, or its frames were dropped."""
        return sum(max(0.0, b.media_s - a.media_s) for a, b in pairwise(self.frames) if _is_jump(a, b))

    @property
    def is_media_broken(self) -> bool:
        """Whether the browser could not decode the media."""
        return any(code in MEDIA_ERRORS for code, _ in self.errors)

    def shown_s(self) -> dict[str, float]:
        """Return the shown media time of each representation, by name."""
        shown: Counter[str] = Counter()
        for frame, after in pairwise(self.frames):
            step_s = 1 / FRAMES_PER_S if _is_jump(frame, after) else after.media_s - frame.media_s
            shown[frame.representation.name] += max(0.0, step_s)  # type: ignore[assignment]
        if self.frames:
            shown[self.frames[-1].representation.name] += 1 / FRAMES_PER_S  # type: ignore[assignment]
        return dict(shown)

    def chunks(self, segment_s: float) -> list[Chunk]:
        """Return the shown segments, each in the representation with the most frames."""
        frames: dict[int, Counter[Representation]] = {}
        for frame in self.frames:
            number = int(frame.media_s / segment_s + 1e-6)
            frames.setdefault(number, Counter())[frame.representation] += 1
        found = []
        for number in sorted(frames):
            each = frames[number].most_common(1)[0][0]
            found.append(Chunk(number * segment_s, segment_s, each.rate_bps, each.width, each.height))
        return found

    def late_frames(self, segment_s: float) -> int:
        """Return how many frames were not shown because they were due before their segment had come.

        A browser plays the sound on while it waits for pictures, and drops the pictures whose time has passed. When a
        frame was due follows from the next one that was shown: until then the clock of the media ran.
        """
        came_s: dict[int, float] = {}
        for each in self.requests:
            if each.segment is not None and each.is_complete:
                came_s[each.segment] = min(each.end_s, came_s.get(each.segment, each.end_s))
        late = 0
        shown = [(frame.time_s, frame.media_s) for frame in self.frames]
        for (_, before_s), (at_s, media_s) in pairwise([*shown, (self.end_s, self.position_s)]):
            for step in range(1, round((media_s - before_s) * FRAMES_PER_S)):
                missing_s = before_s + step / FRAMES_PER_S
                late += came_s.get(int(missing_s / segment_s + 1e-6) + 1, 0.0) > at_s - (media_s - missing_s)
        return late

    def shown_at(self, time_s: float) -> Representation | None:
        """Return the representation on the screen at a moment, ``None`` before the first frame."""
        last = None
        for frame in self.frames:
            if frame.time_s > time_s:
                break
            last = frame.representation
        return last


def _is_jump(before: Frame, after: Frame) -> bool:
    return not -_END_SLACK_S <= after.media_s - before.media_s <= JUMP_S


def read(record: Record, clock: Clock, representations: Sequence[Representation]) -> Playback:
    """Return the playback of a record."""

    def seconds(page_ms: float) -> float:
        return clock.of_monotonic_ns(record["origin_ns"] + round(page_ms * 1e6))

    by_size = {(each.coded_width, each.coded_height): each for each in representations}
    start_s, end_s = seconds(record["started"]), seconds(record["ended"])
    frames = [
        Frame(min(max(seconds(at), start_s), end_s), media_s, by_size[width, height])
        for at, media_s, width, height in record["frames"]
    ]
    events = [(seconds(at), name, media_s) for at, name, media_s in record["events"]]
    playing_s = next((at for at, name, _ in events if name == "playing"), None)
    begin_s = None if playing_s is None or not frames else max(playing_s, frames[0].time_s)
    stalls = [] if begin_s is None else _merged(_clock_stalls(events, end_s), _picture_stalls(frames, end_s), begin_s)
    return Playback(
        start_s=start_s,
        first_frame_s=frames[0].time_s if frames else None,
        begin_s=begin_s,
        end_s=end_s,
        outcome=record["outcome"],
        frames=frames,
        stalls=stalls,
        switches=[
            Switch(b.time_s, a.representation, b.representation)
            for a, b in pairwise(frames)
            if a.representation != b.representation
        ],
        buffer=[(seconds(at), ahead_s) for at, _, ahead_s in record["samples"]],
        requests=[
            Request(
                path="/".join(each["url"].split("/")[3:]),
                request_s=seconds(each["request"] or each["start"]),
                end_s=seconds(each["end"]),
                bytes=each["bytes"],
                transferred=each["transferred"],
                status=each["status"],
            )
            for each in record["requests"]
        ],
        errors=[(code, message) for _, code, message in record["errors"]],
        decoded=record["decoded"],
        dropped=record["dropped"],
        position_s=record["position"],
        uncertainty_s=record["uncertainty_ns"] / 1e9,
    )


def _clock_stalls(events: Sequence[tuple[float, str, float]], end_s: float) -> list[Interval]:
    """Return the waits of the player: from ``waiting`` to the next ``playing``, or to the end."""
    found = []
    since: tuple[float, float] | None = None
    for at_s, name, media_s in events:
        if name == "waiting" and since is None:
            since = (at_s, media_s)
        elif name in ("playing", "ended") and since is not None:
            went_s, moved_s = at_s - since[0], media_s - since[1]
            if not _RUNNING[0] * went_s < moved_s < _RUNNING[1] * went_s:
                found.append(Interval(since[0], at_s, since[1]))
            since = None
    if since is not None:
        found.append(Interval(since[0], end_s, since[1]))
    return found


def _picture_stalls(frames: Sequence[Frame], end_s: float) -> list[Interval]:
    """Return the standstills of the picture, to the next frame or to the end."""
    times_s = [*(frame.time_s for frame in frames), end_s]
    return [
        Interval(frame.time_s + 1 / FRAMES_PER_S, after_s, frame.media_s)
        for frame, after_s in zip(frames, times_s[1:], strict=True)
        if after_s - frame.time_s > PICTURE_STALL_S
    ]


def _merged(first: Sequence[Interval], second: Sequence[Interval], begin_s: float) -> list[Interval]:
    found: list[Interval] = []
    for each in sorted([*first, *second], key=lambda stall: stall.start_s):
        if each.end_s <= begin_s:
            continue
        start_s = max(each.start_s, begin_s)
        if found and start_s <= found[-1].end_s:
            last = found[-1]
            found[-1] = Interval(last.start_s, max(last.end_s, each.end_s), last.media_s)
        elif each.end_s > start_s:
            found.append(Interval(start_s, each.end_s, each.media_s))
    return found
