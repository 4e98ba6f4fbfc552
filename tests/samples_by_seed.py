"""Samples of kills and faults, drawn by a seed.

pytest prints the seed, and `WAVEBED_TEST_SEED` sets it. With `WAVEBED_TEST_SEED=all` nothing is left out.
"""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SEED", "VARIABLE", "sample", "seed_of_commit"]

T = TypeVar("T")
ALL = "all"

VARIABLE = "WAVEBED_TEST_SEED"


def seed_of_commit() -> str:
    """Return the hash of the commit, so that each change tries other samples and a red run can be repeated."""
    done = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "0"


SEED = os.environ.setdefault(VARIABLE, seed_of_commit())
"""Workers of pytest inherit it."""


def sample(cases: Sequence[T], count: int) -> list[T]:
    """Return `count` of the cases in their order, or all of them."""
    if SEED == ALL:
        return list(cases)
    chosen = random.Random(SEED).sample(range(len(cases)), min(count, len(cases)))
    return [cases[number] for number in sorted(chosen)]
