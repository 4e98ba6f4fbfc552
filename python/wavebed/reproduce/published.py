"""Published figures of a study: data files of this package."""

from __future__ import annotations

import csv
from importlib import resources
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.reproduce.studies import Part

__all__ = ["MEAN", "RATIO", "Published", "published_of", "read_published"]

RATIO = " / "
"""Between two levels of a factor: the figure is the ratio of these two cells."""
MEAN = " & "
"""Between levels of a factor: the figure is the geometric mean over these cells."""

_COLUMNS = ("figure", "workload", "metric", "unit", "published", "reading-error", "bound")


class Published(Struct, frozen=True):
    """A published figure.

    Parameters
    ----------
    figure : str
        Number of the figure or table in the publication.
    levels : mapping
        Level of each factor of the campaign that repeats it.
    workload, metric, unit : str
        The metric that it is compared with.
    value : float
        In this unit.
    error : float
        How far it may be off because it was read off a picture, in this unit.
    at_least : bool
        Whether the publication says "at least": larger figures reproduce it too.
    """

    figure: str
    levels: Mapping[str, str]
    workload: str
    metric: str
    unit: str
    value: float
    error: float
    at_least: bool = False

    @property
    def is_ratio(self) -> bool:
        """Whether it is the ratio of two cells."""
        return any(RATIO in level for level in self.levels.values())


def published_of(part: Part) -> tuple[str, list[Published]]:
    """Return the source of the published figures of a part of a study, and those that it repeats."""
    if part.figures == "none":
        return "", []
    source, rows = read_published(part.figures or part.campaign)
    return source, [
        row
        for row in rows
        if (not part.metrics or row.metric in part.metrics)
        and all(row.levels[factor] in levels for factor, levels in part.only.items())
    ]


def read_published(name: str) -> tuple[str, list[Published]]:
    """Return the source of published figures, the first line of their file, and the figures."""
    text = resources.files("wavebed.reproduce").joinpath("published", f"{name}.csv").read_text(encoding="utf-8")
    source, *lines = text.splitlines()
    rows = [
        Published(
            row["figure"],
            {key: value for key, value in row.items() if key not in _COLUMNS},
            row["workload"],
            row["metric"],
            row["unit"],
            float(row["published"]),
            float(row["reading-error"]),
            row.get("bound") == "at least",
        )
        for row in csv.DictReader(lines)
    ]
    return source.removeprefix("# "), rows
