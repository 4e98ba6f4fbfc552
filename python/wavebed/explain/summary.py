"""The worst moments of a direction, and its course in steps of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wavebed.explain.model import (
    CAUSES,
    LATE,
    LOSS_CAUSES,
    PLACE,
    CauseShare,
    Lost,
    Moment,
    OfDirection,
    Stall,
    StallCauses,
    Turn,
    Window,
)
from wavebed.explain.split import MISSING
from wavebed.result.transport import weighted_percentile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from wavebed.explain.model import Cause
    from wavebed.explain.records import Ints
    from wavebed.explain.split import Fates
    from wavebed.export.trial import ExportedTrial
    from wavebed.export.trial import TimeWindow as Period


MOMENT_NS = 100_000_000
"""Worst moments are made of windows of this length."""
_LEAST_MS = 1.0
"""Moments with less lateness are not worth a line."""
_PART = 0.5
"""A moment grows over neighbours with at least this part of its own figure."""
_SHOWN_MS = 0.05
"""A sentence leaves shorter times out."""
_LISTED = 4
"""Causes that a sentence names."""


def worst_delays(fates: Fates, span: tuple[int, int], most: int, devices: Sequence[str] = ()) -> list[Moment]:
    """Return the moments with the largest mean lateness of the delivered segments, the worst first.

    A moment begins as the window of 100 ms with the largest mean, and grows over its neighbours while theirs is at
    least half of that.

    Parameters
    ----------
    span : (int, int)
        Begin and end of the time that is explained, nanoseconds.
    most : int
        How many.
    devices : sequence of str
        Of the cell, in its order.
    """
    index, count = _windows(fates, span, MOMENT_NS)
    arrived = fates.total_ns != MISSING
    weight = np.bincount(index, np.where(arrived, fates.segments, 0), count)
    late = np.bincount(index, np.where(arrived, fates.segments, 0) * fates.late_ns.astype(float), count)
    mean = np.divide(late, weight, out=np.zeros(count), where=weight > 0)
    found = []
    for begin, end in _peaks(mean, empty=weight == 0, most=most, least=_LEAST_MS * 1e6):
        found.append(moment(fates, (span[0] + begin * MOMENT_NS, min(span[0] + end * MOMENT_NS, span[1])), devices))
    return found


def worst_losses(fates: Fates, span: tuple[int, int], most: int) -> list[Moment]:
    """Return the moments with the most losses; each is a row of windows of 100 ms that all have some."""
    index, count = _windows(fates, span, MOMENT_NS)
    lost = np.bincount(index, np.where(fates.lost_reason != None, fates.segments, 0), count)  # noqa: E711 - an array
    edges = np.flatnonzero(np.diff(np.concatenate(([0], (lost > 0).astype(int), [0]))))
    spans = sorted(zip(edges[::2], edges[1::2], strict=True), key=lambda each: -lost[each[0] : each[1]].sum())
    return [
        moment(fates, (span[0] + int(begin) * MOMENT_NS, min(span[0] + int(end) * MOMENT_NS, span[1])))
        for begin, end in spans[:most]
    ]


def moment(fates: Fates, span: tuple[int, int], devices: Sequence[str] = ()) -> Moment:
    """Return what became of the segments that were sent in a time, with the causes of the longest delay."""
    inside = fates.of((fates.at_ns >= span[0]) & (fates.at_ns < span[1]))
    late_ns = np.where(inside.total_ns != MISSING, inside.late_ns, MISSING)
    lost = losses(inside)
    lost_segments = sum(each.segments for each in lost)
    by_cause: dict[Cause, float] = {}
    late_max_ms = late_mean_ms = turn_of = None
    weight = np.where(late_ns != MISSING, inside.segments, 0)
    if (late_ns != MISSING).any():
        worst = int(np.argmax(late_ns))
        by_cause = {cause: _ms(inside.ns[worst, PLACE[cause]]) for cause in LATE if inside.ns[worst, PLACE[cause]] != 0}
        late_max_ms = _ms(late_ns[worst])
        turn_of = _device(int(inside.turn_of[worst]), devices)
        late_mean_ms = _ms(np.average(late_ns, weights=weight)) if weight.any() else None
    start_s, end_s = span[0] / 1e9, span[1] / 1e9
    return Moment(
        start_s=start_s,
        end_s=end_s,
        segments=int(inside.segments.sum()),
        lost_segments=lost_segments,
        late_max_ms=late_max_ms,
        late_mean_ms=late_mean_ms,
        late_ms_by_cause=by_cause,
        turn_of=turn_of,
        lost=lost,
        text=_sentence(start_s, end_s, late_max_ms, by_cause, lost, turn_of),
    )


def _device(place: int, devices: Sequence[str]) -> str | None:
    return devices[place] if 0 <= place < len(devices) else None


def losses(fates: Fates) -> list[Lost]:
    """Return the lost segments by link and reason, most first."""
    found: dict[tuple[str, str], int] = {}
    for place in np.flatnonzero(fates.lost_reason != None):  # noqa: E711 - an array
        key = (str(fates.lost_link[place]), str(fates.lost_reason[place]))
        found[key] = found.get(key, 0) + int(fates.segments[place])
    listed = [Lost(link, reason, LOSS_CAUSES.get(reason), count) for (link, reason), count in found.items()]
    return sorted(listed, key=lambda each: -each.segments)


def windows(fates: Fates, span: tuple[int, int], step_ns: int) -> list[Window]:
    """Return the course: every step of time in which segments were sent."""
    index, count = _windows(fates, span, step_ns)
    arrived = fates.total_ns != MISSING
    weights = np.where(arrived, fates.segments, 0)
    sent = np.bincount(index, fates.segments, count).astype(int)
    lost = np.bincount(index, np.where(fates.lost_reason != None, fates.segments, 0), count).astype(int)  # noqa: E711
    weight = np.bincount(index, weights, count)
    longest = np.full(count, MISSING)
    np.maximum.at(longest, index, fates.total_ns)
    sums = np.stack([np.bincount(index, weights * fates.ns[:, place], count) for place in range(len(CAUSES))], axis=1)
    means = np.divide(sums, weight[:, None], out=np.zeros(sums.shape), where=weight[:, None] > 0) / 1e6
    return [
        Window(
            start_s=(span[0] + at * step_ns) / 1e9,
            segments=int(sent[at]),
            lost_segments=int(lost[at]),
            delay_mean_ms=_rounded(means[at].sum()) if weight[at] else None,
            delay_max_ms=_ms(longest[at]) if longest[at] != MISSING else None,
            mean_ms_by_cause={
                cause: _rounded(means[at, place]) for place, cause in enumerate(CAUSES) if means[at, place]
            },
        )
        for at in map(int, np.flatnonzero(sent))
    ]


def _windows(fates: Fates, span: tuple[int, int], step_ns: int) -> tuple[Ints, int]:
    return (fates.at_ns - span[0]) // step_ns, max(-(-(span[1] - span[0]) // step_ns), 1)


def _peaks(
    mean: NDArray[np.float64], *, empty: NDArray[np.bool_], most: int, least: float
) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the highest stretches; each takes its windows out of the others."""
    left = mean.copy()
    for _ in range(most):
        top = int(np.argmax(left))
        if left[top] < least:
            return
        bound = _PART * left[top]
        begin, end = top, top + 1
        while begin > 0 and left[begin - 1] >= bound:
            begin -= 1
        while end < len(left) and (left[end] >= bound or (empty[end] and (left[end + 1 : end + 2] >= bound).any())):
            end += 1
        left[begin:end] = -1
        yield begin, end


