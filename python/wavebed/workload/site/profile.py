"""Extract the structure of a page from a recording (HAR) or a saved page: no content, no names, hosts as numbers."""

from __future__ import annotations

import json
import math
import re
import statistics
import tempfile
import zlib
from collections import Counter, deque
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urldefrag, urljoin, urlsplit

from wavebed.config.problems import Problem
from wavebed.errors import UserError
from wavebed.foreign import MAX_TEXT_BYTES, read_json
from wavebed.workload.site.har import HarRecording, choose, read_har
from wavebed.workload.site.har_entries import page_order, read_entries, read_log
from wavebed.workload.site.load import IMPORT_LIMIT_S, bounded, is_page
from wavebed.workload.site.model import kind_of_type, type_of_file
from wavebed.workload.site.saved import find_page
from wavebed.workload.site.spec import MAX_OBJECTS, MAX_ORIGINS
from wavebed.workload.site.structure import (
    SCRIPT_MS_PER_KB,
    Structure,
    StructureObject,
    plain_structure,
    read_structure,
    structure_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from wavebed.workload.site.har_entries import HarEntry

_TYPE_OF = {"html": "document", "css": "style", "js": "script", "image": "image", "font": "font"}
_TEXTS = ("document", "style", "script")
_IN_HEAD = {"html", "head", "meta", "title", "link", "script", "style", "base", "noscript", "template"}
_REFERS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "frame": "src",
    "embed": "src",
    "source": "src",
    "video": "poster",
    "input": "src",
    "object": "data",
    "link": "href",
}
_STYLE_URL = re.compile(r"""@import\s+["']([^"'\s]{1,4000})|url\(\s*["']?([^"')\s]{1,4000})""", re.IGNORECASE)
_LEAST_NAME = 5
"""A file's name of fewer letters, found in a script, may be there by chance."""
_MOST_NAMES = 2000
_QUANTILES = 5
_MOST_SPREAD = 4.0


@dataclass(frozen=True, slots=True)
class _Resource:
    """An object of a page as it was recorded or saved."""

    url: str
    type: str
    body: bytes
    size: int
    gzip_size: int
    initiator: str = ""


@dataclass(frozen=True, slots=True)
class _Reference:
    """A place that refers to a URL."""

    url: str
    at: int
    tag: str
    how: tuple[str, ...] = ()
    in_head: bool = False
    width: int | None = None
    height: int | None = None


def profile(file: Path) -> Structure:
    """Return the structure of a page.

    Parameters
    ----------
    file : pathlib.Path
        A recording (``.har``), a saved page (``.html`` with its folder, or a folder), or a structure (``.json``).

    Raises
    ------
    UserError
        If it is none of them, or takes too much time or memory.
    """
    if file.suffix.lower() == ".json":
        return read_structure(file)
    if not is_page(file) and file.suffix.lower() != ".har":
        raise UserError(f"{file}: is no recording or saved page: name a .har, a .html or a folder with index.html")
    with tempfile.TemporaryDirectory(prefix="wavebed-") as folder:
        out = Path(folder) / "structure.json"
        if file.suffix.lower() == ".har":
            data = read_har(file)
            work, size = (lambda: _write(recorded_structure(file, data), out)), len(data)
        else:
            page = find_page(file)
            work, size = (lambda: _write(saved_structure(page.files()), out)), page.largest_bytes
        bounded(str(file), work, IMPORT_LIMIT_S, size)
        return structure_of(read_json(out, "profile the page again", most=MAX_TEXT_BYTES), file)


def _write(structure: Structure, out: Path) -> None:
    out.write_text(json.dumps(plain_structure(structure)), encoding="ascii")


def saved_structure(files: Iterable[tuple[str, bytes]]) -> Structure:
    """Return the structure of a saved page: name and content of each file, the document first."""
    resources = []
    for index, (name, body) in enumerate(files):
        content_type = "text/html" if index == 0 else type_of_file(name.rpartition("/")[2], body)
        resources.append(_resource(f"http://page/{_quoted(name)}", content_type, body, 0))
    return _structured(resources, "a saved page", compressed=False)


