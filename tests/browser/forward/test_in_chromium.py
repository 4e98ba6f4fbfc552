"""The pages of forwarding tests in a real browser: drawn, legible, usable by keyboard, and silent on the network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.browser.test_report_in_chromium import CONTRASTS, LEAST_CONTRAST, opened
from tests.unit.forward.example import device, record

from wavebed.forward.comparison import compare
from wavebed.forward.report.build import page
from wavebed.forward.report.compare import comparison_page

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

DRAWN = """() => [...document.querySelectorAll("svg.lines")].map((svg) =>
  [...svg.querySelectorAll("path.line, path.mark-at")].filter((path) => {
    const box = path.getBoundingClientRect();
    return box.width + box.height > 0;
  }).length)"""
OUTSIDE = """() => [...document.querySelectorAll("svg.lines path.line")].filter((path) => {
  const box = path.getBoundingClientRect();
  const area = path.closest("svg").getBoundingClientRect();
  const [top, left] = [area.top - 9, area.left - 9];
  return box.top < top || box.bottom > area.bottom + 9 || box.left < left || box.right > area.right + 9;
}).length"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    results = [device("routing", 6e5), device("xdp", 3e6, kind="xdp"), device("relay", 3e5, refused=True)]
    texts = {"device": page(record(results[2])), "compare": comparison_page(compare(results))}
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@pytest.mark.parametrize(("name", "charts"), [("device", 7), ("compare", 3)])
def test_all_charts_are_drawn_and_nothing_is_asked_of_a_network(
    browser: Browser, pages: dict[str, Path], name: str, charts: int
) -> None:
    page, heard = opened(browser, pages[name].as_uri())
    drawn = page.evaluate(DRAWN)
    assert len(drawn) == charts
    assert all(count > 0 for count in drawn), drawn
    assert page.evaluate(OUTSIDE) == 0
    others = [url for url in heard["requests"] if url != pages[name].as_uri() and not url.startswith("data:")]
    assert (heard["complaints"], others) == ([], [])
    page.close()


def test_values_are_read_with_the_keyboard(browser: Browser, pages: dict[str, Path]) -> None:
    page, _ = opened(browser, pages["device"].as_uri())
    figure = page.locator("figure.chart[tabindex]").first
    figure.focus()
    page.keyboard.press("ArrowRight")
    first = figure.locator(".readout").inner_text()
    page.keyboard.press("End")
    last = figure.locator(".readout").inner_text()
    assert "frame size with FCS, bytes: 64" in first
    assert "line rate 1.488 Mpps" in first
    assert "NDR 0.2994 Mpps" in first
    assert "frame size with FCS, bytes: 1518" in last
    assert figure.locator(".cursor").is_visible()
    page.keyboard.press("Escape")
    assert not figure.locator(".cursor").is_visible()
    page.close()


def test_ranks_are_read_by_measure(browser: Browser, pages: dict[str, Path]) -> None:
    page, _ = opened(browser, pages["compare"].as_uri())
    figure = page.locator("#ranks figure")
    figure.focus()
    page.keyboard.press("Home")
    told = figure.locator(".readout").inner_text()
    assert told.startswith("throughput")
    assert "relay rank 1, between 1 and 3" in told
    page.close()


@pytest.mark.parametrize("name", ["device", "compare"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(browser: Browser, pages: dict[str, Path], name: str, scheme: str) -> None:
    page, _ = opened(browser, pages[name].as_uri(), scheme)
    found = page.evaluate(CONTRASTS)
    assert len(found) > 50
    assert [each for each in found if each["contrast"] < LEAST_CONTRAST] == []
    page.close()


@pytest.mark.parametrize("name", ["device", "compare"])
def test_a_phone_shows_the_page_without_scrolling_sideways(browser: Browser, pages: dict[str, Path], name: str) -> None:
    page, _ = opened(browser, pages[name].as_uri(), width=390)
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


def test_it_prints_on_several_pages(browser: Browser, pages: dict[str, Path]) -> None:
    page, _ = opened(browser, pages["device"].as_uri())
    printed = page.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    assert printed.count(b"/Type /Page\n") > 1
    page.close()
