"""The laboratory of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_wavebed.hosts import TestHost
from wavebed.check.trials import machine_reasons
from wavebed.config.problems import unknown_key
from wavebed.workload.model import Metric

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_wavebed.trial import TestTrial
    from wavebed.result.model import TrialRecord

__all__ = ["Metrics", "TestLab"]


class Metrics(dict[str, "float | None"]):
    """Metrics of a trial by name, in the units of ``units``; a name that is none is answered with the nearest one."""

    units: dict[str, str]

    def __init__(self, found: dict[str, Metric]) -> None:
        super().__init__({name: metric.value for name, metric in found.items()})
        self.units = {name: metric.unit for name, metric in found.items()}

    def __missing__(self, name: str) -> float:
        raise KeyError(str(unknown_key(name, self)))


class TestLab:
    """Two hosts with an emulated path between them, for one test.

    Parameters
    ----------
    trial : TestTrial
        Its trial, which has not begun.
    seed : int
        That of the path.

    Attributes
    ----------
    server, client : TestHost
        The hosts.
    """

    __test__ = False

    def __init__(self, trial: TestTrial, seed: int) -> None:
        self.seed = seed
        self._trial = trial
        self._record: TrialRecord | None = None
        context = trial.begin()
        addresses = _addresses(context.client.run(["cat", "/etc/hosts"], capture_output=True, check=True).stdout)
        self.server, self.client = (
            TestHost(host, context.folder, *addresses[host.name]) for host in (context.server, context.client)
        )

    @property
    def folder(self) -> Path:
        """The folder of its results."""
        return self._trial.folder

    @property
    def has_ended(self) -> bool:
        """Whether the laboratory has ended."""
        return self._record is not None

    def record(self, name: str, value: float | None, unit: str = "") -> None:
        """Add a measured value to the results, as a metric of the workload ``test``."""
        self._trial.metrics.append(Metric(name, value, unit))

    def end(self, failure: str = "") -> TrialRecord:
        """End the laboratory with all programs, if it has not ended, and return the record of the trial."""
        if self._record is None:
            self._record = self._trial.end(failure)
        return self._record

    @property
    def metrics(self) -> Metrics:
        """The metrics of the path, and those of `record`, by name. Reading them ends the laboratory."""
        trial = self.end()
        found = [*trial.transport, *(metric for each in trial.workloads for metric in each.outcome.metrics)]
        return Metrics({metric.name: metric for metric in found})

    @property
    def inconclusive(self) -> Sequence[str]:
        """Why the machine was too late to judge anything, one line each; empty if it was not. Ends the laboratory."""
        return machine_reasons(self.end())


def _addresses(hosts_file: str) -> dict[str, tuple[str, str]]:
    """Return the IPv4 and IPv6 address of each host, from the text of ``/etc/hosts`` inside."""
    found: dict[str, list[str]] = {}
    for line in hosts_file.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        for name in names:
            found.setdefault(name, []).append(address)
    return {
        name: (next(each for each in given if "." in each), next(each for each in given if ":" in each))
        for name, given in found.items()
        if any("." in each for each in given) and any(":" in each for each in given)
    }