def recorded_structure(file: Path, data: bytes) -> Structure:
    """Return the structure of the page in a recording; `file` is its name in messages."""
    counts: Counter[str] = Counter()
    try:
        log = read_log(data)
        recording = choose(read_entries(log, counts), page_order(log), counts)
    except Problem as problem:
        raise UserError(f"{file}: {problem}") from None
    entries = log["entries"]
    resources = list(_recorded(recording, entries if isinstance(entries, list) else []))
    texts = [each for each in resources if each.type in _TEXTS and each.body]
    compressed = sum(each.size for each in texts) > 1.2 * sum(each.gzip_size for each in texts)
    return _structured(resources, "a recording", compressed=compressed)


def _recorded(recording: HarRecording, entries: list[object]) -> Iterator[_Resource]:
    for answer in recording.answers:
        entry = answer.entry
        if entry.location:
            continue
        body = answer.body.data or b""
        address = answer.address
        resource = _resource(
            f"{address.scheme}://{address.host}{address.uri}", entry.content_type, body, entry.wire_bytes or entry.size
        )
        if not body:
            resource = _Resource(resource.url, resource.type, b"", entry.size, entry.size)
        yield _Resource(
            resource.url,
            resource.type,
            resource.body,
            resource.size,
            resource.gzip_size,
            _initiator(entry, entries),
        )


def _initiator(entry: HarEntry, entries: list[object]) -> str:
    """Return the URL of what began a request, as Chromium records it; empty if it is not known."""
    table = entries[entry.order[1]] if entry.order[1] < len(entries) else None
    given = table.get("_initiator") if isinstance(table, dict) else None
    if not isinstance(given, dict):
        return ""
    stack = given.get("stack")
    frames = stack.get("callFrames") if isinstance(stack, dict) else None
    if isinstance(frames, list):
        for frame in frames:
            if isinstance(frame, dict) and isinstance(frame.get("url"), str) and frame["url"]:
                return _normal(frame["url"])
    return _normal(given["url"]) if isinstance(given.get("url"), str) else ""


def _resource(url: str, content_type: str, body: bytes, wire_bytes: int) -> _Resource:
    kind = _TYPE_OF.get(kind_of_type(content_type), "other")
    is_text = kind in _TEXTS or "svg" in content_type or "json" in content_type
    packed = len(body)
    if is_text and body:
        packed = wire_bytes if 0 < wire_bytes < len(body) else len(zlib.compress(body, 6)) + 12
    return _Resource(_normal(url), kind, body, len(body), packed)


def _quoted(path: str) -> str:
    return quote(path.encode("utf-8", "surrogateescape"), safe="/!$&'()*+,;=:@~-._%")


def _normal(url: str) -> str:
    """Return a URL so that two ways of writing one are the same."""
    try:
        parts = urlsplit(urldefrag(url)[0])
        host = (parts.hostname or "").lower()
    except ValueError:
        return ""
    query = f"?{quote(parts.query, safe=_SAFE)}" if parts.query else ""
    return f"//{host}{quote(parts.path or '/', safe=_SAFE)}{query}"


_SAFE = "/!$&'()*+,;=:@~-._%?[]"


def _structured(resources: list[_Resource], source: str, *, compressed: bool) -> Structure:
    if len(resources) > MAX_OBJECTS:
        raise UserError(f"the page has {len(resources)} objects: name one with at most {MAX_OBJECTS}")
    places = {each.url: index for index, each in reversed(list(enumerate(resources)))}
    found: dict[int, tuple[int, _Reference]] = {}
    queue = deque([0])
    left = set(range(1, len(resources)))

    def take(index: int, by: int, reference: _Reference) -> None:
        if index in left:
            left.discard(index)
            found[index] = (by, reference)
            queue.append(index)

    viewport = _follow(resources, places, queue, take)
    for index in sorted(left):
        by = places.get(resources[index].initiator)
        if by is not None and by not in left:
            take(index, by, _named_in(resources[by], resources[index]) or _Reference("", resources[by].size, ""))
    _follow(resources, places, queue, take)
    for kind in ("script", "document"):
        for by, each in enumerate(resources):
            for index in sorted(left)[:_MOST_NAMES] if each.type == kind and by not in left else ():
                reference = _named_in(each, resources[index])
                if reference is not None:
                    take(index, by, reference)
    _follow(resources, places, queue, take)
    hosts = {host: number for number, host in enumerate(dict.fromkeys(_host(each.url) for each in resources))}
    if len(hosts) > MAX_ORIGINS:
        raise UserError(f"the page has {len(hosts)} hosts: name one with at most {MAX_ORIGINS}")
    objects = tuple(
        _object(index, each, found.get(index), hosts[_host(each.url)]) for index, each in enumerate(resources)
    )
    return Structure(
        name="page",
        page="a page",
        source=source,
        compressed=compressed,
        viewport=viewport,
        script_cost=SCRIPT_MS_PER_KB,
        objects=objects,
    )


