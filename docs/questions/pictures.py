"""The pictures of the question pages, from the folders of their runs: ``python docs/questions/pictures.py RUNS``.

RUNS has the folders ``line``, ``cdn``, ``call``, ``page``, as the commands of the pages write them.
"""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import matplotlib.pyplot as plt

import wavebed
from wavebed.store.load import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

IMAGES = Path(__file__).parents[1] / "images"
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7")
MARKERS = ("o", "s", "^", "D")


def opened(folder: Path) -> Run:
    """Open a folder of results.

    Raises
    ------
    TypeError
        If it is one of a forwarding test.
    """
    run = wavebed.load(folder)
    if not isinstance(run, Run):
        raise TypeError(f"{folder}: has no trials of workloads")
    return run


def over_time(run: Run, treatments: Sequence[str], file: Path) -> None:
    """Draw ping's round trips of the first block."""
    samples = run.table("samples")
    figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
    for treatment, colour, style in zip(treatments, COLOURS, ("-", (0, (5, 1.5))), strict=False):
        rtt = (samples["workload"] == "latency") & (samples["series"] == "rtt") & (samples["block"] == 1)
        chosen = samples[rtt & (samples["treatment"] == treatment)]
        axis.plot(chosen["time_s"], chosen["value"], color=colour, linestyle=style, linewidth=1.3, label=treatment)
    axis.set_xlabel("time, s")
    axis.set_ylabel("round trip, ms")
    axis.set_ylim(bottom=0)
    axis.grid(axis="y")
    axis.legend(frameon=False)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def dots(run: Run, metrics: Sequence[tuple[str, str, str]], treatments: Sequence[str], file: Path) -> None:
    """Draw a metric of every counted trial, a row for each treatment, with its median; metrics side by side."""
    good = run.metrics[run.metrics["verdict"].isin(["valid", "suspect"])]
    size = (4.2 * len(metrics) + 0.6, 0.5 * len(treatments) + 0.9)
    figure, axes = plt.subplots(1, len(metrics), figsize=size, layout="constrained", squeeze=False, sharey=True)
    for axis, (workload, name, label) in zip(axes[0], metrics, strict=True):
        chosen = good[(good["workload"] == workload) & (good["name"] == name)]
        for row, treatment in enumerate(treatments):
            values = chosen[chosen["treatment"] == treatment]["value"].dropna()
            colour, marker = COLOURS[row], MARKERS[row]
            axis.plot(values, [row] * len(values), marker, color=colour, fillstyle="none", markersize=6)
            axis.plot([values.median()] * 2, [row - 0.3, row + 0.3], color=colour, linewidth=2)
        axis.set_yticks(range(len(treatments)), treatments)
        axis.set_ylim(len(treatments) - 0.5, -0.5)
        axis.set_xlim(left=-0.03 * axis.get_xlim()[1])
        axis.locator_params(axis="x", nbins=5)
        axis.set_xlabel(label)
        axis.grid(axis="x")
    figure.savefig(file, dpi=110)
    plt.close(figure)


def main(runs: Path) -> None:
    """Draw all of them."""
    mpl.use("Agg")
    plt.style.use(str(resources.files("wavebed.page") / "screen.mplstyle"))
    over_time(opened(runs / "line"), ("as-it-is", "codel"), IMAGES / "question-bufferbloat.png")
    dots(
        opened(runs / "cdn"),
        [("download", "download time", "download time, s")],
        ("cubic-0", "bbr-0", "cubic-0.1", "bbr-0.1"),
        IMAGES / "question-cdn.png",
    )
    call = [
        ("call", "rtt p95", "round trip of the call, p95, ms"),
        ("call", "frozen up", "time frozen, sent picture, %"),
    ]
    dots(opened(runs / "call"), call, ("alone", "upload"), IMAGES / "question-call.png")
    page = [("web", "speed index", "Speed Index, ms"), ("web", "visually complete", "visually complete, ms")]
    dots(opened(runs / "page"), page, ("wire", "walk", "lift"), IMAGES / "question-page.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
