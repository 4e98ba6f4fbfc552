"""The report in a real browser: drawn, legible, usable by keyboard, and silent on the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import pytest
from report_example import write_example

from wavebed.report.build import write_report
from wavebed.workload.tools import find

if TYPE_CHECKING:
    from collections.abc import Iterator
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


class Heard(TypedDict):
    """What the browser complained of, and what it asked for."""

    complaints: list[str]
    requests: list[str]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(write_example(tmp_path_factory.mktemp("browser") / "run"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=str(find("chromium")), args=["--no-sandbox"])
        yield found
        found.close()


def visit(browser: Browser, report: Path, scheme: str = "light", width: int = 1200) -> tuple[Page, Heard]:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    heard: Heard = {"complaints": [], "requests": []}
    page.on("console", lambda message: heard["complaints"].append(message.text))
    page.on("pageerror", lambda error: heard["complaints"].append(str(error)))
    page.on("request", lambda request: heard["requests"].append(request.url))
    page.goto(report.as_uri(), timeout=30_000)
    return page, heard


def test_all_charts_are_drawn_and_nothing_is_asked_of_a_network(browser: Browser, report: Path) -> None:
    page, heard = visit(browser, report)
    page.select_option(".controls select", index=1)
    page.select_option(".controls select", index=0)
    lines = page.evaluate(BOXES)
    assert len(lines) >= 12
    assert all(count > 0 for count in lines), lines
    assert page.locator(".film img").first.evaluate("image => image.naturalWidth") > 0
    others = [url for url in heard["requests"] if url != report.as_uri() and not url.startswith("data:")]
    assert (heard["complaints"], others) == ([], [])
    page.close()


def test_values_are_read_with_the_keyboard(browser: Browser, report: Path) -> None:
    page, _ = visit(browser, report)
    figure = page.locator("figure.chart[tabindex]").first
    figure.focus()
    page.keyboard.press("Home")
    first = figure.locator(".readout").inner_text()
    for _ in range(3):
        page.keyboard.press("PageDown")
    later = figure.locator(".readout").inner_text()
    assert first.startswith("0.0 to 0.1 s, LOS")
    assert later.startswith("6.0 to 6.1 s, NLOS")
    assert "capacity 318" in later
    assert figure.locator(".cursor").is_visible()
    page.keyboard.press("Escape")
    assert not figure.locator(".cursor").is_visible()
    page.close()


def test_the_first_stop_of_the_keyboard_skips_to_the_results(browser: Browser, report: Path) -> None:
    page, _ = visit(browser, report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#results"
    page.close()


def test_treatments_and_seeds_are_chosen(browser: Browser, report: Path) -> None:
    page, _ = visit(browser, report)
    line = page.locator("details.view[open] svg.lines path.line.t1").first
    assert line.is_visible()
    page.locator(".legend input").nth(1).uncheck()
    assert not line.is_visible()
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
