"""Shadow fading, and a line of sight that is drawn: both depend on the place, not on the way there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wavebed.channel.propagation.correlated import normal_cdf
from wavebed.channel.propagation.pathloss import rural_breakpoint_m
from wavebed.channel.propagation.places import normal_field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from wavebed.channel.propagation.places import Route
    from wavebed.scene.tables import Propagation, ShadowTable

__all__ = ["LOS_CORRELATION_M", "SHADOWING", "Shadowing", "draw_los", "los_spread_db", "shadowing_db"]


class Shadowing(NamedTuple):
    """Standard deviations (TR 38.901 Table 7.4.1-1) and correlation distances (Table 7.5-6) of shadow fading."""

    los_db: float
    nlos_db: float
    los_m: float
    nlos_m: float


SHADOWING: Mapping[Propagation, Shadowing] = {
    "umi": Shadowing(los_db=4.0, nlos_db=7.82, los_m=10.0, nlos_m=13.0),
    "uma": Shadowing(los_db=4.0, nlos_db=6.0, los_m=37.0, nlos_m=50.0),
    "rma": Shadowing(los_db=4.0, nlos_db=8.0, los_m=37.0, nlos_m=120.0),
    "inh": Shadowing(los_db=3.0, nlos_db=8.03, los_m=10.0, nlos_m=6.0),
    "inh-open": Shadowing(los_db=3.0, nlos_db=8.03, los_m=10.0, nlos_m=6.0),
}

RURAL_FAR_DB = 6.0
"""Standard deviation in LOS beyond the breakpoint of a rural cell (Table 7.4.1-1)."""

LOS_CORRELATION_M: Mapping[Propagation, float] = {
    "umi": 50.0,
    "uma": 50.0,
    "rma": 60.0,
    "inh": 10.0,
    "inh-open": 10.0,
}
"""Correlation distances of the LOS state (TR 38.901 Table 7.6.3.1-2)."""


def los_spread_db(
    scenario: Propagation,
    distance_2d_m: NDArray[np.float64],
    height_bs_m: float,
    height_ut_m: NDArray[np.float64] | float,
    frequency_hz: float,
) -> NDArray[np.float64] | float:
    """Return the standard deviation of shadowing in LOS; in rural cells it grows at the breakpoint."""
    if scenario == "free-space":
        return 0.0
    near = SHADOWING[scenario].los_db
    if scenario != "rma":
        return near
    return np.where(distance_2d_m <= rural_breakpoint_m(height_bs_m, height_ut_m, frequency_hz), near, RURAL_FAR_DB)


def shadowing_db(
    rngs: Sequence[np.random.Generator],
    scenario: Propagation,
    route: Route,
    spread_db: NDArray[np.float64] | float | None = None,
    measured: ShadowTable | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return shadow fading in LOS and in NLOS, in dB (a loss, zero mean), each (seeds, n); zero in free space.

    They are separate fields in the plane.

    Parameters
    ----------
    rngs : sequence of numpy.random.Generator
        One for each seed.
    scenario : str
        The propagation scenario.
    route : Route
        The place at each step.
    spread_db : float or (n,) float64, optional
        Standard deviation in LOS, see `los_spread_db`; by default that of the table.
    measured : ShadowTable, optional
        What is known of the place, instead of the tables.
    """
    if scenario == "free-space":
        none = np.zeros((len(rngs), route.walked_m.size))
        return none, none
    values = SHADOWING[scenario]
    if measured is not None and measured.distance_m is not None:
        values = values._replace(los_m=measured.distance_m, nlos_m=measured.distance_m)
    if measured is not None and measured.spread_db is not None:
        values, spread_db = values._replace(nlos_db=measured.spread_db), measured.spread_db
    line = normal_field(rngs, route, values.los_m)
    behind = normal_field(rngs, route, values.nlos_m)
    line *= values.los_db if spread_db is None else spread_db
    behind *= values.nlos_db
    return line, behind


def draw_los(
    rngs: Sequence[np.random.Generator],
    scenario: Propagation,
    probability: NDArray[np.float64],
    route: Route,
) -> NDArray[np.bool_]:
    """Return LOS states of shape (seeds, n): LOS where a correlated uniform number is below its probability.

    The number is that of TR 38.901 7.6.3.3 (hard states), correlated over places by Table 7.6.3.1-2.

    Parameters
    ----------
    rngs : sequence of numpy.random.Generator
        One for each seed.
    scenario : str
        The propagation scenario.
    probability : (n,) float64
        Probability of a line of sight at each step.
    route : Route
        The place at each step.
    """
    if scenario == "free-space":
        return np.ones((len(rngs), route.walked_m.size), dtype=np.bool_)
    return normal_cdf(normal_field(rngs, route, LOS_CORRELATION_M[scenario])) < probability
