"""Write the tables and the picture of a campaign over a cell: `recorded/NAME.txt` and `docs/images/NAME.png`.

Usage: python docs/validation/cell_uses.py FOLDER

FOLDER has the results of the campaign `cell-who-pays` or `cell-crowd`. The name of its file is NAME.
"""

from __future__ import annotations

import statistics
import sys
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from wavebed.campaign.harm import harm_text, harms
from wavebed.campaign.results import read_campaign_results
from wavebed.errors import WavebedError
from wavebed.page.text import figure
from wavebed.reproduce.remedies_overview import row, told

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from wavebed.campaign.results import CampaignAnswer, CampaignResults

HERE: Final = Path(__file__).parent
IMAGES: Final = HERE.parent / "images"
COLOURS: Final = {"better": "#009e73", "worse": "#d55e00", "equivalent": "#0072b2", "equal": "#0072b2"}
LEGEND: Final = """Effects are of pairs of trials with one seed: a ratio, or a difference with its unit.
▲ better, ▼ worse, ≈ within the margin, ? undecided, = the same."""
UNDECIDED: Final = "#888888"
BEYOND: Final = 8.0
"""A ratio of more, or of less than its inverse, is drawn there."""


def medians(results: CampaignResults) -> str:
    """Return the median of each primary metric over the blocks, a row for each cell."""
    values = {
        f"{each.question.values.workload}: {each.question.values.metric}": each.question.values
        for each in results.answers
    }
    heads = [f"{name}, {each.unit}" if each.unit else name for name, each in values.items()]
    lines = [row(["cell", *heads]), row(["---"] * (1 + len(values)))]
    for cell in results.cells:
        found = [list(each.by_cell.get(cell, {}).values()) for each in values.values()]
        lines.append(row([cell, *(figure(statistics.median(each)) if each else "–" for each in found)]))
    return "\n".join(lines)


def decided(results: CampaignResults) -> str:
    """Return the answers: a row for each comparison and primary metric."""
    lines = [row(["cell", "against", "metric", "effect (interval), verdict", "pairs"]), row(["---"] * 5)]
    for each in results.answers:
        question = each.question
        metric = f"{question.values.workload}: {question.values.metric}"
        effect = told(each.finding, question.values.unit)
        lines.append(row([question.pair.cell, question.pair.baseline, metric, effect, str(each.finding.count)]))
    return "\n".join(lines)


def page(results: CampaignResults) -> str:
    """Return the text of `recorded`."""
    verdicts = Counter(each.verdict for each in results.run.trials)
    counted = ", ".join(f"{count} trials {verdict}" for verdict, count in sorted(verdicts.items()))
    head = f"{len(results.ended)} of {results.run.blocks} blocks in virtual time; {counted}"
    parts = [
        f"# {results.run.title}",
        f"*{head}. Written by `python docs/validation/cell_uses.py FOLDER`.*",
        LEGEND,
        "## Medians",
        medians(results),
        "## Answers",
        decided(results),
    ]
    paid = harm_text(harms(results))
    return "\n\n".join([*parts, "```text\n" + "\n".join(paid).strip() + "\n```"] if paid else parts) + "\n"


def picture(results: CampaignResults, file: Path) -> None:
    """Draw each effect as the ratio of medians of its pairs, with the interval where it is one of a ratio."""
    metrics = list(
        dict.fromkeys((each.question.values.workload, each.question.values.metric) for each in results.answers)
    )
    pairs = list(dict.fromkeys(each.question.pair.cell for each in results.answers))
    size = (2.4 * len(metrics) + 1.6, 0.42 * len(pairs) + 1.3)
    shape, axes = plt.subplots(1, len(metrics), figsize=size, layout="constrained", squeeze=False, sharey=True)
    for axis, (workload, metric) in zip(axes[0], metrics, strict=True):
        for each in results.answers:
            values = each.question.values
            if (values.workload, values.metric) == (workload, metric):
                _draw(axis, each, pairs.index(each.question.pair.cell))
        axis.axvline(1, color="#444444", linewidth=0.8)
        axis.set_xscale("log", base=2)
        axis.set_xlim(1 / BEYOND / 1.2, BEYOND * 1.2)
        axis.set_xticks([1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8], ["⅛", "¼", "½", "1", "2", "4", "8"])
        axis.set_title(f"{workload}\n{metric}", fontsize=8)
        axis.grid(axis="x")
    axes[0][0].set_yticks(range(len(pairs)), pairs)
    axes[0][0].set_ylim(len(pairs) - 0.5, -0.5)
    legend = "green better, red worse, blue within the margin, grey undecided"
    shape.supxlabel(f"ratio to {results.campaign.baseline}; {legend}", fontsize=8)
    shape.savefig(file, dpi=110)
    plt.close(shape)


def _draw(axis: Axes, answer: CampaignAnswer, place: int) -> None:
    pair, by_cell, finding = answer.question.pair, answer.question.values.by_cell, answer.finding
    base, cell = by_cell.get(pair.baseline, {}), by_cell.get(pair.cell, {})
    ratios = [cell[block] / base[block] for block in sorted(base.keys() & cell.keys()) if base[block] > 0]
    if not ratios:
        return
    colour = COLOURS.get(finding.verdict, UNDECIDED)
    limits = 1 / BEYOND, BEYOND
    axis.plot(np.clip(ratios, *limits), [place] * len(ratios), "o", color=colour, fillstyle="none", markersize=4)
    if finding.scale == "ratio" and finding.low is not None and finding.high is not None:
        axis.plot(np.clip([finding.low, finding.high], *limits), [place + 0.25] * 2, color=colour, linewidth=2)
    axis.plot(
        np.clip([statistics.median(ratios)] * 2, *limits), [place - 0.25, place + 0.25], color=colour, linewidth=2
    )


def main(folder: Path) -> None:
    """Write both.

    Raises
    ------
    WavebedError
        If the folder has no results of a campaign.
    """
    results = read_campaign_results(folder)
    name = Path(results.campaign.file).stem
    (HERE / "recorded" / f"{name}.txt").write_text(page(results))
    mpl.use("Agg")
    plt.style.use(str(resources.files("wavebed.page") / "screen.mplstyle"))
    picture(results, IMAGES / f"{name}.png")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/validation/cell_uses.py FOLDER")
    try:
        main(Path(sys.argv[1]))
    except WavebedError as error:
        sys.exit(str(error))