def _host(url: str) -> str:
    return url[2:].partition("/")[0]


def _object(index: int, each: _Resource, found: tuple[int, _Reference] | None, host: int) -> StructureObject:
    by, reference = found if found is not None else (None, _Reference("", 0, ""))
    sized = each.type in ("image", "document") and reference.width is not None and reference.height is not None
    return StructureObject(
        object=index,
        type=each.type,
        bytes=each.size,
        gzip_bytes=each.gzip_size,
        by=by,
        at_byte=None if by is None else reference.at,
        tag=reference.tag or None,
        how=reference.how,
        in_head=reference.in_head,
        host=host,
        width=reference.width if sized else None,
        height=reference.height if sized else None,
    )


def _follow(
    resources: list[_Resource],
    places: Mapping[str, int],
    queue: deque[int],
    take: Callable[[int, int, _Reference], None],
) -> str:
    """Follow the references of documents and styles from those in the queue; return the viewport of the first."""
    viewport = "desktop"
    while queue:
        by = queue.popleft()
        each = resources[by]
        if each.type == "document":
            reader = _Reader(each)
            if by == 0:
                viewport = reader.viewport
            references = reader.references
        elif each.type == "style":
            references = list(_of_style(each.body.decode("latin-1"), 0, ""))
        else:
            continue
        base = reader.base if each.type == "document" else f"http:{each.url}"
        for reference in references:
            try:
                url = _normal(urljoin(base, reference.url))
            except ValueError:
                continue
            index = places.get(url, places.get(url.partition("?")[0]))
            if index is not None:
                take(index, by, reference)
    return viewport


def _named_in(by: _Resource, each: _Resource) -> _Reference | None:
    """Return where the text of an object has the name of another one."""
    name = each.url.partition("?")[0].rpartition("/")[2]
    if len(name) < _LEAST_NAME:
        return None
    at = by.body.find(name.encode("ascii", "replace"))
    return _Reference("", at, "text" if by.type == "document" else "") if at >= 0 else None


def _of_style(text: str, start: int, tag: str, *, in_head: bool = False) -> Iterator[_Reference]:
    for match in _STYLE_URL.finditer(text):
        yield _Reference(match[1] or match[2], start + match.start(), tag, in_head=in_head)


