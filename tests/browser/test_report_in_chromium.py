"""The report in a real browser: drawn, legible, usable by keyboard, and silent on the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import pytest
from tests.browser.test_campaign_report_in_chromium import LONGEST, NAMES, SPLIT
from tests.unit.report_example import Plan, write_example

from wavebed.report.build import write_report

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

LEAST_CONTRAST = 4.5
"""WCAG 2.2, criterion 1.4.3, for text of ordinary size."""

CONTRASTS = """() => {
  const channel = (v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = rgb(getComputedStyle(e).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const out = [];
  const texts = "h1, h2, h3, p, th, td, summary, a, b, pre, .under, .badge, .ticks span, .bar, .item";
  for (const element of document.querySelectorAll(texts)) {
    if (!element.textContent.trim() || !element.getClientRects().length || element.closest(".map")) continue;
    const [a, b] = [light(rgb(getComputedStyle(element).color)), light(behind(element))].sort((x, y) => y - x);
    const text = element.textContent.trim().slice(0, 30);
    out.push({ what: `${element.tagName}.${element.className} ${text}`, contrast: (a + 0.05) / (b + 0.05) });
  }
  return out;
}"""

BOXES = """() => [...document.querySelectorAll("svg.lines")]
  .filter((svg) => svg.getClientRects().length)
  .map((svg) => [...svg.querySelectorAll("path.line")].map((path) => path.getBoundingClientRect())
    .filter((box) => box.width + box.height > 0).length)"""

CANVASES = """() => [...document.querySelectorAll(".uplot canvas")].filter((canvas) => canvas.getClientRects().length)
  .map((canvas) => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((byte) => byte))"""
PIXELS = """(canvas) => {
  const colour = getComputedStyle(document.querySelector("#time path.line.t1")).stroke.match(/\\d+/g).map(Number);
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] === 255 && colour.every((part, index) => data[at + index] === part)) count += 1;
  }
  return count;
}"""


class Heard(TypedDict):
    """What the browser complained of, and what it asked for."""

    complaints: list[str]
    requests: list[str]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(write_example(tmp_path_factory.mktemp("browser") / "run"))


def opened(browser: Browser, address: str, scheme: str = "light", width: int = 1200) -> tuple[Page, Heard]:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    heard: Heard = {"complaints": [], "requests": []}
    page.on("console", lambda message: heard["complaints"].append(message.text))
    page.on("pageerror", lambda error: heard["complaints"].append(str(error)))
    page.on("request", lambda request: heard["requests"].append(request.url))
    page.goto(address, timeout=60_000)
    return page, heard


def visit(browser: Browser, report: Path, scheme: str = "light", width: int = 1200) -> tuple[Page, Heard]:
    page, heard = opened(browser, report.as_uri(), scheme, width)
    # Charts are made when the first frame is shown.
    page.wait_for_selector("details.view[open] figure.chart.live .uplot canvas", timeout=120_000)
    return page, heard


def test_all_charts_are_drawn_and_nothing_is_asked_of_a_network(browser: Browser, report: Path) -> None:
    page, heard = visit(browser, report)
    page.select_option(".controls select", index=1)
    page.select_option(".controls select", index=0)
    lines = page.evaluate(BOXES)
    assert len(lines) >= 12
    assert all(count > 0 for count in lines), lines
    canvases = page.evaluate(CANVASES)
    assert len(canvases) == page.locator(":is(.first, details.view[open]) svg[data-low]").count() >= 10
    assert all(canvases), canvases
    assert page.locator(".film img").first.evaluate("image => image.naturalWidth") > 0
    others = [url for url in heard["requests"] if url != report.as_uri() and not url.startswith("data:")]
    assert (heard["complaints"], others) == ([], [])
    page.close()


LABELS = """() => [...document.querySelectorAll(".ticks span, .times span")]
  .filter((label) => label.getClientRects().length)
  .filter((label) => label.getBoundingClientRect().height > 22 || label.getBoundingClientRect().right > innerWidth + 1)
  .map((label) => label.textContent)"""
"""Labels of axes that are broken, or leave the window."""


@pytest.mark.parametrize(("width", "height", "scheme"), [(1280, 800, "light"), (390, 844, "dark")])
def test_the_answer_and_its_chart_are_on_the_first_screen(
    browser: Browser, report: Path, width: int, height: int, scheme: str
) -> None:
    page, _ = opened(browser, report.as_uri(), scheme, width)
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_selector(".first figure.live .uplot canvas", timeout=120_000)
    for part in (".answer", ".first .sides", ".first figure.live .area"):
        box = page.locator(part).first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= height, part
    assert page.evaluate(LABELS) == []
    page.close()


def test_values_are_read_with_the_keyboard(browser: Browser, report: Path) -> None:
    page, _ = visit(browser, report)
    figure = page.locator("#time figure.chart[tabindex]").first
    figure.focus()
    page.keyboard.press("Home")
    first = figure.locator(".readout").inner_text()
    for _ in range(3):
        page.keyboard.press("PageDown")
    later = figure.locator(".readout").inner_text()
    assert first == "0.0 s, LOS"
    assert later == "6.0 s, NLOS"
    assert figure.locator(".u-series.capacity .u-value").inner_text() == "318"
    assert figure.locator(".cursor").is_visible()
    page.keyboard.press("Escape")
    assert not figure.locator(".cursor").is_visible()
    page.close()


def test_the_time_axis_is_zoomed_and_panned_in_all_panels(browser: Browser, report: Path) -> None:
    page, heard = visit(browser, report)
    figure = page.locator("#time figure.chart[data-start]").first
    figure.evaluate("element => element.scrollIntoView()")
    panels = figure.locator(".u-over")
    box = panels.nth(0).bounding_box()
    assert box is not None
    other = panels.nth(1).bounding_box()
    assert other is not None

    def drag(start: float, end: float) -> None:
        page.mouse.move(box["x"] + start * box["width"], box["y"] + 20)
        page.mouse.down()
        page.mouse.move(box["x"] + end * box["width"], box["y"] + 30, steps=4)
        page.mouse.up()

    def time_at(share: float) -> float:
        page.mouse.move(other["x"] + share * other["width"], other["y"] + 20, steps=2)
        return float(figure.locator(".readout").inner_text().split(" s")[0])

    assert time_at(0.5) == pytest.approx(20, abs=0.2)
    drag(0.25, 0.5)  # 10 to 20 s
    assert time_at(0.5) == pytest.approx(15, abs=0.2)
    assert figure.locator(".u-series.capacity .u-value").inner_text() == "318"
    assert figure.locator(".shades .track").evaluate("track => parseFloat(track.style.width)") == pytest.approx(
        400, 0.02
    )
    page.keyboard.down("Shift")
    drag(0.75, 0.25)
    page.keyboard.up("Shift")
    assert time_at(0.5) == pytest.approx(20, abs=0.2)
    drag(0.1, 0.102)  # too short to be meant
    page.keyboard.down("Shift")
    drag(0.1, 0.9)
    drag(0.1, 0.9)  # the axis ends where the trial begins
    page.keyboard.up("Shift")
    assert time_at(0.5) == pytest.approx(5, abs=0.2)
    panels.nth(1).dblclick()
    assert time_at(0.5) == pytest.approx(20, abs=0.2)
    figure.focus()
    for key in ("+", "+", "Shift+ArrowRight", "-"):
        page.keyboard.press(key)
    assert time_at(0.5) == pytest.approx(21, abs=0.2)
    page.keyboard.press("0")
    assert time_at(0.5) == pytest.approx(20, abs=0.2)
    assert heard["complaints"] == []
    page.close()


def test_what_is_printed_is_the_whole_picture_in_the_colours_of_paper(browser: Browser, report: Path) -> None:
    page, _ = visit(browser, report, "dark")
    figure = page.locator("#time figure.chart[data-start]").first
    assert not figure.locator("svg.lines").first.is_visible()
    figure.focus()
    page.keyboard.press("+")
    page.emulate_media(media="print")
    assert figure.locator("svg.lines path.line").first.is_visible()
    assert not figure.locator(".uplot").first.is_visible()
    assert not figure.locator(".u-legend").first.is_visible()
    tracks = figure.locator(".track").evaluate_all("all => all.map((track) => track.offsetWidth ?? track.clientWidth)")
    assert set(filter(None, tracks)) == {figure.locator(".area").first.evaluate("area => area.offsetWidth")}
    page.close()


def test_the_first_stop_of_the_keyboard_skips_to_the_results(browser: Browser, report: Path) -> None:
    page, _ = visit(browser, report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#results"
    page.close()


def test_treatments_and_seeds_are_chosen(browser: Browser, report: Path) -> None:
    page, _ = visit(browser, report)
    canvas = page.locator("details.view[open] .uplot canvas").first
    assert canvas.evaluate(PIXELS) > 100
    page.locator(".legend input").nth(1).uncheck()
    assert canvas.evaluate(PIXELS) == 0
    assert not page.locator("details.view[open] .u-series.t1").first.is_visible()
    page.select_option(".controls select", index=2)
    assert page.locator("details.view[open]").count() == 1
    assert "cubic is failed" in page.locator("details.view[open]").inner_text()
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(browser: Browser, report: Path, scheme: str) -> None:
    page, _ = visit(browser, report, scheme)
    found = page.evaluate(CONTRASTS)
    assert len(found) > 100
    assert [each for each in found if each["contrast"] < LEAST_CONTRAST] == []
    page.close()


def test_a_phone_shows_the_page_without_scrolling_sideways(browser: Browser, report: Path) -> None:
    page, _ = visit(browser, report, width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


@pytest.mark.parametrize("count", [2, 12])
def test_long_names_of_many_treatments_break_no_table(browser: Browser, tmp_path: Path, count: int) -> None:
    plan = Plan(blocks=1, treatments=NAMES[:count], excluded=False)
    long = write_report(write_example(tmp_path / "run", plan))
    for width in (360, 800, 1400):
        page, _ = visit(browser, long, width=width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(SPLIT, LONGEST) == []
        names = page.locator("table.results .name").evaluate_all("all => all.map((each) => each.offsetWidth)")
        assert len(names) > 10
        assert max(names) < 0.6 * width
        page.close()


def test_it_prints_on_several_pages(browser: Browser, report: Path) -> None:
    page, _ = visit(browser, report)
    printed = page.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    assert printed.count(b"/Type /Page\n") > 1
    page.close()


def test_without_script_every_seed_can_be_unfolded(browser: Browser, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator("details.view > summary").count() == 3
    page.locator("details.view > summary").nth(1).click()
    assert page.locator("details.view").nth(1).locator("svg.lines").first.is_visible()
    context.close()
