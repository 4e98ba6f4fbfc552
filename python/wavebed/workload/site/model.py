"""A web site as the laboratory serves it: its origins, its objects, and the files that they are."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


Kind: TypeAlias = Literal["html", "css", "js", "image", "font", "json", "other"]
KINDS: tuple[Kind, ...] = ("html", "css", "js", "image", "font", "json", "other")

Scheme: TypeAlias = Literal["any", "http", "https"]


@dataclass(frozen=True, slots=True)
class SiteOrigin:
    """A host of a site.

    Parameters
    ----------
    name : str
        Host name, without port: ``www.cnn.example``.
    folder : str
        Folder of its files in the folder of the built site.
    """

    name: str
    folder: str


@dataclass(frozen=True, slots=True)
class SiteObject:
    """What a request of the page is answered with.

    Parameters
    ----------
    origin : str
        Name of its origin.
    path : str
        Path of the URL with its query, as on the wire.
    file : str
        Its file in the origin's folder; empty if the answer has no body.
    bytes : int
        Size of the body on the wire, without headers; the server must not compress it.
    kind : str
        One of `KINDS`.
    content_type : str
        Value of the header ``Content-Type``.
    status : int
        Status of the answer.
    location : str
        Where a redirect leads; empty otherwise.
    blocking : bool
        Whether nothing is painted before it has come (style sheets and scripts in the head).
    above_fold : bool
        Whether it is seen without scrolling.
    found_in : str
        Path of the object that refers to it; empty for the first document, or if it is not known.
    """

    origin: str
    path: str
    file: str
    bytes: int
    kind: Kind
    content_type: str
    status: int = 200
    location: str = ""
    blocking: bool = False
    above_fold: bool = False
    found_in: str = ""


@dataclass(frozen=True, slots=True)
class Site:
    """A web site.

    Parameters
    ----------
    name : str
        Its short name: ``cnn``.
    title, source : str
        What people read; where its numbers come from.
    first : str
        URL path (and query) of the document on the first origin that a visit begins with.
    origins : tuple of SiteOrigin
        The first is the main one; each is to have an address of its own.
    objects : tuple of SiteObject
        What is served; the first document is the first.
    scheme : {"any", "http", "https"}
        With which the pages work. ``any``: their references to other origins take the page's scheme. Imported pages
        have absolute references, and work as they were: ``https`` unless recorded without.
    notes : tuple of str
        Left out or replaced parts, one line each.
    recorded : bool
        Whether requests are answered by `objects` only, by the exact path with query. Otherwise every file is found
        under its path, and its type by the end of its name.
    compressed : bool
        Whether text is sent as gzip: beside each such file is one with ``.gz`` at the end of its name.
    """

    name: str
    title: str
    source: str
    first: str
    origins: tuple[SiteOrigin, ...]
    objects: tuple[SiteObject, ...]
    scheme: Scheme = "any"
    notes: tuple[str, ...] = ()
    recorded: bool = False
    compressed: bool = False

    @property
    def bytes(self) -> int:
        """Size of all objects together, without headers."""
        return sum(entry.bytes for entry in self.objects)


@dataclass(frozen=True, slots=True)
class BuiltSite:
    """A site with its files: `folder` has a folder for each origin, named by `SiteOrigin.folder`."""

    site: Site
    folder: Path

    @property
    def routes(self) -> Mapping[str, Mapping[str, SiteObject]]:
        """The answers of a recorded site by origin and path; empty otherwise."""
        routes: dict[str, dict[str, SiteObject]] = {}
        for entry in self.site.objects if self.site.recorded else ():
            routes.setdefault(entry.origin, {})[entry.path] = entry
        return routes

    def path_of(self, entry: SiteObject) -> Path:
        """Return the file of an object that has one."""
        folder = next(origin.folder for origin in self.site.origins if origin.name == entry.origin)
        return self.folder / folder / entry.file


TYPES: dict[str, tuple[str, Kind]] = {
    "html": ("text/html", "html"),
    "htm": ("text/html", "html"),
    "css": ("text/css", "css"),
    "js": ("text/javascript", "js"),
    "mjs": ("text/javascript", "js"),
    "json": ("application/json", "json"),
    "jpg": ("image/jpeg", "image"),
    "jpeg": ("image/jpeg", "image"),
    "png": ("image/png", "image"),
    "gif": ("image/gif", "image"),
    "webp": ("image/webp", "image"),
    "avif": ("image/avif", "image"),
    "svg": ("image/svg+xml", "image"),
    "ico": ("image/x-icon", "image"),
    "woff": ("font/woff", "font"),
    "woff2": ("font/woff2", "font"),
    "ttf": ("font/ttf", "font"),
    "otf": ("font/otf", "font"),
    "txt": ("text/plain", "other"),
    "mp4": ("video/mp4", "other"),
    "webm": ("video/webm", "other"),
}
"""Type and kind by the ending of a file's name."""


