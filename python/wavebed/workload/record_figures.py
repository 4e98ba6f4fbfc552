"""The figures of a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from wavebed.workload.model import Metric, Outcome, Series
from wavebed.workload.one_way import MOST_ERROR
from wavebed.workload.record_curves import GRID_NS, Clocks, Curves, curves

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.config.data import Json
    from wavebed.workload.record_file import Received

__all__ = ["SIGNS", "curves_of", "figures", "known_record_metrics"]

SIGNS = {"down": 1, "up": -1}
_LEAST_BUSY = 0.5
"""Below this share of a filled queue the rate is that of the sender or of a rate limit, not of the access."""


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
