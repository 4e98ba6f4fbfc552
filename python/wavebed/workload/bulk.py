"""TCP or UDP at full speed or at a rate, by iperf3."""

from __future__ import annotations

import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from msgspec import Struct

from wavebed.config import values
from wavebed.config.problems import Problem
from wavebed.config.reader import reader
from wavebed.config.table import Key
from wavebed.lab.confine import Confined
from wavebed.lab.tools import Program
from wavebed.workload.model import Common, Metric, Outcome, Series, Session, Workload
from wavebed.workload.parsers import Iperf3End, Stream, read_end, shortfall
from wavebed.workload.programs import create, end_within, last_line, output_of, wait_for_end
from wavebed.workload.serve import RunningServer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.config.data import Json
    from wavebed.workload.model import Schedule, Status, TrialContext


INTERVAL = "0.1"
_LATE_S = 0.001
"""An interval may begin so much before its time."""
_ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
_MAX_STREAMS = 128
"""What iperf3 allows."""
_SECOND_NS = 1_000_000_000
_MAX_DURATION_S = 86_400
_LAST_WORDS_S = 1.0
"""Time in which the other end learns of the end."""
_FRAME_BYTES, _PACKET_BYTES = 1514, 1500
"""A full packet with Ethernet's header, and without."""
_ACKNOWLEDGED = 1.015
"""Of TCP with its acknowledgements: one of 66 bytes for two to four packets."""
_DRAINED_S = 0.3
"""What sockets and queues hold at the end of TCP streams arrives still; measured: 0.1 s (bbr) to 0.5 s (cubic)."""
_ROUND_TRIPS_TO_START = 5
"""Control connection, parameters, request for streams, their connections, start: one round trip each."""
_DIRECTIONS = {"down": ("down",), "up": ("up",), "both": ("down", "up")}
_OPTIONS = {"down": ["-R"], "up": [], "both": ["--bidir"]}


@reader("TIME", values.TIME_SCHEMA, "{}s".format)
def _duration_s(value: object) -> int:
    nanoseconds = values.time_ns(value)
    seconds, rest = divmod(nanoseconds, _SECOND_NS)
    if rest or not 1 <= seconds <= _MAX_DURATION_S:
        raise Problem(f"{value!r} is not a duration for iperf3: write whole seconds from 1s to {_MAX_DURATION_S}s")
    return seconds


class BulkOptions(Struct, frozen=True, kw_only=True):
    """The keys of a bulk transfer."""

    duration_s: Annotated[int, Key(_duration_s, "how long it sends; whole seconds")] = 10
    streams: Annotated[int, Key(values.number(1, _MAX_STREAMS), "how many streams in each direction")] = 1
    direction: Annotated[
        Literal["down", "up", "both"], Key(values.word(*_DIRECTIONS), "`down` is from the server to the client")
    ] = "down"
    congestion_control: Annotated[
        str | None, Key(values.name, "congestion control of the streams", absent="that of the sending host")
    ] = None
    protocol: Annotated[Literal["tcp", "udp"], Key(values.word("tcp", "udp"), "the transport")] = "tcp"
    rate_bps: Annotated[int | None, Key(values.rate_bps, "of each UDP stream, in bits of payload")] = None
    settle_s: Annotated[
        float | None,
        Key(
            values.seconds(0.1),
            "goodput after this much of the duration is a metric of its own, such as `goodput after 60s`",
            absent="none",
        ),
    ] = None


