"""The figures of a recording."""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, cast

import numpy as np
from msgspec import Struct

from wavebed._core import find_agent
from wavebed.config import values
from wavebed.config.problems import Problem
from wavebed.config.table import Key
from wavebed.errors import WavebedError
from wavebed.lab.confine import Confined
from wavebed.workload.drafts import drafted
from wavebed.workload.model import Metric, Outcome, Series, Session, Workload
from wavebed.workload.probing import MOST_ERROR
from wavebed.workload.programs import create, end_within, last_line, output_of, wait_for_end
from wavebed.workload.record_curves import GRID_NS, PROBE_NS, Clocks, Curves, Received, curves, read_received

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Host, Process
    from wavebed.lab.tools import Program
    from wavebed.workload.model import Common, Schedule, TrialContext


SIGNS = {"down": 1, "up": -1}
_LEAST_BUSY = 0.5
"""Below this share of a filled queue the sender or a rate limit sets the rate, not the access."""


def curves_of(received: Mapping[str, Received], details: Mapping[str, Json]) -> dict[str, Curves] | None:
    """Return the curves of each direction from its receiver's file; ``None`` if a clock was set meanwhile."""
    clocks = _clocks(details)
    if clocks is None:
        return None
    return {
        direction: curves(
            each,
            sign=SIGNS[direction],
            clocks=clocks,
            duration_ns=round(cast("float", details["duration_s"]) * 1e9),
            pause_ns=round(_pause_s(direction, cast("Sequence[tuple[str, float]]", details["cycle"])) * 1e9),
            header_bytes=int(cast("int", details["header_bytes"])),
        )
        for direction, each in received.items()
    }


def _clocks(details: Mapping[str, Json]) -> Clocks | None:
    samples = cast("Sequence[Sequence[float]]", details["clocks"])
    return Clocks.of(samples, *(float(cast("float", details[key])) for key in ("start_s", "lead_s")))


def _pause_s(direction: str, parts: Sequence[tuple[str, float]]) -> float:
    return sum(length_s for kind, length_s in parts if kind != direction)


def figures(received: Mapping[str, Received], details: dict[str, Json], *, stopped: bool) -> Outcome:
    """Return the results of a recording."""
    found, clocks = curves_of(received, details), _clocks(details)
    if found is None or clocks is None:
        return Outcome("failed", "a clock was set during the recording", details=details)
    start_s = float(cast("float", details["start_s"]))
    worst_ms = clocks.error_ns / 1e6
    metrics: list[Metric] = []
    series: list[Series] = []
    doubts: list[str] = []
    bears = _bear(found, worst_ms)
    for direction, each in found.items():
        metrics += _metrics(direction, each, bears=bears)
        series += _series(direction, each, start_s, bears=bears)
        doubts += _doubts(direction, each)
        if received[direction].refused:
            doubts.append(f"a host's own interface refused heavy load {received[direction].refused} times")
    metrics.append(_round_trip(found))
    details["error of the clocks, ms"] = worst_ms
    if not any(len(each.delay_ns) for each in found.values()):
        return Outcome("failed", "no packet of light load arrived", series=series, details=details)
    return Outcome(
        status="partial" if stopped else "ok",
        reason="stopped before its duration was over" if stopped else "",
        metrics=metrics,
        series=series,
        details=details,
        doubts=doubts,
    )


def _bear(found: Mapping[str, Curves], worst_ms: float) -> bool:
    """Tell whether the clocks are known well enough for one-way delays."""
    medians = [float(np.median(each.delay_ns)) / 1e6 for each in found.values() if len(each.delay_ns)]
    return bool(medians) and worst_ms <= MOST_ERROR * min(medians)


def known_record_metrics() -> list[Metric]:
    """Return the metrics of a recording without values."""
    none, times = np.empty(0), np.empty(0, np.int64)
    nothing = Curves(
        delay_at_ns=times,
        delay_ns=none,
        train_at_ns=times,
        train_ns=times,
        train_bps=none,
        loss_at_ns=times,
        loss_end_ns=times,
        loss_sent=times,
        loss_lost=times,
        outages_ns=times,
        rate_bps=none,
        heavy_ns=0,
        busy_ns=0,
        queue_ns=0.0,
        queue_bytes=0,
        queue_is_full=False,
    )
    found = dict.fromkeys(SIGNS, nothing)
    return [*(each for side in found for each in _metrics(side, nothing, bears=False)), _round_trip(found)]


