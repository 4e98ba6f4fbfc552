"""Our figure beside a published one: reproduced, not reproduced, undecided, or one trial only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from wavebed.stats.intervals import median_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.reproduce.published import Published
    from wavebed.stats.intervals import Interval

__all__ = ["TOLERANCE", "Beside", "Verdict", "judged", "logarithm", "tolerated"]

TOLERANCE: Final = 0.25
"""Share of the published figure within which ours reproduces it; the reading error where that is larger."""

Verdict = Literal["reproduced", "not reproduced", "undecided", "one trial only", "no value"]


@dataclass(frozen=True, slots=True)
class Beside:
    """A published figure and ours.

    Parameters
    ----------
    published : Published
        The published one.
    cell : str
        The cell of the campaign.
    ours : Interval
        Median of the counted trials and its interval, by order statistics.
    verdict : str
        Reproduced: the whole interval is within the tolerance; not: none of it is.
    """

    published: Published
    cell: str
    ours: Interval
    verdict: Verdict

    @property
    def ratio(self) -> float | None:
        """Ours divided by the published figure, if that is not 0."""
        published = self.published.value
        return None if self.ours.estimate is None or published == 0 else self.ours.estimate / published

    @property
    def order(self) -> str:
        """Whether the whole interval of a ratio is on the published side of 1; empty for what is no ratio."""
        if not self.published.is_ratio:
            return ""
        low, high = self.ours.low, self.ours.high
        if low is None or high is None or low <= 1 <= high:
            return "order undecided"
        return "order holds" if (high < 1) == (self.published.value < 1) else "other order"

    @property
    def within(self) -> bool:
        """Whether the estimate is within the tolerance, however little is known of it."""
        least, most = tolerated(self.published)
        return self.ours.estimate is not None and least <= self.ours.estimate <= most


def logarithm(beside: Beside) -> float | None:
    """Return the natural logarithm of our figure divided by the published one; ``None`` without a value above 0.

    It is 0 where ours is above a published "at least".
    """
    ratio = beside.ratio
    if ratio is None or ratio <= 0:
        return None
    return min(math.log(ratio), 0) if beside.published.at_least else math.log(ratio)


def tolerated(published: Published) -> tuple[float, float]:
    """Return the least and the largest value that reproduce a figure."""
    off = max(TOLERANCE * published.value, published.error)
    return published.value - off, math.inf if published.at_least else published.value + off


def judged(published: Published, cell: str, values: Sequence[float]) -> Beside:
    """Return a published figure beside the values of our trials."""
    ours = median_interval(values)
    return Beside(published, cell, ours, _verdict(published, ours))


def _verdict(published: Published, ours: Interval) -> Verdict:
    if ours.estimate is None:
        return "no value"
    if ours.count == 1:
        return "one trial only"
    if ours.low is None or ours.high is None:
        return "undecided"
    least, most = tolerated(published)
    if least <= ours.low and ours.high <= most:
        return "reproduced"
    return "not reproduced" if ours.high < least or ours.low > most else "undecided"
