"""Made sites in Chromium: it asks for each object once, in a structure's order, and paints what is above the fold."""

from __future__ import annotations

import json
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


STRUCTURE = [
    {"object": 0, "type": "document", "bytes": 60_000},
    {"object": 1, "type": "style", "bytes": 3000, "by": 0, "at_byte": 400, "in_head": True, "how": ["stylesheet"]},
    {"object": 2, "type": "script", "bytes": 9000, "by": 0, "at_byte": 600, "in_head": True, "tag": "script"},
    {"object": 3, "type": "font", "bytes": 12_000, "by": 1, "at_byte": 700},
    {"object": 4, "type": "script", "bytes": 2000, "by": 2, "at_byte": 0},
    {"object": 5, "type": "image", "bytes": 5000, "by": 4, "at_byte": 0},
    {"object": 6, "type": "document", "bytes": 4000, "by": 0, "at_byte": 20_000, "tag": "iframe"},
    {"object": 7, "type": "image", "bytes": 43, "by": 6, "at_byte": 2000, "tag": "img"},
    {"object": 8, "type": "script", "bytes": 700, "by": 0, "at_byte": 30_000, "tag": "script", "how": ["defer"]},
    {"object": 9, "type": "other", "bytes": 90, "by": 8, "at_byte": 0},
    {"object": 10, "type": "image", "bytes": 9000, "by": 0, "at_byte": 40_000, "tag": "img"},
    {"object": 11, "type": "image", "bytes": 6000, "by": 0, "at_byte": 59_000, "tag": "img", "how": ["lazy"]},
    {"object": 12, "type": "style", "bytes": 600, "by": 1, "at_byte": 0},
    {"object": 13, "type": "image", "bytes": 4000, "by": 12, "at_byte": 200},
    {"object": 14, "type": "script", "bytes": 500, "by": 0, "at_byte": 800, "in_head": True, "how": ["preload"]},
]


def test_a_page_made_from_a_structure_loads_its_objects_in_the_structure_s_order(tmp_path: Path) -> None:
    objects = [{**each, **({"host": 1} if each["object"] in (3, 10) else {})} for each in STRUCTURE]
    (tmp_path / "page.json").write_text(json.dumps({"page": "a page", "script_ms_per_kb": 1, "objects": objects}))
    built = load_site(str(tmp_path / "page.json"), tmp_path / "cache")
    visit = visit_site(built)
    numbers = {entry.path: index for index, entry in enumerate(built.site.objects)}
    assert set(visit.unknown) <= {f"{built.site.origins[0].name}/favicon.ico"}
    asked = [numbers[path] for _, path in visit.asked if path in numbers]
    assert sorted(asked) == list(range(15)), "each once"
    place = {number: index for index, number in enumerate(asked)}
    for each in STRUCTURE[1:]:
        assert place[int(str(each["by"]))] < place[int(str(each["object"]))], each
    assert visit.fonts == 1
