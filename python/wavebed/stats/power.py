"""How many blocks a campaign needs, from a pilot.

Formulas and sources: docs/models/campaign-statistics.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np

from wavebed.extras import require
from wavebed.stats.family import simultaneous_level
from wavebed.stats.intervals import fewest_pairs
from wavebed.stats.methods import method

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.stats.methods import Method
    from wavebed.stats.verdict import Reason

    Floats = NDArray[np.float64]

__all__ = ["Advice", "advise"]

FEWEST: Final = 5
"""A pilot of fewer blocks says too little about the spread: the 95 % interval of it spans a factor of 6 and more."""
MOST: Final = 100_000
"""More blocks are not advised."""
EFFICIENCY: Final = 3 / math.pi
"""Of signed ranks beside the t test, for normal differences (Hollander and Wolfe 3.11)."""


@dataclass(frozen=True, slots=True)
class Advice:
    """How many blocks are needed.

    Parameters
    ----------
    blocks : int or None
        The pilot's not included; ``None`` if the pilot does not bear an advice.
    reason : str or None
        ``too-few``, ``constant``, ``no-margin`` (none, or 0), or ``too-many`` (more than `MOST`).
    spread : float or None
        Standard deviation that the pilot's differences have for signed ranks, on the working scale.
    method : Method
        Origin of the result.
    """

    blocks: int | None
    reason: Reason | None
    spread: float | None
    method: Method


def advise(
    pilot: Sequence[float] | Floats,
    margin: float | None,
    level: float = 0.95,
    power: float = 0.8,
    primaries: int = 1,
) -> Advice:
    """Return how many blocks find a true difference as large as the margin with this probability.

    Parameters
    ----------
    pilot : sequence of float
        Differences of a pilot's pairs on the working scale (`Pairs.values`).
    margin : float or None
        The smallest difference that matters, on the same scale (`Pairs.margin`).
    level : float
        Level of all primary metrics together.
    power : float
        Probability that the interval excludes 0, over pilots and campaigns.
    primaries : int
        Number of primary metrics.

    Raises
    ------
    MissingPackageError
        If SciPy is not installed.
    """
    require("report", "A sample size", ("scipy",))
    values, origin = np.asarray(pilot, dtype=np.float64), method("noncentral-t-sizing")
    if len(values) < FEWEST:
        return Advice(None, "too-few", None, origin)
    spread = float(values.std(ddof=1))
    if spread == 0:
        return Advice(None, "constant", spread, origin)
    if not margin:
        return Advice(None, "no-margin", spread, origin)
    strict = simultaneous_level(level, primaries)
    tail = NormalDist().inv_cdf((1 + strict) / 2)
    needed = _noncentral(power, len(values) - 1, tail)
    blocks = math.ceil((spread * needed / margin) ** 2 / EFFICIENCY + tail**2 / 2)
    if blocks > MOST:
        return Advice(None, "too-many", spread, origin)
    return Advice(max(blocks, fewest_pairs(strict)), None, spread, origin)


@cache
def _noncentral(power: float, degrees: int, tail: float) -> float:
    """Return the quantile of the non-central t distribution."""
    from scipy.stats import nct

    return float(nct.ppf(power, degrees, tail))
