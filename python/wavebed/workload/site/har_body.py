"""Decode the body of a HAR entry. A body that cannot be decoded is a missing body."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.workload.site.model import Kind

__all__ = ["Body", "is_empty", "read_body"]

_PLAIN = ("", "utf-8", "utf8")
_TEXT_KINDS = ("html", "css", "js", "json")
_BINARY_KINDS = ("image", "font")
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]*+={0,2}\s*+", re.ASCII)
_GZIP = b"\x1f\x8b"
"""RFC 1952, 2.3.1."""
_LOST = "\ufffd"
"""U+FFFD: the recorder decoded binary data as UTF-8, which lost bytes."""
_UNREADABLE = "bodies that cannot be decoded, which count as not recorded"
_NOT_ENCODED = "bodies marked as base64 that are plain text, served as they are"


@dataclass(frozen=True, slots=True)
class Body:
    """A recorded body.

    Parameters
    ----------
    data : bytes or None
        The body; ``None`` if it was not recorded or cannot be decoded.
    is_text : bool
        Whether the recorder stored text, so that the body is UTF-8 now.
    note : str
        The fault, for the notes of the site; empty without one.
    """

    data: bytes | None
    is_text: bool = False
    note: str = ""


def is_empty(content: Mapping[str, object]) -> bool:
    """Return whether a table ``response.content`` has an empty body: an empty ``text``, and no positive ``size``."""
    size = content.get("size")
    return content.get("text") == "" and not (isinstance(size, int) and size > 0)


def read_body(content: Mapping[str, object], kind: Kind) -> Body:
    """Return the body in a table ``response.content``; without the key ``text`` it is missing, whatever its size."""
    text, encoding = content.get("text"), content.get("encoding") or ""
    if is_empty(content):
        return Body(b"", is_text=True)
    if not isinstance(text, str) or not text:
        return Body(None)
    if not isinstance(encoding, str):
        return Body(None, note=_UNREADABLE)
    if encoding.lower() in _PLAIN:
        lost = kind in _BINARY_KINDS and _LOST in text
        return Body(None, note=_UNREADABLE) if lost else Body(_encoded(text), is_text=True)
    if encoding.lower() != "base64":
        return Body(None, note=_UNREADABLE)
    try:
        data = _decoded(text)
    except ValueError:
        # Firefox marks some text as base64.
        if kind in _TEXT_KINDS and len(plain := _encoded(text)) == content.get("size"):
            return Body(plain, is_text=True, note=_NOT_ENCODED)
        return Body(None, note=_UNREADABLE)
    if kind in _TEXT_KINDS and data.startswith(_GZIP):
        return Body(None, note=_UNREADABLE)
    return Body(data)


def _decoded(text: str) -> bytes:
    """Decode base64 with line breaks; the pattern checks a large text without a copy of it."""
    if not _BASE64.fullmatch(text):
        raise ValueError("is not base64")
    return base64.b64decode(text)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
