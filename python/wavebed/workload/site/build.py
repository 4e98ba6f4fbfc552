"""Build a site from its specification: the same bytes for the same specification and libraries."""

from __future__ import annotations

import hashlib
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.workload.site.fonts import font
from wavebed.workload.site.images import jpeg, png
from wavebed.workload.site.kinds import type_of_ending
from wavebed.workload.site.model import Origin, Site, SiteObject
from wavebed.workload.site.page import Writer
from wavebed.workload.site.plan import Item, plan
from wavebed.workload.site.sizes import random_stream
from wavebed.workload.site.spec import DOCUMENT

if TYPE_CHECKING:
    from wavebed.workload.site.spec import Spec

__all__ = ["build_site", "builder_version"]

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
    origins = tuple(Origin(name, name) for name in spec.origins)
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
