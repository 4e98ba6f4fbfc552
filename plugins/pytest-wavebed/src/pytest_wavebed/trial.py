"""The trial of a test: wavebed runs it in a thread, with the test as its workload."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING

from msgspec import Struct

from wavebed.check.perform import plan_on_path
from wavebed.config.problems import at
from wavebed.errors import WavebedError
from wavebed.lab.tools import in_guest
from wavebed.path.model import chosen_device
from wavebed.result.names import TRIALS_FOLDER
from wavebed.run.design import Design
from wavebed.run.progress import Live
from wavebed.run.runner import run_plan
from wavebed.run.times import with_time
from wavebed.store.records import read_trial
from wavebed.virtual.guest import wait_for_begin
from wavebed.workload.model import Metric, NoOptions, Outcome, Session, Workload, read_common

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.path.model import PathModel
    from wavebed.result.model import TrialRecord
    from wavebed.workload.model import Schedule, TrialContext

__all__ = ["TEST", "TestTrial"]

TEST = "test"
"""Kind and name of the workload in the results."""
_LONGEST = "86400s"
_LOOK_S = 0.2


class TestTrial:
    """A trial that lasts from `begin` to `end`.

    Parameters
    ----------
    path : PathModel
        The path, with its seed.
    title : str
        Of the report: the name of the test.
    settings : mapping
        How the test asked for it, for the results.
    folder : pathlib.Path
        Of the results, new.
    command_line : sequence of str
        That of pytest.
    device : str or None
        With a cell, the device that is the client; ``None``: the first one.
    """

    __test__ = False

    def __init__(
        self,
        path: PathModel,
        title: str,
        settings: Mapping[str, Json],
        folder: Path,
        command_line: Sequence[str],
        device: str | None = None,
    ) -> None:
        self.folder = folder
        self.metrics: list[Metric] = []
        self._command_line = command_line
        self._context: TrialContext | None = None
        self._ready, self._done = threading.Event(), threading.Event()
        self._problem: BaseException | None = None
        self._failure = ""
        self._thread = threading.Thread(target=self._run, name="wavebed", daemon=True)
        host = at("device", lambda name: chosen_device(name, path), device)
        plan = plan_on_path(path, _TestWorkload(self), title, 1, settings, device=host)
        self._plan = with_time(plan, "virtual") if in_guest() else plan

    def begin(self) -> TrialContext:
        """Make the laboratory, and return its hosts when its time has begun.

        Raises
        ------
        WavebedError
            If there is none: the machine cannot make it, or it did not start.
        """
        if in_guest():
            wait_for_begin()
        self._thread.start()
        while not self._ready.wait(_LOOK_S):
            if not self._thread.is_alive():
                break
        if self._context is None or not self._ready.is_set():
            raise self._problem or WavebedError(f"the laboratory did not start: {self._reason()}")
        return self._context

    def end(self, failure: str = "") -> TrialRecord:
        """End the laboratory, if it has not ended, and return the record of the trial.

        Parameters
        ----------
        failure : str
            One line if the test failed.

        Raises
        ------
        WavebedError
            If the results could not be stored.
        """
        self._failure = self._failure or failure
        self._done.set()
        self._thread.join()
        if self._problem is not None:
            raise self._problem
        (folder,) = (self.folder / TRIALS_FOLDER).iterdir()
        return read_trial(folder)

    def attend(self, context: TrialContext) -> None:
        """Let the test begin, and return when it has ended."""
        self._context = context
        self._ready.set()
        context.clock.wait(self._done)

    def outcome(self) -> Outcome:
        """Return what the test measured."""
        return Outcome("failed" if self._failure else "ok", self._failure, metrics=self.metrics)

    def stop(self) -> None:
        """Let `attend` return."""
        self._done.set()

    def _run(self) -> None:
        try:
            live = Live("pytest-wavebed", io.StringIO())
            # Tests that run beside each other wait for one another, since they would disturb each other.
            run_plan(self._plan, self.folder, self._command_line, live, Design(alone=True))
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread of the test
            self._problem = error

    def _reason(self) -> str:
        (folder,) = (self.folder / TRIALS_FOLDER).iterdir()
        return "; ".join(read_trial(folder).reasons)


class _TestWorkload(Workload[Struct]):
    """The test, as a workload of the trial."""

    kind = TEST
    summary = "a test of pytest"
    options_type = NoOptions

    def __init__(self, trial: TestTrial) -> None:
        super().__init__(read_common({"kind": TEST, "limit": _LONGEST}), NoOptions())
        self._trial = trial

    def expected_s(self) -> float:
        """Return nothing useful: the duration of a test is unknown."""
        return 0.0

    def open(self, context: TrialContext) -> Session:
        """Keep the hosts for the test."""
        return _TestSession(self._trial, context)


class _TestSession(Session):
    def __init__(self, trial: TestTrial, context: TrialContext) -> None:
        self._trial = trial
        self._context = context

    def run(self) -> None:
        self._trial.attend(self._context)

    def stop(self) -> None:
        self._trial.stop()

    def report(self, schedule: Schedule) -> Outcome:
        del schedule
        return self._trial.outcome()
