"""From raw results to the figures of the table: goodput, share of the capacity, round-trip times, queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from wavebed.demo.series import percentile

if TYPE_CHECKING:
    from wavebed.demo.phases import Phase
    from wavebed.demo.series import Capacity

__all__ = ["Figures", "Verdict", "figures", "table", "verdicts"]

LATE_P99_US = 250.0
NOTHING = "\N{EN DASH}"
_LABELS = {"download": "curl 200 MB, cubic", "cubic": "iperf3, cubic", "bbr": "iperf3, bbr"}


@dataclass(frozen=True, slots=True)
class Figures:
    """One row of the table; ``None`` where nothing was measured.

    Parameters
    ----------
    label : str
        What ran.
    start_s, end_s : float
        When, seconds since the pattern's start.
    goodput_mbps : float
        Application Mbit/s.
    capacity_share : float or None
        Goodput over what the radio could carry in that time, in IP bits.
    idle_p50_ms, idle_p95_ms, loaded_p50_ms, loaded_p95_ms : float or None
        Round-trip times of ping, without and beside the transfer.
    retransmitted_segments : int
        By the server's TCP.
    queue_p95_bytes, queue_p95_ms : float or None
        The radio's downlink queue while the transfer ran: by the millisecond its most bytes, and its delay.
    """

    label: str
    start_s: float
    end_s: float
    goodput_mbps: float
    capacity_share: float | None
    idle_p50_ms: float | None
    idle_p95_ms: float | None
    loaded_p50_ms: float | None
    loaded_p95_ms: float | None
    retransmitted_segments: int
    queue_p95_bytes: float | None
    queue_p95_ms: float | None


def figures(phase: Phase, capacity: Capacity) -> Figures:
    """Return the row of one phase."""
    bulk = phase.bulk
    loaded = [ping.rtt_ms for ping in phase.pings if bulk.start_s <= ping.sent_s < bulk.end_s]
    # A second later the queue is empty, whatever the flow left in it.
    idle = [ping.rtt_ms for ping in phase.pings if ping.sent_s > bulk.end_s + 1]
    window = slice(int(bulk.start_s * 1000), int(bulk.end_s * 1000))
    possible_bits = capacity.bits(bulk.start_s, bulk.end_s)
    carried_bits = bulk.goodput_bps * (bulk.end_s - bulk.start_s)
    return Figures(
        label=_LABELS[phase.name],
        start_s=bulk.start_s,
        end_s=bulk.end_s,
        goodput_mbps=bulk.goodput_bps / 1e6,
        capacity_share=carried_bits / possible_bits if possible_bits else None,
        idle_p50_ms=percentile(idle, 0.5),
        idle_p95_ms=percentile(idle, 0.95),
        loaded_p50_ms=percentile(loaded, 0.5),
        loaded_p95_ms=percentile(loaded, 0.95),
        retransmitted_segments=bulk.retransmitted_segments,
        queue_p95_bytes=percentile(phase.series.queue_peak_bytes[window], 0.95),
        queue_p95_ms=percentile((value for value in phase.series.sojourn_ms[window] if value is not None), 0.95),
    )


def _cell(value: float | None, form: str) -> str:
    return NOTHING if value is None else format(value, form)


def _pair(first: str, second: str) -> str:
    return NOTHING if first == second == NOTHING else f"{first} / {second}"


def cells(row: Figures) -> tuple[str, ...]:
    """Return the row as text, in the order of `HEADINGS`."""
    return (
        row.label,
        _cell(row.goodput_mbps, ".0f"),
        _cell(None if row.capacity_share is None else row.capacity_share * 100, ".1f"),
        _pair(_cell(row.idle_p50_ms, ".1f"), _cell(row.idle_p95_ms, ".1f")),
        _pair(_cell(row.loaded_p50_ms, ".1f"), _cell(row.loaded_p95_ms, ".1f")),
        str(row.retransmitted_segments),
        _pair(
            _cell(None if row.queue_p95_bytes is None else row.queue_p95_bytes / 1e3, ".0f"),
            _cell(row.queue_p95_ms, ".1f"),
        ),
    )


HEADINGS = (
    "flow",
    "goodput Mbit/s",
    "of capacity %",
    "RTT idle p50 / p95 ms",
    "RTT loaded p50 / p95 ms",
    "retransmitted",
    "queue p95 kB / ms",
)


def table(rows: list[Figures]) -> str:
    """Return the table for a terminal."""
    lines = [HEADINGS, *(cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    text = []
    for line in lines:
        right = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        text.append("  ".join([line[0].ljust(widths[0]), *right]))
    return "\n".join(text)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether one condition of validity holds, and the evidence."""

    holds: bool
    title: str
    evidence: str


def verdicts(phases: list[Phase]) -> list[Verdict]:
    """Judge the engine in all phases: books, losses outside the links, lateness."""
    links = [link for phase in phases for link in _list(phase, "links")]
    unaccounted = sum(abs(cast("int", link["unaccounted_segments"])) for link in links)
    offered = sum(cast("int", link["offered_segments"]) for link in links)
    hosts = [host for phase in phases for host in _list(phase, "hosts")]
    device = sum(cast("int", host["device_dropped_packets"]) for host in hosts)
    socket = sum(cast("int", host["udp_receive_buffer_errors"]) for host in hosts)
    departures = [each for phase in phases for each in _list(phase, "departures")]
    refused = sum(cast("int", each["refused_segments"]) for each in departures)
    worst_us = [cast("float", each["late_max_us"]) for each in departures if each["late_max_us"] is not None]
    late_us = {phase.name: _late_p99_us(phase) for phase in phases}
    late = [name for name, value in late_us.items() if value > LATE_P99_US]
    by_phase = ", ".join(f"{name} {value:.0f} µs" for name, value in late_us.items())
    return [
        Verdict(
            unaccounted == 0,
            "every packet accounted for" if unaccounted == 0 else "packets unaccounted for",
            f"{offered:,} segments offered to the links, {unaccounted} unaccounted for",
        ),
        Verdict(
            device + socket + refused == 0,
            "no loss outside the links" if device + socket + refused == 0 else "losses outside the links",
            f"{device} at devices, {refused} refused by devices, {socket} at UDP sockets",
        ),
        Verdict(
            not late,
            f"engine late in {' and '.join(late)}: the machine was busy" if late else "engine on time",
            f"lateness of departures at p99: {by_phase} (bound {LATE_P99_US:.0f} µs);"
            f" {max(worst_us, default=0.0) / 1e3:.1f} ms at worst",
        ),
    ]


def _late_p99_us(phase: Phase) -> float:
    late_us = [each["late_p99_us"] for each in _list(phase, "departures")]
    return max((cast("float", value) for value in late_us if value is not None), default=0.0)


def _list(phase: Phase, key: str) -> list[dict[str, object]]:
    return cast("list[dict[str, object]]", phase.summary[key])
