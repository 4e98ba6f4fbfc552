"""Published figures of a study: data files of this package."""

from __future__ import annotations

import csv
from importlib import resources
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Published", "read_published"]

_COLUMNS = ("figure", "workload", "metric", "unit", "published", "reading-error")


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
    """

    figure: str
    levels: Mapping[str, str]
    workload: str
    metric: str
    unit: str
    value: float
    error: float


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
        )
        for row in csv.DictReader(lines)
    ]
    return source.removeprefix("# "), rows
