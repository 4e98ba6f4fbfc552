"""Quality of experience of a video session by published formulas.

Pensieve: H. Mao, R. Netravali, M. Alizadeh, "Neural Adaptive Video Streaming with Pensieve", SIGCOMM 2017, section 5.1.
Puffer: F. Y. Yan et al., "Learning in situ: a randomized experiment in video streaming", NSDI 2020.
P.1203: ITU-T P.1203.1 (2017), mode 0: only its input, because the model is not free.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, TypedDict

from wavebed.workload.model import Event, Metric, Outcome, Series
from wavebed.workload.video_media import AUDIO_BPS, FRAMES_PER_S, MANIFEST, PLAYER_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Clock
    from wavebed.workload.model import Status
    from wavebed.workload.video_media import Content, Representation


PENSIEVE_LINEAR = "Pensieve QoE_lin (Mao 2017): sum R - 4.3 stalled - sum |change of R|, R in Mbit/s, startup left out"
PENSIEVE_LOG = (
    "Pensieve QoE_log (Mao 2017): sum q - 2.66 stalled - sum |change of q|, q = ln(R/R_min), startup left out"
)
LINEAR_PENALTY = 4.3
LOG_PENALTY = 2.66
PUFFER_LEAST_S = 5.0


@dataclass(frozen=True, slots=True)
class Chunk:
    """A shown segment: its time in the media, its nominal bitrate and its picture."""

    start_s: float
    duration_s: float
    rate_bps: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class PlayStall:
    """A stall: its time in the media and its duration."""

    media_s: float
    duration_s: float


def pensieve(
    chunks: Sequence[Chunk], stalled_s: float, *, least_bps: int | None = None
) -> tuple[float | None, float | None]:
    """Return QoE as a sum over the shown chunks, and per chunk; ``None`` without chunks.

    Parameters
    ----------
    chunks : sequence of Chunk
        In the order of showing.
    stalled_s : float
        Time stalled after the start.
    least_bps : int, optional
        The ladder's lowest bitrate, for the logarithmic variant; without it the linear one is returned.
    """
    if not chunks:
        return None, None
    quality: Callable[[int], float]
    if least_bps is None:
        quality, penalty = (lambda rate: rate / 1e6), LINEAR_PENALTY
    else:
        quality, penalty = (lambda rate: math.log(rate / least_bps)), LOG_PENALTY
    values = [quality(chunk.rate_bps) for chunk in chunks]
    total = sum(values) - penalty * stalled_s - sum(abs(after - before) for before, after in pairwise(values))
    return total, total / len(chunks)


def stalled(watched_s: float, stalled_s: float) -> float | None:
    """Return 100 `stalled_s` / `watched_s` (stalls included), %; ``None`` below 5 s, as in Puffer."""
    return 100 * stalled_s / watched_s if watched_s >= PUFFER_LEAST_S else None


def p1203_input(
    chunks: Sequence[Chunk], startup_s: float, stalls: Sequence[PlayStall], *, frames_per_s: int, audio_bps: int
) -> dict[str, Json]:
    """Return the input of P.1203 in mode 0 for the reference software.

    The stalling list always begins with the startup at 0, because the software moves a first stall elsewhere to 0.
    """
    video: list[Json] = [
        {
            "codec": "h264",
            "start": chunk.start_s,
            "duration": chunk.duration_s,
            "bitrate": chunk.rate_bps / 1000,
            "resolution": f"{chunk.width}x{chunk.height}",
            "fps": frames_per_s,
        }
        for chunk in chunks
    ]
    audio: list[Json] = [
        {"codec": "aaclc", "start": chunk.start_s, "duration": chunk.duration_s, "bitrate": audio_bps / 1000}
        for chunk in chunks
    ]
    pauses = [(0.0, startup_s), *((stall.media_s, stall.duration_s) for stall in stalls)]
    stalling: list[Json] = [[media_s, duration_s] for media_s, duration_s in pauses]
    return {
        "I11": {"segments": audio, "streamId": 0},
        "I13": {"segments": video, "streamId": 0},
        "I23": {"stalling": stalling, "streamId": 0},
        "IGen": {"device": "pc", "displaySize": "1920x1080", "viewingDistance": "150cm"},
    }


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


class VideoRecord(TypedDict):
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
class VideoFrame:
    """A presented frame: its time, its time in the media, and its representation."""

    time_s: float
    media_s: float
    representation: Representation


@dataclass(frozen=True, slots=True)
class PlayInterval:
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
class MediaRequest:
    """A request of the player over the network.

    `status` is 0 without an answer; `request_s` is the time of sending, `end_s` of the last byte.
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
    frames: Sequence[VideoFrame]
    stalls: Sequence[PlayInterval]
    switches: Sequence[Switch]
    buffer: Sequence[tuple[float, float]]
    requests: Sequence[MediaRequest]
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


