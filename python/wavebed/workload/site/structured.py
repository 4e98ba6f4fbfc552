"""Make a site from the structure of a page: every reference stands at its byte, and the sizes hold with gzip too."""

from __future__ import annotations

import math
import random
import struct
import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wavebed.workload.site.content import font, jpeg, png, random_stream
from wavebed.workload.site.model import Kind, Site, SiteObject, SiteOrigin
from wavebed.workload.site.spec import MINIMUM_BYTES, MINIMUM_JPEG_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wavebed.workload.site.structure import Structure, StructureObject

TEXT_FRACTION = 0.05
"""Share of a small document's body that is text to read: assumed. The rest is elements and their attributes."""
MOST_TEXT_BYTES = 346 * 6
"""The most text to read in a document. The median home page has 346 words on desktops (Web Almanac 2019, chapter SEO).
A word with its space has 6 letters."""
SHOWN_PX_PER_BYTE = 1.1 / 2.1 / 0.30
"""Area of an image in the page: a JPEG has 0.30 bytes for each of its pixels (Web Almanac 2019, chapter Media, figure
10, median), and the 2.1 million pixels of a page's images are laid out on 1.1 million of the page (figure 4, median of
desktops)."""
PAGE_PX = 980
"""Width at which browsers of phones lay out a page without a viewport of its own."""
DEVICE_PX = 375
_SHOWN_FRAME_BYTES = 1000
"""Smaller frames are redirects and beacons: they are not shown."""
_ELEMENT_BYTES = 120
"""Bytes for each element of the body."""
_TEXT_BYTES = 240
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_KINDS: dict[str, tuple[Kind, str, str]] = {
    "document": ("html", "html", "text/html"),
    "script": ("js", "js", "text/javascript"),
    "style": ("css", "css", "text/css"),
    "font": ("font", "woff", "font/woff"),
    "other": ("other", "txt", "text/plain"),
}
_ADD = "function a(t,o){var e=document.createElement(t);for(var k in o)e[k]=o[k];(document.body||document.head||document.documentElement).append(e)}"  # noqa: E501
_LATER = " media=print onload=\"this.media='all'\""
_GZIP_LEVEL = 6


@dataclass(frozen=True, slots=True)
class _Filler:
    """How filler of one place is written: pieces of about `bytes`, each between two texts."""

    bytes: int
    before: str
    after: str


_DATA = _Filler(2000, '<script>var x="', '"</script>\n')
_ELEMENT = _Filler(_ELEMENT_BYTES, '<i class="', '"></i>\n')
"""Takes no room, so that images which follow one another stand side by side."""
_READ = _Filler(_TEXT_BYTES, "<p>", "</p>\n")
_RULE = _Filler(70, ".c", "{color:#123;margin:0 1px}\n")
_COMMENT = _Filler(200, "/*", "*/\n")


@dataclass(slots=True)
class _Text:
    """The text of an object: parts that stay, and soup, which is more or less compressible."""

    source: random.Random
    parts: list[bytes] = field(default_factory=list)
    soup: list[int] = field(default_factory=list)
    """Which parts are soup."""
    size: int = 0
    filled: int = 0
    read: int = 0
    """Bytes of filler so far, and how many of them are text to read."""
    text_fraction: float = TEXT_FRACTION

    def add(self, text: str) -> None:
        """Append a text that stays."""
        self._append(text.encode("ascii"))

    def fill(self, to: int, way: _Filler) -> None:
        """Append filler until the text has `to` bytes."""
        while (left := to - self.size) > 0:
            least = len(way.before) + len(way.after) + 1
            if left < least:
                self._append(b" " * (left - 1) + b"\n")
                return
            size = left if left < way.bytes + least else way.bytes
            self.add(way.before)
            letters = self.source.choices(_LETTERS, k=size - least + 1)
            self.filled += size
            if way is _READ:
                letters[5::6] = [" "] * len(letters[5::6])
            self.soup.append(len(self.parts))
            self._append("".join(letters).encode())
            self.add(way.after)

    def fill_body(self, to: int) -> None:
        """Append elements, and text to read, until the text has `to` bytes."""
        while self.size < to:
            is_read = self.read <= self.text_fraction * self.filled
            before = self.filled
            way = _READ if is_read else _ELEMENT
            self.fill(min(to, self.size + way.bytes), way)
            self.read += self.filled - before if is_read else 0

    def _append(self, data: bytes) -> None:
        self.parts.append(data)
        self.size += len(data)

    def with_gzip(self, wire_bytes: int) -> tuple[bytes, bytes]:
        """Return the text, and as gzip: in `wire_bytes` where it can be; soup is random or repeats to that end."""
        order = self.soup.copy()
        self.source.shuffle(order)

        def made(count: int) -> tuple[bytes, bytes]:
            parts = self.parts.copy()
            for place in order[count:]:
                parts[place] = _plain(parts[place])
            text = b"".join(parts)
            return text, _deflated(text)

        low, high = 0, len(order)
        best = made(0)
        while low < high:
            middle = (low + high + 1) // 2
            tried = made(middle)
            if len(tried[1]) + _LEAST_HEADER <= wire_bytes:
                low, best = middle, tried
            else:
                high = middle - 1
        return best[0], _gzip(best[0], best[1], wire_bytes)


