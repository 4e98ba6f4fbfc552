"""What requirements name, before the first trial: metrics that cannot exist are refused."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from wavebed.check.links import known_link_metrics
from wavebed.config.problems import Problem
from wavebed.path.model import PathModel
from wavebed.result.transport import known_transport_metrics
from wavebed.spec.lab import NamespacesLab
from wavebed.store.records import PATH_WORKLOAD

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from wavebed.check.requirement import Key, Requirement
    from wavebed.run.scenario import Plan
    from wavebed.workload.model import Metric

__all__ = ["check_known"]

_MISTYPED = 0.85
"""Similarity of a mistyped name to a known one: ``wal time`` has 0.94."""


def check_known(requirements: Sequence[Requirement], plan: Plan) -> None:
    """Check that trials of a plan can have the metrics of the requirements, in units of the same kind.

    Raises
    ------
    Problem
        If a metric cannot exist, or has another unit.
    """
    known: dict[Key, Metric] = {}
    unsure: set[str] = set()
    for treatment in plan.treatments:
        for workload in treatment.workloads:
            known |= {(workload.name, metric.name): metric for metric in workload.known_metrics()}
            if workload.prints_metrics:
                unsure.add(workload.name)
        path = treatment.path
        if isinstance(treatment.lab, NamespacesLab):
            known |= {
                (PATH_WORKLOAD, metric.name): metric for metric in (*known_transport_metrics(), *known_link_metrics())
            }
        if (
            not isinstance(treatment.lab, NamespacesLab)
            or not isinstance(path, PathModel)
            or path.second_radio is not None
        ):
            unsure.add(PATH_WORKLOAD)
    sure = {PATH_WORKLOAD, *(each.name for treatment in plan.treatments for each in treatment.workloads)} - unsure
    for requirement in requirements:
        _check(requirement, known, sure, unsure)


def _check(
    requirement: Requirement, known: Mapping[Key, Metric], sure: Collection[str], unsure: Collection[str]
) -> None:
    """Check one requirement.

    Parameters
    ----------
    sure, unsure : set of str
        The workloads of which all metrics are known, and those that may have others.
    """
    name = requirement.name
    workload = name.partition(".")[0]
    if any(name in (".".join(key), key[1]) for key in known):
        requirement.bound(known[requirement.key(known)].unit)
        return
    if workload in unsure:
        return
    is_mistyped = difflib.get_close_matches(name, [metric for _, metric in known], 1, _MISTYPED)
    if workload in sure or not unsure or is_mistyped:
        try:
            requirement.key(known)
        except Problem as problem:
            printing = sorted(set(unsure) - {PATH_WORKLOAD})
            said = f" If the program of {printing[0]!r} prints it, write {printing[0]}.{name}" if printing else ""
            raise Problem(f"{problem.rule}{said}", problem.key) from None
