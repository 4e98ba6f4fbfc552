"""The shipped sites in Chromium: it asks for every object once, and paints what is said to be above the fold."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from tests.samples_by_seed import sample

from wavebed.lab.tools import find
from wavebed.workload.site import load_site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wavebed.workload.site import BuiltSite


PHONE = {"width": 375, "height": 812}


@dataclass
class Visit:
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Host and path with query of each request."""
    unknown: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    tops: list[tuple[str, float]] = field(default_factory=list)
    """Source and distance from the top of the page of each picture with a source."""
    fonts: int = 0
    """Fonts that have been loaded."""


@contextmanager
def served(built: BuiltSite, visit: Visit) -> Iterator[int]:
    objects = {(entry.origin, entry.path): entry for entry in built.site.objects}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            key = (self.headers["Host"].partition(":")[0], self.path)
            visit.asked.append(key)
            entry = objects.get(key)
            if entry is None:
                visit.unknown.append("".join(key))
            body = built.path_of(entry).read_bytes() if entry and entry.file else b""
            self.send_response(entry.status if entry else 404)
            if entry:
                self.send_header("Content-Type", entry.content_type)
                if entry.location:
                    self.send_header("Location", entry.location)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def visit_site(built: BuiltSite, picture: Path | None = None) -> Visit:
    from playwright.sync_api import sync_playwright

    visit = Visit()
    with served(built, visit) as port, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find("chromium"),
            args=["--no-sandbox", "--disable-gpu", f"--host-resolver-rules=MAP * 127.0.0.1:{port}"],
        )
        page = browser.new_page(viewport=PHONE, device_scale_factor=2, is_mobile=True)
        page.on("console", lambda message: visit.said.append(message.text))
        page.on("pageerror", lambda error: visit.said.append(str(error)))
        page.goto(f"http://{built.site.origins[0].name}{built.site.first}", wait_until="load", timeout=60_000)
        page.wait_for_load_state("networkidle", timeout=60_000)
        visit.tops = [
            (str(source), float(top))
            for source, top in page.evaluate(
                "() => Array.from(document.images, e => [e.getAttribute('src'), e.getBoundingClientRect().top])"
            )
        ]
        visit.fonts = page.evaluate("() => Array.from(document.fonts).filter(f => f.status == 'loaded').length")
        if picture is not None:
            page.screenshot(path=picture)
            page.screenshot(path=picture.with_stem(picture.stem + "-full"), full_page=True)
        browser.close()
    return visit


@pytest.mark.parametrize("name", sample(["google", "amazon", "cnn"], 1))
def test_a_browser_asks_for_every_object_once_and_has_nothing_to_complain_about(name: str, tmp_path: Path) -> None:
    built = load_site(name, tmp_path)
    visit = visit_site(built)
    assert visit.unknown == []
    assert visit.said == []
    assert Counter(visit.asked) == Counter((entry.origin, entry.path) for entry in built.site.objects)
    assert visit.fonts == sum(entry.kind == "font" for entry in built.site.objects)
    tops = dict(visit.tops)
    main = built.site.origins[0].name
    shown = 0
    for entry in built.site.objects:
        if entry.kind != "image":
            continue
        source = entry.path if entry.origin == main else f"//{entry.origin}{entry.path}"
        if source in tops and "pixels" not in entry.path:
            assert (tops[source] < PHONE["height"]) == entry.above_fold, entry.path
            shown += 1
    assert shown > 0
