"""The laboratory of a test."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_wavebed.hosts import TestHost, variables
from pytest_wavebed.loopback import Loopback, addresses_of_hosts, wait_for_file
from wavebed.check.trials import link_metrics, machine_reasons, most_lateness_s, seen, silence
from wavebed.config.problems import unknown_key
from wavebed.errors import WavebedError
from wavebed.result.names import TRIALS_FOLDER
from wavebed.workload.model import Metric

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        addresses = addresses_of_hosts(
            context.client.run(["cat", "/etc/hosts"], capture_output=True, check=True).stdout
        )
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

    def carry_loopback(self) -> Loopback:
        """Return what carries the loopback traffic of this process over the path; it is not installed yet.

        Raises
        ------
        WavebedError
            If no sockets are made on a host.
        """
        files = []
        for host in (self.server, self.client):
            file = Path(tempfile.mkdtemp(prefix="wavebed-")) / "sockets"
            files.append(file)
            program = host.start([sys.executable, "-m", "pytest_wavebed.sockets", file], env=variables())
            if not wait_for_file(file, program):
                raise WavebedError(f"no sockets are made on {host.name}: {list(host.outputs())}")
        server, client = ((host.address, host.address6) for host in (self.server, self.client))
        return Loopback(files[0], files[1], server, client)

    @property
    def metrics(self) -> Metrics:
        """The metrics of the path, and those of `record`, by name. Reading them ends the laboratory."""
        trial = self.end()
        of_links = link_metrics(trial, self._folder_of(trial))
        found = [*trial.transport, *of_links, *(metric for each in trial.workloads for metric in each.outcome.metrics)]
        return Metrics({metric.name: metric for metric in found})

    @property
    def inconclusive(self) -> Sequence[str]:
        """Why the machine was too late to judge anything, one line each; empty if it was not. Ends the laboratory."""
        return machine_reasons(self.end())

    @property
    def silence(self) -> Sequence[str]:
        """Why the test is no evidence about the path, in one line: no packet crossed it. Ends the laboratory."""
        return silence(self.end())

    @property
    def only_delayed(self) -> bool:
        """Whether a late engine delayed the test, and nothing else was late: what held held in spite of that."""
        trial = self.end()
        return seen(trial, (), most_lateness_s(trial, self._folder_of(trial))).delayed_s > 0

    def _folder_of(self, trial: TrialRecord) -> Path:
        return self._trial.folder / TRIALS_FOLDER / trial.folder
