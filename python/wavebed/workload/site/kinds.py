"""Types of content: the kind of object that each is, and the ending of its file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavebed.workload.site.model import Kind

__all__ = ["TYPES", "ending", "kind_of_type", "type_of_ending"]

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
