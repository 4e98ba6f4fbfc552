"""The objects of a site, their sizes, and their references."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.config.problems import Problem
from wavebed.workload.site.content import font, headline, jpeg, padded, png, random_stream, sentence, share_out, words
from wavebed.workload.site.model import Site, SiteObject, SiteOrigin, type_of_ending
from wavebed.workload.site.spec import DOCUMENT, MINIMUM_BYTES, MINIMUM_JPEG_BYTES, ObjectGroup

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from wavebed.workload.site.spec import Spec


_ENDINGS = {"html": "html", "css": "css", "js": "js", "font": "woff", "json": "json", "jpeg": "jpg", "png": "png"}


@dataclass(slots=True, eq=False)
class Item:
    """An object to be made.

    Parameters
    ----------
    group : ObjectGroup
        What it is like.
    index : int
        Which one of its group, from 0.
    path : str
        Its path.
    bytes : int
        Its size.
    base : str
        The origin for relative paths in it: its own, or for a script its page's.
    finder : Item or None
        What refers to it.
    found : list of Item
        What it refers to.
    """

    group: ObjectGroup
    index: int
    path: str
    bytes: int
    base: str
    finder: Item | None = None
    found: list[Item] = field(default_factory=list)

    @property
    def key(self) -> str:
        """Its name within the site."""
        return f"{self.group.name}-{self.index + 1}"

    @property
    def shown(self) -> bool:
        """Whether it is a visible picture."""
        return self.group.kind == "image" and self.group.shape != "pixel"

    def refer(self, to: Item) -> str:
        """Return its URL for another object."""
        return to.path if to.group.origin == self.base else f"//{to.group.origin}{to.path}"

    def of_page(self) -> Iterator[Item]:
        """Yield the objects of this page, found directly or indirectly, without the content of frames."""
        for item in self.found:
            yield item
            if item.group.kind != "html":
                yield from item.of_page()


def plan(spec: Spec) -> list[Item]:
    """Return the objects of a site, the first document first; each is after the one that refers to it."""
    first = ObjectGroup(
        DOCUMENT, "html", 1, spec.document_bytes, 0.0, spec.origins[0], "", "", False, False, "", "", 0.0
    )
    document = Item(first, 0, "/", spec.document_bytes, spec.origins[0])
    groups: dict[str, list[Item]] = {DOCUMENT: [document]}
    for group in spec.groups:
        groups[group.name] = _items(group, groups[group.needs], spec.seed)
    return [item for items in groups.values() for item in items]


def _items(group: ObjectGroup, finders: list[Item], seed: int) -> list[Item]:
    least = MINIMUM_JPEG_BYTES if group.format == "jpeg" else MINIMUM_BYTES[group.kind]
    sizes = share_out(group.bytes, group.count, group.spread, least, random_stream(seed, group.name, "sizes"))
    ending = _ENDINGS[group.format or group.kind]
    items: list[Item] = []
    for index, size in enumerate(sizes):
        finder = items[-1] if group.chain and items else finders[index % len(finders)]
        base = finder.base if group.kind == "js" else group.origin
        item = Item(group, index, f"/{group.name}/{index + 1}.{ending}", size, base, finder)
        finder.found.append(item)
        items.append(item)
    return items


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


def _text_blocks(page: Item, items: Sequence[Item], text: Text) -> Iterator[tuple[str, int]]:
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
    for block, block_px in _text_blocks(page, [item for item in shown if item.group.above_fold], text):
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
    for index, (block, _) in enumerate(_text_blocks(page, [item for item in shown if not item.group.above_fold], text)):
        rest.append(block)
        if frames and index % _BLOCKS_BETWEEN_FRAMES == 0:
            rest.append(frames.pop(0))
    return "\n".join(top), "\n".join([*rest, *frames, _passage(text)])


_FRAME_STYLE = "body{margin:0;font:13px sans-serif;overflow:hidden}img,.slot{display:block;width:300px;height:190px}"
_WAIT = (
    'function ready(f){d.readyState=="loading"?d.addEventListener("DOMContentLoaded",f):f()}'
    "function slot(n,e){ready(function(){var s=d.querySelector('[data-slot=\"'+n+'\"]');if(s)s.append(e)})}"
)
_ADD = "function add(t,a){var e=d.createElement(t);for(var k in a)e[k]=a[k];return e}"


class Writer:
    """Writes the text files of a site.

    Parameters
    ----------
    spec : Spec
        What it is built from.
    items : sequence of Item
        All its objects, the first document first.
    """

    def __init__(self, spec: Spec, items: Sequence[Item]) -> None:
        self._spec = spec
        self._document = items[0]
        self._fonts = [item for item in items if item.group.kind == "font"]
        sheets = [item for item in self._document.found if item.group.kind == "css"]
        blocking = [item for item in sheets if item.group.load == "blocking"]
        # The page's own style is in its first style sheet; without one, in the page.
        self._styled = next(iter(blocking or sheets), None)

    def write(self, item: Item) -> bytes:
        """Return the content of a text object.

        Raises
        ------
        Problem
            If its size does not hold what belongs there.
        """
        source = random_stream(self._spec.seed, item.key, "text")
        if item is self._document:
            return self._html(item, self._first_page(item, source), "document", source)
        key = f"objects {item.group.name!r}"
        if item.group.kind == "html":
            return self._html(item, self._frame(item, source), key, source)
        if item.group.kind == "css":
            return padded(self._sheet(item), "\n/* ", " */\n", item.bytes, source, key=key)
        if item.group.kind == "js":
            return padded(self._script(item), "\n/* ", " */\n", item.bytes, source, key=key)
        return f'{{"items":["{words(item.bytes - 14, source)}"]}}'.encode()

    def _html(self, item: Item, text: str, key: str, source: random.Random) -> bytes:
        before, after = '<script type="application/json">["', '"]</script>\n'
        return padded(text, before, after, item.bytes, source, key=key)

    def _style(self) -> str:
        style = (resources.files("wavebed.workload.site") / "page.css").read_text(encoding="utf-8")
        return style.replace("COLOUR", self._spec.colour)

    def _head(self, page: Item, title: str, style: str) -> str:
        parts = [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f'<title>{_escaped(title)}</title><link rel="icon" href="data:,">',
        ]
        for item in page.found:
            url, group = page.refer(item), item.group
            if group.kind == "css" and group.load == "blocking":
                parts.append(f'<link rel="stylesheet" href="{url}">')
            elif group.kind == "css":
                parts.append(f'<link rel="stylesheet" href="{url}" media="print" onload="this.media=\'all\'">')
            elif group.kind == "js":
                parts.append(f'<script src="{url}"{"" if group.load == "blocking" else " " + group.load}></script>')
        if style:
            parts.append(f"<style>{style}</style>")
        return "\n".join([*parts, "</head><body>\n"])

    def _first_page(self, page: Item, source: random.Random) -> str:
        style = self._style() if self._styled is None else ""
        text = Text(self._fonts_of(page), source)
        top, rest = arranged(page, self._spec.layout, text)
        title = self._spec.title.partition(":")[0]
        bar = f'<header class="bar"><b>{_escaped(title)}</b><span>&equiv;</span></header>'
        if self._spec.layout == "grid":
            bar += f'<div class="find"><span>Search {_escaped(title)}</span></div>'
        elif self._spec.layout == "search":
            bar = f'<div class="name">{_escaped(title)}</div><div class="find"><span>Search</span></div>'
        foot = f"<footer>{text.specimens()}</footer>"
        pixels = "".join(picture(page, item) for item in page.found if item.group.shape == "pixel")
        return f"{self._head(page, title, style)}{bar}\n{top}\n{rest}\n{foot}\n{pixels}\n"

    def _frame(self, page: Item, source: random.Random) -> str:
        shown = "".join(picture(page, item) for item in page.of_page() if item.shown)
        frames = "".join(frame(page, item) for item in page.of_page() if item.group.kind == "html")
        pixels = "".join(picture(page, item) for item in page.found if item.group.shape == "pixel")
        text = Text(self._fonts_of(page), source).specimens()
        style = f"{_FRAME_STYLE}body{{background:hsl({source.randrange(360)},60%,85%)}}"
        return f"{self._head(page, page.key, style)}{shown}{text}{frames}{pixels}\n"

    def _fonts_of(self, page: Item) -> list[int]:
        return [self._fonts.index(item) for item in page.of_page() if item.group.kind == "font"]

    def _sheet(self, sheet: Item) -> str:
        rules = [f"@import url({sheet.refer(item)});" for item in sheet.found if item.group.kind == "css"]
        if sheet is self._styled:
            rules.append(self._style())
        for item in sheet.found:
            url = sheet.refer(item)
            if item.group.kind == "font":
                index = self._fonts.index(item)
                rules.append(
                    f'@font-face{{font-family:"w{index}";src:url({url})format("woff");font-display:swap}}'
                    f'.t{index}{{font-family:"w{index}",sans-serif;font-weight:400}}'
                )
            elif item.shown:
                rules.append(f'[data-slot="{item.key}"]{{background-image:url({url})}}')
            elif item.group.kind == "image":
                rules.append(f"body::after{{content:url({url});position:absolute;opacity:0}}")
        return "\n".join(rules)

    def _script(self, script: Item) -> str:
        lines = ["(function(){var d=document;"]
        if script.group.cpu_ms:
            lines.append(f"for(var t=performance.now();performance.now()-t<{script.group.cpu_ms:g};);")
        if script.found:
            lines += [_ADD, _WAIT]
        for item in script.found:
            url, kind = script.refer(item), item.group.kind
            if kind == "js":
                lines.append(f'd.head.append(add("script",{{async:true,src:"{url}"}}));')
            elif kind == "css":
                lines.append(f'd.head.append(add("link",{{rel:"stylesheet",href:"{url}"}}));')
            elif kind == "json":
                lines.append(f'fetch("{url}").then((answer)=>answer.text());')
            elif kind == "html":
                lines.append(f'slot("{item.key}",add("iframe",{{src:"{url}"}}));')
            elif item.shown:
                lazy = ',loading:"lazy"' if item.group.load == "lazy" else ""
                lines.append(f'slot("{item.key}",add("img",{{alt:""{lazy},src:"{url}"}}));')
            else:
                lines.append(f'add("img",{{src:"{url}"}});')
        return "\n".join([*lines, "})();"])


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


_ASPECTS = {"hero": 375 / 220, "card": 4 / 3, "tile": 1.0, "icon": 1.0, "pixel": 1.0}


def builder_version() -> str:
    """Return the other dependencies of the bytes: a digest of this package's files, and versions of libraries."""
    own = hashlib.sha256()
    for file in sorted(Path(str(resources.files("wavebed.workload.site"))).iterdir()):
        if file.suffix in {".py", ".css", ".txt"}:
            own.update(file.read_bytes())
    libraries = ("numpy", "pillow", "fonttools", "matplotlib")
    return " ".join([own.hexdigest(), *(f"{name} {version(name)}" for name in libraries)])