def _sentence(
    start_s: float,
    end_s: float,
    late_ms: float | None,
    by_cause: dict[Cause, float],
    lost: list[Lost],
    turn_of: str | None,
) -> str:
    """Return the line of a moment, made of its codes."""
    parts = []
    if late_ms:
        listed = sorted(((cause, ms) for cause, ms in by_cause.items() if ms >= _SHOWN_MS), key=lambda each: -each[1])
        named, rest = listed[:_LISTED], sum(ms for _, ms in listed[_LISTED:])
        behind = {"turn": f" behind {turn_of or 'another user'}"}
        causes = [f"{cause} {_short(ms)} ms{behind.get(cause, '')}" for cause, ms in named]
        causes += [f"other {_short(rest)} ms"] if rest >= _LEAST_MS else []
        parts.append(f"up to {_short(late_ms)} ms late: {', '.join(causes)}")
    if lost:
        reasons = ", ".join(f"{each.segments} {each.reason} ({each.link})" for each in lost[:_LISTED])
        parts.append(f"{sum(each.segments for each in lost)} segments lost: {reasons}")
    return f"{start_s:.1f}–{end_s:.1f} s: {'; '.join(parts) or 'nothing late, nothing lost'}"


def _short(ms: float) -> str:
    return f"{ms:.0f}" if ms >= 10 else f"{ms:.1f}"


def _ms(ns: float) -> float:
    return _rounded(float(ns) / 1e6)


def _rounded(value: float) -> float:
    return round(float(value), 6)


BEFORE_NS = 1_000_000_000
"""A buffer runs empty, and a transport times out, some time after the cause: what was sent since then counts."""
_Kind: TypeAlias = Literal["stall", "startup", "freeze"]
_EVENTS = ("stall", "startup", "freeze")
_LOADED = "on load"


def stalls_of(trial: ExportedTrial, window: Period, fates: Mapping[str, Fates]) -> list[Stall]:
    """Return stalls and starts of videos, freezes of calls and loads of pages, in order of time.

    Parameters
    ----------
    fates : mapping
        The segments of each direction.
    """
    found = []
    for workload, kind, start_s, end_s, text in _times(trial):
        begin_ns, end_ns = round(start_s * 1e9), round(end_s * 1e9)
        if begin_ns >= window.end_ns or end_ns < window.start_ns:
            continue
        span = (max(begin_ns - BEFORE_NS, window.start_ns), max(min(end_ns, window.end_ns), window.start_ns + 1))
        causes = [_causes(name, each, span) for name, each in fates.items()]
        found.append(Stall(workload, kind, start_s, end_s, text, causes))
    return sorted(found, key=lambda stall: stall.start_s)