class Bulk(Workload[BulkOptions]):
    """Streams in one direction or both for a duration."""

    kind = "bulk"
    summary = "bulk transfer of TCP streams, or UDP at a rate, by iperf3"
    options_type = BulkOptions
    programs: ClassVar[Sequence[Program]] = (Program("iperf3"),)

    def __init__(self, common: Common, options: BulkOptions) -> None:
        super().__init__(common, options)
        if self.is_udp and not options.rate_bps:
            raise Problem("is missing: UDP needs the rate of a stream, such as 10mbit", "rate")
        if not self.is_udp and options.rate_bps is not None:
            raise Problem("is for UDP: remove it, or write protocol = udp", "rate")
        if self.is_udp and options.congestion_control is not None:
            raise Problem("is for TCP: remove it, or write protocol = tcp", "congestion-control")
        if options.settle_s is not None and options.settle_s >= options.duration_s:
            raise Problem(f"is not below the duration of {options.duration_s}s", "settle")

    @property
    def is_udp(self) -> bool:
        """Whether the transport is UDP."""
        return self.options.protocol == "udp"

    def expected_s(self) -> float:
        """Return its duration and 0.5 s for the handshakes."""
        return min(self.common.limit_s, self.options.duration_s + 0.5)

    def expected_bytes(self, rate_bps: float, others_s: float) -> float:
        """Return its share of the rate with Ethernet's headers; with TCP acknowledgements and what buffers hold too."""
        del others_s
        options = self.options
        directions = 2 if options.direction == "both" else 1
        sent_bps = rate_bps if options.rate_bps is None else min(rate_bps, options.streams * options.rate_bps)
        duration_s, share = float(options.duration_s), 1.0
        if not self.is_udp:
            duration_s, share = duration_s + _DRAINED_S, _ACKNOWLEDGED
        return duration_s * directions * sent_bps * share / 8 * _FRAME_BYTES / _PACKET_BYTES

    def client_options(self) -> list[str]:
        """Return the options for iperf3."""
        options = [
            "-t",
            str(self.options.duration_s),
            "-P",
            str(self.options.streams),
            *_OPTIONS[self.options.direction],
        ]
        if self.is_udp:
            options += ["-u", "-b", str(self.options.rate_bps)]
        if self.options.congestion_control is not None:
            options += ["-C", self.options.congestion_control]
        return options

    def needs(self) -> Confined:
        """Return the privileges of iperf3 at both ends: a restricted congestion control needs ``net_admin``."""
        is_free = (
            self.options.congestion_control is None
            or self.options.congestion_control in _ALLOWED.read_text(encoding="ascii").split()
        )
        return Confined(capabilities=() if is_free else ("net_admin",))

    def known_metrics(self) -> list[Metric]:
        """Return its metrics without values."""
        flows = [BulkFlows(name, [], [], None) for name in _DIRECTIONS[self.options.direction]]
        return _metrics(flows, self.options)

    def open(self, context: TrialContext) -> Session:
        """Start the server."""
        return _BulkSession(self, context)


