"""The Chinese pages beside their English originals: the same commands, the same numbers, the same pictures."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from tests.docs.blocks import ROOT, blocks

__all__ = ["Pair", "code", "numbers", "pairs", "pictures"]

_ORIGINAL = re.compile(r"^<!-- in English: (?P<page>[^ #]+)(?:#(?P<section>[^ ]+))? -->$", re.MULTILINE)
_FENCED = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"(?:(?<=\s)|^)# .*$", re.MULTILINE)
_NUMBER = re.compile(r"\d+(?:[.:/-]\d+)*")
_LINKED = re.compile(r"\]\([^)]*\)")
_HIDDEN = re.compile(r"<!--.*?-->", re.DOTALL)
_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]*)\)")
_TITLE = "title ="


@dataclass(frozen=True)
class Pair:
    """A part of a Chinese page, and the English text that it translates."""

    page: str
    original: str
    chinese: str
    english: str


def pairs(page: str) -> list[Pair]:
    """Return the parts of a Chinese page that say which English page, or which section of it, they translate."""
    text = (ROOT / page).read_text(encoding="utf-8")
    marks = list(_ORIGINAL.finditer(text))
    ends = [*(mark.start() for mark in marks[1:]), *[len(text)][: len(marks)]]
    found = []
    for mark, end in zip(marks, ends, strict=True):
        english = (ROOT / mark["page"]).read_text(encoding="utf-8")
        if mark["section"]:
            english = _section(english, mark["section"])
        found.append(Pair(page, mark["page"], text[mark.end() : end], english))
    return found


def _section(text: str, name: str) -> str:
    """Return the text between the heading with this anchor and the next of its level."""
    parts = re.split(r"^(## .*)$", text, flags=re.MULTILINE)
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        if re.sub(r"[^\w -]", "", heading.removeprefix("## ").lower()).replace(" ", "-") == name:
            return body
    raise ValueError(f"no section {name}")


def code(text: str) -> list[tuple[str, str]]:
    """Return the language and the text of each block, without comments and titles, which are translated."""
    return [(block.language, _bare(block.text)) for block in blocks("page", text)]


def _bare(text: str) -> str:
    lines = (line.rstrip() for line in _COMMENT.sub("", text).splitlines())
    return "\n".join(line for line in lines if line and not line.startswith(_TITLE))


def numbers(text: str) -> Counter[str]:
    """Return how often each number stands in the text outside of code blocks and the targets of links."""
    plain = _HIDDEN.sub("", _LINKED.sub("]", _FENCED.sub("", text)))
    return Counter(_NUMBER.findall(plain))


def pictures(text: str) -> list[str]:
    """Return the names of the pictures."""
    return [target.rpartition("/")[2] for target in _PICTURE.findall(_FENCED.sub("", text))]
