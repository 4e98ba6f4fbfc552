"""The values of a metric as an array of cells and blocks, for campaigns of thousands of cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import numpy as np

from wavebed.campaign.decide import metric_title
from wavebed.stats.intervals import median_interval
from wavebed.stats.percentiles import percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["Bounds", "Matrix", "matrices"]


class Bounds(NamedTuple):
    """Estimates by cell with their bounds; NaN where the sample does not bear them.

    Parameters
    ----------
    estimate, low, high : float array, shape (cells,)
        In the unit of the metric.
    """

    estimate: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """The values of one metric.

    Parameters
    ----------
    workload, metric, unit, definition : str
        Which.
    better : str
        ``higher``, ``lower`` or ``neither``.
    values : float array, shape (cells, blocks)
        Of counted trials; NaN is missing.
    """

    workload: str
    metric: str
    unit: str
    definition: str
    better: Literal["higher", "lower", "neither"]
    values: Floats

    @property
    def key(self) -> tuple[str, str]:
        """Workload and metric."""
        return self.workload, self.metric

    @property
    def title(self) -> str:
        """What people read: ``ping: rtt loaded p95``, or the metric alone if it names its workload."""
        return metric_title(self.workload, self.metric)

    @property
    def title_with_unit(self) -> str:
        """The title and the unit."""
        return f"{self.title}, {self.unit}" if self.unit else self.title

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of values of each cell, shape (cells,)."""
        return np.asarray(np.isfinite(self.values).sum(axis=1), dtype=np.int64)

    def medians(self) -> Bounds:
        """Return the median of each cell with its interval by order statistics at 95 %."""
        return self._ranked(_median_ranks)

    def percentiles(self, probability: float) -> Bounds:
        """Return a percentile of each cell that bears it, with the 95 % bound towards its tail."""
        return self._ranked(lambda count: _percentile_ranks(count, probability))

    def _ranked(self, ranks: Callable[[int], tuple[float, float, float]]) -> Bounds:
        """Return values at places of the ordered sample, which depend on its size alone."""
        ordered = np.sort(self.values, axis=1)  # NaN is last
        counts = self.counts
        found = np.full((3, len(counts)), np.nan)
        for count in np.unique(counts[counts > 0]).tolist():
            rows = np.flatnonzero(counts == count)
            for of, place in zip(found, ranks(count), strict=True):
                if np.isfinite(place):
                    below, above = int(np.floor(place)), int(np.ceil(place))
                    low, high = ordered[rows, below], ordered[rows, above]
                    of[rows] = low + (high - low) * (place - below)
        return Bounds(*found)


def _median_ranks(count: int) -> tuple[float, float, float]:
    found = median_interval(range(count))
    return _place(found.estimate), _place(found.low), _place(found.high)


def _percentile_ranks(count: int, probability: float) -> tuple[float, float, float]:
    found = percentile(range(count), probability)
    return _place(found.estimate), _place(found.low), _place(found.high)


def _place(value: float | None) -> float:
    return float("nan") if value is None else value


def matrices(
    metrics: pa.Table, cells: Sequence[str], blocks: Sequence[int], wanted: Sequence[tuple[str, str]] | None = None
) -> dict[tuple[str, str], Matrix]:
    """Return the metrics by workload and name, in the order in which they first appear.

    Parameters
    ----------
    metrics : pyarrow.Table
        ``metrics.parquet``.
    cells, blocks : sequence
        Rows and columns; values of others are left out.
    wanted : sequence of tuple, optional
        Workload and metric of those that are wanted; all without.
    """
    codes = {name: _codes(metrics, name) for name in ("cell", "workload", "metric", "unit", "better")}
    places = {name: place for place, name in enumerate(cells)}
    row = np.array([places.get(name, -1) for name in codes["cell"][1]] or [-1])[codes["cell"][0]]
    block = metrics.column("block").to_numpy()
    column = np.searchsorted(np.asarray(blocks), block)
    value = metrics.column("value").to_numpy()
    known = np.isin(block, np.asarray(blocks)) & metrics.column("counted").to_numpy() & np.isfinite(value)
    which = codes["workload"][0].astype(np.int64) * max(len(codes["metric"][1]), 1) + codes["metric"][0]
    found = {}
    kinds, firsts, place = np.unique(which, return_index=True, return_inverse=True)
    order = np.argsort(place, kind="stable")
    edges = np.searchsorted(place[order], np.arange(len(kinds) + 1))
    for kind in np.argsort(firsts).tolist():
        first = int(firsts[kind])
        workload, metric, unit, better = (
            codes[name][1][int(codes[name][0][first])] for name in ("workload", "metric", "unit", "better")
        )
        if wanted is not None and (workload, metric) not in wanted:
            continue
        chosen = order[edges[kind] : edges[kind + 1]]
        chosen = chosen[known[chosen] & (row[chosen] >= 0)]
        values = np.full((len(cells), len(blocks)), np.nan)
        values[row[chosen], column[chosen]] = value[chosen]
        definition = str(metrics.column("definition")[first].as_py() or "")
        way = cast("Literal['higher', 'lower', 'neither']", better)
        found[(workload, metric)] = Matrix(workload, metric, unit, definition, way, values)
    return found


def _codes(metrics: pa.Table, name: str) -> tuple[NDArray[np.int32], list[str]]:
    """Return the codes of a column of words, and the words."""
    import pyarrow as pa

    column = metrics.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries().combine_chunks() if column.num_chunks else pa.array([], pa.string())
    if not isinstance(column, pa.DictionaryArray):
        column = column.dictionary_encode()
    return column.indices.to_numpy(zero_copy_only=False), [str(word) for word in column.dictionary.to_pylist()]
