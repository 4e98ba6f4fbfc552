"""`latency`: probes beside the other workloads, while the path is idle and while it is loaded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from wavebed.config.problems import Problem, described
from wavebed.config.reader import reader
from wavebed.config.table import Key
from wavebed.config.units import format_size
from wavebed.config.values import SIZE_SCHEMA, boolean, seconds, size_bytes, word
from wavebed.lab.tools import Program
from wavebed.workload.model import Metric, Outcome, Series, Session
from wavebed.workload.parsers import (
    LEAST_LENGTH,
    irtt_client,
    irtt_server,
    ping_command,
    read_irtt,
    read_ping,
    summary_line,
)
from wavebed.workload.probing import (
    EchoProbe,
    Prober,
    ProbeWatch,
    Probing,
    ProbingOptions,
    ProbingWorkload,
    answered_or_lost,
    delay_metrics,
    loads_of,
    loss_metrics,
    on_one_clock,
    start_server,
    variation_metrics,
)
from wavebed.workload.programs import output_of
from wavebed.workload.rpm import RpmProber, rpm_metrics, rpm_series
from wavebed.workload.serve import make_certificate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.tools import End
    from wavebed.workload.model import Common, Schedule, TimeSpan, TrialContext
    from wavebed.workload.serve import Certificate


_PROGRAMS = {"icmp": "ping", "udp": "irtt"}
_ICMP_FRAME_BYTES = 98
"""Of a probe of ping: IPv4, ICMP, Ethernet."""
_ETHERNET_BYTES = 14
_IP_UDP_BYTES = 28
_LEAST_SIZE_BYTES, _MOST_SIZE_BYTES = _IP_UDP_BYTES + LEAST_LENGTH, 1500
_PROBES = {"icmp": ("icmp",), "udp": ("udp",), "both": ("icmp", "udp")}


@reader("SIZE", SIZE_SCHEMA, format_size)
def _udp_size(value: object) -> int:
    """Read the IP bytes of a probe of irtt, which must fit one packet."""
    size = size_bytes(value)
    if not _LEAST_SIZE_BYTES <= size <= _MOST_SIZE_BYTES:
        raise Problem(f"{described(value)} is out of range: write {_LEAST_SIZE_BYTES}b to {_MOST_SIZE_BYTES}b")
    return size


class LatencyOptions(ProbingOptions, frozen=True, kw_only=True):
    """The keys of a latency probe."""

    probe: Annotated[Literal["icmp", "udp", "both"], Key(word(*_PROBES), "ICMP echo by ping, or UDP by irtt")] = "icmp"
    interval_s: Annotated[float, Key(seconds(0.002, 10), "interval between two probes of a kind")] = 0.02
    udp_size_bytes: Annotated[
        int,
        Key(_udp_size, "IP bytes of a probe of irtt and of its answer; with the interval, the rate of a pattern"),
    ] = _LEAST_SIZE_BYTES
    rpm: Annotated[bool, Key(boolean, "also measures round trips per minute, by new connections of curl")] = False


_ENDS: dict[str, End] = {"icmp": "client", "udp": "both"}
_RPM_ENDS: dict[str, End] = {"curl": "client", "nginx": "server", "openssl": "here"}


class Latency(ProbingWorkload[LatencyOptions]):
    """Delay and loss of probes, idle and loaded."""

    kind: ClassVar[str] = "latency"
    summary: ClassVar[str] = "ping and irtt beside the other workloads"
    options_type = LatencyOptions
    programs: ClassVar[Sequence[Program]] = (
        *(Program(_PROGRAMS[probe], "probe", (probe, "both"), end) for probe, end in _ENDS.items()),
        *(Program(name, "rpm", (True,), end) for name, end in _RPM_ENDS.items()),
    )

    def __init__(self, common: Common, options: LatencyOptions) -> None:
        super().__init__(common, options)
        self.probes = _PROBES[options.probe]
        self.certificate: Certificate | None = None
        self.interval_s = options.interval_s

    def prepare(self, cache: Path) -> None:
        """Make the certificate of the web server for new connections."""
        if self.options.rpm:
            self.certificate = make_certificate(cache, [self.common.server])

    def expected_bytes(self, rate_bps: float, others_s: float) -> float:
        """Return probes and answers with Ethernet's headers."""
        del rate_bps
        duration_s = self.options.duration_s or others_s
        frames = {"icmp": _ICMP_FRAME_BYTES, "udp": _ETHERNET_BYTES + self.options.udp_size_bytes}
        return sum(2 * frames[probe] for probe in self.probes) * duration_s / self.interval_s

    def known_metrics(self) -> list[Metric]:
        """Return its metrics without values."""
        kinds = [_icmp_metrics if probe == "icmp" else _udp_metrics for probe in self.probes]
        return [*(each for kind in kinds for each in kind([], [])), *(rpm_metrics([], []) if self.options.rpm else [])]

    def open(self, context: TrialContext) -> Session:
        """Start the servers of irtt and of new connections; ping needs none."""
        if "udp" in self.probes:
            start_server(
                "irtt-server", context.server, irtt_server(context.server, context.port), context.port, context.folder
            )
        return LatencySession(self, context)


