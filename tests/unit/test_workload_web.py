"""Pages: what a trace of Chromium tells, the verdict, and the Speed Index."""

from __future__ import annotations

import base64
import io
import json
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from wavebed.config.problems import Problem
from wavebed.workload import read_workload
from wavebed.workload.web_figures import (
    MOST_BYTES,
    Frame,
    PageCourse,
    PageRequest,
    PageTrace,
    VisualProgress,
    doubts_of,
    metrics_of,
    read_trace,
    status_of,
    visual_progress,
    write_film,
)

if TYPE_CHECKING:
    from pathlib import Path


ZERO_US = 5_000_000
URL = "https://www.site.example/"


def event(name: str, at_ms: float, **data: object) -> dict[str, object]:
    return {"name": name, "cat": "x", "ts": ZERO_US + at_ms * 1000, "args": {"data": data}}


def navigation(at_ms: float, url: str) -> dict[str, object]:
    return event("navigationStart", at_ms, documentLoaderURL=url, isOutermostMainFrame=True)


def asked(number: str, at_ms: float, url: str, **more: object) -> dict[str, object]:
    return event("ResourceSendRequest", at_ms, requestId=number, url=url, resourceType="Image", **more)


def answered(number: str, at_ms: float, **more: object) -> dict[str, object]:
    timing = {
        "requestTime": (ZERO_US / 1e3 + at_ms - 50) / 1e3,
        "dnsStart": 0.5,
        "dnsEnd": 1,
        "connectStart": 1,
        "connectEnd": 21,
        "sslStart": 11,
        "sslEnd": 21,
        "sendStart": 22,
        "sendEnd": 23,
        "receiveHeadersStart": 49,
    }
    data = {"requestId": number, "statusCode": 200, "protocol": "h2", "connectionId": 7, "encodedDataLength": 100}
    return event("ResourceReceiveResponse", at_ms, **{**data, "timing": timing, **more})


def received(number: str, at_ms: float, size: int) -> dict[str, object]:
    return event("ResourceReceivedData", at_ms, requestId=number, encodedDataLength=size)


def finished(number: str, at_ms: float, size: int, *, failed: bool = False) -> dict[str, object]:
    finish_s = 0 if failed else (ZERO_US / 1e3 + at_ms) / 1e3
    return event(
        "ResourceFinish", at_ms + 3, requestId=number, didFail=failed, finishTime=finish_s, encodedDataLength=size
    )


def picture(shade: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (40, 80), (shade, shade, shade)).save(file, "png")
    return file.getvalue()


def shot(at_ms: float, content: bytes) -> dict[str, object]:
    return {
        "name": "Screenshot",
        "cat": "disabled-by-default-devtools.screenshot",
        "ts": ZERO_US + at_ms * 1000,
        "args": {"snapshot": base64.b64encode(content).decode()},
    }


def read(folder: Path, *events: dict[str, object]) -> PageTrace:
    file = folder / "trace.json"
    file.write_text(json.dumps({"traceEvents": [navigation(-300, ""), navigation(0, URL), *events]}))
    trace = read_trace(file)
    assert trace is not None
    return trace


def test_times_are_since_the_first_navigation_to_an_address(tmp_path: Path) -> None:
    trace = read(tmp_path, asked("1", 10, URL), answered("1", 60), finished("1", 70, 5000))
    assert trace.began_ns == ZERO_US * 1000
    (request,) = trace.requests
    assert request.asked_ms == pytest.approx(10)
    assert request.dns_ms == pytest.approx((10.5, 11))
    assert request.connect_ms == pytest.approx((11, 31))
    assert request.tls_ms == pytest.approx((21, 31))
    assert request.sent_ms == pytest.approx(33)
    assert request.answered_ms == pytest.approx(59)
    assert request.end_ms == pytest.approx(70)
    assert (request.status, request.protocol, request.connection, request.bytes) == (200, "h2", 7, 5000)


def test_a_request_that_was_led_elsewhere_is_two(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        asked("1", 10, f"{URL}old"),
        asked("1", 40, f"{URL}new"),
        answered("1", 90),
        finished("1", 95, 700),
    )
    assert [(request.path, request.end_ms) for request in trace.requests] == [
        ("/old", pytest.approx(40)),
        ("/new", pytest.approx(95)),
    ]


def test_what_has_come_of_an_unfinished_answer_is_counted(tmp_path: Path) -> None:
    trace = read(tmp_path, asked("1", 10, URL), answered("1", 60), received("1", 61, 3000), received("1", 80, 4000))
    assert trace.requests[0].bytes == 7100
    assert trace.requests[0].end_ms is None
    assert not trace.requests[0].failed


