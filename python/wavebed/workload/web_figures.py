"""How fast a page is seen: visual progress, Speed Index and visual completeness from its pictures over time.

Definitions are on the page ``docs/models/metrics.md``. The variant is speedline's: histograms without pixels
that are nearly white, a white picture at the start of the navigation, no tolerance between neighbouring bins.
"""

from __future__ import annotations

import base64
import io
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

import numpy as np

from wavebed.workload.browser.remote import LOOK_EVERY_S
from wavebed.workload.model import Event, Metric, Series
from wavebed.workload.programs import output_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from wavebed.config.data import Json
    from wavebed.workload.model import Status


VARIANT = "speedline variant, wavebed 1"

NEARLY_WHITE = 249
"""A pixel with all three channels at least this bright is background."""

_BINS = 256

Histogram: TypeAlias = "NDArray[np.int64]"


@dataclass(frozen=True, slots=True)
class Frame:
    """What the page looked like from a moment on.

    Parameters
    ----------
    time_ms : float
        Since the start of the navigation.
    picture : bytes
        A file that Pillow reads.
    """

    time_ms: float
    picture: bytes


@dataclass(frozen=True, slots=True)
class VisualProgress:
    """Visual progress towards the final picture over time.

    Parameters
    ----------
    time_ms : sequence of float
        Since the start of the navigation; the first is 0.
    percent : sequence of int
        Whole percents from 0 to 100, as many.
    """

    time_ms: Sequence[float]
    percent: Sequence[int]

    @property
    def speed_index_ms(self) -> float:
        """Area above the curve of progress."""
        times, shares = np.asarray(self.time_ms), np.asarray(self.percent) / 100
        return float(np.sum(np.diff(times) * (1 - shares[:-1])))

    @property
    def first_change_ms(self) -> float | None:
        """When progress was first above 0."""
        return next((at for at, part in zip(self.time_ms, self.percent, strict=True) if part > 0), None)

    @property
    def complete_ms(self) -> float | None:
        """When progress was first 100 %."""
        return next((at for at, part in zip(self.time_ms, self.percent, strict=True) if part >= 100), None)

    def complete_at_least_ms(self, percent: int) -> float | None:
        """Return since when progress has been at least `percent` for good."""
        since = None
        for at, part in zip(self.time_ms, self.percent, strict=True):
            if part < percent:
                since = None
            elif since is None:
                since = at
        return since


def histogram(picture: bytes) -> Histogram:
    """Return how many pixels have each of 256 values of red, green and blue; nearly white ones are left out."""
    from PIL import Image

    pixels = np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")).reshape(-1, 3)
    seen = pixels[(pixels < NEARLY_WHITE).any(axis=1)]
    return np.stack([np.bincount(seen[:, channel], minlength=_BINS) for channel in range(3)])


