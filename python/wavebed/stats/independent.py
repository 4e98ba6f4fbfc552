"""Findings on independent samples: folders of different days, machines or versions.

Formulas and sources: docs/models/campaign-statistics.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from wavebed.extras import require
from wavebed.stats.intervals import FEWEST, LEVEL, Interval, cliffs_delta, independent_difference, method
from wavebed.stats.verdict import MetricSample, conclude, scaled_margin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.stats.verdict import Better, Finding, Margin, Reason, Scale

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Independent:
    """A finding on two independent samples, with an effect size.

    Parameters
    ----------
    finding : Finding
        Its interval is the bootstrap interval of the medians' difference, or ratio; its p value is Mann and Whitney's.
    delta : Interval
        Cliff's delta, P(b > a) - P(b < a), with its interval.
    """

    finding: Finding
    delta: Interval


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Two independent samples on the working scale.

    Parameters
    ----------
    a, b : float array, shape (n,) and (m,)
        The values, or their logarithms.
    scale : str
        ``difference`` or ``ratio``.
    margin : float or None
        Largest difference within the margin, on this scale.
    constant : bool
        Whether each sample has at least two values, all the same.
    reason : str or None
        As of `paired.Pairs`.
    """

    a: Floats
    b: Floats
    scale: Scale
    margin: float | None
    constant: bool
    reason: Reason | None

    @classmethod
    def of(cls, a: Sequence[float], b: Sequence[float], margin: Margin | None = None) -> Groups:
        """Return the two samples; on logarithms if the margin is relative and all values are positive.

        Raises
        ------
        ValueError
            If a value is not finite.
        """
        first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
        if not (np.isfinite(first).all() and np.isfinite(second).all()):
            raise ValueError("a value is not a finite number")
        positive = bool((first > 0).all() and (second > 0).all())
        reference = float(np.median(first)) if first.size else None
        scale, half, reason = scaled_margin(margin, positive, reference)
        constant = min(len(first), len(second)) > 1 and not np.ptp(first) and not np.ptp(second)
        if scale == "ratio":
            first, second = np.log(first), np.log(second)
        return cls(first, second, scale, half, constant, reason)

    def p(self) -> float:
        """Return the two-sided p value of Mann and Whitney; exact without ties if a sample has at most 8 values."""
        require("report", "A comparison of independent samples", ("scipy",))
        from scipy.stats import mannwhitneyu

        if not self.a.size or not self.b.size or float(np.ptp(np.concatenate((self.a, self.b)))) == 0:
            return 1.0
        return float(mannwhitneyu(self.b, self.a).pvalue)

    def finding(
        self,
        better: Better | None,
        level: float,
        seed: int = 0,
        p: float | None = None,
        adjusted: float | None = None,
        *,
        stepped: bool = False,
    ) -> Finding:
        """Return the finding at a level; its p value, and that adjusted for other metrics, may be known.

        Parameters
        ----------
        seed : int
            Seed of the resampling.
        stepped : bool
            Whether the interval is one of a step of Holm's method, which bears no equivalence.
        """
        count = min(len(self.a), len(self.b))
        if count < FEWEST:
            estimate = float(np.median(self.b) - np.median(self.a)) if count else None
            interval = Interval(estimate, None, None, None, count)
        else:
            interval = independent_difference(self.a.tolist(), self.b.tolist(), level, seed).medians
        sample = MetricSample(self.scale, self.margin, self.constant, self.reason)
        known = self.p() if p is None and count else p
        return conclude(sample, interval, better, method("bootstrap-medians"), known, adjusted, stepped=stepped)


def independent_finding(
    a: Sequence[float],
    b: Sequence[float],
    margin: Margin | None = None,
    better: Better | None = None,
    level: float = LEVEL,
    seed: int = 0,
) -> Independent:
    """Return the finding on b beside a.

    Parameters
    ----------
    a, b : sequence of float
        Independent values.
    margin : Margin, optional
        The smallest difference that matters.
    better : {"lower", "higher"}, optional
        The better direction of the metric.
    level : float
        Coverage probability of the intervals.
    seed : int
        Seed of the resampling.

    Raises
    ------
    MissingPackageError
        If SciPy is not installed.
    ValueError
        If a value is not finite.
    """
    groups = Groups.of(a, b, margin)
    finding = groups.finding(better, level, seed)
    return Independent(finding, delta_interval(a, b, level))


def delta_interval(a: Sequence[float], b: Sequence[float], level: float = LEVEL) -> Interval:
    """Return Cliff's delta and its asymmetric interval (Feng and Cliff 2004); ``None`` bounds below 2 values in either.

    Raises
    ------
    MissingPackageError
        If SciPy is not installed.
    """
    count = min(len(a), len(b))
    if count < 2:
        return Interval(cliffs_delta(a, b), None, None, None, count)
    dominance = np.sign(np.subtract.outer(np.asarray(b, dtype=np.float64), np.asarray(a, dtype=np.float64)))
    m, n = dominance.shape
    delta = float(dominance.mean())
    rows, columns = dominance.mean(axis=1) - delta, dominance.mean(axis=0) - delta
    squares = float((rows**2).sum()) * n**2 + float((columns**2).sum()) * m**2 - float(((dominance - delta) ** 2).sum())
    # Their unbiased estimate of the variance, with its least possible value; none is less than for equal shapes.
    variance = max(squares / (m * n * (m - 1) * (n - 1)), (1 - delta**2) / (m * n - 1))
    quantile = NormalDist().inv_cdf((1 + level) / 2)
    if abs(delta) == 1:
        # No value of one sample lies among the other's values: bounds as of a proportion of 1 (Feng and Cliff 2004).
        edge = (count - quantile**2) / (count + quantile**2)
        return Interval(
            delta, min(delta, edge) if delta > 0 else -1.0, 1.0 if delta > 0 else max(-edge, delta), level, count
        )
    wide = quantile * math.sqrt(variance * ((1 - delta**2) ** 2 + quantile**2 * variance))
    below = 1 - delta**2 + quantile**2 * variance
    middle = delta - delta**3
    return Interval(delta, max((middle - wide) / below, -1.0), min((middle + wide) / below, 1.0), level, count)