def _metrics(direction: str, each: Curves, *, bears: bool) -> list[Metric]:
    rate = each.rate_bps[~np.isnan(each.rate_bps)]
    sent, lost = int(each.loss_sent.sum()), int(each.loss_lost.sum())
    delay = each.delay_ns / 1e6 if bears else np.empty(0)
    return [
        Metric(
            f"rate {direction}",
            float(rate.mean()) / 1e6 if len(rate) else None,
            "Mbit/s",
            "higher",
            "IP bits of a certainly filled queue",
        ),
        *(
            Metric(
                f"rate {direction} p{part}",
                float(np.percentile(rate, part)) / 1e6 if len(rate) else None,
                "Mbit/s",
                "higher",
                f"in steps of {GRID_NS // 1_000_000} ms",
            )
            for part in (5, 50, 95)
        ),
        Metric(
            f"train spread {direction} p50",
            float(np.median(each.train_ns)) / 1e6 if len(each.train_ns) else None,
            "ms",
            "lower",
            "from the first to the last arrival of ten packets sent at once after an idle time",
        ),
        *(
            Metric(
                f"delay {direction} p{part}",
                float(np.percentile(delay, part)) if len(delay) else None,
                "ms",
                "lower",
                "one way, of packets after an idle time",
            )
            for part in (5, 50, 95)
        ),
        Metric(
            f"loss {direction}", 100 * lost / sent if sent else None, "%", "lower", "of light load, without outages"
        ),
        Metric(
            f"filled {direction}",
            100 * each.busy_ns / each.heavy_ns if each.heavy_ns else None,
            "%",
            "higher",
            "share of heavy load with a certainly filled queue",
        ),
        Metric(
            f"queue {direction}",
            each.queue_ns / 1e6 if each.queue_is_full else None,
            "ms",
            "neither",
            "longest queueing delay when packets were lost",
        ),
    ]


def _round_trip(found: Mapping[str, Curves]) -> Metric:
    medians = [float(np.median(each.delay_ns)) / 1e6 for each in found.values() if len(each.delay_ns)]
    whole = sum(medians) if len(medians) == len(SIGNS) else None
    return Metric("rtt p50", whole, "ms", "lower", "sum of the median delays of both directions: no clock counts")


def _series(direction: str, each: Curves, start_s: float, *, bears: bool) -> list[Series]:
    known = np.flatnonzero(~np.isnan(each.rate_bps))
    rate = Series(
        f"rate {direction}",
        "Mbit/s",
        (start_s + (known + 0.5) * GRID_NS / 1e9).tolist(),
        (each.rate_bps[known] / 1e6).tolist(),
    )
    if not bears:
        return [rate]
    order = np.argsort(each.delay_at_ns)
    delay = Series(
        f"delay {direction}",
        "ms",
        (start_s + each.delay_at_ns[order] / 1e9).tolist(),
        (each.delay_ns[order] / 1e6).tolist(),
    )
    return [rate, delay]


def _doubts(direction: str, each: Curves) -> list[str]:
    if each.heavy_ns and each.busy_ns < _LEAST_BUSY * each.heavy_ns:
        share = 100 * each.busy_ns / each.heavy_ns
        only = f"{direction}: the queue was certainly filled in {share:.0f} % of heavy load only"
        return [f"{only}: the hosts or most-rate limit it"]
    return []


DIRECTIONS = {"down": "client", "up": "server"}
"""The host that receives each direction, and whose file has it."""
CLOCKS = "clocks"
"""Of the details: time, how far the server's clock is ahead of the client's, the error, all in seconds."""

_PAYLOAD_BYTES = 1372
_HEADER_BYTES = 28
"""IPv4 and UDP: full packets have 1400 bytes, which the tunnels of mobile networks carry whole."""
_TRAIN_PACKETS = 10
"""As the initial window of TCP (RFC 6928)."""
_TRAIN_NS = 100_000_000
_QUEUE_NS = 60_000_000
LIGHT_IDLE_S = PROBE_NS / 1e9
"""Idle time before a train."""
_LEAD_S = 1.5
"""Time between the announcement of the start and the start, for both ends."""
_LAST_S = 1.0
_PATIENCE_S = 5.0
_CLOCK_EVERY_S = 1.0
_NS = 1_000_000_000


