"""Metrics, visual progress, requests and filmstrip of a page load."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wavebed.workload.browser.film import write_film
from wavebed.workload.browser.remote import LOOK_EVERY_S
from wavebed.workload.browser.speed_index import VARIANT, visual_progress
from wavebed.workload.model import Event, Metric, Series
from wavebed.workload.waiting import output_of
from wavebed.workload.web_trace import MOST_FRAMES, as_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.workload.browser.speed_index import VisualProgress
    from wavebed.workload.model import Status
    from wavebed.workload.web_trace import PageTrace, Request

__all__ = ["Course", "details_of", "doubts_of", "events_of", "metrics_of", "progress_series", "read_course"]
__all__ += ["status_of"]

_PERCENTS = (85, 95, 99)
_TEXT_LENGTH = 60
_LONG_FRACTION = 0.5
"""A load is suspect if long tasks take more than this fraction of the time until onLoad."""


@dataclass(frozen=True, slots=True)
class Course:
    """The load of a page as recorded by the agent.

    Parameters
    ----------
    loaded, settled : bool
        Whether the load event happened, and whether the recording after it was complete.
    error : str or None
        The reason why there is no document.
    page : mapping
        ``navigation``, ``paints``, ``largest``, ``tasks``: performance entries of the page.
    """

    loaded: bool = False
    settled: bool = False
    error: str | None = None
    page: dict[str, Any] = field(default_factory=dict)


def read_course(file: Path) -> Course | None:
    """Return the agent's record; ``None`` without one."""
    try:
        written = json.loads(output_of(file))
    except (OSError, ValueError):
        return None
    return Course(bool(written["loaded"]), bool(written["settled"]), written["error"], written["page"] or {})


def status_of(
    course: Course | None, failure: str | None, stopped_s: float | None, limit_s: float, settle_s: float
) -> tuple[Status, str]:
    """Return the status of a page load and its reason.

    Parameters
    ----------
    course : Course or None
        The agent's record; ``None`` without one.
    failure : str or None
        A failure of the server or of the browser.
    stopped_s : float or None
        Seconds from the start of the load until it was stopped; ``None`` if it was not.
    limit_s, settle_s : float
        Limit of the load, and duration of the recording after the load event.
    """
    if failure is not None:
        return "failed", failure
    if course is None:
        return "failed", "the browser recorded nothing" if stopped_s is None else "stopped before it started"
    if course.error is not None:
        return "failed", course.error
    if not course.loaded:
        if stopped_s is not None and stopped_s < limit_s - LOOK_EVERY_S:
            return "failed", f"stopped after {stopped_s:.1f} s, before it was loaded"
        return "failed", f"not loaded within {limit_s:g} s"
    if not course.settled:
        return "partial", f"loaded, but stopped before the screen was recorded for {settle_s:g} s"
    return "ok", ""


def _moment(course: Course, name: str) -> float | None:
    """Return a time of the navigation; ``None`` for 0 (has not happened)."""
    value = course.page.get("navigation", {}).get(name)
    return float(value) if value else None


def _paint(course: Course, name: str) -> float | None:
    return next((float(entry["startTime"]) for entry in course.page.get("paints", ()) if entry["name"] == name), None)


def _largest(course: Course) -> float | None:
    entries = course.page.get("largest", ())
    return max(float(entries[-1]["renderTime"]), float(entries[-1]["loadTime"])) if entries else None


def _long_tasks_ms(course: Course) -> float | None:
    return sum(float(entry["duration"]) for entry in course.page["tasks"]) if "tasks" in course.page else None


def _sent(trace: PageTrace) -> list[Request]:
    return [request for request in trace.requests if not request.cached]


def metrics_of(
    course: Course, trace: PageTrace, *, looks_up: bool = False
) -> tuple[list[Metric], VisualProgress | None]:
    """Return the metrics of a page, and of a loaded page the visual progress towards its last picture.

    Parameters
    ----------
    looks_up : bool
        Whether the browser asks a resolver on the path for names.
    """
    progress = visual_progress(trace.frames) if course.loaded else None
    sent = _sent(trace)
    moments = [
        ("ttfb", _moment(course, "responseStart"), "navigation timing: responseStart"),
        ("first paint", _paint(course, "first-paint"), "paint timing: first-paint"),
        ("first contentful paint", _paint(course, "first-contentful-paint"), "paint timing: first-contentful-paint"),
        ("largest contentful paint", _largest(course), "largest-contentful-paint: max(renderTime, loadTime), last"),
        ("dom interactive", _moment(course, "domInteractive"), "navigation timing: domInteractive"),
        (
            "dom content loaded",
            _moment(course, "domContentLoadedEventEnd"),
            "navigation timing: domContentLoadedEventEnd",
        ),
        ("on load", _moment(course, "loadEventEnd"), "navigation timing: loadEventEnd"),
        *_seen(progress),
        *_looked_up(course, looks_up=looks_up),
    ]
    metrics = [Metric(name, value, "ms", "lower", definition) for name, value, definition in moments]
    metrics += [
        Metric("requests", len(sent), ""),
        Metric("failed requests", sum(request.failed for request in sent), "", "lower"),
        Metric("connections", len({request.connection for request in sent if request.connection}), ""),
        Metric("bytes", sum(request.bytes for request in sent), "bytes"),
        Metric("long tasks", _long_tasks_ms(course), "ms", "lower", "long tasks: total duration of tasks over 50 ms"),
    ]
    return metrics, progress


