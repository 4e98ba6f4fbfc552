"""The browser's side of `wavebed.workload.video`: load the page, wait, play, write the record."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

from wavebed.workload.browser.agent import serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from wavebed.config.data import Json
    from wavebed.workload.browser.agent import Conversation

LOOK_EVERY_MS = 200
CLOCK_READINGS = 20


def _read_clocks(page: Page) -> dict[str, Json]:
    """Return the zero of performance.now(), nanoseconds of CLOCK_MONOTONIC, and half the duration of the request."""
    best: tuple[int, int] | None = None
    for _ in range(CLOCK_READINGS):
        before = time.monotonic_ns()
        page_ns = round(cast("float", page.evaluate("performance.now()")) * 1e6)
        after = time.monotonic_ns()
        reading = ((after - before) // 2, (before + after) // 2 - page_ns)
        best = reading if best is None else min(best, reading)
    assert best is not None, "it was read"
    return {"origin_ns": best[1], "uncertainty_ns": best[0]}


def _load(browser: Browser, settings: dict[str, Json]) -> Page:
    """Show the page as if from the server, without a packet."""
    page = browser.new_page(viewport={"width": 640, "height": 360})
    html = Path(cast("str", settings["page"])).read_text(encoding="utf-8")
    page.route("**/*", lambda route: route.fulfill(body=html, content_type="text/html; charset=utf-8"))
    page.goto(cast("str", settings["origin"]))
    # From here on the page uses the network.
    page.unroute_all(behavior="wait")
    return page


def play(conversation: Conversation, browser: Browser, settings: dict[str, Json]) -> dict[str, Json]:
    """Play the video, write the file ``record``, return the outcome."""
    page = _load(browser, settings)
    stop = threading.Event()

    def hear_stop() -> None:
        try:
            conversation.hear()
        finally:
            stop.set()

    clocks = _read_clocks(page)
    conversation.say({"ready": True})
    conversation.hear()
    page.evaluate("settings => watch.begin(settings)", settings["watch"])
    threading.Thread(target=hear_stop, daemon=True).start()
    while not page.evaluate("watch.isOver()"):
        if stop.is_set():
            page.evaluate("watch.finish('stopped')")
        else:
            page.wait_for_timeout(LOOK_EVERY_MS)
    record = cast("dict[str, Json]", page.evaluate("watch.record"))
    Path(cast("str", settings["record"])).write_text(json.dumps({**record, **clocks}), encoding="utf-8")
    return {"outcome": record["outcome"]}


if __name__ == "__main__":
    serve(play)
