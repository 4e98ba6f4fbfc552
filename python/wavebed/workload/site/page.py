"""Write the text files of a site: the first document, frames, style sheets, scripts, data."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from wavebed.workload.site.fill import padded, words
from wavebed.workload.site.sizes import random_stream
from wavebed.workload.site.view import Text, arranged, frame, picture

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from wavebed.workload.site.plan import Item
    from wavebed.workload.site.spec import Spec

__all__ = ["Writer"]

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
