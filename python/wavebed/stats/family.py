"""Several primary metrics at once: no more false alarms over all of them than over one.

Formulas and sources: docs/models/campaign-statistics.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wavebed.stats.paired import Pairs, SignedRanks, find
from wavebed.stats.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.stats.paired import Design
    from wavebed.stats.verdict import Better, Finding, Margin

__all__ = ["Primary", "explore", "holm", "settle", "simultaneous_level"]


@dataclass(frozen=True, slots=True)
class Primary:
    """A metric of two treatments, in pairs.

    Parameters
    ----------
    a, b : sequence of float
        One value for each block, in the order of the blocks.
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
    """Return the findings on all primary metrics.

    The intervals are simultaneous (Bonferroni), and `judge` gives the verdicts. A metric that they leave undecided, and
    whose p value adjusted by Holm is at most the error, has the interval of its step of Holm's method, if it excludes 0.
    So ``better``, ``worse`` and ``different`` are false alarms with probability 1 - level at most over all metrics, and
    so is ``equivalent``.

    Parameters
    ----------
    primaries : sequence of Primary
        All primary metrics of one comparison.
    design : Design, optional
        Its level is that of all metrics together; `SignedRanks` at 95 % by default.

    Raises
    ------
    ValueError
        If the samples of a metric are not pairs or a value is not finite.
    """
    whole = design or SignedRanks()
    count = len(primaries)
    strict = whole.at(simultaneous_level(whole.level, count))
    samples = [Pairs.of(primary.a, primary.b, primary.margin) for primary in primaries]
    p_values = [whole.p(pairs.values) for pairs in samples]
    adjusted = holm(p_values)
    places = sorted(range(count), key=lambda each: p_values[each])
    findings = []
    for index, (primary, pairs) in enumerate(zip(primaries, samples, strict=True)):
        known = (p_values[index], adjusted[index])
        found = find(pairs, primary.better, strict, *known)
        step = count - places.index(index)
        if found.verdict == "undecided" and adjusted[index] <= 1 - whole.level and step < count:
            found = _stepped(found, pairs, primary, whole.at(simultaneous_level(whole.level, step)))
        findings.append(found)
    return findings


def _stepped(found: Finding, pairs: Pairs, primary: Primary, design: Design) -> Finding:
    """Return the finding by the interval of a step of Holm's method, the given one if that does not exclude 0."""
    other = find(pairs, primary.better, design, found.p, found.adjusted)
    interval = design.interval(pairs.values)
    verdict = judge(interval.low, interval.high, None, primary.better)  # equivalence needs the simultaneous interval
    return found if verdict == "undecided" else replace(other, verdict=verdict)


def explore(metrics: Sequence[Primary], design: Design | None = None) -> list[Finding]:
    """Return the findings on other metrics, each by itself: exploratory, with false alarms among many."""
    chosen = design or SignedRanks()
    return [find(Pairs.of(each.a, each.b, each.margin), each.better, chosen) for each in metrics]