class RecordOptions(Struct, frozen=True, kw_only=True):
    """The keys of a recording."""

    duration_s: Annotated[float, Key(values.seconds(2, 86_400), "how long")] = 60.0
    light_s: Annotated[float, Key(values.seconds(0.2, 60), "light load in each cycle: single packets and trains")] = 1.0
    down_s: Annotated[float, Key(values.seconds(0, 60), "heavy load on the downlink in each cycle; 0s: none")] = 2.0
    up_s: Annotated[float, Key(values.seconds(0, 60), "heavy load on the uplink in each cycle; 0s: none")] = 1.0
    drain_s: Annotated[float, Key(values.seconds(0.05, 10), "pause after heavy load, in which queues become empty")] = (
        0.25
    )
    fill_s: Annotated[
        float,
        Key(
            values.seconds(0, 60),
            "at the beginning: how long the queue of each direction is filled, for its limit",
        ),
    ] = 2.0
    most_rate_bps: Annotated[
        int | None, Key(values.rate_bps, "most that heavy load sends, for data that costs money", absent="no limit")
    ] = None


class Record(Workload[RecordOptions]):
    """A recording of an access."""

    kind: ClassVar[str] = "record"
    summary: ClassVar[str] = "light and heavy load in alternation, from which `wavebed record` makes patterns"
    options_type = RecordOptions
    programs: ClassVar[Sequence[Program]] = ()

    def __init__(self, common: Common, options: RecordOptions) -> None:
        super().__init__(common, options)
        if options.most_rate_bps == 0:
            raise Problem("is 0: write a rate, or leave it out", "most-rate")
        if options.down_s == options.up_s == 0:
            raise Problem("is 0s, and so is up: there would be no heavy load", "down")
        self.program: Path | None = None

    def expected_s(self) -> float:
        """Return its duration with the time before and after it."""
        return min(self.common.limit_s, _LEAD_S + self.options.duration_s + _LAST_S)

    def expected_bytes(self, rate_bps: float, others_s: float) -> float:
        """Return what heavy load carries; light load is little beside it."""
        del others_s
        options = self.options
        if options.most_rate_bps is not None:
            rate_bps = min(rate_bps, options.most_rate_bps)
        fills_s = min(options.duration_s, sum(options.fill_s for part in (options.down_s, options.up_s) if part))
        heavy_s = options.down_s + options.up_s
        share = heavy_s / sum(length for _, length in cycle(options))
        return (fills_s + share * (options.duration_s - fills_s)) * rate_bps / 8 * 1.01

    def prepare(self, cache: Path) -> None:
        """Put the prober into the cache: from there it gets to other hosts."""
        data = Path(find_agent()).read_bytes()
        file = cache / f"wavebed-agent-{sha256(data).hexdigest()[:16]}"
        if not file.exists():
            with drafted(file, 0o777) as draft:
                draft.write(data)
        self.program = file

    def known_metrics(self) -> list[Metric]:
        """Return its metrics without values."""
        return known_record_metrics()

    def open(self, context: TrialContext) -> Session:
        """Start the probers; they wait for their settings."""
        return _RecordSession(self, context)


def cycle(options: RecordOptions) -> list[tuple[str, float]]:
    """Return the phases that repeat, with their lengths in seconds; queues become empty after each heavy one."""
    heavy = [(name, length_s) for name, length_s in (("down", options.down_s), ("up", options.up_s)) if length_s > 0]
    return [("light", options.light_s), *(part for phase in heavy for part in (phase, ("drain", options.drain_s)))]


def opening(options: RecordOptions) -> list[tuple[str, float]]:
    """Return the phases at the beginning."""
    if options.fill_s == 0:
        return []
    filled = [name for name, length_s in (("filldown", options.down_s), ("fillup", options.up_s)) if length_s > 0]
    parts = [part for name in filled for part in ((name, options.fill_s), ("drain", options.fill_s))]
    # The delay of an empty queue is known before it is filled.
    return [("light", options.light_s), *parts]


def _phases(parts: Sequence[tuple[str, float]]) -> list[Json]:
    return [{"kind": kind, "length_ns": round(length_s * _NS)} for kind, length_s in parts]


