"""The remedies of one trial: start them before the workloads, stop them after, and say whether they worked.

A remedy that changes how the programs of workloads start is an `OfPrograms`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from wavebed.beneath import make_folder
from wavebed.errors import WavebedError
from wavebed.lab.views import seen_from
from wavebed.remedy import kind_of, remedy_of
from wavebed.result.model import Check
from wavebed.run.scenario import StoredTrial
from wavebed.spec.trial import RemedySpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Host, Lab
    from wavebed.remedy.model import RunningRemedy
    from wavebed.run.scenario import Plan, TreatmentPlan


@runtime_checkable
class OfPrograms(Protocol):
    """A running remedy that changes how the programs of workloads start, on all hosts."""

    def of_programs(self, host: Host) -> Host:
        """Return the host as the programs of workloads are to see it."""


def remedies_of(treatment: TreatmentPlan) -> tuple[RemedySpec, ...]:
    """Return the remedies of a treatment, by host in the order of the path."""
    path = treatment.path
    if isinstance(path, StoredTrial):
        return path.spec.remedies
    return tuple(RemedySpec(host.name, chosen.kind, chosen.options) for host in path.hosts for chosen in host.remedies)


def remedy_programs(plan: Plan) -> set[str]:
    """Return the programs that the remedies of a plan start; `EDGE` among them is a part of wavebed."""
    kinds = {spec.kind for treatment in plan.treatments for spec in remedies_of(treatment)}
    return {program for kind in kinds for program in kind_of(kind).programs}


@dataclass(slots=True)
class Remedies:
    """The remedies of a trial.

    Parameters
    ----------
    specs : sequence of RemedySpec
        In the order of their starts; those on the devices of a cell start together.
    devices : sequence of str
        The devices of the cell; none without a cell.
    problems : list of str
        One line each; empty while all is well.
    """

    specs: Sequence[RemedySpec]
    devices: Sequence[str] = ()
    problems: list[str] = field(default_factory=list)
    _running: list[RunningRemedy] = field(default_factory=list)

    def start(self, lab: Lab, raw: Path) -> bool:
        """Start all, in order, and return whether all work; outputs go to the folder `raw`."""
        for spec in self.specs:
            make_folder(raw)
            if spec.host in self.devices:
                continue
            self._start(spec, lab, raw)
            if self.problems:
                return False
        of_devices = [spec for spec in self.specs if spec.host in self.devices]
        started = [lab.clock.start(partial(self._start, spec, lab, raw), spec.host) for spec in of_devices]
        for one in started:
            lab.clock.wait(one)
        return not self.problems

    def _start(self, spec: RemedySpec, lab: Lab, raw: Path) -> None:
        """Start one. A device is the client for its own remedies; for other hosts the first device is the client."""
        host = spec.host
        if self.devices:
            lab = seen_from(lab, host if host in self.devices else self.devices[0])
            host = "client" if host in self.devices else host
        try:
            remedy = remedy_of(spec.kind, spec.options)
            self._running.append(remedy.start(lab, host, raw / f"remedy.{spec.host}.{spec.kind}.log"))
        except (WavebedError, OSError) as error:
            self.problems.append(str(error))

    def host_for_workloads(self, lab: Lab) -> Callable[[str], Host]:
        """Return a function that gives a host by its name, as the programs of workloads are to see it."""
        return partial(self._host, lab)

    def _host(self, lab: Lab, name: str) -> Host:
        host = lab.host(name)
        for running in self._running:
            if isinstance(running, OfPrograms):
                host = running.of_programs(host)
        return host

    def stop(self) -> None:
        """Stop all, the last first."""
        while self._running:
            try:
                problem = self._running.pop().stop()
            except WavebedError as error:
                problem = str(error)
            if problem:
                self.problems.append(problem)

    def checks(self) -> list[Check]:
        """Return the check that all worked throughout; none in a trial without remedies."""
        if not self.specs:
            return []
        names = ", ".join(f"{spec.kind} on {spec.host}" for spec in self.specs)
        evidence = "; ".join(self.problems) or names
        return [Check("every remedy worked", not self.problems, "invalid", evidence, "remedy")]
