"""The type of content of a saved file: by its name, or by what it begins with and holds."""

from __future__ import annotations

import json
import re
from typing import Final

from wavebed.workload.site.kinds import type_of_ending

__all__ = ["type_of_file"]

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