def test_broken_and_refused_requests_failed(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        asked("1", 10, f"{URL}broken"),
        finished("1", 30, 0, failed=True),
        asked("2", 11, f"{URL}missing"),
        answered("2", 60, statusCode=404),
        finished("2", 61, 300),
        asked("3", 12, "data:image/png;base64,AAAA"),
    )
    assert [(request.path, request.failed) for request in trace.requests] == [("/broken", True), ("/missing", True)]
    assert trace.requests[0].end_ms == pytest.approx(33)
    course = PageCourse(loaded=True, settled=True)
    doubts = doubts_of(course, trace, ["www.site.example"])
    assert doubts[0] == f"2 of 2 requests failed; the first: {URL}broken: no whole answer"


def test_expected_requests_to_other_hosts_are_no_reason_to_doubt(tmp_path: Path) -> None:
    trace = read(
        tmp_path, asked("1", 10, "https://ads.example/a.js"), finished("1", 30, 0, failed=True),
        asked("2", 11, f"{URL}broken"), finished("2", 61, 0, failed=True),
    )  # fmt: skip
    course = PageCourse(loaded=True, settled=True)
    doubts = doubts_of(course, trace, ["www.site.example"])
    assert doubts[:2] == [
        "2 of 2 requests failed; the first: https://ads.example/a.js: no whole answer",
        "requests to names that the site does not have: ads.example",
    ]
    fewer = doubts_of(course, trace, ["www.site.example"], others_expected=True)
    assert fewer == [f"1 of 1 requests failed; the first: {URL}broken: no whole answer", *doubts[2:]]


def test_what_the_browser_had_is_no_request(tmp_path: Path) -> None:
    trace = read(
        tmp_path, asked("1", 10, URL), answered("1", 12, fromCache=True), received("1", 12, 900), finished("1", 12, 0)
    )
    metrics, _ = metrics_of(PageCourse(loaded=True, settled=True), trace)
    values = {metric.name: metric.value for metric in metrics}
    assert (values["requests"], values["connections"], values["bytes"]) == (0, 0, 0)


def test_pictures_before_the_navigation_and_twins_are_left_out(tmp_path: Path) -> None:
    grey, black = picture(128), picture(0)
    trace = read(tmp_path, shot(-50, grey), shot(20, grey), shot(40, grey), shot(60, black))
    assert [frame.time_ms for frame in trace.frames] == [pytest.approx(20), pytest.approx(60)]
    assert trace.pictures == 3


def test_a_file_that_is_no_trace_or_has_no_page_says_nothing(tmp_path: Path) -> None:
    assert read_trace(tmp_path / "none.json") is None
    (tmp_path / "half.json").write_text('{"traceEvents": [')
    assert read_trace(tmp_path / "half.json") is None
    (tmp_path / "empty.json").write_text(json.dumps({"traceEvents": [navigation(0, "")]}))
    assert read_trace(tmp_path / "empty.json") is None


def test_what_was_not_reached_is_missing() -> None:
    trace = PageTrace(0, [Frame(100.0, picture(9))], 1, [PageRequest(URL, "document", 1.0)])
    page = {"navigation": {"responseStart": 90.5, "loadEventEnd": 0}, "paints": [], "largest": []}
    metrics, progress = metrics_of(PageCourse(loaded=False, page=page), trace)
    values = {metric.name: metric.value for metric in metrics}
    assert progress is None
    assert values["ttfb"] == 90.5
    for name in ("on load", "first paint", "largest contentful paint", "speed index", "visually complete"):
        assert values[name] is None


@pytest.mark.parametrize(
    ("course", "failure", "stopped_s", "status", "reason"),
    [
        (PageCourse(loaded=True, settled=True), None, None, "ok", ""),
        (
            PageCourse(loaded=True, settled=True),
            "nginx was ended by signal 9",
            None,
            "failed",
            "nginx was ended by signal 9",
        ),
        (PageCourse(loaded=True), None, 8.1, "partial", "loaded, but stopped before the screen was recorded for 2 s"),
        (PageCourse(), None, 8.1, "failed", "not loaded within 8 s"),
        (PageCourse(), None, None, "failed", "not loaded within 8 s"),
        (PageCourse(), None, 3.0, "failed", "stopped after 3.0 s, before it was loaded"),
        (PageCourse(error="no answer to the first request"), None, 8.1, "failed", "no answer to the first request"),
        (None, None, 0.5, "failed", "stopped before it started"),
        (None, None, None, "failed", "the browser recorded nothing"),
    ],
)
def test_the_status_tells_a_late_page_from_a_broken_one(
    course: PageCourse | None, failure: str | None, stopped_s: float | None, status: str, reason: str
) -> None:
    assert status_of(course, failure, stopped_s, limit_s=8, settle_s=2) == (status, reason)


