"""The lines of the charts: a picture that grows is the one drawn at once, with every single sample, and it is fast."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.played_lab import played
from tests.ui_client import page_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

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
