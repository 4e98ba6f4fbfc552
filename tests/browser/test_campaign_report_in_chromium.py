"""The page of a campaign in a real browser: nothing scrolls sideways, no word is split, and trials are found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.made_up_campaigns import Wanted, write_campaign_folder

from wavebed.campaign.report import write_campaign_report

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

WIDTHS = (360, 800, 1400)
NAMES = (
    "droptail",
    "codel-with-a-long-name-of-many-words",
    "fq_codel_per_host_isolation",
    "cake-diffserv-4-nat-wash",
    "pie",
    "dualpi2-and-l4s",
    "red-with-explicit-congestion-notification",
    "sfq",
    "infinite",
    "drophead",
    "fifo-1000p",
    "tbf-burst-64kb",
)
SPLIT = """(longest) => {
  const split = [];
  for (const cell of document.querySelectorAll("table :is(th, td).text, table th[scope=row], table thead th")) {
    if (!cell.getClientRects().length) continue;
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      for (const found of node.textContent.matchAll(/[^\\s\\-_/:,=+.]+/g)) {
        if (found[0].length > longest) continue;
        const range = document.createRange();
        range.setStart(node, found.index);
        range.setEnd(node, found.index + found[0].length);
        const tops = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
        if (tops.size > 1) split.push(found[0]);
      }
    }
  }
  return split;
}"""
LONGEST = 14
"""Longer words may be split on a phone."""


@pytest.fixture(scope="module", params=[2, 12])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    factors = {"queue": NAMES[: request.param]}
    wanted = Wanted(factors=factors, blocks=8, planned=8, lost={(1, NAMES[1]): "failed"}, title="Queues " + "x" * 60)
    folder = tmp_path_factory.mktemp("campaign") / "run"
    return write_campaign_report(write_campaign_folder(folder, wanted))


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_does_not_scroll_sideways_and_splits_no_word(browser: Browser, report: Path, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri(), timeout=60_000)
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(SPLIT, LONGEST) == []
    images = page.locator(".picture img")
    assert images.count() >= 4
    assert all(images.evaluate_all("all => all.map((image) => image.naturalWidth > 0)"))
    assert [url for url in asked if url != report.as_uri() and not url.startswith("data:")] == []
    page.close()


def test_the_trials_of_a_cell_are_found_among_thousands(browser: Browser, tmp_path: Path) -> None:
    factors = {"queue": ("droptail", "codel"), "delay": tuple(f"{each}ms" for each in range(1, 131))}
    wanted = Wanted(
        factors=factors, blocks=8, planned=8, more_metrics=0, lost={(3, "codel-7ms"): "invalid"},
        repeated=[(2, "codel-7ms")],
    )  # fmt: skip
    report = write_campaign_report(write_campaign_folder(tmp_path / "run", wanted))
    page = browser.new_page()
    page.goto(report.as_uri(), timeout=60_000)
    assert page.locator("#found-cells").inner_text() == "50 of 260 cells"
    page.fill("#find-cell", "codel 7ms")
    page.wait_for_function("document.querySelectorAll('#trial-links li').length < 50")
    item = page.locator("#trial-links li").first
    assert item.inner_text().split() == ["codel-7ms", "1", "2✗", "2", "3✗", "4", "5", "6", "7", "8"]
    titles = item.locator("a").evaluate_all("all => all.map((link) => link.title)")
    assert titles[2] == f"{titles[1]}.2"
    assert item.locator("a").first.get_attribute("href") == f"trials/{titles[0]}/"
    page.close()