def build_site(spec: Spec, folder: Path) -> Site:
    """Write the files of a site into the empty `folder`, and return the site.

    Raises
    ------
    Problem
        If an object's size is too small for its content.
    """
    items = plan(spec)
    writer = Writer(spec, items)
    objects: list[SiteObject] = []
    for item in items:
        name = "index.html" if item.group.name == DOCUMENT else item.path[1:]
        file = folder / item.group.origin / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_content(item, writer, spec.seed))
        objects.append(
            SiteObject(
                origin=item.group.origin,
                path=item.path,
                file=name,
                bytes=item.bytes,
                kind=item.group.kind,
                content_type=type_of_ending(name),
                blocking=_blocks(item),
                above_fold=item.group.above_fold,
                found_in=item.finder.path if item.finder else "",
            )
        )
    origins = tuple(SiteOrigin(name, name) for name in spec.origins)
    return Site(spec.name, spec.title, spec.source, "/", origins, tuple(objects))


def _blocks(item: Item) -> bool:
    """Return whether the first paint of the first document waits for an object."""
    finder = item.finder
    if item.group.load != "blocking" or finder is None:
        return False
    return finder.group.name == DOCUMENT or (finder.group.kind == "css" and _blocks(finder))


def _content(item: Item, writer: Writer, seed: int) -> bytes:
    if item.group.kind == "image":
        make = jpeg if item.group.format == "jpeg" else png
        data = make(item.bytes, _ASPECTS[item.group.shape], random_stream(seed, item.key, "picture"))
    elif item.group.kind == "font":
        data = font(item.bytes, item.index, random_stream(seed, item.key, "font"))
    else:
        data = writer.write(item)
    assert len(data) == item.bytes, f"{item.key} has the size that was planned"
    return data
