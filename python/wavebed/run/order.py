"""The order of the trials: blocks of one trial of every treatment with one seed, in random order within the block."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from wavebed.run.trial import Slot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.run.scenario import Arm

__all__ = ["ordered"]


def ordered(arms: Sequence[Arm], trials: int, seed: int) -> list[Slot]:
    """Return the trials in the order in which they run; the same seed gives the same order."""
    slots: list[Slot] = []
    for block in range(1, trials + 1):
        luck = random.Random(f"order {seed} {block}")  # noqa: S311 - an order, no secret
        for arm in luck.sample(list(arms), len(arms)):
            slots.append(Slot(len(slots) + 1, block, seed + block - 1, arm))
    return slots
