"""The backends of trials: namespaces of this machine, or real hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from wavebed.errors import MachineError, UserError
from wavebed.hosts.lab import RealHosts
from wavebed.lab.protocol import LaboratoryGoneError
from wavebed.lab.tools import in_guest
from wavebed.path.lab import Laboratory
from wavebed.path.laboratory import LabPlan, random_name
from wavebed.run.checks import engine_checks
from wavebed.run.hosts import hosts_checks, hosts_metrics
from wavebed.spec.trial import HostsLab, is_virtual

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Lab, Limits
    from wavebed.result.model import Check
    from wavebed.run.resolve import Resolved
    from wavebed.spec.trial import LabSpec
    from wavebed.workload.model import Metric


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
    """Make the laboratory that a trial names (a `StartLab`).

    Real hosts that cannot be reached end a run only if it never reached them: later on, it is the trial that fails.

    Raises
    ------
    LaboratoryGoneError
        If real hosts were reached before and are not now.
    """
    lab = resolved.spec.lab
    if not isinstance(lab, HostsLab):
        if is_virtual(lab) and not in_guest():
            raise MachineError("virtual time is not here: this process is not in a guest")
        return in_namespaces(resolved, log, limits)
    hosts = (lab.server, lab.client)
    reached = resolved.reached
    last = reached.get(hosts)
    try:
        reached[hosts] = RealHosts(lab, log, limits, resolved.programs, after_break=last is None or bool(last.problem))
    except (MachineError, UserError) as error:
        if last is None:
            raise
        raise LaboratoryGoneError(str(error)) from None
    return reached[hosts]


def in_namespaces(resolved: Resolved, log: Path, limits: Limits) -> Lab:
    """Make a laboratory of namespaces on this machine (a `StartLab`)."""
    plan = LabPlan(name=random_name(), seed=resolved.spec.seed, log_dir=log, wait=True, sample=True, maps=resolved.maps)
    return Laboratory(resolved.network, plan, resolved.descriptors, limits)


def lab_checks(lab: LabSpec, summary: Mapping[str, Json], messages: str) -> list[Check]:
    """Return the checks of a laboratory that has ended, from its summary and its printed output."""
    return hosts_checks(summary) if isinstance(lab, HostsLab) else engine_checks(summary, messages)


def lab_metrics(lab: LabSpec, summary: Mapping[str, Json]) -> list[Metric]:
    """Return the metrics that a laboratory has besides the metrics of its series."""
    return hosts_metrics(summary) if isinstance(lab, HostsLab) else []
