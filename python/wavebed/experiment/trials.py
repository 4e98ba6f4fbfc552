"""The trials of an experiment in their order: each begins, grows, and is stored or fails; the journal says so."""

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
    """The trials of one folder of results; they are known by their numbers, from 1.

    Parameters
    ----------
    folder : pathlib.Path
        Of the results; it has a folder for trials.
    journal : Journal
        Of this folder; the plan is told at once.
    parts : sequence of Part
        Every trial, in order: the name of its folder, and the time it takes.
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
        """Seconds left when the next trial begins."""
        return self._estimate.left_s

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Leave no trial behind that is not whole, however the block is left or the process ends."""
        with guarded(self.folder, self._mark):
            yield

    @contextmanager
    def begun(
        self, number: int, treatment: str, block: int, seed: int | None = None, inside: Sequence[str] = ()
    ) -> Iterator[Path]:
        """Begin a trial and give the folder in which it grows; an error in the block is that it failed.

        Parameters
        ----------
        inside : sequence of str
            Folders to make in it.

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
        """Say that a trial is on the disk under its name."""
        name = self._parts[number - 1].trial
        stored = TrialStored(trial=name, number=number, verdict=verdict, wall_s=wall_s, reasons=tuple(reasons))
        self.journal.emit(stored)
        self._estimate.done(wall_s)
