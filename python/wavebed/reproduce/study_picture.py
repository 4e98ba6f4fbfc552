"""Published figures and ours in one picture: the figure of a study drawn again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wavebed.campaign.report.pictures import courses, over_time
from wavebed.page.charts import STYLES, ColumnPicture, interval, named_rows
from wavebed.reproduce.judge import RATIO, tolerated

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wavebed.page.charts import Axes
    from wavebed.reproduce.judge import Beside
    from wavebed.reproduce.study import PartResults

_MOST_DECADES = 2


def pictures_of(part: PartResults) -> list[ColumnPicture]:
    """Return a picture of figures for each level of the part's factor, and its series over time."""
    return [*_figures(part), *_over_time(part)]


def _over_time(part: PartResults) -> Iterator[ColumnPicture]:
    results = part.results
    for number, wanted in enumerate(part.part.over_time, 1):
        cells = [
            cell
            for cell in results.cells
            if all(results.levels[cell][factor] in levels for factor, levels in wanted.cells.items())
        ]
        for course in courses(results, cells, [wanted.series]):
            yield over_time(f"{part.part.name}-time-{number}", course)


def _figures(part: PartResults) -> list[ColumnPicture]:
    """Return pictures of the figures, and of the ratios; ratios between levels of the factor share one."""
    group = part.part.group
    rows: dict[tuple[str, bool], list[Beside]] = {}
    for each in part.beside:
        level = each.published.levels[group]
        rows.setdefault(("" if RATIO in level else level, each.published.is_ratio), []).append(each)
    found = []
    for (level, of_ratios), of_level in rows.items():
        name = "-".join(filter(None, [part.part.name, level, "ratios" if of_ratios else ""]))
        title = ", ".join(filter(None, [level, "ratios" if of_ratios else ""]))
        found.append(_picture(name, f"{part.part.title}: {title}", of_level, group if level else ""))
    return found


def _picture(name: str, title: str, rows: Sequence[Beside], group: str) -> ColumnPicture:
    """Return a picture of figures whose labels have the levels of all factors but `group`."""
    labels = [_label(row, group, rows) for row in rows]
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
            interval(axes, place, ours.low, ours.high)
            axes.plot([ours.estimate], [place], "o", color=STYLES[0].colour, markersize=4)
        axes.set_xscale("log")
        ticks = _ticks(*axes.get_xlim())
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_xticks([], minor=True)
        named_rows(axes, labels, f"{', '.join(unit or 'ratio' for unit in units)} (logarithmic)")

    caption = "Diamond: published; grey: its tolerance. Dot: our median, with its interval from 6 trials on."
    return ColumnPicture(name, title, caption, draw, 0.7 + 0.17 * len(rows))


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