class _RecordSession(Session):
    def __init__(self, workload: Record, context: TrialContext) -> None:
        self._workload = workload
        self._context = context
        self._asked = threading.Event()
        self._start_s = 0.0
        self._lead_s = 0.0
        self._failure = ""
        self._address = _address_of(context.server, context.client)
        self._settings: dict[str, int] = {}
        self._probers = {host.name: self._prober(host) for host in (context.server, context.client)}

    def _prober(self, host: Host) -> Process:
        program, folder = self._workload.program, self._context.folder
        if program is None:
            raise WavebedError("record: has not been prepared")
        reading, self._settings[host.name] = os.pipe()
        try:
            with create(folder / f"{host.name}.csv") as output, create(folder / f"{host.name}.err") as errors:
                return host.start(
                    [program, "probe"],
                    stdin=reading,
                    stdout=output,
                    stderr=errors,
                    confined=Confined(read=[program]),
                )
        finally:
            os.close(reading)

    def run(self) -> None:
        context = self._context
        self._tell()
        limit_s = _LEAD_S + self._workload.options.duration_s + _LAST_S + _PATIENCE_S
        server, client = self._probers[context.server.name], self._probers[context.client.name]
        over = threading.Timer(limit_s, self._asked.set)
        over.start()
        try:
            line = wait_for_end(client, self._asked, lambda: self._early_end(context.server.name, server))
        finally:
            over.cancel()
        self._failure = line or ""
        for process in (client, server):
            end_within(process, 0.001 if self._asked.is_set() or line else _PATIENCE_S)
        for name, process in self._probers.items():
            if process.returncode:
                self._failure = self._failure or self._early_end(name, process) or ""

    def _tell(self) -> None:
        """Give both ends their settings: the start is one moment, on the clock of each."""
        context, options = self._context, self._workload.options
        now_s = context.clock.now_s()
        self._start_s = now_s + _LEAD_S
        start_unix_ns = time.time_ns() + round(_LEAD_S * _NS)
        token = secrets.randbits(63)
        for role, host in (("server", context.server), ("client", context.client)):
            offset = host.clock_offset(now_s)
            if offset is None:
                raise WavebedError(f"{host.name}: its clock was set: both ends need one start")
            self._lead_s += offset.ahead_s if role == "server" else -offset.ahead_s
            settings: dict[str, Json] = {
                "role": role,
                "address": f"{'0.0.0.0' if role == 'server' else self._address}:{context.port}",  # noqa: S104 - laboratory
                "token": token,
                "start_unix_ns": start_unix_ns + round(offset.ahead_s * _NS),
                "duration_ns": round(options.duration_s * _NS),
                "opening": _phases(opening(options)),
                "cycle": _phases(cycle(options)),
                "probe_ns": PROBE_NS,
                "train_ns": _TRAIN_NS,
                "train_packets": _TRAIN_PACKETS,
                "payload_bytes": _PAYLOAD_BYTES,
                "queue_ns": _QUEUE_NS,
                "fill_ns": round(max(options.fill_s, 1.0) * _NS),
                "most_bps": options.most_rate_bps,
            }
            with os.fdopen(self._settings.pop(host.name), "w", encoding="ascii") as pipe:
                pipe.write(json.dumps(settings))

    def _early_end(self, name: str, process: Process) -> str | None:
        if process.poll() in (None, 0):
            return None
        said = last_line(self._context.folder / f"{name}.err").removeprefix("wavebed-agent: ")
        return f"the prober on {name} ended with {process.returncode}: {said or 'no message'}"

    def stop(self) -> None:
        self._asked.set()

    def report(self, schedule: Schedule) -> Outcome:  # noqa: ARG002 - the files have their times
        for descriptor in self._settings.values():
            os.close(descriptor)
        self._settings.clear()
        context, options = self._context, self._workload.options
        if self._failure:
            return Outcome("failed", self._failure)
        received: dict[str, Received] = {}
        for direction, receiver in DIRECTIONS.items():
            name = getattr(context, receiver).name
            received[direction] = read_received(output_of(context.folder / f"{name}.csv"), name)
        found = self._clocks()
        details: dict[str, Json] = {
            "start_s": self._start_s,
            "lead_s": self._lead_s,
            "duration_s": options.duration_s,
            "cycle": [[kind, length_s] for kind, length_s in cycle(options)],
            "opening": [[kind, length_s] for kind, length_s in opening(options)],
            "header_bytes": _HEADER_BYTES,
            "train_bytes": _TRAIN_PACKETS * (_PAYLOAD_BYTES + _HEADER_BYTES),
            CLOCKS: found,
        }
        return figures(received, details, stopped=self._asked.is_set())

    def _clocks(self) -> list[Json]:
        context = self._context
        found: list[Json] = []
        at_s = self._start_s
        while at_s <= self._start_s + self._workload.options.duration_s:
            server, client = context.server.clock_offset(at_s), context.client.clock_offset(at_s)
            if server is not None and client is not None:
                found.append([at_s, server.ahead_s - client.ahead_s, server.error_s + client.error_s])
            at_s += _CLOCK_EVERY_S
        return found


def _address_of(server: Host, client: Host) -> str:
    """Return the server's IPv4 address, as the client's own table of names has it."""
    done = client.run(["getent", "ahostsv4", server.name], capture_output=True, timeout=5, confined=True)
    words = (done.stdout or "").split()
    if done.returncode != 0 or not words:
        raise WavebedError(f"{client.name}: has no address of {server.name}")
    return words[0]
