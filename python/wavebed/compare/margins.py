"""The primary metrics of a comparison and their margins: of the baseline's campaign, and of ``--margin``."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.campaign.decide import margin_of
from wavebed.campaign.tables import margin
from wavebed.config.problems import Problem, at
from wavebed.result.campaign import PrimaryRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wavebed.compare.samples import Folder, Key
    from wavebed.stats.verdict import Margin

__all__ = ["OPTION", "Goal", "goals_of"]

OPTION = "--margin"
_LISTED = 6


@dataclass(frozen=True, slots=True)
class Goal:
    """The margin of a primary metric, also as it was written."""

    margin: Margin
    text: str


def goals_of(folders: Sequence[Folder], given: Sequence[str]) -> tuple[dict[Key, Goal], list[str]]:
    """Return the primary metrics, and the names of those that no folder measured.

    They are those of the first folder's campaign; a given margin adds one or replaces its margin.

    Parameters
    ----------
    given : sequence of str
        ``WORKLOAD.METRIC=VALUE``, as after the option.

    Raises
    ------
    UserError
        If a margin cannot be read or is in another unit than its metric, or no folder has its metric.
    """
    campaign = folders[0].campaign
    asked: dict[Key, tuple[PrimaryRecord, str]] = {}
    if campaign is not None:
        where = f"{folders[0].path}: primary"
        asked = {(each.workload, each.metric): (each, where) for each in campaign.primaries}
    known = {f"{key[0]}.{key[1]}": key for key in [key for folder in folders for key in folder.series] + list(asked)}
    for text in given:
        each = _read(text, known)
        asked[each.workload, each.metric] = (each, OPTION)
    goals, missing = {}, []
    for key, (each, where) in asked.items():
        units = [folder.series[key].metric.unit for folder in folders if key in folder.series]
        if units:
            goals[key] = Goal(margin_of(each, units[0], where), each.margin_text)
        else:
            missing.append(f"{each.workload} {each.metric}")
    return goals, missing


def _read(text: str, known: dict[str, Key]) -> PrimaryRecord:
    name, sign, value = text.rpartition("=")
    name = name.strip()
    if not sign or not name:
        raise Problem(f'{text!r} is not a margin: write WORKLOAD.METRIC=VALUE, as "file.goodput=5%"', OPTION)
    if name not in known:
        raise Problem(f"no folder has the metric {name!r}: {_hint(name, known)}", OPTION)
    read = at(f"{OPTION} {name}", margin, value.strip())
    workload, metric = known[name]
    return PrimaryRecord(workload, metric, read.value, read.unit)


def _hint(name: str, known: Iterable[str]) -> str:
    listed = list(known)
    near = difflib.get_close_matches(name, listed, 1)
    if near:
        return f"did you mean {near[0]!r}?"
    more = ", …" if len(listed) > _LISTED else ""
    return f"it must be one of {', '.join(listed[:_LISTED])}{more}" if listed else "no trial counts"
