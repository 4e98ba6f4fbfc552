"""What tests of pages ask of a page."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

CLIPPED = """() => {
  const kinds = "h1, h2, th, td, button, label, option, p, summary, figcaption b, figcaption span";
  return [...document.querySelectorAll(kinds)]
    .filter((each) => each.checkVisibility() && each.innerText.trim())
    .filter((each) => !each.closest(".hidden") && !each.querySelector(".hidden"))
    .filter((each) => {
      const box = each.getBoundingClientRect();
      const cut = getComputedStyle(each).overflowX !== "visible" && each.scrollWidth > each.clientWidth + 1;
      const range = document.createRange();
      range.selectNodeContents(each);
      const text = range.getBoundingClientRect();
      const leaves = each.matches("td, th") && text.right > box.right + 1;
      return cut || leaves || text.left < -1 || text.right > innerWidth + 1;
    }).map((each) => `${each.tagName} ${each.className}: ${each.innerText.slice(0, 40)}`);
}"""
"""Texts that leave the window, their cell, or a box that cuts them."""

SHOWN_S = """(() => {
  const parts = document.querySelector("#live").innerText.split(":");
  return parts.reduce((sum, part) => sum * 60 + Number(part), 0);
})()"""
"""For how many seconds the live page shows that its laboratory has run; no number while it shows words."""


def until(page: Page, condition: str, timeout: float = 60_000) -> None:
    """Wait for a condition; the page's policy lets no text become a script, as `Page.wait_for_function` would."""
    end = time.monotonic() + timeout / 1000
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(20)
