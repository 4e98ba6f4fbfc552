"""Probes while the path is idle and while it is loaded, and what the field computes from them."""

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
"""Fewer probes than this in a window say nothing about it: its percentiles are missing (p99 needs 100)."""

DRAIN_S = 1.0
"""How long after the end of a load its queue may still be seen."""

WITHOUT_ANSWER_MS = 1000.0
"""How long an answer may take where none has come at all."""

Window: TypeAlias = Literal["idle", "loaded"]
WINDOWS: tuple[Window, Window] = ("idle", "loaded")


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe.

    Parameters
    ----------
    number : int
        Its sequence number, from 0 or 1 and without wrapping.
    sent_s : float
        When it was sent, seconds since time zero.
    rtt_ms : float or None
        Round-trip time; ``None`` if no answer came.
    up_ms, down_ms : float or None
        One-way delay to the server and back, where the probe measures it.
    lost : str
        Where it was lost: ``up``, ``down``, ``somewhere``; empty if it was answered.
    """

    number: int
    sent_s: float
    rtt_ms: float | None
    up_ms: float | None = None
    down_ms: float | None = None
    lost: Literal["", "up", "down", "somewhere"] = ""


def answered_or_lost(probes: Sequence[Probe], end_s: float) -> list[Probe]:
    """Leave out the probes of which nobody knows: unanswered, and sent so late that the answer may be on its way.

    Parameters
    ----------
    probes : sequence of Probe
        In the order of their numbers.
    end_s : float
        When the program was told to end, seconds since time zero. An answer may take as long as the longest that came.
    """
    longest_ms = max((probe.rtt_ms for probe in probes if probe.rtt_ms is not None), default=WITHOUT_ANSWER_MS)
    return [probe for probe in probes if probe.rtt_ms is not None or probe.sent_s + longest_ms / 1e3 <= end_s]


def loads_of(schedule: Schedule) -> list[Span]:
    """Return when the workloads ran that put load on the path."""
    return [span for span in schedule.values() if span.is_load]


def window_of(sent_s: float, loads: Sequence[Span]) -> Window | None:
    """Say what the path was doing when a probe was sent; ``None`` while the queue of a load may still drain."""
    if any(span.start_s <= sent_s <= span.end_s for span in loads):
        return "loaded"
    if any(span.end_s < sent_s < span.end_s + DRAIN_S for span in loads):
        return None
    return "idle"


def mdev(values: Sequence[float]) -> float | None:
    """Return the standard deviation as ping prints it: sqrt(E[x²] - E[x]²), over the values and not a sample."""
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
        What the delay and its increase are called.
    delay : callable
        Takes the delay, in milliseconds, from a probe.
    definition : str
        How the delay is measured.
    """
    metrics: list[Metric] = []
    windows = _in_windows(probes, loads)
    taken = {window: [ms for ms in map(delay, windows[window]) if ms is not None] for window in WINDOWS}
    shares = {
        window: {share: percentile(taken[window], share, LEAST_PROBES) for share in PERCENTILES} for window in WINDOWS
    }
    rule = f"{definition}; linear percentile of the probes sent while the path was {{}}"
    for window in WINDOWS:
        metrics.extend(
            _ms(f"{name} {window} p{share}", shares[window][share], rule.format(window)) for share in PERCENTILES
        )
    for share in PERCENTILES:
        idle, loaded = shares["idle"][share], shares["loaded"][share]
        difference = None if idle is None or loaded is None else loaded - idle
        text = f"p{share} of the loaded window − p{share} of the separate idle window; {definition}"
        metrics.append(_ms(f"{increase} p{share}", difference, text))
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
    """Return the share of probes that were lost: of all, and in both windows."""
    windows = _in_windows(probes, loads)
    metrics = []
    for label, some in (("", probes), (" idle", windows["idle"]), (" loaded", windows["loaded"])):
        share = 100 * sum(map(is_lost, some)) / len(some) if some else None
        metrics.append(Metric(f"{name}{label}", share, "%", "lower", definition))
    return metrics


def variation_metrics(
    probes: Sequence[Probe], loads: Sequence[Span], name: str, delay: Callable[[Probe], float | None], definition: str
) -> list[Metric]:
    """Return the mean of |IPDV| in both windows: the change of delay between two probes that follow each other."""
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
