"""Placeholder text, and text files with an exact size in bytes."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from wavebed.config.problems import Problem

if TYPE_CHECKING:
    import random

__all__ = ["headline", "padded", "sentence", "words"]

_WORDS = (resources.files("wavebed.workload.site") / "words.txt").read_text(encoding="ascii").split()


def words(size_bytes: int, source: random.Random) -> str:
    """Return words of `size_bytes` ASCII characters."""
    text = " ".join(source.choices(_WORDS, k=size_bytes // 4 + 1))
    while len(text) < size_bytes:
        text += " " + source.choice(_WORDS)
    return text[:size_bytes]


def headline(source: random.Random) -> str:
    """Return a few words."""
    return " ".join(source.choices(_WORDS, k=source.randint(4, 7))).capitalize()


def sentence(source: random.Random) -> str:
    """Return a sentence."""
    return " ".join(source.choices(_WORDS, k=source.randint(9, 16))).capitalize() + "."


def padded(text: str, before: str, after: str, size_bytes: int, source: random.Random, *, key: str) -> bytes:
    """Return `text` padded to `size_bytes` with words between `before` and `after`.

    Raises
    ------
    Problem
        At `key`, if the text alone is longer.
    """
    left = size_bytes - len(text.encode())
    if left < 0:
        raise Problem(f"{size_bytes} bytes do not hold what belongs there: write at least {size_bytes - left}b", key)
    room = left - len(before) - len(after)
    text += before + words(room, source) + after if room >= 0 else " " * left
    return text.encode()
