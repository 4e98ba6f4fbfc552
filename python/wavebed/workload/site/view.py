"""The layout of a site's first document on a phone: pictures above and below the fold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.config.problems import Problem
from wavebed.workload.site.fill import headline, sentence

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from wavebed.workload.site.plan import Item

__all__ = ["FOLD_PX", "Text", "arranged", "frame", "picture"]

FOLD_PX = 812
"""Height of the screen of the phone that pages are made for; it is 375 wide."""
_LEAST_SEEN_PX = 40
_HEAD_PX = {"feed": 52, "grid": 108, "search": 168}
_LEAD_PX, _ICONS_PX, _CARD_PX, _TILES_PX = 300, 68, 112, 251
_ICONS_A_ROW = 6
_BLOCKS_BETWEEN_FRAMES = 4
_PASSAGE_PX = 120
"""Least height of a passage of text."""
_FONT_OF = {"h2": 1, "h3": 1, "b": 1, "h1": 2}
"""Which of the page's fonts a piece of text has: the first, except these."""
_SIDES = {"hero": (375, 220), "card": (120, 90), "tile": (170, 170), "icon": (36, 36), "pixel": (1, 1)}


def picture(page: Item, item: Item) -> str:
    """Return the element of a picture: itself if the page refers to it, or a place for it."""
    shape = item.group.shape
    if item.finder is not page:
        return f'<div class="{shape} pic slot" data-slot="{item.key}"></div>'
    width, height = _SIDES[shape]
    lazy = ' loading="lazy"' if item.group.load == "lazy" else ""
    return f'<img class="{shape} pic" src="{page.refer(item)}" width="{width}" height="{height}" alt=""{lazy}>'


def frame(page: Item, item: Item) -> str:
    """Return the element of a frame, or a place for it."""
    if item.finder is not page:
        return f'<div class="frame" data-slot="{item.key}"></div>'
    return f'<div class="frame"><iframe src="{page.refer(item)}" title=""></iframe></div>'


class Text:
    """Makes the text of a page, in the page's fonts.

    Parameters
    ----------
    fonts : sequence of int
        Numbers of the fonts.
    source : random.Random
        Where words come from.
    """

    def __init__(self, fonts: Sequence[int], source: random.Random) -> None:
        self._fonts = fonts
        self._source = source

    def element(self, tag: str, text: str) -> str:
        """Return an element with a text."""
        if not self._fonts:
            return f"<{tag}>{text}</{tag}>"
        font = self._fonts[min(_FONT_OF.get(tag, 0), len(self._fonts) - 1)]
        return f'<{tag} class="t{font}">{text}</{tag}>'

    def specimens(self) -> str:
        """Return a sentence in each of the fonts, so that each is used."""
        if not self._fonts:
            return self.sentence()
        return "".join(f'<p class="t{font}">{sentence(self._source)}</p>' for font in self._fonts)

    def headline(self, tag: str) -> str:
        """Return a headline."""
        return self.element(tag, headline(self._source))

    def sentence(self, tag: str = "p") -> str:
        """Return a sentence."""
        return self.element(tag, sentence(self._source))

    def caption(self) -> str:
        """Return the word below an icon."""
        return self.element("span", headline(self._source).partition(" ")[0])

    def price(self) -> str:
        """Return a price."""
        return self.element("b", f"{self._source.randint(4, 199)}.{self._source.randint(0, 99):02d}")


def _blocks(page: Item, items: Sequence[Item], text: Text) -> Iterator[tuple[str, int]]:
    """Return the blocks that show pictures: the element and its height."""
    of = {shape: [item for item in items if item.group.shape == shape] for shape in _SIDES}
    for start in range(0, len(of["icon"]), _ICONS_A_ROW):
        row = of["icon"][start : start + _ICONS_A_ROW]
        figures = "".join(f"<figure>{picture(page, item)}{text.caption()}</figure>" for item in row)
        yield f'<div class="icons">{figures}</div>', _ICONS_PX
    for item in of["hero"]:
        yield f'<article class="lead">{picture(page, item)}{text.headline("h1")}</article>', _LEAD_PX
    for start in range(0, len(of["tile"]), 2):
        row = of["tile"][start : start + 2]
        goods = "".join(
            f'<div class="goods">{picture(page, item)}{text.price()}{text.headline("span")}</div>' for item in row
        )
        yield f'<div class="tiles">{goods}</div>', _TILES_PX
    for item in of["card"]:
        body = f"<div>{text.headline('h2')}{text.sentence()}</div>"
        yield f'<article class="card">{picture(page, item)}{body}</article>', _CARD_PX


def _passage(text: Text) -> str:
    return f'<section class="text">{text.headline("h3")}{text.sentence()}{text.sentence()}</section>'


def arranged(page: Item, layout: str, text: Text) -> tuple[str, str]:
    """Return the parts above the fold, and below.

    Raises
    ------
    Problem
        If the objects above the fold do not fit.
    """
    items = list(page.of_page())
    shown = [item for item in items if item.shown]
    top: list[str] = []
    height_px = _HEAD_PX[layout]
    for block, block_px in _blocks(page, [item for item in shown if item.group.above_fold], text):
        if height_px > FOLD_PX - _LEAST_SEEN_PX:
            raise Problem(
                f"pictures above the fold begin at {height_px} px, and a phone shows {FOLD_PX} px: write fewer, or"
                " smaller shapes",
                "objects",
            )
        top.append(block)
        height_px += block_px
    while height_px < FOLD_PX:
        top.append(_passage(text))
        height_px += _PASSAGE_PX
    frames = [frame(page, item) for item in items if item.group.kind == "html"]
    rest: list[str] = []
    for index, (block, _) in enumerate(_blocks(page, [item for item in shown if not item.group.above_fold], text)):
        rest.append(block)
        if frames and index % _BLOCKS_BETWEEN_FRAMES == 0:
            rest.append(frames.pop(0))
    return "\n".join(top), "\n".join([*rest, *frames, _passage(text)])
