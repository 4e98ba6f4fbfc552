"""Mixes of frame sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["SIMPLE_IMIX", "genome", "spread"]

LETTERS = {64: "a", 128: "b", 256: "c", 512: "d", 1024: "e", 1280: "f", 1518: "g", 2112: "h", 9000: "i", 16000: "j"}
"""RFC 6985, section 3; other sizes get a capital letter, which is explained (section 5)."""


def spread(counts: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """Return a row of frame sizes with these counts, each size spread evenly over the row.

    A row that sends all its large frames at once would be a burst of its own. The k-th of n frames of a size
    belongs at (k + 1/2) / n of the row; frames are sorted by that place, the rarer size first where two agree.

    Parameters
    ----------
    counts : iterable of (int, int)
        Size in bytes, and how many of them.
    """
    places = [((k + 0.5) / count, count, size) for size, count in counts for k in range(count)]
    return tuple(size for _, _, size in sorted(places))


SIMPLE_IMIX = spread([(64, 7), (594, 4), (1518, 1)])
"""The simple mix, 7:4:1."""


def genome(sizes_bytes: Sequence[int]) -> str:
    """Return a row of sizes as RFC 6985 writes it: ``IMIX - aAaAaagAaaAa (A=594)``.

    Raises
    ------
    UserError
        If more than 26 sizes have no letter.
    """
    own: dict[int, str] = {}
    for size in sizes_bytes:
        if size not in LETTERS and size not in own:
            if len(own) == 26:
                raise UserError("a mix has at most 26 sizes of its own")
            own[size] = chr(ord("A") + len(own))
    letters = "".join(LETTERS.get(size) or own[size] for size in sizes_bytes)
    explained = ", ".join(f"{letter}={size}" for size, letter in own.items())
    return f"IMIX - {letters} ({explained})" if explained else f"IMIX - {letters}"
