"""The site: it builds without a warning, shows what a forge shows, can be searched, and asks nothing of other hosts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.docs.blocks import ROOT, pages
from tests.docs.site import elements_of_page, elements_on_a_forge

from wavebed.lab.tools import find

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

PLACES = {"docs/zh/README.md": "zh/index.html"}
IN_THE_REPOSITORY = ("README.md", "docs/development/")
"""Pages that the site leaves out."""
LOOKED_AT = ("index.html", "start/tutorial.html", "validation/kau-e5g.html", "reference/python.html", "zh/index.html")
FLAGS = [
    "--no-sandbox", "--headless", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def place_of(page: str) -> str:
    return PLACES.get(page) or page.removeprefix("docs/").removesuffix(".md") + ".html"


def test_the_site_shows_what_a_forge_shows(site: Path) -> None:
    differ = {}
    for page in pages():
        if page.startswith(IN_THE_REPOSITORY):
            continue
        wanted = elements_on_a_forge((ROOT / page).read_text(encoding="utf-8"))
        if (shown := elements_of_page(site / place_of(page))) != wanted:
            differ[page] = (shown, wanted)
    assert differ == {}, "in the site, on a forge"


def test_the_site_is_searched_and_read_in_a_browser_and_asks_no_other_host(site: Path) -> None:
    from playwright.sync_api import sync_playwright

    variables = {**os.environ, "TMPDIR": "/tmp"}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find("chromium"), args=FLAGS, env=variables)
        for width, scheme, words in ((1280, "light", "缓冲膨胀"), (390, "dark", "bufferbloat")):
            context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
            page = context.new_page()
            asked: list[str] = []
            errors: list[str] = []
            page.on("request", lambda request, asked=asked: asked.append(request.url))
            page.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
            for place in LOOKED_AT:
                page.goto(f"file://{site.resolve()}/{place}")
                assert page.evaluate("document.documentElement.scrollWidth") <= width, place
            search(page, words)
            assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
            assert errors == []
            context.close()
        browser.close()


def search(page: Page, words: str) -> None:
    """Search as a reader does, and wait for a result that has the words."""
    query = page.locator("[data-md-component=search-query]")
    opens = page.locator("label.md-header__button[for=__search]")
    (opens if opens.is_visible() else query).click()
    query.press_sequentially(words)
    # Characters that no key has are put in without the events of a key, which the page waits for.
    query.press("Shift")
    page.locator(".md-search-result__item", has_text=words).first.wait_for(timeout=30_000, state="attached")
