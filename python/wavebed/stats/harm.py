"""Harm: what a device loses of the result that it has alone, when another one does something else.

Ware, Mukerjee, Seshan, Sherry: Beyond Jain's Fairness Index, HotNets 2019, section 3.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wavebed.stats.intervals import median_interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wavebed.stats.intervals import Interval
    from wavebed.stats.verdict import Better


def harm(alone: float, together: float, better: Better) -> float:
    """Return the harm: 0 none, 1 all, negative a benefit; minus infinity for a benefit that has no bound.

    A benefit has no bound if a rate rises from 0, or a delay falls to 0.

    Parameters
    ----------
    alone, together : float
        The results before and after the other one's choice.
    better : str
        ``higher``: (alone - together) / alone; ``lower``: (together - alone) / together.
    """
    if alone == together:
        return 0.0
    lost, of = (alone - together, alone) if better == "higher" else (together - alone, together)
    return lost / of if of else -math.inf


@dataclass(frozen=True, slots=True)
class Harm:
    """The harm to one device.

    Parameters
    ----------
    workload, metric : str
        Its result.
    baseline, cell : str
        The treatment in which it is alone, or undisturbed, and the other one.
    interval : Interval
        The median over pairs, as a part of the result. A benefit without bound has no value; it counts as a pair.
    """

    workload: str
    metric: str
    baseline: str
    cell: str
    interval: Interval


def harm_of_pairs(alone: Mapping[int, float], together: Mapping[int, float], better: Better) -> Interval:
    """Return the median harm and its interval over the blocks, or the seeds, in which both have a value."""
    found = [harm(value, together[block], better) for block, value in alone.items() if block in together]
    interval = median_interval(found)
    estimate, low, high = map(_bounded, (interval.estimate, interval.low, interval.high))
    return replace(interval, estimate=estimate, low=low, high=high)


def _bounded(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value


def worst_first(found: Iterable[Harm]) -> list[Harm]:
    """Return those with a value, the one that loses most first."""
    return sorted((each for each in found if each.interval.estimate is not None), key=_estimate, reverse=True)


def _estimate(each: Harm) -> float:
    return each.interval.estimate or 0.0
