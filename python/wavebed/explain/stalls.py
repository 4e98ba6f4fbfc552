"""The times in which users of a trial's applications waited, with the causes of delay and loss beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from wavebed.explain.model import Stall, StallCauses
from wavebed.explain.moments import moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wavebed.explain.follow import Fates
    from wavebed.export.trial import Trial, Window

__all__ = ["BEFORE_NS", "stalls_of"]

BEFORE_NS = 1_000_000_000
"""A buffer runs empty, and a transport times out, some time after the cause: what was sent since then counts."""
_Kind: TypeAlias = Literal["stall", "startup", "freeze"]
_EVENTS = ("stall", "startup", "freeze")
_LOADED = "on load"


def stalls_of(trial: Trial, window: Window, fates: Mapping[str, Fates]) -> list[Stall]:
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


def _times(trial: Trial) -> Iterator[tuple[str, Literal["stall", "startup", "freeze", "page load"], float, float, str]]:
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
