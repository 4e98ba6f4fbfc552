"""Several primary metrics at once: no more false alarms over all of them than over one.

Formulas and sources: docs/models/campaign-statistics.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.stats.independent import Groups
from wavebed.stats.paired import Pairs, SignedRanks, find

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wavebed.stats.paired import Design
    from wavebed.stats.verdict import Better, Finding, Margin

__all__ = ["Primary", "explore", "holm", "settle", "settle_independent", "simultaneous_level"]

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Primary:
    """A metric of two treatments.

    Parameters
    ----------
    a, b : sequence of float
        Pairs: one value for each block, in the order of the blocks.
    margin : Margin or None
        The smallest difference that matters.
    better : {"lower", "higher"} or None
        The better direction.
    """

    a: Sequence[float]
    b: Sequence[float]
    margin: Margin | None = None
    better: Better | None = None


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values adjusted by Holm's step-down method (1979), in the given order."""
    count = len(p_values)
    adjusted = [0.0] * count
    largest = 0.0
    for place, index in enumerate(sorted(range(count), key=lambda each: p_values[each])):
        largest = max(largest, min(1.0, (count - place) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def simultaneous_level(level: float, count: int) -> float:
    """Return the level of each of `count` intervals that together have `level` (Bonferroni)."""
    return 1 - (1 - level) / max(count, 1)


def settle(primaries: Sequence[Primary], design: Design | None = None) -> list[Finding]:
    """Return the findings on all primary metrics, in pairs.

    The intervals are simultaneous (Bonferroni), and `judge` gives the verdicts. A metric that they leave undecided, and
    whose p value adjusted by Holm is at most the error, has the interval of its step of Holm's method, if that
    excludes 0.
    So ``better``, ``worse`` and ``different`` are false alarms with probability 1 - level at most over all metrics, and
    so is ``equivalent``.

    Parameters
    ----------
    primaries : sequence of Primary
        All primary metrics of one comparison, with the samples in pairs.
    design : Design, optional
        Its level is that of all metrics together; `SignedRanks` at 95 % by default.

    Raises
    ------
    ValueError
        If the samples of a metric are not pairs or a value is not finite.
    """
    whole = design or SignedRanks()
    samples = [Pairs.of(each.a, each.b, each.margin) for each in primaries]

    def finding(index: int, level: float, p: float, adjusted: float, stepped: bool) -> Finding:
        return find(samples[index], primaries[index].better, whole.at(level), p, adjusted, stepped=stepped)

    return _stepwise([whole.p(pairs.values) for pairs in samples], finding, whole.level)


def settle_independent(primaries: Sequence[Primary], level: float = LEVEL, seed: int = 0) -> list[Finding]:
    """Return the findings on all primary metrics of independent samples; the rules are those of `settle`.

    Parameters
    ----------
    level : float
        Level of all metrics together.
    seed : int
        Seed of the resampling.

    Raises
    ------
    MissingPackageError
        If SciPy is not installed.
    ValueError
        If a value is not finite.
    """
    samples = [Groups.of(each.a, each.b, each.margin) for each in primaries]

    def finding(index: int, level: float, p: float, adjusted: float, stepped: bool) -> Finding:
        return samples[index].finding(primaries[index].better, level, seed, p, adjusted, stepped=stepped)

    return _stepwise([groups.p() for groups in samples], finding, level)


def _stepwise(
    p_values: Sequence[float], finding: Callable[[int, float, float, float, bool], Finding], level: float
) -> list[Finding]:
    """Return the finding of each metric: simultaneous, or by its step of Holm's method where that decides more.

    Parameters
    ----------
    finding : callable
        From index, level of the interval, p value, adjusted p value, and whether it is a step of Holm's method.
    """
    count = len(p_values)
    adjusted = holm(p_values)
    place = {index: rank for rank, index in enumerate(sorted(range(count), key=lambda each: p_values[each]))}
    findings = []
    for index, (p, raised) in enumerate(zip(p_values, adjusted, strict=True)):
        found = finding(index, simultaneous_level(level, count), p, raised, False)
        left = count - place[index]
        if found.verdict == "undecided" and raised <= 1 - level and left < count:
            other = finding(index, simultaneous_level(level, left), p, raised, True)
            found = found if other.verdict == "undecided" else other
        findings.append(found)
    return findings


def explore(metrics: Sequence[Primary], design: Design | None = None) -> list[Finding]:
    """Return the findings on other metrics, each by itself: exploratory, with false alarms among many."""
    chosen = design or SignedRanks()
    return [find(Pairs.of(each.a, each.b, each.margin), each.better, chosen) for each in metrics]
