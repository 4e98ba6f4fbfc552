"""A web site as the laboratory serves it: its origins, its objects, and the files that they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["KINDS", "BuiltSite", "Kind", "Origin", "Scheme", "Site", "SiteObject"]

Kind: TypeAlias = Literal["html", "css", "js", "image", "font", "json", "other"]
KINDS: tuple[Kind, ...] = ("html", "css", "js", "image", "font", "json", "other")

Scheme: TypeAlias = Literal["any", "http", "https"]


@dataclass(frozen=True, slots=True)
class Origin:
    """A host of a site.

    Parameters
    ----------
    name : str
        Host name, without port: ``www.cnn.example``.
    folder : str
        Folder of its files in that of the built site.
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
    origins : tuple of Origin
        The first is the main one; each is to have an address of its own.
    objects : tuple of SiteObject
        What is served; the first document is the first.
    scheme : {"any", "http", "https"}
        With which the pages work. ``any``: their references to other origins take that of the page. Imported pages
        have absolute references, and work as they were: ``https`` unless recorded without.
    notes : tuple of str
        Left out or replaced parts, one line each.
    recorded : bool
        Whether requests are answered by `objects` only, by the exact path with query. Otherwise every file is found
        under its path, and its type by the end of its name.
    """

    name: str
    title: str
    source: str
    first: str
    origins: tuple[Origin, ...]
    objects: tuple[SiteObject, ...]
    scheme: Scheme = "any"
    notes: tuple[str, ...] = ()
    recorded: bool = False

    @property
    def bytes(self) -> int:
        """Size of all objects together, without headers."""
        return sum(entry.bytes for entry in self.objects)


@dataclass(frozen=True, slots=True)
class BuiltSite:
    """A site with its files: `folder` has a folder for each origin, named by `Origin.folder`."""

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