def progress_shares(histograms: Sequence[Histogram]) -> list[int]:
    """Return the progress of each picture from the first to the last, in whole percents.

    All are 100 if nothing differs between the first and the last, and the picture does not either.
    """
    first, last = histograms[0], histograms[-1]
    target = np.abs(last - first)
    total = int(target.sum())
    matches = [int(np.minimum(np.abs(each - first), target).sum()) for each in histograms]
    return [100 * match // total if total else 100 for match in matches]


def visual_progress(frames: Sequence[Frame]) -> VisualProgress | None:
    """Return the progress of a page from white to its last picture.

    Parameters
    ----------
    frames : sequence of Frame
        In the order of time. Without a picture, or with a white last one, there is no result.
    """
    if not frames:
        return None
    histograms = [histogram(frame.picture) for frame in frames]
    if not histograms[-1].any():
        return None
    white = np.zeros_like(histograms[0])
    return VisualProgress([0.0, *(frame.time_ms for frame in frames)], progress_shares([white, *histograms]))


MOST_PICTURES = 12
MOST_BYTES = 4096
WIDTHS = (120, 96, 72, 48)
QUALITIES = (60, 40, 25)


def write_film(frames: Sequence[Frame], progress: VisualProgress, folder: Path) -> list[Json]:
    """Write the pictures as ``film-NNN.jpg``, and return when each is seen.

    The moments are equally far apart from the start of the navigation until the page is visually complete. Each entry
    has ``time_ms``, ``percent`` (visual progress), and ``file``: null while the screen is white; a picture that is
    still there has the file of the entry before.
    """
    end_ms = progress.complete_ms
    assert end_ms is not None, "the last picture is complete"
    film: list[Json] = []
    files: dict[int, str] = {}
    for number in range(MOST_PICTURES):
        at_ms = end_ms * (number / (MOST_PICTURES - 1))
        shown = sum(frame.time_ms <= at_ms for frame in frames) - 1
        percent = progress.percent[shown + 1]
        if percent > 0 and shown not in files:
            files[shown] = f"film-{number:03d}.jpg"
            (folder / files[shown]).write_bytes(_thumbnail(frames[shown].picture))
        film.append({"time_ms": round(at_ms, 1), "percent": percent, "file": files.get(shown)})
    return film


def _thumbnail(picture: bytes) -> bytes:
    """Return a JPEG of at most `MOST_BYTES`, as large and as good as possible; of the least size if none fits."""
    from PIL import Image

    image = Image.open(io.BytesIO(picture)).convert("RGB")
    small = b""
    for width in WIDTHS:
        height = max(1, round(image.height * width / image.width))
        resized = image.resize((width, height))
        for quality in QUALITIES:
            file = io.BytesIO()
            resized.save(file, "jpeg", quality=quality, optimize=True)
            small = file.getvalue()
            if len(small) <= MOST_BYTES:
                return small
    return small


MOST_FRAMES = 450
"""Chromium writes no more pictures than this into a trace (``kMaximumNumberOfScreenshots``)."""

_TraceEvent: TypeAlias = "dict[str, Any]"
Span: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One request; times in ms since the start of the navigation, ``None`` for what did not happen.

    Parameters
    ----------
    kind : str
        Chromium's resource type: ``document``, ``stylesheet``, ``script``, ``image``, ``font``, …
    blocking : bool
        Whether it blocked the first paint.
    asked_ms : float
        Time of the request by the page.
    dns_ms, connect_ms, tls_ms : tuple of float
        Of a connection opened for this request; `connect_ms` contains `tls_ms`.
    sent_ms, answered_ms : float
        Time of sending; time of the first byte of the answer's header.
    end_ms : float
        Time of the last byte, or of the failure.
    protocol : str
        Its ALPN name.
    connection : int
        Chromium's number of the connection.
    bytes : int
        Header and body of the answer, compressed as on the wire.
    broken : bool
        Whether it ended without a complete answer.
    cached : bool
        Whether it was served from the browser's cache.
    """

    url: str
    kind: str
    asked_ms: float
    blocking: bool = False
    dns_ms: Span | None = None
    connect_ms: Span | None = None
    tls_ms: Span | None = None
    sent_ms: float | None = None
    answered_ms: float | None = None
    end_ms: float | None = None
    status: int | None = None
    protocol: str | None = None
    connection: int | None = None
    bytes: int = 0
    broken: bool = False
    cached: bool = False

    @property
    def failed(self) -> bool:
        """Whether it ended without its object."""
        return self.broken or (self.status is not None and self.status >= 400)

    @property
    def origin(self) -> str:
        """Name of the requested host."""
        return urlsplit(self.url).hostname or ""

    @property
    def path(self) -> str:
        """Path of its address, with the query."""
        parts = urlsplit(self.url)
        return parts.path + (f"?{parts.query}" if parts.query else "")


@dataclass(frozen=True, slots=True)
class PageTrace:
    """A page in a trace.

    Parameters
    ----------
    began_ns : int
        Start of the navigation, nanoseconds of CLOCK_MONOTONIC.
    frames : sequence of Frame
        Pictures, without equal neighbours.
    pictures : int
        Number of pictures in the trace.
    requests : sequence of PageRequest
        In the order of the page's requests.
    """

    began_ns: int
    frames: Sequence[Frame]
    pictures: int
    requests: Sequence[PageRequest]


def read_trace(file: Path) -> PageTrace | None:
    """Return the first page of a trace; ``None`` without a trace or a page."""
    try:
        events: list[_TraceEvent] = json.loads(output_of(file))["traceEvents"]
    except (OSError, ValueError):
        return None
    events.sort(key=lambda event: event.get("ts", 0))
    zero_us = _navigation_start(events)
    if zero_us is None:
        return None
    since = [event for event in events if event.get("ts", 0) >= zero_us]
    pictures = [event for event in since if event["name"] == "Screenshot"]
    return PageTrace(zero_us * 1000, list(_frames(pictures, zero_us)), len(pictures), _requests(since, zero_us))


def _navigation_start(events: Iterable[_TraceEvent]) -> int | None:
    """Return the start of the navigation, microseconds; earlier empty pages have one without a URL."""
    for event in events:
        if event["name"] == "navigationStart":
            data = event["args"].get("data", {})
            if data.get("isOutermostMainFrame") and _is_fetched(data.get("documentLoaderURL") or ""):
                at: int = event["ts"]
                return at
    return None


def _is_fetched(address: str) -> bool:
    return urlsplit(address).scheme in ("http", "https")


def _frames(pictures: Iterable[_TraceEvent], zero_us: int) -> Iterable[Frame]:
    last = None
    for event in pictures:
        picture = event["args"]["snapshot"]
        if picture != last:
            yield Frame((event["ts"] - zero_us) / 1e3, base64.b64decode(picture))
        last = picture


def _requests(events: Iterable[_TraceEvent], zero_us: int) -> list[PageRequest]:
    """Return the network requests. A redirected request has its number twice and is two requests."""
    now: dict[str, PageRequest] = {}
    done: list[PageRequest] = []
    for event in events:
        data = event["args"].get("data", {}) if event["name"].startswith("Resource") else {}
        number = str(data.get("requestId"))
        at_ms = (event.get("ts", 0) - zero_us) / 1e3
        if event["name"] == "ResourceSendRequest" and _is_fetched(data["url"]):
            if number in now:
                done.append(replace(now[number], end_ms=at_ms))
            now[number] = _asked(data, at_ms)
        elif number in now:
            now[number] = _updated(now[number], event["name"], data, zero_us, at_ms)
    return sorted([*done, *now.values()], key=lambda request: request.asked_ms)


def _asked(data: _TraceEvent, at_ms: float) -> PageRequest:
    return PageRequest(
        url=data["url"],
        kind=str(data.get("resourceType", "other")).lower(),
        asked_ms=at_ms,
        blocking=data.get("renderBlocking") in ("blocking", "in_body_parser_blocking"),
    )


def _updated(request: PageRequest, name: str, data: _TraceEvent, zero_us: int, at_ms: float) -> PageRequest:
    if name == "ResourceReceiveResponse":
        request = replace(
            request,
            status=data["statusCode"],
            protocol=data.get("protocol"),
            connection=data.get("connectionId") or None,
            bytes=request.bytes + int(data.get("encodedDataLength", 0)),
            cached=bool(data.get("fromCache")),
        )
        return _timed(request, data["timing"], zero_us) if data.get("timing") else request
    if name == "ResourceReceivedData" and not request.cached:
        return replace(request, bytes=request.bytes + int(data["encodedDataLength"]))
    if name == "ResourceFinish":
        finish_s = data.get("finishTime") or 0
        return replace(
            request,
            end_ms=finish_s * 1e3 - zero_us / 1e3 if finish_s > 0 else at_ms,
            broken=bool(data["didFail"]),
            bytes=int(data["encodedDataLength"]) or request.bytes,
        )
    return request


def _timed(request: PageRequest, timing: _TraceEvent, zero_us: int) -> PageRequest:
    """Return the request with its network timing: ``requestTime`` is in s, all others are ms after it."""
    base_ms = timing["requestTime"] * 1e3 - zero_us / 1e3

    def at(name: str) -> float | None:
        return base_ms + timing[name] if timing.get(name, -1) >= 0 else None

    def span(name: str) -> Span | None:
        start, end = at(f"{name}Start"), at(f"{name}End")
        return None if start is None or end is None else (start, end)

    return replace(
        request,
        asked_ms=min(request.asked_ms, base_ms),
        dns_ms=span("dns"),
        connect_ms=span("connect"),
        tls_ms=span("ssl"),
        sent_ms=at("sendEnd"),
        answered_ms=at("receiveHeadersStart"),
    )


def as_json(request: PageRequest) -> dict[str, Json]:
    """Return a request for the waterfall; times in ms, rounded to 0.1."""

    def rounded(value: float | None) -> float | None:
        return None if value is None else round(value, 1)

    def pair(value: Span | None) -> Json:
        return None if value is None else [round(end, 1) for end in value]

    return {
        "origin": request.origin,
        "path": request.path,
        "kind": request.kind,
        "blocking": request.blocking,
        "asked_ms": rounded(request.asked_ms),
        "dns_ms": pair(request.dns_ms),
        "connect_ms": pair(request.connect_ms),
        "tls_ms": pair(request.tls_ms),
        "sent_ms": rounded(request.sent_ms),
        "answered_ms": rounded(request.answered_ms),
        "end_ms": rounded(request.end_ms),
        "status": request.status,
        "protocol": request.protocol,
        "connection": request.connection,
        "bytes": request.bytes,
        "failed": request.failed,
    }


_PERCENTS = (85, 95, 99)
_TEXT_LENGTH = 60
_LONG_FRACTION = 0.5
"""A load is suspect if long tasks take more than this fraction of the time until onLoad."""


@dataclass(frozen=True, slots=True)
class PageCourse:
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


def read_course(file: Path) -> PageCourse | None:
    """Return the agent's record; ``None`` without one."""
    try:
        written = json.loads(output_of(file))
    except (OSError, ValueError):
        return None
    return PageCourse(bool(written["loaded"]), bool(written["settled"]), written["error"], written["page"] or {})


def status_of(
    course: PageCourse | None, failure: str | None, stopped_s: float | None, limit_s: float, settle_s: float
) -> tuple[Status, str]:
    """Return the status of a page load and its reason.

    Parameters
    ----------
    course : PageCourse or None
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


def _moment(course: PageCourse, name: str) -> float | None:
    """Return a time of the navigation; ``None`` for 0 (has not happened)."""
    value = course.page.get("navigation", {}).get(name)
    return float(value) if value else None


def _paint(course: PageCourse, name: str) -> float | None:
    return next((float(entry["startTime"]) for entry in course.page.get("paints", ()) if entry["name"] == name), None)


def _largest(course: PageCourse) -> float | None:
    entries = course.page.get("largest", ())
    return max(float(entries[-1]["renderTime"]), float(entries[-1]["loadTime"])) if entries else None


def _long_tasks_ms(course: PageCourse) -> float | None:
    return sum(float(entry["duration"]) for entry in course.page["tasks"]) if "tasks" in course.page else None


def _sent(trace: PageTrace) -> list[PageRequest]:
    return [request for request in trace.requests if not request.cached]


def metrics_of(
    course: PageCourse, trace: PageTrace, *, looks_up: bool = False
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


def _looked_up(course: PageCourse, *, looks_up: bool) -> list[tuple[str, float | None, str]]:
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


def doubts_of(
    course: PageCourse, trace: PageTrace, expected: Sequence[str], *, others_expected: bool = False
) -> list[str]:
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
