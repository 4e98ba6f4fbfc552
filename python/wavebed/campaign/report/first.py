"""The first chart of a campaign's report: cells side by side in its primary metric, and one block over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.errors import UserError
from wavebed.page.document import filled
from wavebed.page.text import readable
from wavebed.report.first import MOST_SIDES, TEMPLATE, comparison, course, primary_of, side
from wavebed.report.source import ReportedTrial, Results, View, whole
from wavebed.result.model import COUNTED
from wavebed.store.load import Run
from wavebed.workload.model import Metric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from wavebed.campaign.report.answers import ChosenResults
    from wavebed.campaign.results import Matrix
    from wavebed.page.plots import TimeFigure

MOST_DRAWN = 4
"""Cells whose course over time is drawn."""


def first_chart(chosen: ChosenResults) -> Markup | str:
    """Return the chart of the first screen; empty if no metric was measured."""
    if not chosen.metrics:
        return ""
    metric = chosen.metrics[0]
    cells = chosen.cells(metric, MOST_SIDES)
    if not cells:
        return ""
    rows = [metric.values[chosen.row(cell)] for cell in cells]
    unit, factor = readable(metric.unit, max(float(np.nanmax(np.abs(row))) for row in rows))
    sides = [
        side(cell, f"t{place % 6}", (row[np.isfinite(row)] / factor).tolist())
        for place, (cell, row) in enumerate(zip(cells, rows, strict=True))
    ]
    shown = Metric(metric.metric, None, unit, metric.better, metric.definition)
    found, captions = _over_time(chosen, metric, cells[:MOST_DRAWN])
    if len(chosen.results.cells) > len(cells):
        captions.append(f"{len(cells)} of {len(chosen.results.cells)} cells, those of the largest effects.")
    captions.append("A bar ends at the median, with its 95 % interval where there are enough blocks. A dot is a block.")
    drawn = comparison(metric.title, shown, sides)
    return filled(TEMPLATE, "first", drawn, "" if found is None else found.render(), captions)


def _over_time(chosen: ChosenResults, metric: Matrix, cells: Sequence[str]) -> tuple[TimeFigure | None, list[str]]:
    """Return the middle block of the first cell over time, and which block it is; ``None`` if no series are kept."""
    if chosen.results.campaign.keep == "metrics":
        return None, ["The campaign keeps no series, so nothing is drawn over time (campaign.keep)."]
    values = metric.values[[chosen.row(cell) for cell in cells]]
    whole_blocks = np.flatnonzero(np.isfinite(values).all(axis=0))
    ranked = whole_blocks[np.argsort(values[0, whole_blocks], kind="stable")].tolist()
    middle = (len(ranked) - 1) // 2
    run = Run(chosen.results.folder, chosen.results.run)
    for place in sorted(range(len(ranked)), key=lambda place: abs(place - middle)):
        block = sorted(chosen.results.ended)[ranked[place]]
        lines = {
            line.treatment: line
            for line in run.record.trials
            if line.block == block and line.treatment in cells and line.verdict in COUNTED
        }
        try:
            trials = [ReportedTrial(run, lines[cell], run.trial(lines[cell].folder)) for cell in cells if cell in lines]
        except UserError:
            continue
        trials = whole(trials, keep=True)
        if not trials:
            continue
        results = Results(run, trials, [], tuple(cells))
        primary = primary_of(results, f"{metric.workload}.{metric.metric}")
        label = f"Over time: block {block}, seed {trials[0].line.seed}, the middle one of {len(ranked)} by this metric."
        found = None if primary is None else course(results, View(label, trials), primary)
        return found, [label] if found is not None else []
    return None, []
