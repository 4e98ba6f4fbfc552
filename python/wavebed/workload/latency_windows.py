"""Metrics of probes on the idle and on the loaded path."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from wavebed.workload.model import Metric
from wavebed.workload.percentiles import percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wavebed.workload.model import Better, Schedule, Span

__all__ = [
    "LEAST_PROBES",
    "PERCENTILES",
    "WINDOWS",
    "Probe",
    "Window",
    "answered_or_lost",
    "delay_metrics",
    "loads_of",
    "loss_metrics",
    "mdev",
    "variation_metrics",
    "window_of",
]

PERCENTILES = (50, 95, 99)
LEAST_PROBES = 20
"""With fewer probes in a window, its percentiles are missing (p99 needs 100)."""

DRAIN_S = 1.0
"""Time after a load in which its queue may still drain."""

WITHOUT_ANSWER_MS = 1000.0
"""Longest time of an answer if no answer came at all."""

Window: TypeAlias = Literal["idle", "loaded"]
WINDOWS: tuple[Window, Window] = ("idle", "loaded")


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe.

    Parameters
    ----------
    number : int
        Its sequence number, from 0 or 1, without wrapping.
    sent_s : float
        Time of sending, seconds since time zero.
    rtt_ms : float or None
        Round-trip time; ``None`` if no answer came.
    up_ms, down_ms : float or None
        One-way delay to the server and back, if measured.
    lost : str
        Direction of the loss: ``up``, ``down``, ``somewhere``; empty if it was answered.
    """

    number: int
    sent_s: float
    rtt_ms: float | None
    up_ms: float | None = None
    down_ms: float | None = None
    lost: Literal["", "up", "down", "somewhere"] = ""


def answered_or_lost(probes: Sequence[Probe], end_s: float) -> list[Probe]:
    """Leave out undetermined probes: unanswered, and sent so late that the answer can be in flight.

    Parameters
    ----------
    probes : sequence of Probe
        In the order of their numbers.
    end_s : float
        End of the program, seconds since time zero. The longest answer is the limit for the others.
    """
    longest_ms = max((probe.rtt_ms for probe in probes if probe.rtt_ms is not None), default=WITHOUT_ANSWER_MS)
    return [probe for probe in probes if probe.rtt_ms is not None or probe.sent_s + longest_ms / 1e3 <= end_s]


def loads_of(schedule: Schedule) -> list[Span]:
    """Return the spans of the workloads that put load on the path."""
    return [span for span in schedule.values() if span.is_load]


def window_of(sent_s: float, loads: Sequence[Span]) -> Window | None:
    """Return the state of the path when a probe was sent; ``None`` while the queue of a load may drain."""
    if any(span.start_s <= sent_s <= span.end_s for span in loads):
        return "loaded"
    if any(span.end_s < sent_s < span.end_s + DRAIN_S for span in loads):
        return None
    return "idle"


def mdev(values: Sequence[float]) -> float | None:
    """Return the population standard deviation sqrt(E[x²] - E[x]²), like ping."""
    return float(np.std(values)) if len(values) else None


def _in_windows(probes: Iterable[Probe], loads: Sequence[Span]) -> dict[Window, list[Probe]]:
    found: dict[Window, list[Probe]] = {window: [] for window in WINDOWS}
    for probe in probes:
        window = window_of(probe.sent_s, loads)
        if window is not None:
            found[window].append(probe)
    return found


def delay_metrics(
    probes: Sequence[Probe],
    loads: Sequence[Span],
    name: str,
    delay: Callable[[Probe], float | None],
    *,
    increase: str,
    definition: str,
) -> list[Metric]:
    """Return percentiles, average and mdev of a delay in both windows, and the increase from one to the other.

    Parameters
    ----------
    name, increase : str
        Names of the delay and of its increase.
    delay : callable
        Returns the delay of a probe, ms.
    definition : str
        The measurement method.
    """
    metrics: list[Metric] = []
    windows = _in_windows(probes, loads)
    taken = {window: [ms for ms in map(delay, windows[window]) if ms is not None] for window in WINDOWS}
    found = {
        (window, rank): percentile(taken[window], rank, LEAST_PROBES) for window in WINDOWS for rank in PERCENTILES
    }
    rule = f"{definition}; linear percentile of the probes sent while the path was {{}}"
    metrics += [_ms(f"{name} {window} p{rank}", value, rule.format(window)) for (window, rank), value in found.items()]
    for rank in PERCENTILES:
        idle, loaded = found["idle", rank], found["loaded", rank]
        difference = None if idle is None or loaded is None else loaded - idle
        text = f"p{rank} of the loaded window − p{rank} of the separate idle window; {definition}"
        metrics.append(_ms(f"{increase} p{rank}", difference, text))
    everything = [ms for ms in map(delay, probes) if ms is not None]
    for label, values in (("", everything), (" loaded", taken["loaded"])):
        average = float(np.mean(values)) if values else None
        metrics.append(_ms(f"{name}{label} average", average, f"mean, as ping prints it; {definition}"))
        text = f"sqrt(E[x²] − E[x]²), as ping prints it; {definition}"
        metrics.append(_ms(f"{name}{label} mdev", mdev(values), text))
    return metrics


def loss_metrics(
    probes: Sequence[Probe], loads: Sequence[Span], name: str, is_lost: Callable[[Probe], bool], definition: str
) -> list[Metric]:
    """Return the percentage of lost probes: of all, and in both windows."""
    windows = _in_windows(probes, loads)
    metrics = []
    for label, some in (("", probes), (" idle", windows["idle"]), (" loaded", windows["loaded"])):
        percent = 100 * sum(map(is_lost, some)) / len(some) if some else None
        metrics.append(Metric(f"{name}{label}", percent, "%", "lower", definition))
    return metrics


def variation_metrics(
    probes: Sequence[Probe], loads: Sequence[Span], name: str, delay: Callable[[Probe], float | None], definition: str
) -> list[Metric]:
    """Return the mean of |IPDV| in both windows: the change of delay between two consecutive probes."""
    changes: dict[Window, list[float]] = {window: [] for window in WINDOWS}
    for before, probe in pairwise(probes):
        earlier, later = delay(before), delay(probe)
        window = window_of(probe.sent_s, loads)
        if probe.number == before.number + 1 and earlier is not None and later is not None and window is not None:
            changes[window].append(abs(later - earlier))
    return [
        _ms(
            f"{name} {window}",
            float(np.mean(changes[window])) if len(changes[window]) >= LEAST_PROBES else None,
            definition,
        )
        for window in WINDOWS
    ]


def _ms(name: str, value: float | None, definition: str, better: Better = "lower") -> Metric:
    return Metric(name, value, "ms", better, definition)
