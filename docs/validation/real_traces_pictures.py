"""The picture of the rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import real_traces_data as data

from wavebed.page.charts import FAINT, INK, blank, styled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from real_traces_data import Pair, Runs

    from wavebed.page.charts import Axes

DPI: Final = 110
# Okabe and Ito's palette, with a dash for each: colour is not needed to tell them apart.
STYLES: Final = {
    "street-canyon-bus": ("#0072b2", "-"),
    "corner-lte": ("#d55e00", (0, (5, 1.5))),
    "crowd-sub6": ("#009e73", (0, (1.2, 1.2))),
    "kau-e5g-1": ("#cc79a7", (0, (6, 1.5, 1.2, 1.5))),
    "kau-e5g-1, reference": ("#b8860b", (0, (3, 1, 1, 1, 1, 1))),
    "kau-e5g-2": ("#56b4e9", (0, (8, 3))),
    "kau-e5g-lte": ("#0072b2", "-"),
    "kau-e5g-lte, up": ("#d55e00", (0, (5, 1.5))),
}
"""Colour and dash of each model; what is not here is in the tables only."""
MEASURED_STYLES: Final = ((INK, "-"), (INK, (0, (4, 1.2))), (FAINT, "-"), (FAINT, (0, (4, 1.2))))


def draw_rates(file: Path, pairs: Sequence[Pair]) -> None:
    """Write the cumulative distributions of rates over a second, mmWave beside LTE."""
    with styled():
        figure, _ = blank(10.5, 4.8, DPI, is_laid_out=True)
        axes = figure.subplots(1, 2, squeeze=False)[0]
        _rates(axes, pairs)
        figure.savefig(file, metadata={"Software": None})


def cumulative(axes: Axes, values: NDArray[np.float64], name: str, colour: str, dash: object, width: float) -> None:
    """Draw the cumulative distribution of values."""
    ordered = np.sort(values)
    fractions = np.arange(1, ordered.size + 1) / ordered.size
    axes.step(ordered, fractions, where="post", color=colour, linestyle=dash, linewidth=width, label=name)


def label(axes: Axes, title: str, across: str, up: str) -> None:
    """Name a panel and its axes."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(across)
    axes.set_ylabel(up)


def legend(axes: Axes, title: str | None = None) -> None:
    """Put the legend below, where it hides nothing."""
    axes.legend(
        fontsize=8,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.16),
        ncols=2,
        frameon=False,
        title=title,
        title_fontsize=8,
    )


def _once(runs: Sequence[Runs]) -> list[Runs]:
    return list({some.name: some for some in runs}.values())


def _sides(pairs: Sequence[Pair], *, lte: bool) -> tuple[list[Runs], list[Runs]]:
    chosen = [pair for pair in pairs if (pair.threshold_mbps < data.MMWAVE_OUTAGE_MBPS) == lte]
    return _once([pair.model for pair in chosen if pair.model.name in STYLES]), _once(
        [pair.measured for pair in chosen]
    )


def _rates(panels: Sequence[Axes], pairs: Sequence[Pair]) -> None:
    for axes, lte in zip(panels, (False, True), strict=True):
        models, measured = _sides(pairs, lte=lte)
        for runs in models:
            cumulative(axes, runs.rates, runs.name, *STYLES[runs.name], 1.6)
        for runs, style in zip(measured, MEASURED_STYLES, strict=False):
            name = runs.name.replace("-driving-2016.", ", ").replace("-short.", ", ")
            cumulative(axes, runs.rates, name, *style, 2.4)
        axes.set_ylim(0, 1.01)
    label(panels[0], "mmWave", "rate over 1 s, Mbit/s", "fraction of seconds at or below")
    label(panels[1], "LTE", "rate over 1 s, Mbit/s", "")
    panels[0].set_xlim(0, 3000)
    panels[1].set_xscale("log")
    panels[1].set_xlim(0.1, 100)
    panels[1].set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    for axes in panels:
        legend(axes)
