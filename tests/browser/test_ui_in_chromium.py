"""The live page in a real browser, on played laboratories: values, changes, phones, schemes, silence on the network."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from tests.browser.test_report_in_chromium import CONTRASTS, LEAST_CONTRAST, Heard, opened
from tests.page_checks import CLIPPED, SHOWN_S, until
from tests.played_lab import STATES, PlayedLab, played
from tests.ui_client import page_server

import wavebed.ui
from wavebed.ui.command import Options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page
    from tests.ui_client import Client

ASSETS = Path(wavebed.ui.__file__).parent / "assets"

DRAWN = """() => {
  const style = getComputedStyle(document.documentElement);
  const colours = ["--s0", "--s1"].map((name) => style.getPropertyValue(name).trim().slice(1).match(/../g)
    .map((part) => parseInt(part, 16)));
  const alike = (data, at, colour) => colour.every((part, index) => Math.abs(data[at + index] - part) < 16);
  return [...document.querySelectorAll("#charts > figure")].filter((figure) => {
    const canvas = figure.querySelector("canvas");
    const { width, height } = canvas;
    // Of a canvas itself the browser complains when it is read again.
    const copy = Object.assign(document.createElement("canvas"), { width, height });
    const context = copy.getContext("2d", { willReadFrequently: true });
    context.drawImage(canvas, 0, 0);
    const { data } = context.getImageData(0, 0, width, height);
    let count = 0;
    for (let at = 0; at < data.length; at += 4) {
      if (data[at + 3] > 100 && colours.some((colour) => alike(data, at, colour))) count += 1;
    }
    return count > 10;
  }).map((figure) => figure.id);
}"""
"""The charts with lines in the colours of links."""

SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const { sources } of list.getEntries()) {
    for (const { node, previousRect: before, currentRect: after } of sources) {
      // A longer value makes its column wider: that moves nothing up or down.
      if (before.y !== after.y || before.height !== after.height) {
        const name = node?.outerHTML?.slice(0, 60);
        window.shifts.push(`${name}: ${before.y} → ${after.y}, ${before.height} → ${after.height}`);
      }
    }
  }
}).observe({ type: "layout-shift", buffered: true });
"""


@pytest.fixture
def lab() -> PlayedLab:
    return PlayedLab("walk", 2)


@pytest.fixture
def client(lab: PlayedLab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Client]:
    with played(monkeypatch, lab), page_server(Options(record_to=tmp_path / "records")) as found:
        yield found


def visit(browser: Browser, client: Client, scheme: str = "light", width: int = 1280) -> tuple[Page, Heard]:
    return opened(browser, f"http://{client.host}/?token={client.token}", scheme, width)


def cell(page: Page, link: str, name: str) -> str:
    return page.locator(f'tr[data-link="{link}"] td.{name}').inner_text()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_nothing_moves_once_the_page_has_come(
    browser: Browser, client: Client, lab: PlayedLab, scheme: Literal["light", "dark"], width: int
) -> None:
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 1200})
    page.add_init_script(SHIFTS)
    page.goto(f"http://{client.host}/?token={client.token}")
    page.wait_for_selector('tr[data-link="hop1.up"] td.delivered:has-text("Mbit/s")')
    until(page, f"{SHOWN_S} >= {lab.ran_s() + 2.5}")  # slow state and recordings are asked for every 2 s
    assert page.evaluate("window.shifts") == []
    page.close()


def test_a_page_that_comes_in_two_parts_is_painted_whole(browser: Browser) -> None:
    """A busy machine may parse a part of the page only, and paint that."""
    text = (ASSETS / "page.html").read_bytes()
    cut = text.index(b'<button id="pause"')

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.strip("/")
            kind = {"": "text/html", "page.css": "text/css", "page.js": "text/javascript"}.get(name)
            self.send_response(200 if kind else 404)
            self.send_header("Content-Type", kind or "text/plain")
            self.end_headers()
            if not name:
                self.wfile.write(text[:cut])
                time.sleep(0.5)
                self.wfile.write(text[cut:])
            elif kind:
                self.wfile.write((ASSETS / name).read_bytes())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page(viewport={"width": 1280, "height": 1200})
        page.add_init_script(SHIFTS)
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        until(page, "performance.getEntriesByType('paint').length > 0")
        page.wait_for_timeout(300)
        assert page.evaluate("window.shifts") == []
        page.close()
        server.shutdown()


