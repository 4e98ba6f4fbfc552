"""Exclusions: whether trials are missing more often with one treatment, and how far that can carry a finding.

Formulas and sources: docs/models/campaign-statistics.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from wavebed.extras import require
from wavebed.stats.methods import method
from wavebed.stats.paired import SignedRanks, paired_finding
from wavebed.stats.verdict import Margin, judge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from wavebed.stats.methods import Method
    from wavebed.stats.paired import Design
    from wavebed.stats.verdict import Better, Finding, Verdict

__all__ = ["Exclusions", "ExclusionsCode", "exclusions", "worst_case"]

ExclusionsCode: TypeAlias = Literal["none", "alike", "differ"]
SEED, RESAMPLES = 0, 9999
ROUNDING = 1e-9
"""Part by which equal statistics may differ."""


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Whether the fraction of excluded trials differs between treatments.

    Parameters
    ----------
    code : str
        ``none`` without exclusions, ``differ`` if `p` is at most the error, else ``alike``.
    p : float or None
        ``None`` without exclusions or with fewer than two treatments.
    excluded : tuple of (str, int, int)
        Treatment, excluded trials, all trials.
    method : Method
        Origin of the result.
    """

    code: ExclusionsCode
    p: float | None
    excluded: tuple[tuple[str, int, int], ...]
    method: Method


def exclusions(counts: Mapping[str, tuple[int, int]], level: float = 0.95) -> Exclusions:
    """Return the test of excluded trials by treatment: Fisher's exact test.

    With three treatments and more, the chi-square statistic among random permutations of the trials.

    Parameters
    ----------
    counts : mapping of str to (int, int)
        Excluded trials and all trials of each treatment.
    level : float
        1 minus the error at which treatments differ.

    Raises
    ------
    MissingPackageError
        If SciPy is not installed.
    ValueError
        If a treatment has more excluded trials than trials.
    """
    for name, (lost, total) in counts.items():
        if not 0 <= lost <= total:
            raise ValueError(f"{name}: {lost} of {total} trials cannot be excluded")
    listed = tuple((name, lost, total) for name, (lost, total) in counts.items())
    table = np.array([(lost, total - lost) for _, lost, total in listed if total])
    if len(table) < 2 or not table[:, 0].any():
        code: ExclusionsCode = "alike" if len(table) and table[:, 0].any() else "none"
        return Exclusions(code, None, listed, method("fisher-exact"))
    p, name = _tested(table)
    return Exclusions("differ" if p <= 1 - level else "alike", p, listed, method(name))


def _tested(table: NDArray[np.int64]) -> tuple[float, str]:
    """Return the p value and the name of the test of a table of excluded and counted trials by treatment."""
    require("report", "A test of exclusions", ("scipy",))
    from scipy.stats import fisher_exact, random_table

    if not table[:, 1].any():
        return 1.0, "fisher-exact"
    if len(table) == 2:
        return float(fisher_exact(table).pvalue), "fisher-exact"
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    expected = np.outer(rows, columns) / table.sum()
    permuted = random_table.rvs(rows, columns, size=RESAMPLES, random_state=np.random.Generator(np.random.PCG64(SEED)))
    statistics, observed = (((each - expected) ** 2 / expected).sum(axis=(-2, -1)) for each in (permuted, table))
    as_far = int(np.count_nonzero(statistics >= observed * (1 - ROUNDING)))
    return (as_far + 1) / (RESAMPLES + 1), "chi-square"


def worst_case(
    a: Sequence[float | None],
    b: Sequence[float | None],
    margin: Margin | None = None,
    better: Better | None = None,
    design: Design | None = None,
    bounds: tuple[float, float] | None = None,
) -> Finding | None:
    """Return the finding on pairs whose missing values could be any within bounds; ``None`` without a value.

    The interval reaches from the lower bound with the missing values that make b as small and a as large as possible to
    the upper bound with the opposite; the p value is the larger one. The estimate is that of the complete pairs.

    Parameters
    ----------
    a, b : sequence of float or None
        One value for each block, in the order of the blocks; ``None`` is missing.
    bounds : (float, float), optional
        Least and greatest possible value; by default the least and greatest of all observed values.

    Raises
    ------
    ValueError
        If the lengths of the samples differ or a value is not finite or beyond the bounds.
    """
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} values are not pairs")
    seen = [value for value in (*a, *b) if value is not None]
    if not seen:
        return None
    least, most = bounds or (min(seen), max(seen))
    if min(seen) < least or max(seen) > most:
        raise ValueError(f"values from {min(seen):g} to {max(seen):g} are beyond the bounds of {least:g} to {most:g}")
    chosen = design or SignedRanks()
    complete = [(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None]
    asked = _bearable(margin, least, seen)
    ends = [
        paired_finding(_filled(a, for_a), _filled(b, for_b), asked, better, chosen)
        for for_a, for_b in ((most, least), (least, most))
    ]
    found = paired_finding([x for x, _ in complete], [y for _, y in complete], asked, better, chosen)
    low, high = ends[0].low, ends[1].high
    verdict = found.verdict if len(complete) == len(a) else _worst(low, high, found, better)
    return replace(
        found,
        verdict=verdict,
        low=low,
        high=high,
        level=ends[0].level,
        count=len(a),
        p=max(p for end in ends if (p := end.p) is not None),
        adjusted=None,
        constant=all(end.constant for end in ends) and ends[0].estimate == ends[1].estimate,
        reason="too-few" if low is None else found.reason,
    )


def _bearable(margin: Margin | None, least: float, seen: Sequence[float]) -> Margin | None:
    """Return the margin, in the unit of the metric if missing values could be 0 or less, which have no ratio."""
    if margin is None or not margin.relative or least > 0:
        return margin
    return Margin(margin.value * abs(float(np.median(seen))))


def _filled(values: Sequence[float | None], missing: float) -> list[float]:
    return [missing if value is None else value for value in values]


def _worst(low: float | None, high: float | None, found: Finding, better: Better | None) -> Verdict:
    """Return the verdict of an interval in the unit or ratio of a finding."""
    if found.scale == "difference":
        return judge(low, high, found.margin, better)
    low, high, margin = (None if value is None else math.log(value) for value in (low, high, found.margin))
    return judge(low, high, margin, better)
