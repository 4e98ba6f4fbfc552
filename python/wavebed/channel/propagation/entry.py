"""Loss on the way into a building or a car (TR 38.901 7.4.3)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from wavebed.channel.propagation.random_streams import generators
from wavebed.radio.materials import concrete_db, glass_db, irr_glass_db

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.scene.model import Ue
    from wavebed.scene.tables import Propagation

__all__ = ["building_entry_db", "car_entry_db", "drawn_depth_m", "entry_db", "wall_db"]

Wall: TypeAlias = Literal["low-loss", "high-loss"]

_SPREAD_DB = {"low-loss": 4.4, "high-loss": 6.5}
_INDOOR_DB_PER_M = 0.5
_DEEPEST_M = 25.0
_DEEPEST_RURAL_M = 10.0


def wall_db(wall: Wall, frequency_hz: float) -> float:
    """Return the median loss PL_tw of an outer wall (Table 7.4.3-2): glass or IRR glass, and concrete."""
    if wall == "low-loss":
        parts = ((0.3, glass_db(frequency_hz)), (0.7, concrete_db(frequency_hz)))
    else:
        parts = ((0.7, irr_glass_db(frequency_hz)), (0.3, concrete_db(frequency_hz)))
    return 5 - 10 * math.log10(sum(fraction * 10 ** (-loss / 10) for fraction, loss in parts))


def building_entry_db(
    rngs: Sequence[np.random.Generator], wall: Wall, indoor_m: NDArray[np.float64] | float, frequency_hz: float
) -> NDArray[np.float64]:
    """Return the loss into a building for each seed: wall, 0.5 dB per metre indoors, and a normal part (eq. 7.4-2)."""
    median = wall_db(wall, frequency_hz) + _INDOOR_DB_PER_M * indoor_m
    return median + _SPREAD_DB[wall] * np.array([rng.standard_normal() for rng in rngs])


def car_entry_db(rngs: Sequence[np.random.Generator], *, metallised: bool = False) -> NDArray[np.float64]:
    """Return the loss into a car for each seed: N(9, 5) dB, N(20, 5) dB with metallised windows (7.4.3.2)."""
    return (20.0 if metallised else 9.0) + 5.0 * np.array([rng.standard_normal() for rng in rngs])


def drawn_depth_m(rngs: Sequence[np.random.Generator], scenario: Propagation) -> NDArray[np.float64]:
    """Return a distance indoors for each seed: the lesser of two uniform ones, up to 25 m, 10 m in rural cells."""
    deepest_m = _DEEPEST_RURAL_M if scenario == "rma" else _DEEPEST_M
    return deepest_m * np.array([rng.random(2).min() for rng in rngs])


def entry_db(
    seeds: Sequence[int], ue: Ue, scenario: Propagation, frequency_hz: float, time_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the loss of what is around a UE at each step, of shape (seeds, n), or (1, 1) if nothing is.

    The draws belong to the UE: they are the same for every base station and both carriers. The base stations of an
    office are inside with the UE.

    Parameters
    ----------
    seeds : sequence of int
        One row each.
    ue : Ue
        The UE.
    scenario : str
        The propagation scenario.
    frequency_hz : float
        Carrier frequency.
    time_s : (n,) float64
        Time of each step.
    """
    total = np.zeros((1, 1))
    if scenario in {"inh", "inh-open"}:
        return total
    if ue.indoor is not None:
        depth_m = ue.indoor.depth_m
        inside_m = drawn_depth_m(generators(seeds, "depth indoors"), scenario) if depth_m is None else depth_m
        walls = building_entry_db(generators(seeds, "building entry"), ue.indoor.wall, inside_m, frequency_hz)
        total = total + walls[:, None] * _during(ue.indoor.during_s, time_s)
    if ue.in_car is not None:
        car = car_entry_db(generators(seeds, "car entry"), metallised=ue.in_car.windows == "metallised")
        total = total + car[:, None] * _during(ue.in_car.during_s, time_s)
    return total


def _during(periods_s: Sequence[tuple[float, float]], time_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 at the times within some periods, otherwise 0; no periods are always."""
    if not periods_s:
        return np.ones(time_s.size)
    there = [(start <= time_s) & (time_s < end) for start, end in periods_s]
    return np.asarray(np.logical_or.reduce(there), dtype=np.float64)