def test_values_and_charts_appear_and_nothing_is_asked_of_another_server(
    browser: Browser, client: Client, lab: PlayedLab
) -> None:
    page, heard = visit(browser, client)
    page.wait_for_selector('tr[data-link="hop1.up"] td.delivered:has-text("Mbit/s")')
    page.wait_for_timeout(1500)
    until(page, f"{SHOWN_S} >= {lab.ran_s()}")
    assert page.evaluate(SHOWN_S) <= lab.ran_s()
    assert 7 < float(cell(page, "hop0.down", "delivered").split()[0]) < 9
    assert (cell(page, "hop0.down", "rate"), cell(page, "hop1.up", "delay")) == ("10.0 Mbit/s", "5.00 ms")
    assert (cell(page, "hop1.up", "rate"), cell(page, "hop1.up", "wait")) == ("8.50 Mbit/s", "3.20 ms")
    assert cell(page, "hop0.down", "wait") == "2.00 ms"
    assert cell(page, "hop0.down", "radio").lower() in STATES
    assert cell(page, "hop0.up", "radio") == ""
    page.set_viewport_size({"width": 1280, "height": 2000})  # only what can be seen is drawn
    charts = ["chart-throughput", "chart-wait", "chart-transit", "chart-queue", "chart-drops"]
    until(page, f"({DRAWN})().join() === {','.join(charts)!r}")
    assert "server 198.18.0.1" in page.locator("#path").inner_text()
    assert client.token not in page.url, "the token does not stay in the address"
    assert page.evaluate("document.cookie") == "", "no script reads the cookie"
    others = [url for url in heard["requests"] if not url.startswith((f"http://{client.host}/", "data:"))]
    assert (heard["complaints"], others) == ([], [])
    page.close()


STREET = {
    "hop": "hop0", "title": "A street", "duration_s": 20.0, "start_s": 5.0, "end": "repeat", "replaced": False,
    "stations": [{"name": "mast", "x_m": 0.0, "y_m": 0.0}],
    "ue": {"time_s": [0.0, 20.0], "x_m": [10.0, 50.0], "y_m": [5.0, 5.0]},
    "obstacles": [
        {"name": "shop", "kind": "building", "outline_m": [[20, 10], [40, 10], [40, 20], [20, 20]], "movement": None,
         "present_s": []},
        {"name": "bus", "kind": "bus", "outline_m": [[0, 2], [0, 4]], "present_s": [[0, 19]],
         "movement": {"time_s": [0.0, 10.0], "x_m": [0.0, 10.0], "y_m": [0.0, 0.0]}},
    ],
}  # fmt: skip

DRAWN_AT = """() => [Number(document.querySelector("#map .ue").getAttribute("cx")),
  parseFloat(document.querySelector("#map .readout").textContent)]"""
"""Where the UE is, and the time of its scene, of one drawing."""


def test_the_ue_moves_on_the_map_until_its_link_follows_another_rate(
    browser: Browser, client: Client, lab: PlayedLab
) -> None:
    lab.maps = [dict(STREET)]
    page, heard = visit(browser, client)
    page.wait_for_selector("#map .ue[cx]")
    first, time_s = page.evaluate(DRAWN_AT)
    assert 10 <= first <= 10 + 2 * time_s + 1.5, "10 m at 0 s, 2 m each second; a busy page draws late"
    assert page.locator("#map .ue").get_attribute("data-state") in STATES
    until(page, f"Number(document.querySelector('#map .ue').getAttribute('cx')) > {first + 1}")
    shift = page.locator("#map .obstacle.bus").get_attribute("transform") or ""
    assert float(shift.removeprefix("translate(").split()[0]) > 5
    lab.maps = [{**STREET, "replaced": True}]
    until(page, "document.querySelector('#map .readout').textContent === 'the link follows another rate now'")
    assert not page.locator("#map .ue").is_visible()
    lab.maps = []
    page.locator("#map").wait_for(state="hidden")
    assert heard["complaints"] == []
    page.close()


def test_a_rate_is_changed_and_a_wrong_value_is_told(browser: Browser, client: Client, lab: PlayedLab) -> None:
    page, _ = visit(browser, client)
    page.get_by_role("button", name="Change hop1.down").click()
    dialog = page.locator("#change")
    assert dialog.get_by_role("heading").inner_text() == "Change hop1.down"
    assert not dialog.get_by_label("Loss").is_visible(), "the link takes no loss"
    dialog.get_by_label("Rate").fill("50")
    dialog.get_by_role("button", name="Apply").click()
    until(page, "document.querySelector('#change .error').textContent")
    assert dialog.locator(".error").inner_text() == "rate: '50' has no unit: did you mean '50mbit'?"
    dialog.get_by_label("Rate").fill("50mbit")
    dialog.get_by_label("Rate").press("Enter")
    dialog.wait_for(state="hidden")
    assert page.locator("#said").inner_text() == "hop1.down: rate 50mbit"
    changes = [request for request in lab.asked if request["do"] == "set"]
    assert changes == [{"do": "set", "link": "hop1.down", "key": "rate_bps", "value": 50_000_000}]
    page.close()


