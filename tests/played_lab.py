"""Laboratories that are played: they answer over sockets as real ones do, with counters that follow a rule."""

from __future__ import annotations

import json
import math
import os
import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, ClassVar

from wavebed.errors import UserError
from wavebed.path.control import ControlConnection, Running

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from wavebed.config.data import Json

COLUMNS = [
    "at_ns", "offered_segments", "offered_bytes", "delivered_segments", "delivered_bytes", "dropped_segments",
    "marked_segments", "blocks_sent", "blocks_failed", "air_ns", "link_failures", "queued_segments", "queued_bytes",
    "waited_ns", "waited_segments", "rate_bps", "delay_ns", "loss", "state", "sinr_db",
]  # fmt: skip
STATES = ["los", "nlos", "blocked", "outage"]
REASONS = ["overflow", "aqm", "loss"]


class PlayedTimeline:
    """A timeline of 60 s whose time moves as it is told."""

    STRETCHES: ClassVar[dict[str, int]] = {"home": 0, "lift": 20, "street": 30}
    COLUMNS = ("position_ns", "stretch", "playing", "speed")
    DURATION_NS = 60_000_000_000

    def __init__(self) -> None:
        self.playing, self.loop, self.permille = True, False, 1000
        self._position_ns, self._since_ns = 0, time.monotonic_ns()

    def position_ns(self) -> int:
        passed_ns = (time.monotonic_ns() - self._since_ns) * self.permille // 1000 if self.playing else 0
        position_ns = self._position_ns + passed_ns
        return position_ns % self.DURATION_NS if self.loop else min(position_ns, self.DURATION_NS)

    def obey(self, request: dict[str, Json]) -> dict[str, Json]:
        position_ns = self.position_ns()
        match request:
            case {"action": "play" | "pause" as action}:
                self.playing = action == "play"
            case {"action": "seek", "stretch": None, "position_ns": int(sought)}:
                position_ns = sought
            case {"action": "seek", "stretch": str(stretch), "position_ns": int(sought)} if stretch in self.STRETCHES:
                position_ns = self.STRETCHES[stretch] * 1_000_000_000 + sought
            case {"action": "speed", "permille": int(permille)}:
                self.permille = permille
            case {"action": "loop", "on": bool(on)}:
                self.loop = on
            case {"action": "edit", "key": "rate_bps"}:
                pass
            case _:
                return {"error": "the timeline does not do this"}
        self._position_ns, self._since_ns = position_ns, time.monotonic_ns()
        return {"ok": True, "timeline": self.state()}

    def state(self) -> dict[str, Json]:
        position_ns = self.position_ns()
        return {
            "position_ns": position_ns, "duration_ns": self.DURATION_NS, "stretch": self._stretch(position_ns),
            "playing": self.playing, "ended": position_ns == self.DURATION_NS, "speed": self.permille / 1000,
            "loop": self.loop,
            "stretches": [{"name": name, "start_ns": at * 1_000_000_000} for name, at in self.STRETCHES.items()],
        }  # fmt: skip

    def row(self) -> list[Json]:
        position_ns = self.position_ns()
        stretch = list(self.STRETCHES).index(self._stretch(position_ns))
        return [position_ns, stretch, self.playing, self.permille / 1000]

    def _stretch(self, position_ns: int) -> str:
        return [name for name, at in self.STRETCHES.items() if at * 1_000_000_000 <= position_ns][-1]


