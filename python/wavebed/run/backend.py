"""The backends of trials: namespaces of this machine, or real hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from wavebed.hosts.lab import RealHosts
from wavebed.path.lab import Laboratory
from wavebed.path.laboratory import LabPlan, random_name
from wavebed.run.checks import engine_checks
from wavebed.run.hosts_checks import hosts_checks
from wavebed.run.hosts_metrics import hosts_metrics
from wavebed.spec.lab import HostsLab

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.limits import Limits
    from wavebed.lab.protocol import Lab
    from wavebed.result.model import Check
    from wavebed.run.resolve import Resolved
    from wavebed.spec.lab import LabSpec
    from wavebed.workload.model import Metric

__all__ = ["StartLab", "in_namespaces", "lab_checks", "lab_metrics", "start_lab"]


class StartLab(Protocol):
    """Makes the laboratory of a trial; its time begins with `Lab.begin`."""

    def __call__(self, resolved: Resolved, log: Path, limits: Limits) -> Lab:
        """Make the laboratory, which writes its series into the folder `log`.

        Raises
        ------
        LaboratoryHungError
            If it does not start in time.
        WavebedError
            If it cannot be made here.
        """


def start_lab(resolved: Resolved, log: Path, limits: Limits) -> Lab:
    """Make the laboratory that a trial names (a `StartLab`)."""
    lab = resolved.spec.lab
    return RealHosts(lab, log, limits) if isinstance(lab, HostsLab) else in_namespaces(resolved, log, limits)


def in_namespaces(resolved: Resolved, log: Path, limits: Limits) -> Lab:
    """Make a laboratory of namespaces on this machine (a `StartLab`)."""
    plan = LabPlan(name=random_name(), seed=resolved.spec.seed, log_dir=log, wait=True, sample=True, maps=resolved.maps)
    return Laboratory(resolved.network, plan, resolved.descriptors, limits)


def lab_checks(lab: LabSpec, summary: Mapping[str, Json], messages: str) -> list[Check]:
    """Return the checks of a laboratory that has ended, from its summary and its printed output."""
    return hosts_checks(summary) if isinstance(lab, HostsLab) else engine_checks(summary, messages)


def lab_metrics(lab: LabSpec, summary: Mapping[str, Json]) -> list[Metric]:
    """Return the metrics that a laboratory has beside those of its series."""
    return hosts_metrics(summary) if isinstance(lab, HostsLab) else []
