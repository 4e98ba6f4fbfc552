"""Our values beside published figures: by cell, or ratios and geometric means of cells of one block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.reproduce.judge import judged
from wavebed.reproduce.published import MEAN, RATIO
from wavebed.stats.intervals import median_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from wavebed.campaign.matrix import Matrix
    from wavebed.campaign.results import CampaignResults
    from wavebed.reproduce.judge import Beside
    from wavebed.reproduce.published import Published
    from wavebed.reproduce.studies import Hypothesis
    from wavebed.stats.intervals import Interval

__all__ = ["beside_published", "cells_beside", "median_of", "without_published"]


def beside_published(
    results: CampaignResults, rows: Sequence[Published], factor: str = "", hypothesis: Hypothesis | None = None
) -> list[Beside]:
    """Return each published figure and ours; a figure without a cell in the campaign has no value.

    Parameters
    ----------
    factor : str
        Factor of the campaign that the figures do not have.
    hypothesis : Hypothesis, optional
        Says its level, and which of our levels stand for published ones.
    """
    cells = {tuple(sorted(levels.items())): cell for cell, levels in results.levels.items()}
    found = []
    for row in rows:
        of = [cells.get(tuple(sorted(levels.items())), "") for levels in cells_beside(row.levels, factor, hypothesis)]
        values = _values(results, row, of) if all(of) else np.empty(0)
        found.append(judged(row, of[0], values[np.isfinite(values)].tolist()))
    return found


def cells_beside(
    published: Mapping[str, str], factor: str = "", hypothesis: Hypothesis | None = None
) -> list[dict[str, str]]:
    """Return the levels of the cells of a published figure.

    That is one cell; or those whose geometric mean it is; for a ratio, those above and then as many below the line.
    """
    levels = dict(published)
    if hypothesis is not None:
        levels = {name: hypothesis.read.get(name, {}).get(level, level) for name, level in levels.items()}
        levels[factor] = hypothesis.level
    found = [levels]
    for sign in (MEAN, RATIO):  # the ratio last: its halves are one behind the other
        for name, level in levels.items():
            if sign in level:
                found = [{**each, name: one} for one in level.split(sign) for each in found]
    return found


def without_published(
    results: CampaignResults, rows: Sequence[Published], all_rows: Sequence[Published]
) -> list[tuple[Mapping[str, str], Matrix, Interval]]:
    """Return our medians of the cells that have no published figure of their own.

    Parameters
    ----------
    rows : sequence of Published
        The figures that are compared: their metrics are returned.
    all_rows : sequence of Published
        All published figures of the campaign.

    Returns
    -------
    list of tuple
        Levels of a cell, the metric, and the median of its counted trials.
    """
    own = {(tuple(sorted(row.levels.items())), row.workload, row.metric) for row in all_rows}
    found = []
    for cell, levels in results.levels.items():
        for key in dict.fromkeys((row.workload, row.metric) for row in rows):
            matrix = results.matrices.get(key)
            if matrix is None or (tuple(sorted(levels.items())), *key) in own:
                continue
            found.append((levels, matrix, median_of(matrix.values[results.cells.index(cell)])))
    return found


def median_of(values: NDArray[np.float64]) -> Interval:
    """Return the median of the values that are not missing, and its interval."""
    return median_interval(values[np.isfinite(values)].tolist())


def _values(results: CampaignResults, row: Published, cells: Sequence[str]) -> NDArray[np.float64]:
    """Return a value for each block."""
    matrix = results.matrices.get((row.workload, row.metric))
    if matrix is None:
        return np.empty(0)
    values: list[NDArray[np.float64]] = [matrix.values[results.cells.index(cell)] for cell in cells]
    if not row.is_ratio:
        return _geometric_mean(values)
    half = len(values) // 2
    return _geometric_mean(values[:half]) / _geometric_mean(values[half:])


def _geometric_mean(values: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    product: NDArray[np.float64] = np.prod(values, axis=0)
    return product ** (1 / len(values))
