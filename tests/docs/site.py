"""The site of the documentation, as `make docs` builds it."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["COUNTED", "elements_of_page", "elements_on_a_forge"]

COUNTED = ("h2", "h3", "li", "table", "tr", "pre", "img")
"""Elements of which a page of the site has as many as the same page on a forge."""


class _Counter(HTMLParser):
    """Counts elements, in the article of a page alone if it has one."""

    def __init__(self, *, article: bool) -> None:
        super().__init__()
        self.found = dict.fromkeys(COUNTED, 0)
        self._inside = not article

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        if tag == "article":
            self._inside = True
        elif self._inside and tag in self.found:
            self.found[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self._inside = False


def elements_of_page(page: Path) -> dict[str, int]:
    """Return how many of the counted elements the article of a page has."""
    counter = _Counter(article=True)
    counter.feed(page.read_text(encoding="utf-8"))
    return counter.found


def elements_on_a_forge(markdown: str) -> dict[str, int]:
    """Return how many a forge makes of it: CommonMark with tables."""
    counter = _Counter(article=False)
    counter.feed(MarkdownIt("commonmark").enable("table").render(markdown))
    return counter.found