class _BulkSession(Session):
    def __init__(self, workload: Bulk, context: TrialContext) -> None:
        self._workload = workload
        self._context = context
        self._asked = threading.Event()
        self._failure: str | None = None
        self._start_s = self._end_s = 0.0
        self._status: int | None = None
        argv = [context.server.program("iperf3"), "-s", "-1", "-4", "-J", "-i", INTERVAL, "-p", str(context.port)]
        log = context.folder / "server.log"
        with create(context.folder / "server.json") as output, create(log) as errors:
            process = context.server.start(argv, stdout=output, stderr=errors, confined=workload.needs())
        self._server = RunningServer("iperf3's server", process, log)
        self._server.wait_for_ports(context.server, [context.port])

    def run(self) -> None:
        context = self._context
        where = [context.server.name, "-4", "-p", str(context.port)]
        argv = [context.client.program("iperf3"), "-c", *where, "-J", "-i", INTERVAL, *self._workload.client_options()]
        self._start_s = context.clock.now_s()
        with create(context.folder / "client.json") as output, create(context.folder / "client.log") as errors:
            client = context.client.start(argv, stdout=output, stderr=errors, confined=self._workload.needs())
        self._failure = wait_for_end(client, self._asked, self._server_failure)
        # A client that has lost its server reports it; a client at its limit writes its results on SIGINT.
        end_within(client, _LAST_WORDS_S if self._failure else 0.001, signal.SIGINT)
        self._end_s = context.clock.now_s()
        self._status = client.returncode
        end_within(self._server.process, _LAST_WORDS_S, signal.SIGINT)

    def _server_failure(self) -> str | None:
        """Return a line if the server has ended, except after its one client (``-1``)."""
        line = self._server.failure()
        return line if self._server.process.returncode != 0 else None

    def stop(self) -> None:
        self._asked.set()

    def report(self, schedule: Schedule) -> Outcome:  # noqa: ARG002 - its output has its times
        ends = {name: _read(self._context, name) for name in ("client", "server")}
        flows = [BulkFlows.of(name, ends) for name in _DIRECTIONS[self._workload.options.direction]]
        start_s = self._first_s(ends["client"], flows)
        series = [each for flow in flows for each in flow.series(start_s, only=len(flows) == 1)]
        failure, doubts = self._failed(ends["client"], flows)
        if failure is not None:
            return Outcome("failed", failure, series=series, doubts=doubts)
        metrics = _metrics(flows, self._workload.options)
        is_cut = self._asked.is_set() and self._status != 0
        reason = f"stopped at its limit of {self._context.limit_s:g} s" if is_cut else self._missing(flows)
        status: Status = "partial" if reason else "ok"
        return Outcome(status, reason, metrics, series, details=_details(ends["client"], flows), doubts=doubts)

    def _missing(self, flows: Sequence[BulkFlows]) -> str:
        """Return a line about missing data; empty if all arrived."""
        streams = self._workload.options.streams
        for flow in flows:
            short = shortfall(flow.received, streams, self._workload.options.duration_s)
            if short:
                return f"the receiver counted only {short} {flow.towards}"
        return ""

    def _first_s(self, client: Iperf3End, flows: Sequence[BulkFlows]) -> float:
        """Return the approximate start of the client's counters, which iperf3 gives in whole seconds only.

        They start five round trips after the client; after a longer handshake, not before iperf3's second, and not so
        late that its intervals do not fit.
        """
        covered_s = max((stream[-1].end_s for stream in [*client.sent, *client.received]), default=0.0)
        rtts = [each.rtt_us for flow in flows for stream in flow.sent for each in stream if each.rtt_us is not None]
        latest_s = self._end_s - covered_s
        if rtts:
            first_s = self._start_s + _ROUND_TRIPS_TO_START * min(rtts) / 1e6
        else:
            # Of about six round trips without data, five are before the start.
            first_s = self._start_s + (latest_s - self._start_s) * _ROUND_TRIPS_TO_START / 6
        if client.begun_unix_s is not None:
            first_s = max(first_s, self._context.client.of_unix_s(client.begun_unix_s))
        return min(first_s, latest_s)

    def _failed(self, client: Iperf3End, flows: Sequence[BulkFlows]) -> tuple[str | None, list[str]]:
        """Return the reason of a failure, or ``None``, and the reasons for a suspect result."""
        if self._failure is not None:
            return self._failure, []
        # iperf3 ends with 0 after some errors.
        if (self._status != 0 or client.error) and not self._asked.is_set():
            return f"iperf3: {client.error or last_line(self._context.folder / 'client.log') or 'no message'}", []
        wanted = self._workload.options.congestion_control
        doubts: list[str] = []
        for flow in flows:
            if not any(each.bytes for stream in flow.received for each in stream):
                return f"nothing arrived {flow.towards} within {self._context.limit_s:g} s", doubts
            if wanted is not None and flow.control not in (wanted, None):
                return f"iperf3 sent {flow.towards} with {flow.control}, not with {wanted}", doubts
            if wanted is not None and flow.control is None:
                doubts.append(f"iperf3 did not report its congestion control {flow.towards}")
        return None, doubts


def _read(context: TrialContext, name: str) -> Iperf3End:
    file = context.folder / f"{name}.json"
    return read_end(output_of(file))


def _metrics(flows: Sequence[BulkFlows], options: BulkOptions) -> list[Metric]:
    return [each for flow in flows for each in flow.metrics(options, only=len(flows) == 1)]