def _causes(direction: str, fates: Fates, span: tuple[int, int]) -> StallCauses:
    worst = moment(fates, span)
    return StallCauses(direction, worst.late_max_ms, worst.lost_segments, worst.late_ms_by_cause)


def _times(
    trial: ExportedTrial,
) -> Iterator[tuple[str, Literal["stall", "startup", "freeze", "page load"], float, float, str]]:
    """Yield workload, kind, start and end (s) and a text."""
    workloads = {each.name for each in trial.record.workloads}
    events = trial.table("events")
    events = events.filter(pc.is_in(events["name"], pa.array(_EVENTS)))
    for event in events.to_pylist():
        if event["workload"] in workloads and event["end_s"] is not None:
            kind = cast("_Kind", event["name"])
            yield event["workload"], kind, event["time_s"], event["end_s"], event["text"] or ""
    for workload in trial.record.workloads:
        start_s = workload.outcome.details.get("start_s")
        for metric in workload.outcome.metrics:
            if metric.name == _LOADED and metric.value is not None and isinstance(start_s, float | int):
                yield workload.name, "page load", float(start_s), float(start_s) + metric.value / 1e3, ""


def of_direction(
    name: str,
    links: Sequence[str],
    fates: Fates,
    counts: Mapping[str, int],
    *,
    span: tuple[int, int],
    step_ns: int,
    most: int,
    whole: bool,
    devices: Sequence[str] = (),
) -> OfDirection:
    """Return the explanation of a direction.

    Parameters
    ----------
    fates : Fates
        Its segments, of this time only.
    counts : mapping
        ``blocks_sent``, ``blocks_failed``, ``link_failures`` of its radios; of the series also ``segments`` and
        ``delivered_segments``.
    span : (int, int)
        The time, nanoseconds.
    whole : bool
        Whether the causes are the whole delay: they come from the packet log.
    devices : sequence of str
        Of the cell, in its order.
    """
    arrived = fates.of(fates.total_ns != MISSING)
    weight = arrived.segments.astype(float)
    delays = arrived.total_ns / 1e6
    lost = losses(fates)
    lost_segments = sum(each.segments for each in lost)
    segments = counts.get("segments", int(fates.segments.sum()))
    delivered = counts.get("delivered_segments", int(weight.sum()))

    def percentile(percent: float) -> float | None:
        return weighted_percentile(delays, weight, percent) if weight.any() else None

    return OfDirection(
        name=name,
        links=list(links),
        segments=segments,
        delivered_segments=delivered,
        lost_segments=lost_segments,
        unfinished_segments=segments - delivered - lost_segments if whole else None,
        base_delay_ms=_mean(arrived.ns[:, PLACE["propagation"]], weight) if whole else None,
        delay_mean_ms=_mean(arrived.total_ns, weight),
        delay_p50_ms=percentile(50),
        delay_p95_ms=percentile(95),
        delay_p99_ms=percentile(99),
        delay_max_ms=float(delays.max()) if len(delays) else None,
        late_mean_ms=_mean(arrived.late_ns, weight),
        blocks_sent=counts["blocks_sent"],
        blocks_failed=counts["blocks_failed"],
        link_failures=counts["link_failures"],
        causes=_shares(arrived, weight),
        turns=_turns(arrived, weight, devices),
        lost=lost,
        worst_delays=worst_delays(fates, span, most, devices),
        worst_losses=worst_losses(fates, span, most),
        windows=windows(fates, span, step_ns),
    )


def _shares(arrived: Fates, weight: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[CauseShare]:
    """Return the causes that occur, in their order."""
    if not weight.any():
        return []
    sums = weight @ arrived.ns
    late = sum(sums[PLACE[cause]] for cause in LATE)
    found = []
    for cause in CAUSES:
        place = PLACE[cause]
        if not arrived.ns[:, place].any():
            continue
        percent = None if cause not in LATE or not late else round(100 * float(sums[place] / late), 3)
        found.append(
            CauseShare(
                cause=cause,
                mean_ms=round(float(sums[place] / weight.sum()) / 1e6, 6),
                max_ms=round(float(arrived.ns[:, place].max()) / 1e6, 6),
                late_percent=percent,
            )
        )
    return found


def _turns(arrived: Fates, weight: np.ndarray[tuple[int], np.dtype[np.float64]], devices: Sequence[str]) -> list[Turn]:
    """Return the cause `turn` by the device that was served, the longest sum first."""
    ns = arrived.ns[:, PLACE["turn"]]
    waited = (ns > 0) & (weight > 0)
    found = []
    for place in np.unique(arrived.turn_of[waited]):
        of = waited & (arrived.turn_of == place)
        found.append(
            Turn(
                device=_device(int(place), devices),
                segments=int(weight[of].sum()),
                mean_ms=_ms(weight[of] @ ns[of] / weight.sum()),
                max_ms=_ms(ns[of].max()),
            )
        )
    return sorted(found, key=lambda turn: -turn.mean_ms)


def _mean(ns: Ints, weight: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float | None:
    return round(float(np.average(ns, weights=weight)) / 1e6, 6) if weight.any() else None