def test_a_pattern_is_sent_as_text_to_all_links(
    browser: Browser, client: Client, lab: PlayedLab, tmp_path: Path
) -> None:
    text = "# wavebed pattern 1\n# kind = steps\n# duration_s = 1\ntime_s,rate_bps\n0,1000\n"
    file = tmp_path / "outage.csv"
    file.write_text(text)
    page, _ = visit(browser, client)
    page.wait_for_selector("tr button:not([disabled])")
    page.get_by_role("button", name="Change all").click()
    page.locator("#change input[type=file]").set_input_files(file)
    page.locator("#change").get_by_role("button", name="Apply").click()
    page.locator("#change").wait_for(state="hidden")
    changes = [request for request in lab.asked if request["do"] == "set"]  # beside looks of the page
    assert changes == [{"do": "set", "link": None, "key": "pattern", "value": text}]
    page.close()


def test_a_link_is_hidden_in_the_charts_and_shown_again(browser: Browser, client: Client) -> None:
    page, _ = visit(browser, client)
    box = page.get_by_role("checkbox", name="Show hop0.down in the charts")
    chart = page.locator("#chart-wait .u-over")
    chart.scroll_into_view_if_needed()
    for shown in (True, False, True):
        box.set_checked(shown)
        chart.hover()
        until(page, "document.querySelector('#chart-wait .readout').textContent.includes('hop0.up')")
        readout = page.locator("#chart-wait .readout").inner_text()
        assert ("hop0.down 2.00 ms" in readout) == shown
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(browser: Browser, client: Client, scheme: str) -> None:
    page, _ = visit(browser, client, scheme)
    page.wait_for_selector('tr[data-link="hop1.up"] td.delivered:has-text("Mbit/s")')
    found = page.evaluate(CONTRASTS)
    assert len(found) > 30
    assert [each for each in found if each["contrast"] < LEAST_CONTRAST] == []
    page.close()


@pytest.mark.parametrize("width", [320, 390, 719, 900, 1280])
def test_no_width_scrolls_sideways(browser: Browser, client: Client, width: int) -> None:
    page, _ = visit(browser, client, width=width)
    page.wait_for_selector('tr[data-link="hop1.up"] td.delivered:has-text("Mbit/s")')
    page.wait_for_selector("tr button:not([disabled])")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="Change hop0.up").click()
    box = page.locator("#change").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_text_is_cut_beside_map_and_charts(
    browser: Browser, client: Client, lab: PlayedLab, width: int, scheme: str
) -> None:
    lab.maps = [dict(STREET)]
    page, _ = visit(browser, client, scheme, width)
    page.wait_for_selector("#map .ue[cx]")
    page.wait_for_selector("tr button:not([disabled])")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CLIPPED) == []
    page.close()


INSIDE = """() => {
  const frame = document.querySelector("#map svg").getBoundingClientRect();
  const inside = (box) => box.left >= frame.left - 1 && box.right <= frame.right + 1
    && box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1;
  return [...document.querySelectorAll("#map svg :is(.name, .station, .walk, .building)")]
    .filter((each) => !inside(each.getBoundingClientRect())).map((each) => each.outerHTML);
}"""
"""What reaches out of the map."""

TOPS = """() => ["#chart-throughput", "#map", "#chart-wait", "#links", "#faults", "#recordings"]
  .map((each) => document.querySelector(each).getBoundingClientRect().top)"""


@pytest.mark.parametrize("width", [390, 1280])
def test_the_map_is_whole_with_its_labels_and_charts_stand_above_controls(
    browser: Browser, client: Client, lab: PlayedLab, width: int
) -> None:
    far = {"name": "a station with a long name, far right", "x_m": 60.0, "y_m": 0.0}
    left = {"name": "another long name, in the middle", "x_m": 35.0, "y_m": 8.0}
    lab.maps = [{**STREET, "stations": [*STREET["stations"], far, left]}]
    page, _ = visit(browser, client, width=width)
    page.wait_for_selector("#map .ue[cx]")
    until(page, f"({INSIDE})().length === 0")
    sizes = page.evaluate(
        "[...document.querySelectorAll('#map .name')].map((each) => each.getBoundingClientRect().height)"
    )
    assert min(sizes) >= 12
    tops = page.evaluate(TOPS)
    assert tops == sorted(tops)
    page.close()


