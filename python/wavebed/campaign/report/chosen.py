"""What of a campaign is drawn and listed: its primary metrics, and the comparisons with the largest effects."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from wavebed.report.choose import headline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.campaign.results import Answer, CampaignResults, Matrix
    from wavebed.result.model import Comparison

MOST_METRICS = 6
MOST_PAIRS = 6


def strength(answer: Answer) -> float:
    """Return the effect in units of its margin, on logarithms for a ratio; -1 without an effect."""
    finding = answer.finding
    if finding.estimate is None:
        return -1.0
    if finding.scale == "ratio":
        size = abs(math.log(finding.estimate))
        return size / math.log(finding.margin) if finding.margin and finding.margin > 1 else size
    return abs(finding.estimate) / finding.margin if finding.margin else abs(finding.estimate)


@dataclass(frozen=True)
class Chosen:
    """The results of a campaign, and what of them is drawn."""

    results: CampaignResults

    @cached_property
    def metrics(self) -> list[Matrix]:
        """The primary metrics that were measured; without any, the main metric of each workload."""
        known = self.results.matrices
        primaries = [
            known[key] for each in self.results.campaign.primaries if (key := (each.workload, each.metric)) in known
        ]
        return primaries or self._headlines[:MOST_METRICS]

    @property
    def drawn(self) -> list[Matrix]:
        """Those that have figures."""
        return self.metrics[:MOST_METRICS]

    @property
    def primary(self) -> bool:
        """Whether the metrics are primary ones."""
        return any((each.workload, each.metric) in self.results.matrices for each in self.results.campaign.primaries)

    @cached_property
    def _headlines(self) -> list[Matrix]:
        found = []
        for workload in self.results.run.workloads:
            names = [name for of, name in self.results.matrices if of == workload["name"]]
            name = headline(str(workload.get("kind", "")), names)
            if name is not None:
                found.append(self.results.matrices[(str(workload["name"]), name)])
        return found

    def answers(self, metric: Matrix) -> list[Answer]:
        """Return the answers on a metric, in the order of the comparisons."""
        return self._by_metric.get(metric.key, [])

    @cached_property
    def _by_metric(self) -> dict[tuple[str, str], list[Answer]]:
        found: dict[tuple[str, str], list[Answer]] = {}
        for answer in self.results.answers:
            found.setdefault((answer.question.values.workload, answer.question.values.metric), []).append(answer)
        return found

    def largest(self, metric: Matrix, most: int) -> list[Answer]:
        """Return the answers on a metric; if there are more than `most`, those with the largest effects."""
        found = self.answers(metric)
        if len(found) <= most:
            return found
        return sorted(found, key=lambda answer: -strength(answer))[:most]

    def cells(self, metric: Matrix, most: int) -> list[str]:
        """Return at most `most` cells with values: all, or those of the comparisons with the largest effects."""
        counts = dict(zip(self.results.cells, metric.counts.tolist(), strict=True))
        measured = [cell for cell, count in counts.items() if count]
        if len(measured) <= most:
            return measured
        wanted: dict[str, None] = {}
        for answer in self.largest(metric, most):
            pair = {answer.question.pair.baseline: None, answer.question.pair.cell: None}
            if len(wanted | pair) <= most:
                wanted |= pair
        return [cell for cell in wanted if counts[cell]] or measured[:most]

    def row(self, cell: str) -> int:
        """Return the row of a cell in a matrix."""
        return self._rows[cell]

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {cell: place for place, cell in enumerate(self.results.cells)}

    @property
    def pairs(self) -> Sequence[Comparison]:
        """The comparisons."""
        return self.results.comparisons
