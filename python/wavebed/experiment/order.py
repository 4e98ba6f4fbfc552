"""The order of the trials: blocks of one trial of every treatment, in random order within the block."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["in_blocks"]

_T = TypeVar("_T")


def in_blocks(treatments: Sequence[_T], blocks: int, seed: int) -> tuple[tuple[_T, ...], ...]:
    """Draw the order of each block from a seed, so that drift affects all treatments alike."""
    return tuple(
        tuple(random.Random(f"order {seed} {block}").sample(treatments, len(treatments)))  # noqa: S311 - an order
        for block in range(1, blocks + 1)
    )
