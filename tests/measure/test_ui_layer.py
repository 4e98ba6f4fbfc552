"""The lines of the charts: a picture that grows is the one drawn at once, with every single sample, and it is fast."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import pytest
from tests.browser.test_ui_layer import SETUP, page  # noqa: F401
from tests.page_checks import until
from tests.played_lab import PlayedLab, played
from tests.ui_client import page_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession


COUNT_DRAWS = """
Object.assign(window, { draws: new Map(), frames: 0, corners: 0, came: false });
const counted = (kind, name, count) => {
  const own = kind.prototype[name];
  kind.prototype[name] = function (...given) { count(this); return own.apply(this, given); };
};
counted(CanvasRenderingContext2D, "clearRect", ({ canvas }) => {
  if (canvas.isConnected) draws.set(canvas, (draws.get(canvas) ?? 0) + 1);
});
for (const kind of [CanvasRenderingContext2D, Path2D]) counted(kind, "lineTo", () => { corners += 1; });
const listen = EventSource.prototype.addEventListener;
EventSource.prototype.addEventListener = function (name, told) {
  listen.call(this, name, name === "points" ? (event) => { came = true; told(event); } : told);
};
const note = () => { frames += came; came = false; requestAnimationFrame(note); };
requestAnimationFrame(note);
"""
COUNTED = """() => ({
  draws: [...draws].filter(([canvas]) => canvas.isConnected).map(([, draws]) => draws), frames, corners,
})"""
WHOLE = """() => {
  const store = new Store(head);
  feed(store, Array.from({ length: 6000 }, (_, at) => 50 + 49 * Math.sin(at / 7)));
  const [before, began] = [window.corners, performance.now()];
  new Layer(view, Array(16).fill(lines[0])).draw(store, Infinity);
  return { corners: window.corners - before, ms: performance.now() - began };
}"""
"""What it takes to draw a minute of sixteen lines, which is one chart."""


def task_ms(session: CDPSession) -> float:
    """Return how long the page has worked, drawing and all else."""
    found = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    return 1000.0 * float(found["TaskDuration"])


def test_all_charts_of_sixteen_links_for_a_minute_are_drawn_at_each_frame_with_new_points(browser: Browser) -> None:
    """A frame costs less than to draw the charts anew; how many there are in a second is up to the machine.

    Measured: a twentieth of the corners of one chart drawn anew, a third of the time of five.
    """
    lab = PlayedLab("many", 8, past_s=70.0, bursts=True)
    with pytest.MonkeyPatch.context() as patch, played(patch, lab), page_server() as client:
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.add_init_script(COUNT_DRAWS)
        page.goto(f"http://{client.host}/?token={client.token}", timeout=60_000)
        page.select_option("#every", "10")
        until(page, "/^1:[1-5]/.test(document.querySelector('#live').innerText)", timeout=60_000)
        page.evaluate("document.querySelector('#charts').scrollIntoView()")
        page.evaluate(SETUP)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        page.wait_for_timeout(2000)
        anew = [page.evaluate(WHOLE) for _ in range(3)]
        before, worked_ms = page.evaluate(COUNTED), task_ms(session)
        page.wait_for_timeout(4000)
        after, worked_ms = page.evaluate(COUNTED), task_ms(session) - worked_ms
        anew += [page.evaluate(WHOLE) for _ in range(3)]
        page.close()
    frames, corners = (after[name] - before[name] for name in ("frames", "corners"))
    drawn = [new - old for old, new in zip(before["draws"], after["draws"], strict=True)]
    assert len(drawn) == 5
    assert min(drawn) >= 0.9 * frames > 10
    assert corners / frames < anew[0]["corners"]
    assert worked_ms / frames < len(drawn) * median(each["ms"] for each in anew)