def _is_jump(before: VideoFrame, after: VideoFrame) -> bool:
    return not -_END_SLACK_S <= after.media_s - before.media_s <= JUMP_S


def read(record: VideoRecord, clock: Clock, representations: Sequence[Representation]) -> Playback:
    """Return the playback of a record."""

    def seconds(page_ms: float) -> float:
        return clock.of_monotonic_ns(record["origin_ns"] + round(page_ms * 1e6))

    by_size = {(each.coded_width, each.coded_height): each for each in representations}
    start_s, end_s = seconds(record["started"]), seconds(record["ended"])
    frames = [
        VideoFrame(min(max(seconds(at), start_s), end_s), media_s, by_size[width, height])
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
            MediaRequest(
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


def _clock_stalls(events: Sequence[tuple[float, str, float]], end_s: float) -> list[PlayInterval]:
    """Return the waits of the player: from ``waiting`` to the next ``playing``, or to the end."""
    found = []
    since: tuple[float, float] | None = None
    for at_s, name, media_s in events:
        if name == "waiting" and since is None:
            since = (at_s, media_s)
        elif name in ("playing", "ended") and since is not None:
            went_s, moved_s = at_s - since[0], media_s - since[1]
            if not _RUNNING[0] * went_s < moved_s < _RUNNING[1] * went_s:
                found.append(PlayInterval(since[0], at_s, since[1]))
            since = None
    if since is not None:
        found.append(PlayInterval(since[0], end_s, since[1]))
    return found


def _picture_stalls(frames: Sequence[VideoFrame], end_s: float) -> list[PlayInterval]:
    """Return the standstills of the picture, to the next frame or to the end."""
    times_s = [*(frame.time_s for frame in frames), end_s]
    return [
        PlayInterval(frame.time_s + 1 / FRAMES_PER_S, after_s, frame.media_s)
        for frame, after_s in zip(frames, times_s[1:], strict=True)
        if after_s - frame.time_s > PICTURE_STALL_S
    ]


def _merged(first: Sequence[PlayInterval], second: Sequence[PlayInterval], begin_s: float) -> list[PlayInterval]:
    found: list[PlayInterval] = []
    for each in sorted([*first, *second], key=lambda stall: stall.start_s):
        if each.end_s <= begin_s:
            continue
        start_s = max(each.start_s, begin_s)
        if found and start_s <= found[-1].end_s:
            last = found[-1]
            found[-1] = PlayInterval(last.start_s, max(last.end_s, each.end_s), last.media_s)
        elif each.end_s > start_s:
            found.append(PlayInterval(start_s, each.end_s, each.media_s))
    return found


P1203_INPUT = "p1203-input.json"
DROPPED_PERCENT = 5.0
"""A video with more dropped frames, apart from those that came late, is suspect."""
FIRST_BAD_STATUS = 400


def outcome_of(playback: Playback, content: Content, duration_s: float, folder: Path) -> Outcome:
    """Return the results of a playback, and write the input for P.1203 (`P1203_INPUT`) into `folder`.

    Parameters
    ----------
    playback : Playback
        The shown video.
    content : Content
        The served video.
    duration_s : float
        Duration to be watched.
    """
    chunks = playback.chunks(content.segment_s)
    if playback.begin_s is not None:
        stalls = [PlayStall(stall.media_s, stall.duration_s) for stall in playback.stalls]
        startup_s = playback.begin_s - playback.start_s
        given = p1203_input(chunks, startup_s, stalls, frames_per_s=FRAMES_PER_S, audio_bps=AUDIO_BPS)
        (folder / P1203_INPUT).write_text(json.dumps(given, indent=1), encoding="utf-8")
    status, reason = _verdict(playback, content, duration_s)
    doubts = []
    if playback.decoded:
        late = playback.late_frames(content.segment_s)
        percent = 100 * (playback.dropped - late) / playback.decoded
        if percent > DROPPED_PERCENT:
            doubts.append(f"the processor dropped {percent:.0f} % of the frames")
    return Outcome(
        status=status,
        reason=reason,
        metrics=_metrics(playback, content, chunks),
        series=_series(playback),
        events=_events(playback),
        details=_details(playback, content, duration_s),
        doubts=doubts,
    )


def known_video_metrics(content: Content) -> list[Metric]:
    """Return the metrics of a playback of this video without values."""
    none: list[Any] = []
    playback = Playback(0.0, None, None, 0.0, "", none, none, none, none, none, none, 0, 0, 0.0, 0.0)
    return _metrics(playback, content, [])


def _metrics(playback: Playback, content: Content, chunks: Sequence[Chunk]) -> list[Metric]:
    return [*_startup_and_stalls(playback), *_bitrates(playback, content), *_qualities(playback, content, chunks)]


def _since(start_s: float, at_s: float | None) -> float | None:
    return None if at_s is None else at_s - start_s


def _startup_and_stalls(playback: Playback) -> list[Metric]:
    began = playback.begin_s is not None
    return [
        Metric(
            "startup time",
            _since(playback.start_s, playback.begin_s),
            "s",
            "lower",
            "from MediaPlayer.initialize until a frame is presented and the element fires playing",
        ),
        Metric(
            "first frame",
            _since(playback.start_s, playback.first_frame_s),
            "s",
            "lower",
            "from MediaPlayer.initialize to presentationTime of the first video frame callback",
        ),
        Metric("stalls", len(playback.stalls) if began else None, "", "lower", "after the start"),
        Metric("stalled time", playback.stalled_s if began else None, "s", "lower", "after the start"),
        Metric("media played", sum(playback.shown_s().values()), "s", "higher"),
        Metric(
            "media skipped", playback.skipped_s, "s", "lower", "steps of more than 0.5 s between two frames presented"
        ),
    ]


def _bitrates(playback: Playback, content: Content) -> list[Metric]:
    shown_s = playback.shown_s()
    total_s = sum(shown_s.values())
    rates = {each.name: each.rate_bps / 1e6 for each in content.ladder.representations}
    mean = sum(rates[name] * time_s for name, time_s in shown_s.items()) / total_s if total_s else None
    steps = [abs(each.after.rate_bps - each.before.rate_bps) / 1e6 for each in playback.switches]
    found = [
        Metric("mean bitrate", mean, "Mbit/s", "higher", "nominal, of the frames presented, by media time"),
        Metric("switches", len(steps) if playback.frames else None, "", "lower", "seen on the screen"),
        Metric("mean switch", fmean(steps) if steps else None, "Mbit/s", "lower", "mean |change of bitrate|"),
    ]
    found += [
        Metric(f"time at {name}", 100 * shown_s.get(name, 0.0) / total_s if total_s else None, "%", "neither")
        for name in rates
    ]
    rate = [value for _, value in _throughput(playback)]
    level = [ahead_s for _, ahead_s in _buffer(playback)]
    return [
        *found,
        Metric("mean buffer", fmean(level) if level else None, "s", "higher", "from the start to the last byte"),
        Metric(
            "segment throughput",
            median(rate) if rate else None,
            "Mbit/s",
            "higher",
            "median over video segments of bytes by time from request to last byte",
        ),
        Metric("bytes received", sum(each.transferred for each in playback.requests), "bytes", "neither"),
        Metric("failed requests", len(_failed(playback.requests)), "", "lower", "answered with status 400 or more"),
        Metric("dropped frames", _dropped_percent(playback), "%", "lower", "getVideoPlaybackQuality"),
    ]


def _qualities(playback: Playback, content: Content, chunks: Sequence[Chunk]) -> list[Metric]:
    if playback.begin_s is None:
        chunks = []
    stalled_s = playback.stalled_s
    least_bps = content.ladder.representations[0].rate_bps
    linear, linear_chunk = pensieve(chunks, stalled_s)
    log, log_chunk = pensieve(chunks, stalled_s, least_bps=least_bps)

    return [
        Metric("QoE linear", linear, "", "higher", PENSIEVE_LINEAR),
        Metric("QoE linear per segment", linear_chunk, "", "higher", PENSIEVE_LINEAR),
        Metric("QoE log", log, "", "higher", PENSIEVE_LOG),
        Metric("QoE log per segment", log_chunk, "", "higher", PENSIEVE_LOG),
        Metric(
            "time stalled",
            stalled(playback.watched_s, stalled_s),
            "%",
            "lower",
            "Puffer (Yan 2020): fraction of the time watched; from 5 s on",
        ),
    ]


def _dropped_percent(playback: Playback) -> float | None:
    return 100 * playback.dropped / playback.decoded if playback.decoded else None


def _throughput(playback: Playback) -> list[tuple[float, float]]:
    """Return arrival time and throughput, Mbit/s, of each video segment from the network."""
    return sorted(
        (each.end_s, each.bytes * 8 / (each.end_s - each.request_s) / 1e6)
        for each in playback.requests
        if each.segment is not None and each.is_complete and each.end_s > each.request_s
    )


def _buffer(playback: Playback) -> list[tuple[float, float]]:
    """Return the level of the buffer from the start to the last byte."""
    last_s = max((each.end_s for each in playback.requests), default=playback.end_s)
    begin_s = playback.end_s if playback.begin_s is None else playback.begin_s
    return [(at_s, ahead_s) for at_s, ahead_s in playback.buffer if begin_s <= at_s <= last_s]


def _series(playback: Playback) -> list[Series]:
    times_s = [at_s for at_s, _ in playback.buffer]
    shown = [playback.shown_at(at_s) for at_s in times_s]
    throughput = _throughput(playback)
    return [
        Series("buffer", "s", times_s, [ahead_s for _, ahead_s in playback.buffer]),
        Series("bitrate", "Mbit/s", times_s, [None if each is None else each.rate_bps / 1e6 for each in shown]),
        Series("throughput", "Mbit/s", [at_s for at_s, _ in throughput], [value for _, value in throughput]),
    ]


def _events(playback: Playback) -> list[Event]:
    found = [Event("startup", playback.start_s, playback.begin_s, "until the video plays")]
    found += [Event("stall", stall.start_s, stall.end_s, f"at {stall.media_s:.1f} s") for stall in playback.stalls]
    found += [
        Event(
            "switch",
            each.time_s,
            text=f"{each.before.name} → {each.after.name}",
            value=(each.after.rate_bps - each.before.rate_bps) / 1e6,
        )
        for each in playback.switches
    ]
    found += [
        Event("request", each.request_s, each.end_s, f"{each.path}{_suffix(each)}", each.transferred)
        for each in playback.requests
    ]
    return sorted(found, key=lambda event: event.time_s)


def _suffix(request: MediaRequest) -> str:
    return "" if request.status == OK_STATUS else f" ({request.status or 'no answer'})"


def _failed(requests: Sequence[MediaRequest]) -> list[MediaRequest]:
    return [each for each in requests if each.status >= FIRST_BAD_STATUS]


def _wrong_sizes(playback: Playback, content: Content) -> list[str]:
    sizes = {each.name: content.segment_bytes(each) for each in content.ladder.representations}
    found = []
    for each in playback.requests:
        size = sizes.get(each.path.partition("/")[0])
        if each.segment is not None and each.status == OK_STATUS and size is not None and each.bytes != size:
            found.append(f"{each.path} has {each.bytes} bytes instead of {size}")
    return found


def _verdict(playback: Playback, content: Content, duration_s: float) -> tuple[Status, str]:
    """Return status and reason: failed if server or content was broken, partial if the network was not enough."""
    failed = _failed(playback.requests)
    if failed:
        return "failed", f"{failed[0].path} was answered with status {failed[0].status}"
    wrong = _wrong_sizes(playback, content)
    if wrong and playback.errors:
        return "failed", wrong[0]
    if playback.is_media_broken:
        return "failed", f"the browser cannot play it: {playback.errors[0][1]}"
    played_s = sum(playback.shown_s().values())
    played = f"{played_s:.1f} s of {duration_s:g} s were played" if playback.frames else "no picture came"
    if playback.outcome == "broken":
        return "partial", f"the player stopped: {playback.errors[0][1]}; {played}"
    if playback.outcome == "stopped":
        return "partial", f"stopped at its limit: {played}"
    if playback.errors:
        return "partial", f"the player reported: {playback.errors[0][1]}; {played}"
    return "ok", ""


def _details(playback: Playback, content: Content, duration_s: float) -> dict[str, Json]:
    ladder: list[Json] = [
        {
            "name": each.name,
            "rate_mbit_s": each.rate_bps / 1e6,
            "size": f"{each.width}x{each.height}",
            "coded": f"{each.coded_width}x{each.coded_height}",
        }
        for each in content.ladder.representations
    ]
    return {
        "player": f"dash.js {PLAYER_VERSION}",
        "manifest": MANIFEST,
        "ladder": ladder,
        "segment_s": content.segment_s,
        "duration_s": duration_s,
        "content": "synthetic test picture, filled up to the nominal bitrate; above 1080p the coded picture is small",
        "clock_uncertainty_ms": round(playback.uncertainty_s * 1e3, 3),
    }
