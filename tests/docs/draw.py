"""What a run plays of the documentation, as its options say."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import pytest
from tests.docs.blocks import ROOT
from tests.docs.units import Unit, drawn, seed_of_commit, units

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Draw", "PlayedPage", "draw_of"]

ALL = "all"


@dataclass(frozen=True)
class PlayedPage:
    """Blocks of a page that one test plays.

    Parameters
    ----------
    page : str
        The page, relative to the root.
    lines : tuple of int
        The lines at which the blocks begin.
    slow : bool
        Whether slow commands run, too.
    """

    page: str
    lines: tuple[int, ...]
    slow: bool

    def __str__(self) -> str:
        return self.page if self.slow else f"{self.page}:{','.join(map(str, self.lines))}"


@dataclass(frozen=True)
class Draw:
    """What a run plays: all units, or those that a seed drew."""

    units: tuple[Unit, ...]
    seed: str | None

    def of_pages(self) -> list[PlayedPage]:
        """Return the drawn blocks, page by page."""
        in_pages = groupby((unit for unit in self.units if unit.line), key=lambda unit: unit.page)
        return [PlayedPage(page, tuple(each.line for each in found), self.seed is None) for page, found in in_pages]

    def notebooks(self) -> list[Path]:
        """Return the drawn notebooks."""
        return [ROOT / unit.page for unit in self.units if not unit.line]

    def lines(self) -> list[str]:
        """Return the lines of the output that say what is played, and how to play it again."""
        if self.seed is None:
            return [f"documentation: all {len(self.units)} blocks and notebooks are played"]
        again = f"pytest tests/docs/test_play.py --play {len(self.units)} --play-seed {self.seed}"
        return [
            f"documentation: seed {self.seed} drew {', '.join(map(str, self.units))}",
            f"play the same again, with this commit: {again}",
        ]


def draw_of(play: str, seed: str | None) -> Draw:
    """Return what the options choose.

    Raises
    ------
    pytest.UsageError
        If an option is neither a number nor ``all``.
    """
    if play == ALL:
        return Draw(units(), None)
    if not (play.isascii() and play.isdigit() and int(play)):
        raise pytest.UsageError(f"--play {play}: write a number of blocks from 1, or {ALL}")
    chosen = seed or seed_of_commit()
    return Draw(tuple(drawn(int(play), chosen)), chosen)
