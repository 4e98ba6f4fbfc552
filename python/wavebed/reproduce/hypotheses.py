"""Changes that may explain a difference from a study: how far each is from the published figures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wavebed.reproduce.judge import logarithm

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wavebed.reproduce.judge import Beside
    from wavebed.reproduce.studies import Expected, Hypothesis, Part

__all__ = ["METRIC", "SAME", "Tried", "tried"]

METRIC: Final = "metric"
"""Stands for the metric among the factors of fitted figures."""
SAME: Final = 0.05
"""Distances that differ by less are called the same: 5 % of each figure on average."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A hypothesis and what its run gave.

    Parameters
    ----------
    hypothesis : Hypothesis
        Which.
    beside : sequence of Beside
        Each published figure, and ours with the change.
    fitted, held_out : float or None
        Mean of ``|ln(ours / published)|`` over the figures to which a change was fitted, and over all others;
        ``None`` without any.
    counts : tuple of int
        Number of figures of both kinds.
    compared : int
        Held-out figures that have a value with and without the change.
    within : tuple of int
        Figures of both kinds whose median is within the tolerance.
    inside, outside : int
        Held-out figures whose median the change moves inside the tolerance, and out of it.
    """

    hypothesis: Hypothesis
    beside: Sequence[Beside]
    fitted: float | None
    held_out: float | None
    counts: tuple[int, int]
    compared: int
    within: tuple[int, int]
    inside: int
    outside: int
    found: Expected | None

    @property
    def explains(self) -> bool:
        """Whether the change alone moves held-out figures inside the tolerance and none out, and all of them closer."""
        return self.inside > 0 and self.outside == 0 and self.found == "closer"

    @property
    def trials(self) -> int:
        """The most trials of a figure."""
        return max((each.ours.count for each in self.beside), default=0)


def tried(part: Part, runs: Sequence[tuple[Hypothesis, Sequence[Beside]]]) -> list[Tried]:
    """Return what the run of each hypothesis gave; the first changes nothing, and all are compared with it."""
    if not runs:
        return []
    _, described = runs[0]
    return [_tried(part, hypothesis, described, beside) for hypothesis, beside in runs]


def _tried(part: Part, hypothesis: Hypothesis, described: Sequence[Beside], beside: Sequence[Beside]) -> Tried:
    fitted = [each for each in beside if _is_fitted(part, each)]
    held_out = [(was, now) for was, now in zip(described, beside, strict=True) if not _is_fitted(part, now)]
    # Trials may be missing: only figures that both have are compared.
    both = [(was, now) for was, now in held_out if logarithm(was) is not None and logarithm(now) is not None]
    before, after = _distance(was for was, _ in both), _distance(now for _, now in both)
    return Tried(
        hypothesis,
        beside,
        _distance(fitted),
        _distance(now for _, now in held_out),
        (len(fitted), len(held_out)),
        len(both),
        (sum(each.within for each in fitted), sum(now.within for _, now in held_out)),
        sum(now.within and not was.within for was, now in both),
        sum(was.within and not now.within for was, now in both),
        None if beside is described else _moved(before, after),
    )


def _is_fitted(part: Part, each: Beside) -> bool:
    levels = {**each.published.levels, METRIC: each.published.metric}
    return any(levels[factor] in fitted for factor, fitted in part.fitted.items())


def _distance(figures: Iterable[Beside]) -> float | None:
    far = [abs(ratio) for each in figures if (ratio := logarithm(each)) is not None]
    return math.fsum(far) / len(far) if far else None


def _moved(before: float | None, after: float | None) -> Expected | None:
    if before is None or after is None:
        return None
    if abs(after - before) < SAME:
        return "no change"
    return "closer" if after < before else "farther"
