"""Transport metrics from the series of one trial. Formulas: docs/models/transport-metrics.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.result.course import LinkCourse, bottlenecks, delivered_bytes
from wavebed.result.delay import omniscient_delay_ms, queueing_delay_ms, signal_delay_ms
from wavebed.result.flows import bulk_bytes, jain, retransmission_fraction
from wavebed.result.processors import named, processor_metrics
from wavebed.result.ramp import ramp_up_s, recoveries
from wavebed.workload.model import Metric

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from wavebed.result.course import Tables
    from wavebed.workload.model import Schedule

__all__ = ["known_transport_metrics", "transport_metrics"]

_PERCENTILES = (50, 95)
_DIRECTIONS = ("down", "up")


def transport_metrics(tables: Tables, spans: Schedule, aside: Collection[str] = ()) -> list[Metric]:
    """Return the metrics of the path and its flows under load; none without load.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        From `wavebed.result.tables.write_tables`.
    spans : mapping of str to Span
        Of the workloads, by name.
    aside : collection of str
        Links of a second radio: never the bottleneck, but what they deliver counts.
    """
    courses = bottlenecks(tables, spans, aside)
    found: list[Metric] = []
    for direction, course in courses.items():
        found += _use(direction, course)
        found += _delays(direction, course)
        found += _recovery(direction, course)
    if any(span.is_load for span in spans.values()):
        fairness = {side: jain(bulk_bytes(tables, down=side == "down")) for side in _DIRECTIONS}
        found += _of_flows(retransmission_fraction(tables), fairness)
    carrying = [*(course.link for course in courses.values()), *aside]
    found += processor_metrics(tables, spans, delivered_bytes(tables, spans, carrying))
    return found


def known_transport_metrics() -> list[Metric]:
    """Return the metrics of `transport_metrics` without values; a path without a rate lacks some of them."""
    none, times = np.empty(0), np.empty(0, np.int64)
    course = LinkCourse("the bottleneck", np.empty(0, bool), 0, none, none, none, none, None, times, 0.0)
    found = [each for side in _DIRECTIONS for part in (_use, _delays, _recovery) for each in part(side, course)]
    return [*found, *_of_flows(None, dict.fromkeys(_DIRECTIONS)), *named(None, None)]


def _use(direction: str, course: LinkCourse) -> Iterator[Metric]:
    possible = course.possible_bits()
    used = None if not possible else float(course.delivered_bits[course.load].sum()) / possible * 100
    yield Metric(
        f"share of capacity used {direction}", used, "%", "higher", f"delivered bits / capacity of {course.link}"
    )
    yield Metric(
        f"time to ramp up {direction}",
        ramp_up_s(course),
        "s",
        "lower",
        "to the end of the first 100 ms with 90 % of the capacity",
    )


def _delays(direction: str, course: LinkCourse) -> Iterator[Metric]:
    signal, least = signal_delay_ms(course), omniscient_delay_ms(course)
    for percentile in _PERCENTILES:
        queueing = queueing_delay_ms(course, percentile)
        yield Metric(
            f"queueing delay p{percentile} {direction}", queueing, "ms", "lower", "time in the queue, by bytes"
        )
        if signal is None or least is None:
            age = bound = inflicted = None
        else:
            age = float(np.percentile(signal[course.load], percentile))
            bound = float(np.percentile(least[course.load], percentile))
            inflicted = age - bound
        yield Metric(f"signal delay p{percentile} {direction}", age, "ms", "lower", "Sprout 2013, without propagation")
        yield Metric(
            f"omniscient delay p{percentile} {direction}", bound, "ms", "neither", "Sprout 2013, without propagation"
        )
        yield Metric(
            f"self-inflicted delay p{percentile} {direction}",
            inflicted,
            "ms",
            "lower",
            "Sprout 2013: signal delay - omniscient delay",
        )


def _recovery(direction: str, course: LinkCourse) -> Iterator[Metric]:
    found = recoveries(course)
    # A direction whose capacity was never used (acknowledgements) has no recovery.
    judged = bool(found) and ramp_up_s(course) is not None
    times = [each.recovery_s for each in found if judged and each.recovery_s is not None]
    said = "to the end of the first 100 ms with 90 % of the capacity after a change"
    yield Metric(f"time to recover p50 {direction}", float(np.median(times)) if times else None, "s", "lower", said)
    yield Metric(f"time to recover max {direction}", max(times, default=None), "s", "lower", said)
    yield Metric(f"changes of capacity {direction}", len(found), "", "neither", "of state, or of rate by more than two")
    missed = len(found) - len(times)
    yield Metric(
        f"changes not recovered from {direction}", missed if judged else None, "", "lower", "before the next change"
    )


def _of_flows(fraction: float | None, fairness: Mapping[str, float | None]) -> Iterator[Metric]:
    yield Metric(
        "retransmission share",
        None if fraction is None else fraction * 100,
        "%",
        "lower",
        "TCP_INFO: bytes_retrans / bytes_sent, over all flows",
    )
    for direction, index in fairness.items():
        yield Metric(f"fairness between flows {direction}", index, "", "higher", "Jain 1984")
