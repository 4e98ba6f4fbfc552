"""The objects of a site, their sizes, and their references."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wavebed.workload.site.sizes import random_stream, share_out
from wavebed.workload.site.spec import DOCUMENT, MINIMUM_BYTES, MINIMUM_JPEG_BYTES, Group

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wavebed.workload.site.spec import Spec

__all__ = ["Item", "plan"]

_ENDINGS = {"html": "html", "css": "css", "js": "js", "font": "woff", "json": "json", "jpeg": "jpg", "png": "png"}


@dataclass(slots=True, eq=False)
class Item:
    """An object to be made.

    Parameters
    ----------
    group : Group
        What it is like.
    index : int
        Which one of its group, from 0.
    path : str
        Its path.
    bytes : int
        Its size.
    base : str
        The origin for relative paths in it: its own, or for a script that of its page.
    finder : Item or None
        What refers to it.
    found : list of Item
        What it refers to.
    """

    group: Group
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
    first = Group(DOCUMENT, "html", 1, spec.document_bytes, 0.0, spec.origins[0], "", "", False, False, "", "", 0.0)
    document = Item(first, 0, "/", spec.document_bytes, spec.origins[0])
    groups: dict[str, list[Item]] = {DOCUMENT: [document]}
    for group in spec.groups:
        groups[group.name] = _items(group, groups[group.needs], spec.seed)
    return [item for items in groups.values() for item in items]


def _items(group: Group, finders: list[Item], seed: int) -> list[Item]:
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
