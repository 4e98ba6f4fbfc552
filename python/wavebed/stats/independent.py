"""Findings on independent samples: folders of different days, machines or versions.

Formulas and sources: docs/models/campaign-statistics.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["Independent", "delta_interval", "independent_finding"]
