"""Verdicts on a difference, from its interval and the margin that matters.

The rule is on the page docs/models/campaign-statistics.md. Verdicts are codes; sentences are made elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from wavebed.stats.methods import Method

__all__ = ["Better", "Finding", "Margin", "Reason", "Scale", "Verdict", "judge"]

Verdict: TypeAlias = Literal["better", "worse", "equivalent", "undecided", "equal", "different"]
Better: TypeAlias = Literal["lower", "higher"]
Scale: TypeAlias = Literal["difference", "ratio"]
Reason: TypeAlias = Literal["too-few", "not-positive", "no-reference", "constant", "no-margin", "too-many", "no-values"]
"""Why a result is missing or is not of the requested form."""


@dataclass(frozen=True, slots=True)
class Margin:
    """The smallest difference that matters.

    Parameters
    ----------
    value : float
        At least 0: in the unit of the metric, or a fraction of the reference if `relative` (0.05 for 5 %).
    relative : bool
        Symmetric on logarithms: with 0.05, ratios from 1/1.05 to 1.05 are within the margin.

    Raises
    ------
    ValueError
        If `value` is negative or not finite.
    """

    value: float
    relative: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value >= 0):
            raise ValueError(f"a margin of {self.value:g} is not a finite number of at least 0")

    def half_width(self, scale: Scale, reference: float | None) -> float | None:
        """Return the largest difference within the margin, on the working scale (logarithms for ratios).

        Parameters
        ----------
        reference : float or None
            Typical value of the first sample, for a relative margin on differences.

        Returns
        -------
        float or None
            ``None`` if a relative margin has no reference other than 0.
        """
        if not self.relative:
            return self.value if scale == "difference" else None
        if scale == "ratio":
            return math.log1p(self.value)
        return self.value * abs(reference) if reference else None


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict on the second of two samples beside the first, with what it rests on.

    Parameters
    ----------
    verdict : str
        ``better``, ``worse``, ``equivalent``, ``undecided``, ``equal``, or ``different`` where neither direction of the
        metric is better.
    estimate, low, high : float or None
        The difference second - first or the ratio second / first (see `scale`), and its interval. ``None`` where there
        are too few values.
    level : float or None
        Coverage probability of the interval; simultaneous over several primary metrics only as `family.settle` says.
    count : int
        Number of pairs; of independent samples, values of the smaller one.
    p : float or None
        Two-sided p value of no difference.
    adjusted : float or None
        The same, adjusted by Holm over all primary metrics; equal to `p` if there is one.
    scale : str
        ``difference`` or ``ratio``.
    margin : float or None
        The largest difference within the margin, or the largest ratio; ``None`` without a margin.
    constant : bool
        All differences (or ratios) are the same. Without an interval the verdict is then on the values seen, not on others.
    reason : str or None
        Why there is no interval, or why a relative margin was judged on differences.
    method : Method
        Name and version of the formula, versions of the libraries.
    """

    verdict: Verdict
    estimate: float | None
    low: float | None
    high: float | None
    level: float | None
    count: int
    p: float | None
    adjusted: float | None
    scale: Scale
    margin: float | None
    constant: bool
    reason: Reason | None
    method: Method

    @property
    def settled(self) -> bool:
        """Whether a stop rule may stop: there is a verdict, and an interval bears it."""
        return self.verdict != "undecided" and self.low is not None


def judge(low: float | None, high: float | None, margin: float | None, better: Better | None) -> Verdict:
    """Return the verdict of an interval of second - first, on the working scale (0 is no difference).

    ``equivalent`` if the whole interval is within the margin, even if it excludes 0; else ``better`` or ``worse`` if it
    excludes 0; else ``undecided``. ``equal`` is said of differences that are all 0, not of an interval (see `paired`).

    Parameters
    ----------
    low, high : float or None
        The interval; ``None`` if there is none.
    margin : float or None
        Largest difference that does not matter, at least 0.
    better : {"lower", "higher"} or None
        The better direction of the metric; without one, a difference is ``different``.
    """
    if low is None or high is None:
        return "undecided"
    if margin is not None and -margin <= low and high <= margin:
        return "equivalent"
    if low <= 0 <= high:
        return "undecided"
    if better is None:
        return "different"
    return "better" if (low > 0) == (better == "higher") else "worse"
