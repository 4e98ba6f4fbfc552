"""Tables in Markdown, for pull requests and summaries of jobs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["escaped", "table"]

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~&])")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table; its cells are Markdown."""
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def escaped(text: str) -> str:
    """Return a text as Markdown on one line, with nothing in it read as markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.splitlines()))
