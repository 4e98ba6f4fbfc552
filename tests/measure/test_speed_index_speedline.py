"""Our Speed Index beside that of speedline-core, on traces of pages that are painted in different ways.

Chromium loads the pages from a server on the loopback interface that holds some objects back.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from PIL import Image
from playwright.sync_api import sync_playwright

from wavebed.lab.tools import cache_folder, find
from wavebed.workload.browser import web_agent
from wavebed.workload.browser.agent import ARGUMENTS
from wavebed.workload.web_figures import PageTrace, read_trace, visual_progress

if TYPE_CHECKING:
    from collections.abc import Iterator

SPEEDLINE = "speedline-core@1.4.3"
TOLERANCE = 0.03
"""The decoders of JPEG differ in rounding, by which a pixel falls into another bin."""

_CALL = """
require(process.argv[1])(process.argv[2], {timeOrigin: Number(process.argv[3]), include: "speedIndex"})
    .then(({speedIndex, first, complete}) => console.log(JSON.stringify({speedIndex, first, complete})))
"""


def _photo(shade: int) -> bytes:
    image = Image.merge(
        "RGB", [Image.radial_gradient("L"), Image.linear_gradient("L"), Image.new("L", (256, 256), shade)]
    )
    file = io.BytesIO()
    image.save(file, "jpeg")
    return file.getvalue()


def _page(body: str, head: str = "") -> str:
    return (
        f'<!doctype html><html><head><meta charset=utf-8><meta name=viewport content="width=device-width">{head}</head>'
        f"<body>{body}</body></html>"
    )


_WORDS = "<p>The quick brown fox jumps over the lazy dog.</p>" * 12

PAGES = {
    "all at once": _page(f"<style>body{{background:#246;color:#fff}}</style><h1>Now</h1>{_WORDS}"),
    "text first, pictures late": _page(
        f"{_WORDS}<img src=/photo?shade=30&wait=0.3 width=330 height=160>"
        "<img src=/photo?shade=200&wait=0.8 width=330 height=200>"
    ),
    "nothing until the style is there": _page(
        f"<h1>Late</h1>{_WORDS}<img src=/photo?shade=120&wait=0.9 width=330 height=300>",
        "<link rel=stylesheet href=/style?wait=0.5>",
    ),
    "block by block, with a colour that goes again": _page(
        "<script>const colours = ['#e22', '#2a2', '#22e', '#b5b', '#fa0', '#089'];"
        "document.body.style.background = '#ccc';"
        "colours.forEach((colour, place) => setTimeout(() => {"
        "const block = document.createElement('div'); block.style.cssText = `height:120px;background:${colour}`;"
        "document.body.append(block); if (place === 4) document.body.style.background = '#eff';}, 120 * place));"
        "</script><img src=/photo?shade=9&wait=0.7 width=1 height=1>"
    ),
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    pages: ClassVar[list[str]] = list(PAGES)

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = parse_qs(address.query)
        time.sleep(float(query.get("wait", ["0"])[0]))
        if address.path == "/photo":
            kind, body = "image/jpeg", _photo(int(query["shade"][0]))
        elif address.path == "/style":
            kind, body = "text/css", b"body{background:#fed;color:#420}"
        else:
            kind, body = "text/html", PAGES[self.pages[int(address.path[1:])]].encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class _Conversation:
    def say(self, message: object) -> None:
        pass

    def hear(self) -> dict[str, object]:
        return {}

    def is_told(self) -> bool:
        return False


@pytest.fixture(scope="module")
def speedline() -> Path:
    """Return where the package is, installed by npm if it is not there; without it these tests fail."""
    script = Path(__file__).parents[2] / "scripts" / "node-packages"
    done = subprocess.run([script, SPEEDLINE], capture_output=True, text=True, check=False, timeout=300)
    package = cache_folder() / "npm" / "node_modules" / "speedline-core"
    assert package.is_dir(), f"{SPEEDLINE} cannot be installed by npm: {done.stderr}"
    return package


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def load(server: str, number: int, folder: Path) -> PageTrace:
    """Have Chromium load a page, and return its trace; what else was recorded is in `folder`."""
    reading, writing = os.pipe()
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright, os.fdopen(reading) as silence:
        patch.setattr("sys.stdin", silence)
        device = {key: value for key, value in playwright.devices["iPhone X"].items() if key != "default_browser_type"}
        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(
            executable_path=find("chromium"), args=[*ARGUMENTS, *root], chromium_sandbox=not root
        )
        settings = {
            "folder": str(folder),
            "device": device,
            "cpu_slowdown": 1,
            "url": f"{server}/{number}",
            "limit_s": 20.0,
            "settle_s": 0.7,
            "blocked": ["*/favicon.ico"],
        }
        result = web_agent.play(_Conversation(), browser, settings)  # type: ignore[arg-type]
        browser.close()
    os.close(writing)
    assert result == {"loaded": True, "settled": True, "error": None}
    trace = read_trace(folder / "trace.json")
    assert trace is not None
    return trace


def by_speedline(package: Path, file: Path, origin_us: float) -> dict[str, float]:
    argv = ["node", "-e", _CALL, str(package), str(file), f"{origin_us:.0f}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


@pytest.mark.parametrize("name", PAGES)
def test_our_speed_index_is_that_of_speedline(name: str, speedline: Path, server: str, tmp_path: Path) -> None:
    trace = load(server, list(PAGES).index(name), tmp_path)
    ours = visual_progress(trace.frames)
    assert ours is not None
    theirs = by_speedline(speedline, tmp_path / "trace.json", trace.began_ns / 1e3)
    print(name, list(ours.percent), ours.speed_index_ms, theirs)
    assert ours.speed_index_ms == pytest.approx(theirs["speedIndex"], rel=TOLERANCE)
    # Speedline rounds these down to whole milliseconds.
    assert ours.first_change_ms == pytest.approx(theirs["first"], abs=1.01)
    assert ours.complete_ms == pytest.approx(theirs["complete"], abs=1.01)


def test_the_trace_and_the_page_itself_tell_the_same_times(server: str, tmp_path: Path) -> None:
    trace = load(server, list(PAGES).index("text first, pictures late"), tmp_path)
    page = json.loads((tmp_path / "page.json").read_text())["page"]
    document = trace.requests[0]
    # The page's clock has steps of 0.1 ms.
    assert document.answered_ms == pytest.approx(page["navigation"]["responseStart"], abs=0.2)
    assert document.end_ms == pytest.approx(page["navigation"]["responseEnd"], abs=20)
    # A picture is taken when a frame is drawn, the page is told when it is shown: a few periods of 60 Hz, where the
    # processor draws.
    assert trace.frames[-1].time_ms == pytest.approx(page["largest"][-1]["startTime"], abs=80)
    photos = [request for request in trace.requests if request.path.startswith("/photo")]
    assert [request.answered_ms - request.sent_ms > wait for request, wait in zip(photos, (290, 790), strict=True)]  # type: ignore[operator]