@dataclass
class _Taken:
    """The probes of one kind, and the number of undetermined ones at the end."""

    probes: list[EchoProbe]
    undetermined: int
    details: dict[str, Json] = field(default_factory=dict)


class LatencySession(Session):
    """Probes in one trial."""

    def __init__(self, workload: Latency, context: TrialContext) -> None:
        self._workload = workload
        self._context = context
        self._watch = ProbeWatch(context.clock, workload.options.duration_s, workload.tail_s)
        self._start_s = 0.0
        self._end_s = 0.0
        certificate = workload.certificate
        self._rpm = None if certificate is None else RpmProber(context, context.port, certificate)

    def run(self) -> None:
        """Probe until the end of the duration or `stop`."""
        self._start_s = self._context.clock.now_s()
        probers: list[Probing] = [
            Prober(
                _PROGRAMS[probe],
                self._context.client,
                self._command(probe),
                self._context.folder,
                writes=probe == "udp",
            )
            for probe in self._workload.probes
        ]
        if self._rpm is not None:
            self._rpm.start()
            probers.append(self._rpm)
        try:
            self._end_s = self._watch.keep(probers)
        finally:
            self._end_s = self._end_s or self._context.clock.now_s()

    def _command(self, probe: str) -> list[str]:
        client, server, interval_s = self._context.client, self._context.server, self._workload.interval_s
        if probe == "icmp":
            return ping_command(client, server.name, interval_s)
        output = self._context.folder / "irtt.json"
        length = self._workload.options.udp_size_bytes - _IP_UDP_BYTES
        return irtt_client(client, server, self._context.port, interval_s, length, output)

    def stop(self) -> None:
        """Stop after the tail."""
        self._watch.stop()

    def report(self, schedule: Schedule) -> Outcome:
        """Read the outputs and compare the two windows."""
        loads = loads_of(schedule)
        metrics: list[Metric] = []
        series: list[Series] = []
        doubts: list[str] = []
        judged = 0
        details: dict[str, Json] = {"loaded": [[span.start_s, span.end_s] for span in loads]}
        for probe in self._workload.probes:
            taken = self._read_ping() if probe == "icmp" else self._read_irtt()
            metrics.extend((_icmp_metrics if probe == "icmp" else _udp_metrics)(taken.probes, loads))
            series.extend(_series(taken.probes, probe))
            details[probe] = _details(taken)
            if all(one.rtt_ms is None for one in taken.probes):
                said = "no probe was answered" if taken.probes else "no probe was sent, or all are undetermined"
                doubts.append(f"{_PROGRAMS[probe]}: {said}")
            judged += len(taken.probes)
        if self._rpm is not None:
            exchanges = self._rpm.exchanges()
            metrics.extend(rpm_metrics(exchanges, loads))
            series.extend(rpm_series(exchanges))
        if not judged:
            return Outcome("failed", "; ".join(doubts), series=series, details=details)
        stopped = self._watch.stopped_early
        return Outcome(
            status="partial" if stopped else "ok",
            reason="stopped before its duration was over" if stopped else "",
            metrics=metrics,
            series=series,
            details=details,
            doubts=doubts,
        )

    def _read_ping(self) -> _Taken:
        file = self._context.folder / "ping.txt"
        text = output_of(file)
        probes = read_ping(text, self._context.client, self._start_s, self._workload.interval_s)
        known = answered_or_lost(probes, self._end_s)
        return _Taken(known, len(probes) - len(known), {"ping said": summary_line(text)})

    def _read_irtt(self) -> _Taken:
        file = self._context.folder / "irtt.json"
        probes = read_irtt(file, self._context.client) if file.exists() else []
        known, of_clocks = on_one_clock(
            answered_or_lost(probes, self._end_s), self._context.server, self._context.client
        )
        return _Taken(known, len(probes) - len(known), of_clocks)