class PlayedLab:
    """A laboratory with two links for each hop: the first carries 8 Mbit/s, each next one less.

    The state of the first link's radio changes where it has bursts or devices, else it stays.

    Parameters
    ----------
    past_s : float
        How long it has run; a watch gets the samples of this time at once.
    bursts : bool
        Whether rates, waits and queues rise and fall, as those of traffic do.
    devices : int
        How many devices have a hop of their own, as behind a bridge; the states of their radios change in turn.
    cell : int
        How many devices share a cell named ``radio``, with one direction of the path each; the first hop is shared.
    timed : bool
        Whether it has a timeline of three stretches and radios that take a handover.
    """

    def __init__(
        self,
        name: str,
        hops: int = 1,
        past_s: float = 0.0,
        *,
        bursts: bool = False,
        devices: int = 0,
        cell: int = 0,
        timed: bool = False,
    ) -> None:
        self.name = name
        self.links = [f"hop{hop}.{way}" for hop in range(hops) for way in ("down", "up")]
        self.links += [f"device-{number}.radio.{way}" for number in range(1, devices + 1) for way in ("down", "up")]
        self.links += [f"radio.phone-{number}.{way}" for number in range(1, cell + 1) for way in ("down", "up")]
        ends = [f"phone-{number}" for number in range(1, cell + 1)] or ["client"]
        self.directions = [f"server-{end}.{way}" for end in ends for way in ("down", "up")]
        self.maps: list[Json] = []
        self.takes: list[Json] = ["rate", "delay", "pattern", *(["handover"] if timed else [])]
        self.timeline = PlayedTimeline() if timed else None
        self.asked: list[dict[str, Json]] = []
        self._watching: set[int] = set()
        self.ended = threading.Event()
        self._past_s = past_s
        self._bursts = bursts
        self._changes = bursts or devices > 0
        self._zero_ns = time.monotonic_ns() - round(past_s * 1e9)

    @property
    def watches(self) -> int:
        """How many connections watch it now."""
        return len(self._watching)

    def ran_s(self) -> int:
        """Return for how many whole seconds it has run."""
        return (time.monotonic_ns() - self._zero_ns) // 1_000_000_000

    def connect(self) -> ControlConnection:
        ours, theirs = socket.socketpair()
        threading.Thread(target=self._serve, args=(theirs,), daemon=True).start()
        return ControlConnection(self.name, ours)

    def _serve(self, stream: socket.socket) -> None:
        with stream, suppress(OSError):
            lines = stream.makefile("rb")
            while line := lines.readline():
                request = json.loads(line)
                self.asked.append(request)
                if request["do"] == "watch":
                    self._watch(stream, request["every_ms"])
                    return
                answer = self._answer(request)
                stream.sendall(json.dumps(answer).encode() + b"\n")

    def _answer(self, request: dict[str, Json]) -> dict[str, Json]:
        if request["do"] == "show":
            return self.show()
        if request["do"] == "timeline":
            if self.timeline is None:
                return {"error": "there is no timeline: start with --timeline"}
            return self.timeline.obey(request)
        return {"maps": self.maps} if request["do"] == "maps" else self._set(request)

    def _set(self, request: dict[str, Json]) -> dict[str, Json]:
        if request["link"] not in (None, *self.links):
            return {"error": f"there is no link {request['link']}"}
        if request["key"] == "loss":
            return {"error": f"{request['link']} has no stage that takes this change"}
        return {"ok": True}

    def _row(self, link: int, at_ns: int) -> list[Json]:
        ms = at_ns // 1_000_000
        queued = 2000 + 1000 * link + (ms // 100 * 7919 + link) % 997
        size = 1000 - 50 * (link % 18)
        grown = ms
        if self._bursts:
            grown = round(ms + 100 * math.sin(ms / 270 + link) + 15 * math.sin(ms / 31 + link))
            queued *= 1 + (ms // 10 * 7919 + link) % 13 * (ms // 3000 % 4)
        return [
            at_ns, ms, grown * size, ms, grown * size, ms // (100 + 20 * link), 0, ms, ms // 10,
            grown * (400_000 - 20_000 * (link % 18)), 0,
            queued // 1000, queued, grown * (2_000_000 + 400_000 * link), ms,
            10_000_000 - 500_000 * (link % 18), 5_000_000, 0.0, self._state(link, ms), None,
        ]  # fmt: skip

    def _state(self, link: int, ms: int) -> str | None:
        if self.links[link].startswith("device-"):
            return STATES[(ms // 4000 + link // 2) % 4]
        if link > 0:
            return None
        return STATES[ms // 4000 % 4] if self._changes else STATES[0]

    def show(self) -> dict[str, Json]:
        at_ns = time.monotonic_ns() - self._zero_ns
        links: list[Json] = []
        for place, name in enumerate(self.links):
            row = dict(zip(COLUMNS, self._row(place, at_ns), strict=True))
            del row["at_ns"]
            dropped: dict[str, Json] = dict.fromkeys(REASONS, row["dropped_segments"])
            more = {"name": name, "takes": self.takes, "dropped_segments": dropped}
            zero = dict.fromkeys(
                ["duplicated_segments", "l4s_marked_segments", "l4s_dropped_segments", "corrupted_segments"], 0
            )
            links.append({**row, **more, **zero})
        hosts: list[Json] = [
            {"name": name, "ipv4": f"198.18.0.{at}", "ipv6": f"fd77::{at}"}
            for at, name in ((1, "server"), (2, "client"))
        ]
        hops: list[Json] = [{"name": name.rpartition(".")[0], "kind": "radio"} for name in self.links[::2]]
        directions: list[Json] = [
            {"name": name, "transit_ns": 7_000_000, "transit_segments": 1} for name in self.directions
        ]
        timeline = None if self.timeline is None else self.timeline.state()
        return {
            "name": self.name, "now_ns": at_ns, "zero_ns": self._zero_ns, "links": links, "directions": directions,
            "hosts": hosts, "hops": hops, "flows": None, "confined_user": None, "in_flight_bytes": 0, "pool_bytes": 0,
            "timeline": timeline,
        }  # fmt: skip

    def _watch(self, stream: socket.socket, every_ms: int) -> None:
        head = {
            "links": self.links, "directions": self.directions, "link_columns": COLUMNS,
            "direction_columns": ["transit_ns", "transit_segments"], "every_ms": every_ms, "zero_ns": self._zero_ns,
        }  # fmt: skip
        if self.timeline is not None:
            head |= {"timeline": self.timeline.state(), "timeline_columns": list(self.timeline.COLUMNS)}
        stream.sendall(json.dumps({"watching": head}).encode() + b"\n")
        self._watching.add(threading.get_ident())
        try:
            due_s = time.monotonic() - self._past_s
            while not self.ended.wait(max(0.0, due_s - time.monotonic())):
                at_ns = min(time.monotonic_ns(), round(due_s * 1e9)) - self._zero_ns
                ms = at_ns // 1_000_000
                links = [self._row(place, at_ns) for place in range(len(self.links))]
                transit = [[ms * (4_000_000 if name.endswith(".up") else 7_000_000), ms] for name in self.directions]
                sample = {"links": links, "directions": transit, "lost": 0}
                if self.timeline is not None:
                    sample["timeline"] = self.timeline.row()
                stream.sendall(json.dumps(sample).encode() + b"\n")
                due_s += every_ms / 1000
        finally:
            self._watching.discard(threading.get_ident())


@contextmanager
def played(monkeypatch: pytest.MonkeyPatch, *labs: PlayedLab) -> Iterator[None]:
    """Let these be the laboratories that run."""
    known = {lab.name: lab for lab in labs}

    def running() -> list[Running]:
        return [Running(lab.name, os.geteuid(), "x") for lab in labs if not lab.ended.is_set()]

    def connect(name: str) -> ControlConnection:
        if name not in known or known[name].ended.is_set():
            raise UserError(f"{name!r} is no running laboratory")
        return known[name].connect()

    monkeypatch.setattr("wavebed.ui.guard.running", running)
    monkeypatch.setattr("wavebed.ui.guard.connect_to", connect)
    monkeypatch.setattr("wavebed.ui.guard.connect", lambda lab: connect(lab.name))
    yield
    for lab in labs:
        lab.ended.set()
