"""A campaign of simulated trials that is killed before a change of the disk, or finds the disk full from it on.

It must go on as if undisturbed. `measure` tries every change; tests try a sample that a seed draws.
"""

from __future__ import annotations

import errno
import itertools
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from tests.stress.figure import Figure, of_all
from tests.unit.campaign_example import at_changes_of_the_disk, example, live, run_until_killed, simulated

from wavebed.campaign.run import run_campaign
from wavebed.campaign.status import status_of
from wavebed.store.journal import TrialStored, read_journal
from wavebed.store.load import load_run
from wavebed.store.metrics import read_metrics

if TYPE_CHECKING:
    from wavebed.result.model import Verdict
    from wavebed.run.design import Slot

__all__ = ["FULL", "Whole", "measure"]

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
NEVER = 10**9


def measure() -> list[Figure]:
    """Disturb the campaign once at every change of the disk, in both ways."""
    found = []
    for name, error in (("killed before", None), ("the disk is full from", FULL)):
        with tempfile.TemporaryDirectory() as folder:
            whole = Whole(Path(folder))
            cases = [(f"change {step}", whole.problem_at(step, error)) for step in whole.steps()]
        found.append(
            of_all(
                f"a campaign, {name} a change of the disk",
                [(f"{case}: {problem}", not problem) for case, problem in cases],
                what="changes",
            )
        )
    return found


def _first_is_invalid(slot: Slot) -> Verdict:
    """Let one cell need two attempts in each block, and another fail in one block."""
    if slot.treatment.name == "40ms" and slot.block == 2:
        return "failed"
    return "invalid" if slot.treatment.name == "20ms" and slot.attempt == 1 else "valid"


_TRIAL = simulated(_first_is_invalid)


class Whole:
    """An undisturbed campaign, and copies of it that are disturbed.

    Parameters
    ----------
    folder : pathlib.Path
        Where all of them are stored.
    """

    def __init__(self, folder: Path) -> None:
        os.environ["WAVEBED_LOCK"] = str(folder / "lock")
        self._campaign = example(folder, attempts=2)
        self._folder = folder / "whole"
        self._names = (folder / f"at-{number}" for number in itertools.count())
        self._changes = 0
        with patch("wavebed.run.runner.run_trial", _TRIAL), at_changes_of_the_disk(self._count):
            run_campaign(self._campaign, self._folder, [], live())

    def _count(self) -> None:
        self._changes += 1

    def steps(self) -> range:
        """Return the changes of the disk that an undisturbed campaign makes, counted from 1."""
        return range(1, self._changes + 1)

    def problem_at(self, step: int, error: OSError | None = None) -> str:
        """Disturb a campaign at a change, let it go on, and return how it differs from the undisturbed one."""
        folder = next(self._names)
        if self._run(folder, step, error):
            return "it was not disturbed"
        return self.difference(folder) if self._run(folder, NEVER) else "it does not go on"

    def killed_again_and_again(self, first: int, more: int) -> tuple[int, str]:
        """Kill one campaign at each start, `more` changes later each time; return the kills, and how it differs."""
        folder, kills = next(self._names), 0
        while not self._run(folder, first + more * kills):
            kills += 1
        return kills, self.difference(folder)

    def difference(self, folder: Path) -> str:
        """Return what of a campaign's folder is not as in this one."""
        one, other = load_run(folder), load_run(self._folder)
        equal = {
            "order of trials": _stored(folder) == _stored(self._folder),
            "trials": one.trials.equals(other.trials),
            "metrics": one.metrics.equals(other.metrics)
            and read_metrics(folder, {}).equals(read_metrics(self._folder, {})),
            "files": _files(folder) == _files(self._folder),
            "folders of trials": _files(folder / "trials") == _files(self._folder / "trials"),
            "state": status_of(folder).state == "ended",
        }
        return ", ".join(name for name, holds in equal.items() if not holds)

    def _run(self, folder: Path, step: int, error: OSError | None = None) -> bool:
        return run_until_killed(self._campaign, folder, step, _TRIAL, error)


def _stored(folder: Path) -> list[str]:
    return [event.trial for event in read_journal(folder) if isinstance(event, TrialStored)]


def _files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}
