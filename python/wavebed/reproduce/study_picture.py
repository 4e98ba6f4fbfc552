"""Published figures and ours in one picture: the figure of a study drawn again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wavebed.campaign.report.picture import STYLES, Picture
from wavebed.report.numbers import figure
from wavebed.reproduce.judge import tolerated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from wavebed.reproduce.judge import Beside
    from wavebed.reproduce.study import PartResults

__all__ = ["pictures_of"]

_MOST_DECADES = 2


def pictures_of(part: PartResults) -> list[Picture]:
    """Return a picture for each level of the part's factor."""
    group = part.part.group
    figures = [each for each in part.beside if not each.published.is_ratio]
    levels = dict.fromkeys(each.published.levels[group] for each in figures)
    return [_picture(part, level, [row for row in figures if row.published.levels[group] == level]) for level in levels]


def _picture(part: PartResults, level: str, rows: Sequence[Beside]) -> Picture:
    labels = [_label(row, part.part.group, rows) for row in rows]
    units = sorted({row.published.unit for row in rows})

    def draw(axes: Axes) -> None:
        for place, row in enumerate(rows):
            axes.plot(_shown(row), [place, place], color="#dddddd", linewidth=6, solid_capstyle="butt")
            axes.plot(
                [row.published.value], [place], "D", color=STYLES[2].colour, markersize=4, markerfacecolor="white"
            )
            ours = row.ours
            if ours.estimate is None:
                continue
            if ours.low is not None and ours.high is not None:
                axes.plot([ours.low, ours.high], [place, place], color=STYLES[0].colour, marker="|", markersize=5)
            axes.plot([ours.estimate], [place], "o", color=STYLES[0].colour, markersize=4)
        axes.set_xscale("log")
        ticks = _ticks(*axes.get_xlim())
        axes.set_xticks(ticks, [figure(tick) for tick in ticks])
        axes.set_xticks([], minor=True)
        axes.set_yticks(range(len(rows)), labels)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlabel(f"{', '.join(units)} (logarithmic)")
        axes.grid(axis="x")

    caption = "Diamond: published; grey: its tolerance. Dot: our median, with its interval from 6 trials on."
    return Picture(f"{part.part.name}-{level}", f"{part.part.title}: {level}", caption, draw, 0.7 + 0.17 * len(rows))


def _shown(row: Beside) -> tuple[float, float]:
    """Return the part of a tolerance that is drawn: one without an end goes beyond both figures."""
    least, most = tolerated(row.published)
    if math.isinf(most):
        most = 2 * max(row.published.value, row.ours.high or row.ours.estimate or 0)
    return max(least, most / 100), most


def _ticks(least: float, most: float) -> list[float]:
    """Return the values 1, 2 and 5 times powers of ten within bounds; with many decades the powers alone."""
    decades = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    steps = (1, 2, 5) if math.log10(most / least) <= _MOST_DECADES else (1,)
    return [step * 10.0**decade for decade in decades for step in steps if least <= step * 10.0**decade <= most]


def _label(row: Beside, group: str, rows: Sequence[Beside]) -> str:
    """Return the levels of the other factors, and the metric if it differs between the rows."""
    words = [level for name, level in row.published.levels.items() if name != group]
    if len({each.published.metric for each in rows}) > 1:
        words.append(row.published.metric)
    return ", ".join(words)
