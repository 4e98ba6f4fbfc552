"""Names of treatments and cells as HTML: long ones may break between their words, not inside them."""

from __future__ import annotations

import re
from html import escape

__all__ = ["LONGEST_WORD", "breakable", "longest_word"]

LONGEST_WORD = 16
"""Characters of a word that a column makes room for; a longer one is broken."""
_WORD = re.compile(r".*?(?:[-_/:,=+ ]+|\.(?=[^\W\d])|$)", re.DOTALL)


def breakable(name: str) -> str:
    """Return a name as HTML, with a chance to break after each hyphen, underscore, slash, colon or comma."""
    return "<wbr>".join(escape(word) for word in _WORD.findall(name) if word)


def longest_word(name: str) -> int:
    """Return the number of characters of the longest part that must stay together, at most `LONGEST_WORD`."""
    return min(LONGEST_WORD, max(map(len, _WORD.findall(name))))