def kind_of_type(content_type: str) -> Kind:
    """Return the kind of object that a type of content is."""
    plain = content_type.partition(";")[0].strip().lower()
    if plain in {"text/html", "application/xhtml+xml"}:
        return "html"
    if plain == "text/css":
        return "css"
    if "javascript" in plain or plain.endswith("ecmascript"):
        return "js"
    if plain.startswith("image/"):
        return "image"
    if plain.startswith("font/") or "font" in plain:
        return "font"
    return "json" if plain.endswith("json") else "other"


def type_of_ending(name: str) -> str:
    """Return the type of content of a file, by its name."""
    return TYPES.get(name.rpartition(".")[2].lower(), ("application/octet-stream", "other"))[0]


def ending(content_type: str) -> str:
    """Return the ending of a file's name for a type of content."""
    plain = content_type.partition(";")[0].strip().lower()
    return next((name for name, (known, _) in TYPES.items() if known == plain), "bin")


UNKNOWN: Final = "application/octet-stream"
_ADDED: Final = re.compile(r"(?:\(\d+\))?(?:\.download)?$")
"""What browsers add to the names of files that they save: ``all.js(1).download``."""
_LOOKED_AT: Final = 65536
_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"\x00\x00\x01\x00", "image/x-icon"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
    (b"OTTO", "font/otf"),
    (b"\x00\x01\x00\x00", "font/ttf"),
    (b"\x1a\x45\xdf\xa3", "video/webm"),
)
"""WHATWG MIME Sniffing, section 6."""
_BOXES: Final = {b"avif": "image/avif", b"avis": "image/avif"}
_COMMENTS: Final = re.compile(r"\A(?:\s|//[^\n]*\n|/\*.*?\*/|<!--.*?-->)+", re.DOTALL)
_SELECTOR: Final = r"(?:[^{};=()\[]|\([^{};()]*\)|\[[^\]]*\])+"
_RULE: Final = re.compile(rf"\A(?:@[a-z-]+[\s(\"]|{_SELECTOR}\{{\s*(?:--)?[a-z-]+\s*:[^:])", re.IGNORECASE)
_SCRIPT: Final = re.compile(
    r"\b(?:function|var|let|const|window|document|import|export|typeof|return)\b|=>|\)\s*;|[\w\])]\s*=[^=]"
)


def type_of_file(name: str, data: bytes) -> str:
    """Return the type of content of a file: by its ending, or by its content if that is not known.

    Parameters
    ----------
    name : str
        Its name, as a browser saved it.
    data : bytes
        Its content.
    """
    named = type_of_ending(_ADDED.sub("", name))
    return _type_of_content(data) if named == UNKNOWN else named


def _type_of_content(data: bytes) -> str:
    for signature, found in _SIGNATURES:
        if data.startswith(signature):
            return found
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[4:8] == b"ftyp":
        return _BOXES.get(data[8:12], "video/mp4")
    if b"\0" in data[:_LOOKED_AT]:
        return UNKNOWN
    return _type_of_text(data)


def _type_of_text(data: bytes) -> str:
    text = _COMMENTS.sub("", data[:_LOOKED_AT].decode("utf-8-sig", "replace"))
    begin = text[:200].lower()
    if begin.startswith(("<svg", "<?xml")):
        return "image/svg+xml" if "<svg" in text.lower() else "text/plain"
    if begin.startswith("<"):
        return "text/html"
    if begin.startswith(("{", "[", '"')) and _is_json(data):
        return "application/json"
    if _RULE.match(text):
        return "text/css"
    return "text/javascript" if _SCRIPT.search(text) else "text/plain"


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True