def test_a_recording_is_started_stopped_and_fetched(browser: Browser, client: Client, tmp_path: Path) -> None:
    page, _ = visit(browser, client)
    page.get_by_role("button", name="Start recording").click()
    page.get_by_role("button", name="Stop recording").wait_for()
    until(page, "/, [1-9]\\S* points/.test(document.querySelector('#recordings li').textContent)")
    page.get_by_role("button", name="Stop recording").click()
    page.wait_for_selector("#recordings li:has-text('stopped')")
    (file,) = (tmp_path / "records").iterdir()
    with page.expect_download() as fetched:
        page.locator("#recordings li a").click()
    assert fetched.value.path().read_bytes() == file.read_bytes()
    assert file.read_bytes().count(b"\n") > 1
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save the window as CSV").click()
    rows = saved.value.path().read_text().splitlines()
    assert rows[0].startswith("time_s,link,offered_bps,")
    assert rows[1].split(",")[1] == "hop0.down"
    page.close()


def test_a_paused_page_stands_still_and_goes_on(browser: Browser, client: Client) -> None:
    page, _ = visit(browser, client)
    page.wait_for_selector('tr[data-link="hop1.up"] td.delivered:has-text("Mbit/s")')
    page.get_by_role("button", name="Pause").click()
    shown = page.locator("#links tbody").inner_text()
    page.wait_for_timeout(1200)
    assert page.locator("#links tbody").inner_text() == shown
    page.get_by_role("button", name="Go on").click()
    until(page, f"document.querySelector('#links tbody').innerText !== {shown!r}")
    page.close()


def test_a_laboratory_is_shown_once_it_runs_and_its_end_is_told(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = PlayedLab("late")
    lab.ended.set()
    with played(monkeypatch, lab), page_server() as client:
        page, heard = visit(browser, client)
        page.get_by_role("heading", name="No laboratory runs").wait_for()
        lab.ended.clear()
        page.wait_for_selector('tr[data-link="hop0.up"] td.delivered:has-text("Mbit/s")', timeout=60_000)
        assert page.get_by_role("button", name="Start recording").is_disabled()
        lab.ended.set()
        page.get_by_role("heading", name="No laboratory runs").wait_for(timeout=60_000)
        page.close()
    assert [each for each in heard["complaints"] if "404" not in each] == []


def test_another_laboratory_is_chosen_and_stays_chosen(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    labs = [PlayedLab("first"), PlayedLab("second", 2)]
    with played(monkeypatch, *labs), page_server() as client:
        page, _ = visit(browser, client)
        page.wait_for_selector('tr[data-link="hop0.up"] td.delivered:has-text("Mbit/s")')
        assert page.locator("#links tbody tr").count() == 2
        page.select_option("#lab", "second")
        page.wait_for_selector('tr[data-link="hop1.up"] td.delivered:has-text("Mbit/s")')
        page.wait_for_timeout(3500)  # longer than between two looks at what runs
        assert page.locator("#links tbody tr").count() == 4
        assert page.title() == "second – wavebed"
        deadline = time.monotonic() + 60
        while labs[0].watches:
            assert time.monotonic() < deadline
            page.wait_for_timeout(20)
        page.close()


def test_a_page_of_another_origin_reads_and_changes_nothing(
    browser: Browser, client: Client, lab: PlayedLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other page is on another port of this machine: for the browser it is of the same site, and has the cookie."""
    page, _ = visit(browser, client)
    page.wait_for_selector("tr button:not([disabled])")
    with page_server() as other:
        page.goto(f"http://{other.host}/?token={other.token}")
        page.route("**/evil", lambda route: route.fulfill(body="<h1>x</h1>", content_type="text/html"))
        page.goto(f"http://{other.host}/evil")
        target = f"http://{client.host}"
        script = """async (target) => {
          const options = { method: "PATCH", credentials: "include", headers: { "Content-Type": "application/json" },
            body: '{"rate": "0bit"}' };
          const simple = { method: "POST", credentials: "include", mode: "no-cors", body: "{}" };
          const ends = [];
          for (const [path, how] of [["/api/labs/walk/links", options], ["/api/labs", { credentials: "include" }],
            ["/api/recordings/1/stop", simple]]) {
            try { const answer = await fetch(target + path, how); ends.push(answer.type + answer.status); }
            catch (error) { ends.push(String(error)); }
          }
          return ends;
        }"""
        ends = page.evaluate(script, target)
    assert ends[:2] == ["TypeError: Failed to fetch"] * 2
    assert ends[2] in ("opaque0", "TypeError: Failed to fetch")
    assert [request for request in lab.asked if request["do"] == "set"] == []
    page.close()