class _Reader(HTMLParser):
    """Reads what a document refers to; positions are in bytes, since each byte is a letter of Latin-1."""

    def __init__(self, resource: _Resource) -> None:
        super().__init__(convert_charrefs=True)
        self.references: list[_Reference] = []
        self.viewport = "desktop"
        self.base = f"http:{resource.url}"
        self._in_head = True
        self._quiet = 0
        self._style = False
        text = resource.body.decode("latin-1")
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.feed(text)
        self.close()

    def _at(self) -> int:
        line, column = self.getpos()
        return self._starts[line - 1] + column

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Read an element that ends at once."""
        self.handle_starttag(tag, attrs)
        self._style = self._style and tag != "style"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Read the references of an element."""
        if tag not in _IN_HEAD:
            self._in_head = False
        if tag == "noscript":
            self._quiet += 1
        if self._quiet:
            return
        given = {name: value or "" for name, value in reversed(attrs)}
        if tag == "base" and given.get("href"):
            self.base = urljoin(self.base, given["href"])
        if tag == "meta" and given.get("name", "").lower() == "viewport" and "device-width" in given.get("content", ""):
            self.viewport = "device"
        self._style = tag == "style"
        url = given.get(_REFERS.get(tag, ""), "").strip()
        if url:
            self._refer(tag, given, url)
        for name in ("style", "background"):
            if given.get(name):
                text = given[name] if name == "style" else f"url({given[name]})"
                self.references.extend(
                    _Reference(each.url, self._at(), "text", in_head=self._in_head) for each in _of_style(text, 0, "")
                )

    def _refer(self, tag: str, given: Mapping[str, str], url: str) -> None:
        words = set(given.get("rel", "").lower().split()) if tag == "link" else set()
        if tag == "link" and not words & {"stylesheet", "preload", "modulepreload", "prefetch", "icon"}:
            return
        how = [word for word in ("async", "defer") if word in given]
        if given.get("type", "").lower() == "module" and "async" not in how:
            how.append("defer")
        how += [word for word in ("stylesheet", "preload") if word in words]
        if "stylesheet" in words and given.get("media", "").strip().lower() == "print":
            how.append("async")
        if given.get("loading", "").lower() == "lazy":
            how.append("lazy")
        width, height = (_pixels(given.get(name, "")) for name in ("width", "height"))
        self.references.append(
            _Reference(url, self._at(), tag, tuple(dict.fromkeys(how)), self._in_head, width, height)
        )

    def handle_endtag(self, tag: str) -> None:
        """Leave the head, or what is not shown."""
        self._style = False
        if tag == "head":
            self._in_head = False
        if tag == "noscript":
            self._quiet = max(0, self._quiet - 1)

    def handle_data(self, data: str) -> None:
        """Read the references of a style in the document."""
        if self._style and not self._quiet:
            self.references.extend(_of_style(data, self._at(), "text", in_head=self._in_head))


def _pixels(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,4}", text.strip(), re.ASCII) else None


def summary(structure: Structure) -> dict[str, object]:
    """Return a structure summed up: a group for each kind of object and of reference."""
    rows: dict[tuple[object, ...], list[StructureObject]] = {}
    for each in structure.objects:
        by = None if each.object == 0 else structure.objects[each.by or 0]
        found_in = "" if by is None else "document" if by.object == 0 else _FINDER_OF.get(by.type, "document")
        rows.setdefault((found_in, each.type, each.tag, each.how, each.in_head), []).append(each)
    order = {"": 0, "document": 1, "frame": 2, "style": 3, "script": 4}
    groups = []
    for (finder, kind, tag, how, in_head), members in sorted(
        rows.items(), key=lambda pair: (order[str(pair[0][0])], pair[0][1] != "document", pair[1][0].object)
    ):
        logs = [math.log(max(1, each.bytes)) for each in members]
        group: dict[str, object] = {"type": kind, "count": len(members)}
        group["bytes"] = sum(each.bytes for each in members)
        group["gzip_bytes"] = sum(each.wire_bytes for each in members)
        if len(members) > 1:
            group["spread"] = round(min(_MOST_SPREAD, statistics.pstdev(logs)), 2)
        if finder:
            group["in"] = finder
            places = sorted(
                round(min(1.0, each.at_byte / max(1, structure.objects[each.by or 0].bytes)), 4)
                for each in members
                if each.at_byte is not None
            )
            group["at"] = _quantiles(places)
        group |= {key: value for key, value in (("tag", tag), ("how", list(how)), ("in_head", in_head)) if value}  # type: ignore[call-overload]
        groups.append({key: value for key, value in group.items() if value not in (None, [])})
    return {key: value for key, value in plain_structure(structure).items() if key != "objects"} | {"groups": groups}


_FINDER_OF = {"document": "frame", "style": "style", "script": "script"}


def _quantiles(values: list[float]) -> list[float]:
    if len(values) <= 1:
        return values
    places = [index * (len(values) - 1) / (_QUANTILES - 1) for index in range(_QUANTILES)]
    return [values[round(place)] for place in places]
