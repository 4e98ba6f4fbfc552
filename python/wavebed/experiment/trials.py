"""The trials of an experiment in order; the journal has the start and the end (stored or failed) of each."""

from __future__ import annotations

import secrets
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from wavebed.errors import WavebedError
from wavebed.experiment.estimate import Estimate
from wavebed.experiment.events import RunPlanned, TrialBegun, TrialFailed, TrialStored
from wavebed.experiment.guard import guarded
from wavebed.experiment.store import new_partial

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from wavebed.experiment.events import Part
    from wavebed.experiment.journal import Journal
    from wavebed.result.model import Verdict

__all__ = ["Trials"]


class Trials:
    """The trials of one folder of results, numbered from 1.

    Parameters
    ----------
    folder : pathlib.Path
        Folder of the results, with a folder for trials.
    journal : Journal
        Its journal, which gets the plan at once.
    parts : sequence of Part
        All trials in order: folder name and expected duration.
    """

    def __init__(self, folder: Path, journal: Journal, parts: Sequence[Part]) -> None:
        self.folder = folder
        self.journal = journal
        self._parts = tuple(parts)
        self._mark = secrets.token_hex(4)
        expected_s = [part.expected_s for part in parts]
        self._estimate = Estimate(expected_s)
        journal.emit(RunPlanned(trials=len(parts), expected_s=sum(expected_s), parts=self._parts))

    @property
    def left_s(self) -> float:
        """Seconds left at the start of the next trial."""
        return self._estimate.left_s

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Remove unfinished trials at the end of the block or of the process."""
        with guarded(self.folder, self._mark):
            yield

    @contextmanager
    def begun(
        self, number: int, treatment: str, block: int, seed: int | None = None, inside: Sequence[str] = ()
    ) -> Iterator[Path]:
        """Begin a trial and yield its unfinished folder with the folders `inside`; an error in the block fails it.

        Raises
        ------
        WavebedError
            If the folder cannot be made.
        """
        name = self._parts[number - 1].trial
        partial = new_partial(self.folder, name, self._mark, inside)
        self.journal.emit(
            TrialBegun(
                trial=name,
                number=number,
                trials=len(self._parts),
                left_s=self.left_s,
                treatment=treatment,
                block=block,
                seed=seed,
            )
        )
        try:
            yield partial
        except BaseException as error:
            with suppress(WavebedError):  # on a full disk
                self.journal.emit(TrialFailed(trial=name, number=number, reason=str(error) or type(error).__name__))
            raise

    def stored(self, number: int, verdict: Verdict, wall_s: float, reasons: Sequence[str] = ()) -> None:
        """Record that a trial is on the disk under its final name."""
        name = self._parts[number - 1].trial
        stored = TrialStored(trial=name, number=number, verdict=verdict, wall_s=wall_s, reasons=tuple(reasons))
        self.journal.emit(stored)
        self._estimate.done(wall_s)