@dataclass(frozen=True, slots=True)
class BulkFlows:
    """The streams of one direction at its sender and at its receiver."""

    towards: str
    sent: list[Stream]
    received: list[Stream]
    control: str | None

    @classmethod
    def of(cls, towards: str, ends: Mapping[str, Iperf3End]) -> BulkFlows:
        """Return the streams of a direction, ``down`` or ``up``, of what client and server told."""
        sender, receiver = ("server", "client") if towards == "down" else ("client", "server")
        return cls(towards, ends[sender].sent, ends[receiver].received, ends[sender].sender_control)

    def metrics(self, options: BulkOptions, *, only: bool) -> list[Metric]:
        """Return its metrics, named with the direction unless it is the only one."""
        name = "" if only else f" {self.towards}"
        goodput = [self._goodput(f"goodput{name}", 0.0)]
        if options.settle_s is not None:
            goodput.append(self._goodput(f"goodput{name} after {values.time_text(options.settle_s)}", options.settle_s))
        if options.protocol == "tcp":
            again = [each.retransmits for stream in self.sent for each in stream if each.retransmits is not None]
            count = sum(again) if again else None
            return [*goodput, Metric(f"retransmits{name}", count, "segments", "lower", "iperf3, at the sender")]
        packets = sum(each.packets or 0 for stream in self.received for each in stream)
        lost = sum(each.lost or 0 for stream in self.received for each in stream)
        jitters = [stream[-1].jitter_ms for stream in self.received]
        known = [each for each in jitters if each is not None]
        jitter_ms = sum(known) / len(known) if known else None
        return [
            *goodput,
            Metric(f"loss{name}", 100 * lost / packets if packets else None, "%", "lower", "iperf3, at the receiver"),
            Metric(f"jitter{name}", jitter_ms, "ms", "lower", "iperf3: RFC 1889, section 6.3.1, at the end"),
        ]

    def _goodput(self, name: str, from_s: float) -> Metric:
        """Return the goodput of all intervals that begin at this time or later; none if there is none."""
        counted = [each for stream in self.received for each in stream if each.start_s >= from_s - _LATE_S]
        value = None
        if counted:
            seconds = max(each.end_s for each in counted) - from_s
            value = sum(each.bytes for each in counted) * 8 / seconds / 1e6
        return Metric(name, value, "Mbit/s", "higher", "iperf3, at the receiver")

    def series(self, start_s: float, *, only: bool) -> list[Series]:
        """Return its goodput in total and by stream, and its sender's round-trip times, windows and retransmissions."""
        name = "" if only else f" {self.towards}"
        found = []
        if self.received:
            found.append(goodput_series(f"goodput{name}", _summed(self.received), start_s))
        several = len(self.received) > 1
        if several:
            found += [
                goodput_series(
                    f"goodput{name} stream {number}",
                    [(each.start_s, each.end_s, each.bytes) for each in stream],
                    start_s,
                )
                for number, stream in enumerate(self.received, 1)
            ]
        for number, stream in enumerate(self.sent, 1):
            mine = f"{name} stream {number}" if several else name
            at_s = [start_s + each.end_s for each in stream]
            rtt_ms = [None if each.rtt_us is None else each.rtt_us / 1e3 for each in stream]
            cwnd_bytes = [each.cwnd_bytes for each in stream]
            again_per_s = [
                None if each.retransmits is None else each.retransmits / (each.end_s - each.start_s) for each in stream
            ]
            for series in (
                Series(f"rtt{mine}", "ms", at_s, rtt_ms),
                Series(f"cwnd{mine}", "bytes", at_s, cwnd_bytes),
                Series(f"retransmits{mine}", "segments/s", at_s, again_per_s),
            ):
                if any(value is not None for value in series.value):
                    found.append(series)
        return found


def _summed(streams: Sequence[Stream]) -> list[tuple[float, float, float]]:
    """Return begin, end and bytes of each interval of all streams; they share their intervals but for microseconds."""
    rows = []
    for number in range(max(len(stream) for stream in streams)):
        same = [stream[number] for stream in streams if number < len(stream)]
        rows.append((same[0].start_s, same[0].end_s, sum(each.bytes for each in same)))
    return rows


def goodput_series(name: str, given: Sequence[tuple[float, float, float]], start_s: float) -> Series:
    """Return the goodput of intervals; a short last one, which may hold bytes of before, is joined to its neighbour."""
    rows = list(given)
    if len(rows) > 1 and rows[-1][1] - rows[-1][0] < (rows[-2][1] - rows[-2][0]) / 2:
        (begin_s, _, size), (_, end_s, rest) = rows[-2:]
        rows[-2:] = [(begin_s, end_s, size + rest)]
    return Series(
        name,
        "Mbit/s",
        [start_s + (begin_s + end_s) / 2 for begin_s, end_s, _ in rows],
        [size * 8 / (end_s - begin_s) / 1e6 for begin_s, end_s, size in rows],
    )


def _details(client: Iperf3End, flows: Sequence[BulkFlows]) -> dict[str, Json]:
    controls: dict[str, Json] = {flow.towards: flow.control for flow in flows}
    found: list[Json] = [{"local": local, "remote": remote} for local, remote in client.flows]
    return {"congestion_control": controls, "flows": found}