_LEAST_HEADER = 18
"""Header and trailer of gzip (RFC 1952)."""


def _plain(like: bytes) -> bytes:
    """Return letters that gzip makes small, with the spaces of `like`."""
    letters = (b"abcdefghijklmnopqrstuvwxyz" * (len(like) // 26 + 1))[: len(like)]
    return bytes(32 if old == 32 else new for old, new in zip(like, letters, strict=True)) if b" " in like else letters


def _deflated(text: bytes) -> bytes:
    maker = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return maker.compress(text) + maker.flush()


def _gzip(text: bytes, deflated: bytes, wire_bytes: int) -> bytes:
    """Return a gzip file (RFC 1952); a comment in its header fills it to `wire_bytes`."""
    spare = wire_bytes - len(deflated) - _LEAST_HEADER
    comment = b"-" * (spare - 1) + b"\0" if spare > 0 else b""
    header = struct.pack("<4BI2B", 31, 139, 8, 16 if comment else 0, 0, 0, 3)
    return header + comment + deflated + struct.pack("<II", zlib.crc32(text), len(text) & 0xFFFFFFFF)


class StructuredSite:
    """Writes the files of a site.

    Parameters
    ----------
    structure : Structure
        What it is made from.
    """

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._name = f"{''.join(c if c.isalnum() and c.isascii() else '-' for c in structure.name.lower())[:40]}"
        self._found: dict[int, list[StructureObject]] = defaultdict(list)
        for each in structure.objects[1:]:
            by = each.by
            if by is None or structure.objects[by].type not in ("document", "script", "style"):
                by = 0
            self._found[by].append(each)
        for found in self._found.values():
            found.sort(key=lambda each: math.inf if each.by is None or each.at_byte is None else each.at_byte)

    def host(self, number: int) -> str:
        """Return the name of a host."""
        return f"{'www' if number == 0 else f'h{number}'}.{self._name.strip('-') or 'page'}.example"

    def build(self, folder: Path) -> Site:
        """Write all files into `folder`, and return the site."""
        structure = self._structure
        hosts = sorted({0} | {each.host for each in structure.objects})
        larger = 0
        objects: list[SiteObject] = []
        for each in structure.objects:
            kind, ending, content_type = self._kind(each)
            name = "index.html" if each.object == 0 else f"{each.object}.{ending}"
            file = folder / self.host(each.host) / name
            file.parent.mkdir(exist_ok=True)
            text, data = self._content(each) if each.bytes else (b"", b"")
            larger += len(data) > (each.wire_bytes if text and structure.compressed else each.bytes)
            file.write_bytes(text or data)
            coded = structure.compressed and bool(text)
            if coded:
                file.with_name(f"{name}.gz").write_bytes(data)
            elif text:
                data = text
            objects.append(
                SiteObject(
                    origin=self.host(each.host),
                    path="/" if each.object == 0 else f"/{name}",
                    file=f"{name}.gz" if coded else name,
                    bytes=len(data),
                    kind=kind,
                    content_type=content_type,
                    blocking=self._blocks(each),
                    found_in="" if each.object == 0 else self._path(structure.objects[each.by or 0]),
                )
            )
        notes = (f"objects larger than given, since their references need the room: {larger}",) if larger else ()
        origins = tuple(SiteOrigin(self.host(number), self.host(number)) for number in hosts)
        return Site(
            structure.name,
            structure.page,
            structure.source,
            "/",
            origins,
            tuple(objects),
            notes=notes,
            compressed=structure.compressed,
        )

    def _kind(self, each: StructureObject) -> tuple[Kind, str, str]:
        if each.type != "image":
            return _KINDS[each.type]
        if _is_drawn(each):
            return "image", "svg", "image/svg+xml"
        if each.bytes >= MINIMUM_JPEG_BYTES:
            return "image", "jpg", "image/jpeg"
        return ("image", "png", "image/png") if each.bytes >= MINIMUM_BYTES["image"] else ("image", "gif", "image/gif")

    def _path(self, each: StructureObject) -> str:
        return "/" if each.object == 0 else f"/{each.object}.{self._kind(each)[1]}"

    def _url(self, of: StructureObject, to: StructureObject) -> str:
        return self._path(to) if of.host == to.host else f"//{self.host(to.host)}{self._path(to)}"

    def _blocks(self, each: StructureObject) -> bool:
        if each.by != 0 or not each.in_head or {"async", "defer", "preload"} & set(each.how):
            return False
        return each.type in ("script", "style")

    def _content(self, each: StructureObject) -> tuple[bytes, bytes]:
        """Return the text of an object, empty if it has none, and what the server sends."""
        source = random_stream(self._name, each.object)
        if each.type == "image" and not _is_drawn(each):
            return b"", _image(each.bytes, *self._sides(each), source)
        if each.type == "font" and each.bytes >= MINIMUM_BYTES["font"]:
            return b"", font(each.bytes, each.object, source)
        text = _Text(source)
        if each.type == "document":
            self._write_document(each, text)
        elif each.type == "style":
            self._write_style(each, text)
        elif each.type == "script" or each.tag == "script":
            self._write_script(each, text)
        elif each.type == "image":
            width, height = self._sides(each)
            text.add(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">')
            text.add(f'<rect width="100%" height="100%" fill="hsl({source.randrange(360)},60%,60%)"/><desc>')
            text.fill(each.bytes - 13, _Filler(_TEXT_BYTES, "", "\n"))
            text.add("</desc></svg>")
        else:
            text.fill(each.bytes, _Filler(_TEXT_BYTES, "", "\n"))
        return text.with_gzip(each.wire_bytes)

    def _write_document(self, page: StructureObject, text: _Text) -> None:
        found = self._found[page.object]
        if page.object == 0:
            device = self._structure.viewport == "device"
            text.add("<!doctype html><meta charset=utf-8>")
            text.add("<meta name=viewport content=width=device-width>" if device else "")
        end = len("</body></html>") if page.bytes > _SHOWN_FRAME_BYTES else 0
        in_body = False
        heads = [each for each in found if each.in_head and each.at_byte is not None]
        for each in [*heads, *(each for each in found if each not in heads)]:
            if not in_body and each not in heads:
                in_body = self._begin_body(page, text)
            at = page.bytes - end if each.at_byte is None or each.by is None else each.at_byte
            if in_body:
                text.fill_body(min(at, page.bytes - end))
            else:
                text.fill(min(at, page.bytes - end), _DATA)
            text.add(self._element(page, each))
        if not in_body:
            self._begin_body(page, text)
        text.fill_body(page.bytes - end)
        text.add("</body></html>" if end else "")

    def _begin_body(self, page: StructureObject, text: _Text) -> bool:
        """Begin the body, with elements that have the fonts and pictures of style sheets."""
        text.text_fraction = min(TEXT_FRACTION, MOST_TEXT_BYTES / max(1, page.bytes - text.size))
        if page.bytes > _SHOWN_FRAME_BYTES or page.object == 0:
            text.add("<body>\n")
        for each in self._of_styles(page):
            if each.type == "font":
                text.add(f"<p class=f{each.object}>Letters of a font</p>")
            elif each.type == "image":
                text.add(f"<i class=f{each.object}></i>")
        return True

    def _of_styles(self, finder: StructureObject) -> Iterator[StructureObject]:
        """Yield what the style sheets of a document refer to, and those that they import."""
        for each in self._found[finder.object]:
            if finder.type == "style":
                yield each
            if each.type == "style":
                yield from self._of_styles(each)

    def _sides(self, each: StructureObject) -> tuple[int, int]:
        """Return width and height in pixels of the page: as given, or by its bytes."""
        if each.width is not None and each.height is not None:
            return each.width, each.height
        if each.type == "image" and each.bytes < MINIMUM_BYTES["image"]:
            return 1, 1
        most = DEVICE_PX if self._structure.viewport == "device" else PAGE_PX
        width = max(1, min(most, round(math.sqrt(each.bytes * SHOWN_PX_PER_BYTE * 4 / 3))))
        return width, max(1, round(width * 3 / 4))

    def _element(self, page: StructureObject, each: StructureObject) -> str:
        """Return what refers to an object in a document."""
        url, how = self._url(page, each), set(each.how)
        if "preload" in how:
            what = {"script": "script", "style": "style", "image": "image", "font": "font crossorigin"}
            return f"<link rel=preload as={what.get(each.type, 'fetch crossorigin')} href={url}>"
        by_type = {"script": "script", "style": "link", "image": "img", "document": "iframe"}
        tag = each.tag if each.tag in ("script", "link", "img", "iframe", "text") else by_type.get(each.type, "fetch")
        width, height = self._sides(each)
        if tag == "script":
            return f"<script{''.join(f' {word}' for word in ('async', 'defer') if word in how)} src={url}></script>"
        if tag == "link" and each.type == "style":
            return f"<link rel=stylesheet href={url}{_LATER if 'async' in how else ''}>"
        if tag == "iframe":
            shown = each.bytes >= _SHOWN_FRAME_BYTES
            size = f" width={each.width} height={each.height}" if each.width is not None else ""
            return f"<iframe src={url}{size if shown else ' hidden'}></iframe>"
        if tag == "img":
            lazy = " loading=lazy" if "lazy" in how else ""
            return (
                f"<img src={url} width={width} height={height}{lazy}>" if each.type == "image" else f"<img src={url}>"
            )
        if tag == "text":
            return f'<i style="display:inline-block;width:{width}px;height:{height}px;background:url({url})"></i>'
        if tag == "link" and each.type == "font":
            return f"<link rel=preload as=font crossorigin href={url}>"
        return f'<script>fetch("{url}")</script>'

    def _write_style(self, sheet: StructureObject, text: _Text) -> None:
        found = self._found[sheet.object]
        for each in found:
            if each.type == "style":
                text.add(f"@import url({self._url(sheet, each)});\n")
        for each in found:
            if each.type != "style":
                text.fill(min(each.at_byte or 0, sheet.bytes), _RULE)
                text.add(self._rule(sheet, each))
        text.fill(sheet.bytes, _RULE)

    def _rule(self, sheet: StructureObject, each: StructureObject) -> str:
        url, name = self._url(sheet, each), f"f{each.object}"
        if each.type == "font":
            return f"@font-face{{font-family:{name};src:url({url})}}.{name}{{font-family:{name},sans-serif}}\n"
        width, height = self._sides(each)
        return f".{name}{{display:inline-block;width:{width}px;height:{height}px;background:url({url})}}\n"

    def _write_script(self, script: StructureObject, text: _Text) -> None:
        cost_ms = script.bytes / 1000 * self._structure.script_cost
        found = self._found[script.object]
        if cost_ms >= 0.1 and script.bytes > 100:
            text.add(f"for(var t=performance.now();performance.now()-t<{cost_ms:.1f};);\n")
        text.add(f"(function(){{{_ADD}\n" if found else "")
        for each in found:
            url = self._url(script, each)
            width, height = self._sides(each)
            text.add(
                {
                    "script": f'a("script",{{src:"{url}"}});\n',
                    "style": f'a("link",{{rel:"stylesheet",href:"{url}"}});\n',
                    "image": f'a("img",{{src:"{url}",width:{width},height:{height}}});\n',
                    "document": f'a("iframe",{{src:"{url}"}});\n',
                }.get(each.type, f'fetch("{url}");\n')
            )
        text.add("})();\n" if found else "")
        text.fill(script.bytes, _COMMENT)


def _is_drawn(each: StructureObject) -> bool:
    """Return whether an image is drawn by text (SVG): such images are, which gzip makes much smaller."""
    return each.type == "image" and each.bytes >= MINIMUM_BYTES["image"] and each.wire_bytes < 0.8 * each.bytes


def _image(size_bytes: int, width: int, height: int, source: random.Random) -> bytes:
    if size_bytes >= MINIMUM_JPEG_BYTES:
        return jpeg(size_bytes, width / height, source)
    if size_bytes >= MINIMUM_BYTES["image"]:
        return png(size_bytes, 1.0, source)
    return _gif(size_bytes, source)


def _gif(size_bytes: int, source: random.Random) -> bytes:
    """Return a GIF of one pixel; the rest of the size is a comment. Below 35 bytes it is cut off."""
    head = b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + source.randbytes(6)
    end = b"," + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00;"
    left = size_bytes - len(head) - len(end)
    comment = b""
    if left >= 5:
        comment = b"!\xfe" + bytes([left - 4]) + source.randbytes(left - 4) + b"\0"
    return (head + comment + end + bytes(max(0, left)))[:size_bytes] if left < 5 else head + comment + end
