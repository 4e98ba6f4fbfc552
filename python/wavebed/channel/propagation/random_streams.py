"""Random generators that are keyed by seed and stage, so that no stage disturbs another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["generator", "generators"]


def generator(seed: int, stage: str) -> np.random.Generator:
    """Return the generator of one stage of one seed.

    Parameters
    ----------
    seed : int
        Not negative.
    stage : str
        What is drawn from it, such as ``shadowing``.
    """
    key = int.from_bytes(stage.encode(), "little")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(key,))))


def generators(seeds: Iterable[int], stage: str) -> list[np.random.Generator]:
    """Return one generator for each seed; those of an ensemble are those of its members."""
    return [generator(seed, stage) for seed in seeds]
