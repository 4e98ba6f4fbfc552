"""`call`: a WebRTC call between Chromium on the server and Chromium on the client, with synthetic media."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, cast

from msgspec import Struct

from wavebed.config.problems import Problem
from wavebed.config.reader import Reader
from wavebed.config.table import Key
from wavebed.config.values import number, rate_bps, seconds
from wavebed.errors import WavebedError
from wavebed.lab.tools import Program
from wavebed.workload.browser.remote import LOOK_EVERY_S, Agent
from wavebed.workload.call_report import EVERY_MS, call_outcome, known_call_metrics
from wavebed.workload.call_video import camera_film
from wavebed.workload.model import Outcome, Session, Workload
from wavebed.workload.raw import open_to_all
from wavebed.workload.waiting import output_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Host
    from wavebed.workload.keys import Common
    from wavebed.workload.model import Metric, Schedule, TrialContext

__all__ = ["Call"]

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
        self._agents: dict[str, Agent] = {}
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

    def _agent(self, end: str, host: Host, settings: Mapping[str, Json]) -> Agent:
        folder = self._context.folder / end
        folder.mkdir(exist_ok=True)
        assert self._workload.film is not None, "it was prepared"
        return Agent(host, "wavebed.workload.call_agent", settings, folder, read=[self._workload.film])

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
    """Return a session description whose candidates are those of an address, over UDP.

    Parameters
    ----------
    description : JSON
        With an ``sdp`` of Chromium.
    address : str
        That by which the other end reaches this one; empty: all stay. A host that does not know it itself, behind a
        translator of addresses, has it in the place of its own ones.
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
