"""Percentiles of samples, where there are enough of them."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["least_values", "percentile"]


def least_values(share: int) -> int:
    """Return how many values a percentile needs: with fewer, none is expected above it, and it is the largest one."""
    return ceil(100 / (100 - share))


def percentile(values: Sequence[float], share: int, least: int = 1) -> float | None:
    """Return a percentile, linear between values; ``None`` for fewer than `least` or `least_values`.

    Parameters
    ----------
    share : int
        From 1 to 99.
    """
    if len(values) < max(least, least_values(share)):
        return None
    return float(np.percentile(values, share))
