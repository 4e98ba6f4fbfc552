"""The film of the cameras of a call: a moving texture with grain, so that quality depends on bitrate."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias, cast

import numpy as np
from msgspec import Struct

from wavebed.config.problems import Problem
from wavebed.config.reader import Reader
from wavebed.config.table import Key
from wavebed.config.values import number, rate_bps, seconds
from wavebed.errors import WavebedError
from wavebed.lab.tools import Program
from wavebed.workload.browser.remote import LOOK_EVERY_S, BrowserAgent
from wavebed.workload.drafts import drafted
from wavebed.workload.model import Event, Metric, Outcome, Series, Session, Workload
from wavebed.workload.probing import percentile
from wavebed.workload.programs import open_to_all, output_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Host, Stamps
    from wavebed.workload.model import Common, Schedule, TrialContext


_SECONDS = 2
_GRAIN = 5.0
"""Standard deviation of each pixel's grain, of 255: about as a phone's camera indoors."""

_BLOCK = 8
_SPEED = 2


def camera_film(cache: Path, width: int, height: int, fps: int) -> Path:
    """Return a YUV4MPEG2 film of two seconds, which Chromium repeats, from `cache` or newly made.

    Parameters
    ----------
    width, height : int
        Pixels, both even.

    Raises
    ------
    MachineError
        If it cannot be written.
    """
    file = cache / f"call-{width}x{height}-{fps}fps-1.y4m"
    if file.exists():
        return file
    rng = np.random.default_rng(107)
    coarse = rng.uniform(40, 215, (height // _BLOCK + 1, width // _BLOCK + 1))
    texture = np.kron(coarse, np.ones((_BLOCK, _BLOCK)))[:height, :width]
    chroma = bytes([118]) * (width * height // 4) + bytes([138]) * (width * height // 4)
    with drafted(file) as film:
        film.write(f"YUV4MPEG2 W{width} H{height} F{fps}:1 Ip A1:1 C420\n".encode())
        for index in range(_SECONDS * fps):
            moved = np.roll(texture, index * _SPEED, axis=1)
            picture = moved + rng.normal(0, _GRAIN, moved.shape)
            film.write(b"FRAME\n" + np.clip(picture, 16, 235).astype(np.uint8).tobytes() + chroma)
    return file


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
class CallDirection:
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
) -> CallDirection:
    """Read the statistics of the receiver and the sender of a direction.

    Parameters
    ----------
    clock : Stamps
        The receiver's.
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
    return CallDirection(
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
        The server's and the client's.
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
    both = [CallDirection(name, None, 0.0, 0.0, [], {}, []) for name in ("down", "up")]
    return [*(metric for direction in both for metric in _metrics(direction)), *_rtt_metrics([])]


def _metrics(direction: CallDirection) -> list[Metric]:
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


def _series(direction: CallDirection) -> list[Series]:
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


def _implementation(direction: CallDirection) -> dict[str, Json]:
    return {
        "encoder": direction.sender.get("encoderImplementation"),
        "decoder": direction.last.get("decoderImplementation"),
        "limited by": direction.sender.get("qualityLimitationDurations"),
    }


def _doubts(direction: CallDirection, fps: int) -> list[str]:
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


_ANSWER_S = 10.0
_FINISH_S = 4.0
_CANDIDATE = "a=candidate:"
_CHROMIUM_MOST_BPS, _AUDIO_BPS = 2_000_000, 60_000
"""The highest bitrates of Chromium's video without another limit, and of its audio, with all headers."""


def _even(least: int, most: int) -> Reader[int]:
    read = number(least, most)

    def read_even(value: object) -> int:
        given = read(value)
        if given % 2:
            raise Problem(f"{given} is odd: width and height of a picture are even numbers of pixels")
        return given

    return Reader(read_even, "PIXELS", {**read.schema(), "multipleOf": 2})


class CallOptions(Struct, frozen=True, kw_only=True):
    """The keys of a call."""

    duration_s: Annotated[float, Key(seconds(2, 3600), "how long the call lasts, from when both ends agree")] = 10.0
    width: Annotated[int, Key(_even(160, 1920), "width of the picture that each end sends")] = 640
    height: Annotated[int, Key(_even(90, 1080), "height of the picture that each end sends")] = 360
    fps: Annotated[int, Key(number(5, 60), "pictures per second of each camera")] = 30
    max_bitrate_bps: Annotated[
        int | None, Key(rate_bps, "highest video bitrate of each end", absent="Chromium's own")
    ] = None


class Call(Workload[CallOptions]):
    """Both ends of a video call, measured by their browsers."""

    kind: ClassVar[str] = "call"
    summary: ClassVar[str] = "a WebRTC call between two Chromium"
    options_type = CallOptions
    programs: ClassVar[Sequence[Program]] = (Program("chromium"),)
    extra = "web"

    def __init__(self, common: Common, options: CallOptions) -> None:
        super().__init__(common, options)
        self.duration_s = options.duration_s
        self.film: Path | None = None

    def expected_s(self) -> float:
        """Return its duration."""
        return self.duration_s

    def expected_bytes(self, rate_bps: float, others_s: float) -> float:
        """Return what both directions take, at most."""
        del others_s
        video_bps = min(rate_bps, self.options.max_bitrate_bps or _CHROMIUM_MOST_BPS)
        return 2 * (video_bps + _AUDIO_BPS) * self.duration_s / 8

    def prepare(self, cache: Path) -> None:
        """Make the film of the cameras."""
        self.film = camera_film(cache, self.options.width, self.options.height, self.options.fps)
        open_to_all(self.film)

    def known_metrics(self) -> list[Metric]:
        """Return its metrics without values."""
        return known_call_metrics()

    def open(self, context: TrialContext) -> Session:
        """Start both browsers with page, camera and session description."""
        session = CallSession(self, context)
        try:
            session.open()
        except BaseException:
            session.close()
            raise
        return session

    def settings(self) -> dict[str, Json]:
        """Return the settings of both agents."""
        assert self.film is not None, "it was prepared"
        return {
            "arguments": [
                "--use-fake-ui-for-media-stream",
                "--use-fake-device-for-media-stream",
                f"--use-file-for-fake-video-capture={self.film}",
            ],
            "width": self.options.width,
            "height": self.options.height,
            "fps": self.options.fps,
            "bitrate": self.options.max_bitrate_bps,
            "every": EVERY_MS,
        }


class CallSession(Session):
    """A call in one trial. This process passes the session descriptions between the ends, not the path."""

    def __init__(self, workload: Call, context: TrialContext) -> None:
        self._workload = workload
        self._context = context
        self._stop = threading.Event()
        self._agents: dict[str, BrowserAgent] = {}
        self._offer: Json = None
        self._stopped_early = False

    def open(self) -> None:
        """Start both browsers and get the offer of the server's end."""
        settings = self._workload.settings()
        for end, host in (("server", self._context.server), ("client", self._context.client)):
            self._agents[end] = self._agent(end, host, settings)
        for agent in self._agents.values():
            agent.await_ready()
        self._offer = reachable(self._ask("server", "offer"), self._context.server.only_address)

    def close(self) -> None:
        """End both browsers."""
        for agent in self._agents.values():
            agent.close()

    def run(self) -> None:
        """Call, wait for the duration from when both ends agree, hang up."""
        clock = self._context.clock
        try:
            answer = reachable(self._ask("client", "answer", self._offer), self._context.client.only_address)
            self._ask("server", "accept", answer)
            self._stopped_early = clock.wait(self._stop, self._workload.duration_s)
            for agent in self._agents.values():
                agent.tell({"do": "finish"})
            over_s = clock.monotonic_s() + _FINISH_S
            for name in self._agents:
                try:
                    said = self._hear(name, max(0.0, over_s - clock.monotonic_s()))
                except TimeoutError as error:
                    raise WavebedError(f"the {name}'s end of the call: {error}") from None
                file = self._context.folder / f"{name}.json"
                file.write_text(json.dumps(said), encoding="utf-8")
        finally:
            self.close()

    def stop(self) -> None:
        """Hang up."""
        self._stop.set()

    def report(self, schedule: Schedule) -> Outcome:  # noqa: ARG002 - independent of other workloads
        """Return the results of both ends."""
        ends: dict[str, Mapping[str, Json]] = {}
        for name in ("server", "client"):
            file = self._context.folder / f"{name}.json"
            if not file.exists():
                return Outcome("failed", f"the {name}'s end of the call left no statistics")
            ends[name] = cast("dict[str, dict[str, Json]]", json.loads(output_of(file)))["result"]
        outcome = call_outcome(
            ends["server"], ends["client"], self._workload.options.fps, (self._context.server, self._context.client)
        )
        sandboxes = ", ".join(dict.fromkeys(agent.sandbox for agent in self._agents.values()))
        addresses = ends["client"].get("addresses")
        outcome = replace(
            outcome,
            details={**outcome.details, "browser sandbox": sandboxes, "addresses of the client's end": addresses},
            doubts=[*outcome.doubts, *self._elsewhere(cast("dict[str, str] | None", addresses))],
        )
        return outcome if not self._stopped_early or outcome.status == "failed" else _partial(outcome)

    def _elsewhere(self, addresses: Mapping[str, str] | None) -> list[str]:
        """Return a line if the media did not go between the addresses of the path."""
        wanted = (self._context.client.only_address, self._context.server.only_address)
        if addresses is None or not all(wanted) or (addresses["local"], addresses["remote"]) == wanted:
            return []
        went, path = f"{addresses['local']} and {addresses['remote']}", " and ".join(wanted)
        return [f"the media went between {went}, not between {path}: the hosts have another way to each other"]

    def _agent(self, end: str, host: Host, settings: Mapping[str, Json]) -> BrowserAgent:
        folder = self._context.folder / end
        folder.mkdir(exist_ok=True)
        assert self._workload.film is not None, "it was prepared"
        return BrowserAgent(host, "wavebed.workload.call_agent", settings, folder, read=[self._workload.film])

    def _ask(self, end: str, do: str, value: Json = None) -> Json:
        self._agents[end].tell({"do": do, "value": value})
        clock = self._context.clock
        over_s = clock.monotonic_s() + _ANSWER_S
        while clock.monotonic_s() < over_s:
            with suppress(TimeoutError):
                return self._hear(end, LOOK_EVERY_S)["value"]
            if self._stop.is_set():
                raise WavebedError("stopped before the ends of the call were connected")
        raise WavebedError(f"the {end}'s end of the call: no answer within {_ANSWER_S:g} s")

    def _hear(self, end: str, timeout_s: float) -> dict[str, Json]:
        try:
            return self._agents[end].hear(timeout_s)
        except WavebedError as error:
            raise WavebedError(f"the {end}'s end of the call: {error}") from None


def reachable(description: Json, address: str) -> Json:
    """Return a session description that has only the candidates of an address, over UDP.

    Parameters
    ----------
    description : JSON
        With an ``sdp`` of Chromium.
    address : str
        The address at which the other end reaches this one; empty: all candidates stay. A host behind a translator of
        addresses does not know this address itself: this address replaces the host's own ones.
    """
    if not address:
        return description
    told = cast("dict[str, str]", description)
    lines = told["sdp"].splitlines()
    of_udp = [line for line in lines if line.startswith(_CANDIDATE) and line.split()[2].lower() == "udp"]
    own = [line for line in of_udp if line.split()[4] == address]
    kept = own or [_moved(line, address) for line in of_udp if "." in line.split()[4]]
    places = dict(zip(own or [line for line in of_udp if "." in line.split()[4]], kept, strict=True))
    rest = (places.get(line, line) for line in lines if line in places or not line.startswith(_CANDIDATE))
    return {**told, "sdp": "".join(f"{line}\r\n" for line in rest)}


def _moved(candidate: str, address: str) -> str:
    words = candidate.split(" ")
    return " ".join([*words[:4], address, *words[5:]])


def _partial(outcome: Outcome) -> Outcome:
    return replace(outcome, status="partial", reason="stopped before its duration was over")
