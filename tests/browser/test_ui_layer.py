"""The lines of the charts: a picture that grows is the one drawn at once, with every single sample, and it is fast."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import pytest
from tests.page_checks import until
from tests.played_lab import PlayedLab, played
from tests.ui_client import page_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, CDPSession, Page

SETUP = """async () => {
  const { Layer } = await import("/layer.js");
  const { Store } = await import("/store.js");
  const columns = ["delivered_bps", "dropped_segments", "state"];
  const head = { links: ["a.down"], directions: ["s-c.down"], columns, every_ms: 10 };
  const lines = [{ of: (store) => store.links[0].delivered_bps, alpha: 1, width: 1.5, stroke: "#f00" }];
  const view = { width: 600, height: 200, seconds: 60, low: 0, high: 100, ratio: 1 };
  const feed = (store, values, seconds = 0.01) => values.forEach((value, at) => {
    store.put((store.length ? store.last : 0) + seconds, [[value, 0, null]], [null]);
  });
  const seen = (layer, store) => {
    const canvas = Object.assign(document.createElement("canvas"), { width: view.width, height: view.height });
    layer.put(canvas.getContext("2d"), store, 0, 0);
    return canvas.getContext("2d").getImageData(0, 0, view.width, view.height).data;
  };
  // The columns with a line in a row of pixels.
  const hit = (data, row) => [...Array(view.width).keys()].filter((x) => data[4 * (row * view.width + x) + 3] > 100);
  Object.assign(window, { Layer, Store, head, lines, view, feed, seen, hit });
}"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with pytest.MonkeyPatch.context() as patch, played(patch), page_server() as client:
        found = browser.new_page()
        found.goto(f"http://{client.host}/?token={client.token}", timeout=60_000)
        found.evaluate(SETUP)
        yield found
        found.close()


@pytest.mark.parametrize("seconds", [0.01, 0.3, 2.5])
def test_a_picture_that_grew_is_the_picture_drawn_at_once(page: Page, seconds: float) -> None:
    """Values wander, some are missing, for more points than the store and the layer have room for."""
    found = page.evaluate(
        """(seconds) => {
      const store = new Store(head);
      const grown = new Layer(view, lines);
      let value = 50;
      let seed = 1;
      const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
      for (let turn = 0; turn < (seconds < 0.1 ? 3000 : 300); turn += 1) {
        const some = Array.from({ length: 1 + Math.floor(random() * 8) }, () => {
          value = Math.min(95, Math.max(5, value + 20 * (random() - 0.5)));
          return random() < 0.1 ? null : value;
        });
        feed(store, some, seconds);
        grown.draw(store, Infinity);
      }
      const whole = new Layer(view, lines);
      whole.draw(store, Infinity);
      const [one, two] = [seen(grown, store), seen(whole, store)];
      let [most, other, drawn] = [0, 0, 0];
      // The line at the left edge is cut there, or goes on: the first columns may differ.
      for (let at = 3; at < one.length; at += 4) {
        if ((at >> 2) % view.width < 4) continue;
        most = Math.max(most, Math.abs(one[at] - two[at]));
        other += Math.abs(one[at] - two[at]) > 8;
        drawn += two[at] > 100;
      }
      return { most, other, drawn };
    }""",
        seconds,
    )
    assert found["drawn"] > 500
    # The browser smooths the edges of a long and a short path a little differently.
    assert found["most"] < 128, found
    assert found["other"] < found["drawn"] / 20, found


def test_every_single_sample_is_in_the_picture(page: Page) -> None:
    """A peak of one sample among those of a minute, a lone one between missing values, and one at the very end."""
    columns = page.evaluate("""() => {
      const store = new Store(head);
      const values = Array(6000).fill(10);
      values[1234] = 90;
      values.fill(null, 3000, 4000);
      values[3500] = 90;
      values[5999] = 90;
      const layer = new Layer(view, lines);
      for (let at = 0; at < values.length; at += 3) {
        feed(store, values.slice(at, at + 3));
        layer.draw(store, Infinity);
      }
      return hit(seen(layer, store), 20);
    }""")
    for sample in (1234, 3500, 5999):
        expected = sample / 10
        assert any(abs(column - expected) <= 1.5 for column in columns), (sample, columns)
    assert len(columns) < 9, columns


def test_a_layer_made_in_steps_is_whole_after_the_last(page: Page) -> None:
    found = page.evaluate("""() => {
      const store = new Store(head);
      feed(store, Array(6000).fill(40));
      const layer = new Layer(view, lines);
      const done = [];
      while (!done.at(-1)) done.push(layer.draw(store, 1000));
      return { steps: done.length, columns: hit(seen(layer, store), 120).length };
    }""")
    assert found == {"steps": 6, "columns": pytest.approx(600, abs=2)}


def test_the_store_keeps_the_last_minute_and_takes_no_more_room(page: Page) -> None:
    found = page.evaluate("""() => {
      const store = new Store(head);
      const room = store.times.length;
      for (let at = 0; at < 100000; at += 1) store.put(at / 100, [[at, 0, null]], [null]);
      return { same: room === store.times.length, last: store.value(0, "delivered_bps"),
        window: store.last - store.times[0], all: store.first + store.length };
    }""")
    assert found["same"]
    assert (found["last"], found["all"]) == (99999, 100000)
    assert 60 <= found["window"] <= 76


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