def test_the_largest_paint_is_the_later_of_render_and_load_of_the_last_entry() -> None:
    entries = [{"renderTime": 900, "loadTime": 0}, {"renderTime": 0, "loadTime": 400}]
    metrics, _ = metrics_of(PageCourse(loaded=True, page={"largest": entries}), PageTrace(0, [], 0, []))
    assert {metric.name: metric.value for metric in metrics}["largest contentful paint"] == 400


def test_the_film_ends_with_the_whole_page_and_is_small(tmp_path: Path) -> None:
    noise = io.BytesIO()
    Image.effect_noise((230, 498), 100).convert("RGB").save(noise, "png")
    frames = [Frame(333.3, picture(200)), Frame(1008.457, noise.getvalue())]
    progress = visual_progress(frames)
    assert progress is not None
    film = write_film(frames, progress, tmp_path)
    assert len(film) == 12
    assert film[0] == {"time_ms": 0.0, "percent": 0, "file": None}
    assert film[-1] == {"time_ms": 1008.5, "percent": 100, "file": "film-011.jpg"}
    assert all(file.stat().st_size <= MOST_BYTES for file in tmp_path.glob("film-*.jpg"))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "site: is missing"),
        ({"site": "cnn", "tls": False}, "tls: false: browsers speak h2 with TLS only"),
        ({"site": "cnn", "protocol": "h4"}, "protocol: "),
        ({"site": "cnn", "settle": 1}, "settle: "),
    ],
)
def test_a_wrong_table_is_refused(table: dict[str, object], message: str) -> None:
    with pytest.raises(Problem) as caught:
        read_workload({"kind": "web", **table})
    assert str(caught.value).startswith(message)


SIZE = 10
WHITE = (255, 255, 255)
BLUE = (20, 40, 200)


def painted(painted_rows: int, colour: tuple[int, int, int] = BLUE, rest: tuple[int, int, int] = WHITE) -> bytes:
    """Return ten by ten pixels of which some rows are painted; PNG, so that every value is exact."""
    image = Image.new("RGB", (SIZE, SIZE), rest)
    image.paste(colour, (0, 0, SIZE, painted_rows))
    file = io.BytesIO()
    image.save(file, "png")
    return file.getvalue()


def progress(*frames: tuple[float, bytes]) -> VisualProgress:
    found = visual_progress([Frame(*frame) for frame in frames])
    assert found is not None
    return found


def test_a_page_painted_at_once_has_the_time_of_its_painting_as_index() -> None:
    found = progress((700.0, painted(10)))
    assert found.speed_index_ms == pytest.approx(700)
    assert found.first_change_ms == 700
    assert found.complete_ms == 700


def test_each_part_counts_until_it_is_there() -> None:
    found = progress((100.0, painted(3)), (300.0, painted(8)), (1000.0, painted(10)))
    assert list(found.percent) == [0, 30, 80, 100]
    assert found.speed_index_ms == pytest.approx(100 + 200 * 0.7 + 700 * 0.2)
    assert found.first_change_ms == 100
    assert found.complete_ms == 1000


def test_white_pictures_before_the_first_paint_change_nothing() -> None:
    without = progress((400.0, painted(5)), (600.0, painted(10)))
    with_white = progress((50.0, painted(0)), (150.0, painted(0)), (400.0, painted(5)), (600.0, painted(10)))
    assert with_white.speed_index_ms == pytest.approx(without.speed_index_ms)
    assert with_white.first_change_ms == 400


@pytest.mark.parametrize(("level", "expected"), [(249, 0), (248, 50)])
def test_pixels_of_249_in_every_channel_are_background(level: int, expected: int) -> None:
    first = painted(10, (level, 249, 255))
    assert progress((100.0, first), (200.0, painted(5, BLUE, (level, 249, 255)))).percent[1] == expected


def test_progress_is_rounded_down_to_whole_percents() -> None:
    found = progress((100.0, painted(1)), (200.0, painted(3)))
    assert list(found.percent) == [0, 33, 100]


def test_colours_that_the_final_picture_does_not_have_are_no_progress() -> None:
    found = progress((100.0, painted(10, (90, 10, 10))), (200.0, painted(10)))
    assert list(found.percent) == [0, 0, 100]


def test_visually_complete_is_the_first_time_though_progress_falls_back() -> None:
    found = progress((100.0, painted(10)), (200.0, painted(9)), (300.0, painted(10)))
    assert found.complete_ms == 100
    assert found.complete_at_least_ms(95) == 300
    assert found.complete_at_least_ms(85) == 100


def test_a_page_that_stays_white_has_no_index() -> None:
    assert visual_progress([]) is None
    assert visual_progress([Frame(100.0, painted(0))]) is None
