"""The pictures of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import real_traces_data as data

from wavebed.page.charts import FAINT, INK, blank, styled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from real_traces_data import Efficiency, Pair, Probes, Runs

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
MODEL: Final = "#d55e00"


def draw_all(folder: Path, pairs: Sequence[Pair], levels: Efficiency, idle: Probes) -> None:
    """Write every picture into a folder."""
    picture(folder / "real-traces-rates.png", 2, lambda panels: _rates(panels, pairs))
    picture(folder / "real-traces-outages.png", 2, lambda panels: _outages(panels, pairs))
    picture(folder / "real-traces-sinr.png", 1, lambda panels: _sinr(panels[0], levels))
    picture(folder / "real-traces-idle.png", 2, lambda panels: _idle(panels, idle), widths=(1.9, 1.0))


def picture(
    file: Path, panels: int, draw: Callable[[Sequence[Axes]], None], widths: Sequence[float] | None = None
) -> None:
    """Write a picture of panels side by side."""
    with styled():
        figure, _ = blank(*((10.5, 4.8) if panels > 1 else (7.5, 4.0)), DPI, is_laid_out=True)
        axes = figure.subplots(1, panels, squeeze=False, width_ratios=widths)[0]
        draw(axes)
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


def _outages(panels: Sequence[Axes], pairs: Sequence[Pair]) -> None:
    models, measured = _sides(pairs, lte=False)
    thresholds = (data.MMWAVE_OUTAGE_MBPS, data.MMWAVE_LOST_MBPS)
    for axes, threshold in zip(panels, thresholds, strict=True):
        for runs in models:
            _lengths(axes, runs, threshold, *STYLES[runs.name], 1.6)
        for runs, style in zip(measured, MEASURED_STYLES, strict=False):
            _lengths(axes, runs, threshold, *style, 2.4)
        axes.set_xscale("log")
        axes.set_xlim(0.9, 70)
        axes.set_ylim(0, 1.02)
        axes.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
        axes.xaxis.minorticks_off()
        legend(axes, "fraction of all time:")
        label(axes, f"below {threshold:g} Mbit/s", "length, s", "fraction of times at most as long")


def _lengths(axes: Axes, runs: Runs, threshold: float, colour: str, dash: object, width: float) -> None:
    found = data.outages(runs, threshold)
    if found.lengths_s.size:
        values = np.concatenate([[0.9], found.lengths_s, [70.0]])
        ordered = np.sort(values)
        fractions = np.clip(np.arange(ordered.size) / found.lengths_s.size, 0, 1)
        name = f"{runs.name}: {100 * found.fraction:.1f} %, {found.lengths_s.size} times"
        axes.step(ordered, fractions, where="post", color=colour, linestyle=dash, linewidth=width, label=name)


def _sinr(axes: Axes, levels: Efficiency) -> None:
    measured, model = data.by_p95(levels.measured), data.by_p95(levels.model)
    sinr_db = np.unique(levels.sinr_db)
    at = [levels.sinr_db == level for level in sinr_db]
    low, middle, high = (np.array([np.percentile(measured[some], rank) for some in at]) for rank in (5, 50, 95))
    axes.fill_between(sinr_db, low, high, color=FAINT, alpha=0.25, lw=0, label="measured, 5 % to 95 % of samples")
    axes.plot(sinr_db, middle, color=INK, lw=2.2, label="measured, median")
    curve = np.array([model[some][0] for some in at])
    axes.plot(sinr_db, curve, color=MODEL, ls="--", lw=1.9, label="link adaptation of the model")
    axes.set_ylim(0, None)
    axes.legend(fontsize=8, loc="upper left", framealpha=0.9)
    label(axes, "", "SINR, dB (measured on the synchronisation signals)", "rate / 95th percentile of all samples")


def _idle(panels: Sequence[Axes], idle: Probes) -> None:
    order = np.argsort(idle.idle_s, kind="stable")
    across = idle.idle_s[order]
    panels[0].plot(across, idle.measured_ms[order], ".", color=INK, ms=3.5, alpha=0.5, label="measured")
    panels[0].plot(across, idle.model_ms[order], "x", color=MODEL, ms=4, mew=1.1, alpha=0.8, label="model")
    label(panels[0], "", "idle before the probe, s", "RTT, ms")
    styles = dict(zip(("connected, asleep", "about the release", "idle"), ("-", ":", "--"), strict=True))
    for name, low_s, high_s in data.IDLE_GROUPS:
        if name not in styles:
            continue
        group = idle.between(low_s, high_s)
        cumulative(panels[1], group.measured_ms, f"{name}, measured", INK, styles[name], 1.8)
        cumulative(panels[1], group.model_ms, f"{name}, model", MODEL, styles[name], 1.6)
    panels[1].set_xscale("log")
    panels[1].set_xticks([50, 100, 200, 500, 1000], ["50", "100", "200", "500", "1000"])
    panels[1].xaxis.minorticks_off()
    panels[1].set_ylim(0, 1.01)
    label(panels[1], "", "RTT, ms", "fraction of probes at or below")
    for axes in panels:
        legend(axes)
