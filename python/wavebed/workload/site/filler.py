"""Stand-ins for bodies that a recording does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.workload.site.fill import words
from wavebed.workload.site.fonts import font
from wavebed.workload.site.images import jpeg, png
from wavebed.workload.site.sizes import random_stream
from wavebed.workload.site.spec import MINIMUM_BYTES, MINIMUM_JPEG_BYTES

if TYPE_CHECKING:
    from wavebed.workload.site.model import Kind

__all__ = ["filler"]

_AROUND = {"html": ("<!doctype html><title>-</title><p>", "</p>"), "css": ("/*", "*/"), "js": ("/*", "*/")}
_AROUND["json"] = ('["', '"]')


def filler(kind: Kind, content_type: str, size_bytes: int, key: str) -> tuple[str, bytes]:
    """Return the type and the content of something of a kind and size, the same for the same `key`.

    Pictures can be decoded: they are JPEG, or PNG where they are small, and never smaller than the least PNG. Fonts
    are real where they are large enough.
    """
    source = random_stream(key)
    if kind == "image" and size_bytes:
        if size_bytes >= MINIMUM_JPEG_BYTES:
            return "image/jpeg", jpeg(size_bytes, 4 / 3, source)
        return "image/png", png(max(size_bytes, MINIMUM_BYTES["image"]), 1.0, source)
    if kind == "font" and size_bytes >= MINIMUM_BYTES["font"]:
        return "font/woff", font(size_bytes, 0, source)
    if kind in _AROUND:
        before, after = _AROUND[kind]
        room = size_bytes - len(before) - len(after)
        return content_type, (before + words(room, source) + after if room >= 0 else " " * size_bytes).encode()
    return content_type, source.randbytes(size_bytes)
