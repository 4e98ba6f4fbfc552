"""The backend of trials: namespaces of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from wavebed.path.lab import Laboratory
from wavebed.path.laboratory import LabPlan, random_name

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.lab.limits import Limits
    from wavebed.lab.protocol import Lab
    from wavebed.run.resolve import Resolved

__all__ = ["StartLab", "in_namespaces"]


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


def in_namespaces(resolved: Resolved, log: Path, limits: Limits) -> Lab:
    """Make a laboratory of namespaces on this machine (a `StartLab`)."""
    plan = LabPlan(name=random_name(), seed=resolved.spec.seed, log_dir=log, wait=True, sample=True, maps=resolved.maps)
    return Laboratory(resolved.network, plan, resolved.descriptors, limits)