def _looked_up(course: Course, *, looks_up: bool) -> list[tuple[str, float | None, str]]:
    """Return the metric of the document's name, if it is looked up."""
    if not looks_up:
        return []
    start_ms, end_ms = (_moment(course, name) for name in ("domainLookupStart", "domainLookupEnd"))
    value = None if start_ms is None or end_ms is None else end_ms - start_ms
    return [("name lookup", value, "navigation timing: domainLookupEnd - domainLookupStart")]


def _seen(progress: VisualProgress | None) -> list[tuple[str, float | None, str]]:
    """Return the metrics from the pictures."""
    names = ["speed index", "first visual change", "visually complete"]
    formulas = ["speed index", "first progress above 0", "first progress of 100 %"]
    found: list[float | None] = [None] * 6
    if progress is not None:
        found = [progress.speed_index_ms, progress.first_change_ms, progress.complete_ms]
        found += [progress.complete_at_least_ms(percent) for percent in _PERCENTS]
    names += [f"visually complete {percent}" for percent in _PERCENTS]
    formulas += [f"{percent} % for good" for percent in _PERCENTS]
    return [(name, value, f"{formula}: {VARIANT}") for name, value, formula in zip(names, found, formulas, strict=True)]


def progress_series(progress: VisualProgress, start_s: float) -> Series:
    """Return the visual progress over the laboratory's time."""
    times = [start_s + at / 1e3 for at in progress.time_ms]
    return Series("visual progress", "%", times, [float(percent) for percent in progress.percent])


def events_of(trace: PageTrace, start_s: float) -> list[Event]:
    """Return an event for each request."""

    def at(ms: float | None) -> float | None:
        return None if ms is None else start_s + ms / 1e3

    return [
        Event(
            "request",
            start_s + request.asked_ms / 1e3,
            at(request.end_ms),
            _shortened(f"{request.origin}{request.path}"),
            request.bytes,
        )
        for request in _sent(trace)
    ]


def _shortened(text: str) -> str:
    return text if len(text) <= _TEXT_LENGTH else f"…{text[1 - _TEXT_LENGTH :]}"


def details_of(trace: PageTrace, progress: VisualProgress | None, start_s: float, folder: Path) -> dict[str, Json]:
    """Return the requests with their phases and the filmstrip for the report; write its pictures into `folder`."""
    return {
        "start_s": start_s,
        "requests": [as_json(request) for request in _sent(trace)],
        "film": [] if progress is None else write_film(trace.frames, progress, folder),
    }


def doubts_of(course: Course, trace: PageTrace, expected: Sequence[str], *, others_expected: bool = False) -> list[str]:
    """Return the reasons for a suspect result.

    Parameters
    ----------
    expected : sequence of str
        The host names of the site.
    others_expected : bool
        Whether requests to other hosts, which fail, are expected.
    """
    sent = [request for request in _sent(trace) if not others_expected or request.origin in expected]
    doubts = []
    failed = [request for request in sent if request.failed]
    if failed:
        why = failed[0].status or "no whole answer"
        doubts.append(f"{len(failed)} of {len(sent)} requests failed; the first: {failed[0].url}: {why}")
    unknown = sorted({request.origin for request in sent} - set(expected))
    if unknown:
        doubts.append(f"requests to names that the site does not have: {', '.join(unknown)}")
    unended = sum(request.end_ms is None for request in sent)
    if course.loaded and unended:
        doubts.append(f"{unended} requests had not ended with the recording")
    if course.loaded and visual_progress(trace.frames[-1:]) is None:
        doubts.append("the page was white at the end: it has no Speed Index")
    if trace.pictures >= MOST_FRAMES:
        doubts.append(f"the trace holds {trace.pictures} pictures, its maximum: later changes are not recorded")
    busy_ms, load_ms = _long_tasks_ms(course), _moment(course, "loadEventEnd")
    if busy_ms is not None and load_ms is not None and busy_ms > _LONG_FRACTION * load_ms:
        doubts.append(f"tasks over 50 ms kept the page busy for {busy_ms:.0f} ms, its load took {load_ms:.0f} ms")
    return doubts
