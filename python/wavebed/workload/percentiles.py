"""Percentiles of samples with enough values."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["least_values", "percentile"]


def least_values(rank: int) -> int:
    """Return the least number of values for a percentile; with fewer, none is expected above it."""
    return ceil(100 / (100 - rank))


def percentile(values: Sequence[float], rank: int, least: int = 1) -> float | None:
    """Return the percentile `rank` (1 to 99), linear between values; ``None`` below `least` or `least_values`."""
    if len(values) < max(least, least_values(rank)):
        return None
    return float(np.percentile(values, rank))
