"""Loss on the way into a building or a car (TR 38.901 7.4.3)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from wavebed.radio.materials import concrete_db, glass_db, irr_glass_db

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["building_entry_db", "car_entry_db", "wall_db"]

Wall: TypeAlias = Literal["low-loss", "high-loss"]

_SPREAD_DB = {"low-loss": 4.4, "high-loss": 6.5}
_INDOOR_DB_PER_M = 0.5


def wall_db(wall: Wall, frequency_hz: float) -> float:
    """Return the median loss PL_tw of an outer wall (Table 7.4.3-2): glass or IRR glass, and concrete."""
    if wall == "low-loss":
        parts = ((0.3, glass_db(frequency_hz)), (0.7, concrete_db(frequency_hz)))
    else:
        parts = ((0.7, irr_glass_db(frequency_hz)), (0.3, concrete_db(frequency_hz)))
    return 5 - 10 * math.log10(sum(fraction * 10 ** (-loss / 10) for fraction, loss in parts))


def building_entry_db(
    rngs: Sequence[np.random.Generator], wall: Wall, indoor_m: float, frequency_hz: float
) -> NDArray[np.float64]:
    """Return the loss into a building for each seed: wall, 0.5 dB per metre indoors, and a normal part (eq. 7.4-2)."""
    median = wall_db(wall, frequency_hz) + _INDOOR_DB_PER_M * indoor_m
    return median + _SPREAD_DB[wall] * np.array([rng.standard_normal() for rng in rngs])


def car_entry_db(rngs: Sequence[np.random.Generator], *, metallised: bool = False) -> NDArray[np.float64]:
    """Return the loss into a car for each seed: N(9, 5) dB, N(20, 5) dB with metallised windows (7.4.3.2)."""
    return (20.0 if metallised else 9.0) + 5.0 * np.array([rng.standard_normal() for rng in rngs])