def _rtt(probe: EchoProbe) -> float | None:
    return probe.rtt_ms


def _up(probe: EchoProbe) -> float | None:
    return probe.up_ms


def _down(probe: EchoProbe) -> float | None:
    return probe.down_ms


_PING_TEXT = "ICMP echo by ping, 3 significant digits"
_DIRECTIONS: dict[str, Callable[[EchoProbe], float | None]] = {"up": _up, "down": _down}


def _icmp_metrics(probes: Sequence[EchoProbe], loads: Sequence[TimeSpan]) -> list[Metric]:
    return [
        *delay_metrics(probes, loads, "rtt", _rtt, increase="loaded latency increase", definition=_PING_TEXT),
        *loss_metrics(
            probes,
            loads,
            "probe loss",
            lambda probe: probe.rtt_ms is None,
            "ICMP echoes without an answer at the end, without those in flight",
        ),
    ]


def _udp_metrics(probes: Sequence[EchoProbe], loads: Sequence[TimeSpan]) -> list[Metric]:
    metrics = delay_metrics(
        probes, loads, "udp rtt", _rtt, increase="udp loaded latency increase", definition="UDP echo by irtt"
    )
    metrics.extend(
        loss_metrics(
            probes,
            loads,
            "udp probe loss",
            lambda probe: probe.rtt_ms is None,
            "UDP echoes without an answer at the end, without those in flight",
        )
    )
    for direction, delay in _DIRECTIONS.items():
        metrics.extend(
            delay_metrics(
                probes,
                loads,
                f"one-way delay {direction}",
                delay,
                increase=f"loaded one-way delay increase {direction}",
                definition="UDP by irtt, on one clock or within a known error",
            )
        )
        metrics.extend(
            variation_metrics(
                probes,
                loads,
                f"ipdv {direction}",
                delay,
                "mean of |change of one-way delay| between probes with consecutive numbers (RFC 3393)",
            )
        )
    return metrics


def _series(probes: Sequence[EchoProbe], kind: str) -> list[Series]:
    ordered = sorted(probes, key=lambda probe: probe.sent_s)
    time_s = [probe.sent_s for probe in ordered]
    if kind == "icmp":
        return [Series("rtt", "ms", time_s, [probe.rtt_ms for probe in ordered])]
    return [
        Series("udp rtt", "ms", time_s, [probe.rtt_ms for probe in ordered]),
        *(
            Series(f"one-way delay {direction}", "ms", time_s, [delay(probe) for probe in ordered])
            for direction, delay in _DIRECTIONS.items()
        ),
    ]


def _details(taken: _Taken) -> dict[str, Json]:
    return {
        **taken.details,
        "sent": len(taken.probes) + taken.undetermined,
        "answered": sum(probe.rtt_ms is not None for probe in taken.probes),
        "lost": sum(probe.rtt_ms is None for probe in taken.probes),
        "in flight at the end": taken.undetermined,
    }
