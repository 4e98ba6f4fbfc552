"""Read a trace of Chromium: pictures and requests of one page, in time since the start of its navigation."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from wavebed.workload.browser.speed_index import Frame
from wavebed.workload.waiting import output_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from wavebed.config.data import Json

__all__ = ["MOST_FRAMES", "PageTrace", "Request", "Span", "as_json", "read_trace"]

MOST_FRAMES = 450
"""Chromium writes no more pictures than this into a trace (``kMaximumNumberOfScreenshots``)."""

_TraceEvent: TypeAlias = "dict[str, Any]"
Span: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Request:
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
    requests : sequence of Request
        In the order of the page's requests.
    """

    began_ns: int
    frames: Sequence[Frame]
    pictures: int
    requests: Sequence[Request]


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


def _requests(events: Iterable[_TraceEvent], zero_us: int) -> list[Request]:
    """Return the network requests. A redirected request has its number twice and is two requests."""
    now: dict[str, Request] = {}
    done: list[Request] = []
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


def _asked(data: _TraceEvent, at_ms: float) -> Request:
    return Request(
        url=data["url"],
        kind=str(data.get("resourceType", "other")).lower(),
        asked_ms=at_ms,
        blocking=data.get("renderBlocking") in ("blocking", "in_body_parser_blocking"),
    )


def _updated(request: Request, name: str, data: _TraceEvent, zero_us: int, at_ms: float) -> Request:
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


def _timed(request: Request, timing: _TraceEvent, zero_us: int) -> Request:
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


def as_json(request: Request) -> dict[str, Json]:
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
