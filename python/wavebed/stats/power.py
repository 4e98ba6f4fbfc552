"""How many blocks a campaign needs, from a pilot.

Formulas and sources: docs/models/campaign-statistics.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from wavebed.extras import require

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
    raise NotImplementedError
