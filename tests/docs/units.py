"""What the player can play by itself, and the draw of some of it by a seed.

A unit is a block of commands or a program with the blocks before it that it needs, or a notebook.
"""

from __future__ import annotations

import functools
import re
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from tests.docs.blocks import ROOT, blocks, mentions, pages
from tests.docs.commands import OURS, calls, commands
from tests.docs.notebooks import FOLDER, is_slow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.docs.blocks import Block

__all__ = ["Unit", "drawn", "lines_needed", "seed_of_commit", "units"]

_WRITES = re.compile(r"(?:-o|--up-output|--plot|--report|--markdown|>|mkdir) +([\w./-]+)")
_FILE_IN_PROGRAM = re.compile(r"[\"']([\w-]+\.\w+)[\"']")


@dataclass(frozen=True, order=True)
class Unit:
    """A block of a page, or a notebook.

    Parameters
    ----------
    page : str
        The page or the notebook, relative to the root.
    line : int
        The line at which the block begins; 0 for a notebook.
    slow : bool
        Whether it is played only where all units are.
    """

    page: str
    line: int = 0
    slow: bool = False

    def __str__(self) -> str:
        return f"{self.page}:{self.line}" if self.line else self.page


@functools.cache
def units() -> tuple[Unit, ...]:
    """Return all units in their order."""
    found = [unit for page in pages() for block in blocks(page) if (unit := _unit(block))]
    notebooks = [Unit(file.relative_to(ROOT).as_posix(), slow=is_slow(file)) for file in FOLDER.glob("*.ipynb")]
    return tuple(sorted(found + notebooks))


def _unit(block: Block) -> Unit | None:
    """Return the unit of a block; ``None`` if the player runs nothing of it."""
    if block.language == "python":
        runs = [""] if block.value("parsed") is None else []
    else:
        ours = (each for each in commands(block) if any(words[0] in OURS for words in calls(each)))
        runs = [each for each in ours if block.value("parsed", each) is None]
    if not runs:
        return None
    return Unit(block.page, block.line, slow=all(block.value("slow", each) is not None for each in runs))


def drawn(count: int, seed: str) -> list[Unit]:
    """Return `count` units that are not slow, drawn by a seed, in their order.

    Each unit has a number of its own for a seed: a new page changes few of the others.
    """
    numbered = sorted((sha256(f"{seed} {unit}".encode()).digest(), unit) for unit in units() if not unit.slow)
    return sorted(unit for _, unit in numbered[:count])


def seed_of_commit() -> str:
    """Return the short hash of the commit that is checked out; ``0`` outside a repository."""
    command = ["git", "rev-parse", "--short=8", "HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "0"


def lines_needed(page: str, lines: Sequence[int]) -> set[int]:
    """Return the lines of the blocks to play for these blocks of a page: they, and the earlier ones that they need.

    A program needs the programs before it, whose names it uses. A block needs an earlier one that writes a file which
    it names and does not write itself.
    """
    needed: set[int] = set()
    later: list[Block] = []
    program = False
    for block in reversed(blocks(page)):
        if _unit(block) is None:
            continue
        wanted = block.line in lines or (program and block.language == "python")
        if wanted or any(_needs(each, block) for each in later):
            needed.add(block.line)
            later.append(block)
            program = program or block.language == "python"
    return needed


def _needs(block: Block, earlier: Block) -> bool:
    """Whether a block names a file that an earlier one writes; a program may write each file that it names."""
    found = _FILE_IN_PROGRAM if earlier.language == "python" else _WRITES
    own = set() if block.language == "python" else set(_WRITES.findall(block.text))
    return any(mentions(block.text, file.rstrip("/")) for file in set(found.findall(earlier.text)) - own)
