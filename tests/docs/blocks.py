"""The code blocks of the documentation, with the marks that pages give them.

A mark is a comment above a block, which readers do not see:

    <!-- test: parsed: needs two network ports -->             the commands are parsed and never run
    <!-- test: parsed "wavebed ui": runs until it is stopped -->  commands with this prefix
    <!-- test: with "wavebed run": --trials 1 -->              run with these further options
    <!-- test: change: -t 30 => -t 1 -->                       run with the second text instead of the first
    <!-- test: slow -->                                        never drawn: run by `make play-docs` only
    <!-- test: status 1 -->                                    the exit status of the command; `any`
    <!-- test: given: import numpy as np -->                   Python that runs before; entered(…) enters a context
    <!-- test: toml: keys of path -->                          what a fragment of TOML belongs to
    <!-- test: file: street.toml -->                           the block is a file that later blocks use
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "Block", "Mark", "blocks", "files", "mentions", "pages"]

ROOT = Path(__file__).parents[2]
VERBS = {"parsed", "with", "change", "slow", "status", "given", "toml", "file"}

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```[ ]*$", re.DOTALL | re.MULTILINE)
_MARKS = re.compile(r"(?:^ *<!-- test: (?:(?!-->).)* -->\n+)+\Z", re.DOTALL | re.MULTILINE)
_MARK = re.compile(r"<!-- test: (?P<verb>\w+)(?: \"(?P<prefix>[^\"]*)\")?(?P<value>.*?) -->", re.DOTALL)


@dataclass(frozen=True)
class Mark:
    """What a page says about a block, or about its commands that begin with `prefix`."""

    verb: str
    prefix: str
    value: str


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    marks: tuple[Mark, ...]

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return f"{self.page}:{self.line}"

    def value(self, verb: str, command: str = "") -> str | None:
        """Return the value of the first such mark that concerns a command; ``None`` without one."""
        for mark in self.marks:
            if mark.verb == verb and command.startswith(mark.prefix):
                return mark.value
        return None

    def changed(self, text: str) -> str:
        """Return the text as it is run: with what the marks ``change`` put in place of its own."""
        for mark in self.marks:
            if mark.verb == "change":
                old, _, new = mark.value.partition(" => ")
                text = text.replace(old, new)
        return text


@functools.cache
def pages() -> tuple[str, ...]:
    """Return every page of the documentation, relative to the root."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return tuple(file.relative_to(ROOT).as_posix() for file in found)


@functools.cache
def blocks(page: str, text: str | None = None) -> tuple[Block, ...]:
    """Return the blocks of a page in their order.

    Raises
    ------
    ValueError
        If a mark has a verb that is none.
    """
    text = (ROOT / page).read_text(encoding="utf-8") if text is None else text
    found = []
    end = 0
    for match in _FENCE.finditer(text):
        above = _MARKS.search(text, end, match.start())
        end = match.end()
        marks = tuple(_mark(each, page) for each in _MARK.finditer(above[0])) if above else ()
        line = text.count("\n", 0, match.start()) + 1
        lines = match["text"].splitlines(keepends=True)
        inner = "".join(each.removeprefix(match["indent"]) for each in lines)
        found.append(Block(page, line, match["language"], inner, marks))
    return tuple(found)


@functools.cache
def files() -> dict[str, Block]:
    """Return the blocks that are files, by the names that pages give them; a page's own stand above those of others."""
    return {name: block for page in reversed(pages()) for block in blocks(page) if (name := block.value("file"))}


def mentions(text: str, file: str) -> bool:
    """Whether a text has the name of a file or a folder as a word, or as the beginning of a longer path."""
    return re.search(rf"(?<![\w/.-]){re.escape(file)}(?![\w.-])", text) is not None


def _mark(match: re.Match[str], page: str) -> Mark:
    if match["verb"] not in VERBS:
        raise ValueError(f"{page}: test: {match['verb']}: is no mark: write one of {', '.join(sorted(VERBS))}")
    return Mark(match["verb"], match["prefix"] or "", match["value"].removeprefix(":").strip())
