"""Load one page and record it: a trace with pictures and requests, and the page's own timing.

Everything on the network and the screen comes from Chromium's trace (CLOCK_MONOTONIC), which costs the page less than
listening to events. Settings: ``device`` (options of a Playwright context), ``url``, ``limit_s``, ``settle_s``,
``folder``, ``blocked`` (addresses that are not fetched). Files: ``trace.json`` (opens in Chromium's tools),
``page.json``. The result says ``loaded``, ``settled`` and ``error``.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

from wavebed.workload.browser.agent import serve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from playwright.sync_api import Browser, BrowserContext, Page

    from wavebed.config.data import Json
    from wavebed.workload.browser.agent import Conversation

CATEGORIES = ("-*", "blink.user_timing", "devtools.timeline", "loading", "disabled-by-default-devtools.screenshot")

LOOK_EVERY_MS = 50

WARM_UP = """<!doctype html><meta name=viewport content="width=device-width">
<style>p{color:#123}b{font:1em serif}</style>
<p>Fonts, <b>styles</b>, <i>pictures</i> and scripts are loaded once before time begins.
<svg width=9 height=9><circle r=4 fill=red /></svg><script>document.title = [3, 1, 2].sort().join(" ")</script>"""

SHOWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"

OF_PAGE = """async () => {
    const entries = (type) => new Promise((done) => {
        const got = [];
        const observer = new PerformanceObserver((list) => got.push(...list.getEntries()));
        observer.observe({type, buffered: true});
        setTimeout(() => { observer.disconnect(); done(got.map((entry) => entry.toJSON())); }, 50);
    });
    const [paints, largest, tasks] = await Promise.all(["paint", "largest-contentful-paint", "longtask"].map(entries));
    return {navigation: performance.getEntriesByType("navigation")[0].toJSON(), paints, largest, tasks};
}"""


class _Course(TypedDict):
    loaded: bool
    settled: bool
    error: str | None


def play(conversation: Conversation, browser: Browser, settings: dict[str, Json]) -> Mapping[str, Json]:
    """Wait for the start message, load the page, write the record."""
    folder = Path(cast("str", settings["folder"]))
    context = browser.new_context(**cast("dict[str, object]", settings["device"]))  # type: ignore[arg-type]
    page = context.new_page()
    _warm_up(page)
    _block(context, page, cast("list[str]", settings["blocked"]))
    _slow_down(context, page, cast("int", settings["cpu_slowdown"]))
    browser.start_tracing(page=page, screenshots=True, categories=list(CATEGORIES))
    conversation.say({"ready": True})
    conversation.hear()
    course = _load(
        page,
        conversation,
        cast("str", settings["url"]),
        time.monotonic() + cast("float", settings["limit_s"]),
        cast("float", settings["settle_s"]),
    )
    of_page = page.evaluate(OF_PAGE) if course["error"] is None else None
    (folder / "trace.json").write_bytes(browser.stop_tracing())
    (folder / "page.json").write_text(json.dumps({**course, "page": of_page}), encoding="utf-8")
    return cast("Mapping[str, Json]", course)


def _warm_up(page: Page) -> None:
    """Show something, so that the page's text is not the browser's first text; leave a white screen."""
    page.set_content(WARM_UP)
    page.evaluate(SHOWN)
    page.goto("about:blank")
    page.evaluate(SHOWN)
    page.wait_for_timeout(LOOK_EVERY_MS)


def _block(context: BrowserContext, page: Page, addresses: list[str]) -> None:
    if addresses:
        session = context.new_cdp_session(page)
        session.send("Network.enable")
        session.send("Network.setBlockedURLs", {"urls": addresses})


def _slow_down(context: BrowserContext, page: Page, times: int) -> None:
    if times > 1:
        context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": times})


def _load(page: Page, conversation: Conversation, url: str, end: float, settle_s: float) -> _Course:
    """Load the page and wait until `settle_s` after its load event, until `end`, or until a message."""
    from playwright.sync_api import Error, TimeoutError  # noqa: A004 - Playwright's own

    loaded_at: list[float] = []
    page.on("load", lambda _: loaded_at.append(time.monotonic()))
    try:
        response = page.goto(url, wait_until="commit", timeout=max(1.0, (end - time.monotonic()) * 1e3))
    except TimeoutError:
        return {"loaded": False, "settled": False, "error": "no answer to the first request"}
    except Error as error:
        return {"loaded": False, "settled": False, "error": error.message.splitlines()[0].removeprefix("Page.goto: ")}
    if response is not None and not response.ok:
        return {"loaded": False, "settled": False, "error": f"the document was answered with {response.status}"}
    while not (loaded_at and time.monotonic() >= loaded_at[0] + settle_s):
        if time.monotonic() >= end or conversation.is_told():
            return {"loaded": bool(loaded_at), "settled": False, "error": None}
        page.wait_for_timeout(LOOK_EVERY_MS)
    return {"loaded": True, "settled": True, "error": None}


if __name__ == "__main__":
    serve(play)
