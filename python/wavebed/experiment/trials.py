"""The trials of an experiment in order; the journal has the start and the end (stored or failed) of each."""

from __future__ import annotations

import secrets
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from wavebed.errors import WavebedError
from wavebed.experiment.estimate import Estimate
from wavebed.store.disk import attempt_name, guarded, new_partial
from wavebed.store.journal import RunPlanned, TrialBegun, TrialFailed, TrialStored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from wavebed.result.model import Verdict
    from wavebed.store.journal import Event, Journal, Part

__all__ = ["PlannedTrials", "Trials"]


class PlannedTrials:
    """The trials of an experiment in order, recorded in its journal; they are numbered from 1.

    Parameters
    ----------
    emit : callable
        Records the events; the plan is the first.
    parts : sequence of Part
        Every trial, in order: its name, and the time it takes.
    """

    def __init__(self, emit: Callable[[Event], None], parts: Sequence[Part]) -> None:
        self.emit = emit
        self.parts = tuple(parts)
        expected_s = [part.expected_s for part in parts]
        most_s = [part.at_most_s for part in parts if part.at_most_s is not None]
        at_most_s = sum(most_s) if len(most_s) == len(parts) else None
        self._estimate = Estimate(expected_s, [part.kind for part in parts])
        emit(RunPlanned(trials=len(parts), expected_s=sum(expected_s), at_most_s=at_most_s, parts=self.parts))

    @property
    def left_s(self) -> float:
        """Seconds left at the start of the next trial."""
        return self._estimate.left_s

    def after_s(self, number: int) -> float:
        """Return the seconds that the trials after one take."""
        return self._estimate.after_s(number)

    def ratio(self, number: int) -> float:
        """Return the measured over the expected time of trials of the kind of this one."""
        return self._estimate.ratio(number)

    def expect(self, number: int, expected_s: float) -> None:
        """Replace the expected duration of a trial that is not stored."""
        self._estimate.expect(number, expected_s)

    def begin(
        self,
        number: int,
        treatment: str | None = None,
        block: int | None = None,
        seed: int | None = None,
        attempt: int = 1,
    ) -> None:
        """Record that a trial begins."""
        self.emit(
            TrialBegun(
                trial=self.name(number, attempt),
                number=number,
                trials=len(self.parts),
                left_s=self._estimate.from_s(number),
                treatment=treatment,
                block=block,
                seed=seed,
                attempt=attempt,
            )
        )

    def stored(
        self, number: int, verdict: Verdict, wall_s: float, reasons: Sequence[str] = (), attempt: int = 1
    ) -> None:
        """Record that a trial is on the disk under its final name."""
        name = self.name(number, attempt)
        self.emit(
            TrialStored(
                trial=name, number=number, verdict=verdict, wall_s=wall_s, reasons=tuple(reasons), attempt=attempt
            )
        )
        self.known(number, wall_s)

    def known(self, number: int, wall_s: float) -> None:
        """Add the duration of a trial that is stored already."""
        self._estimate.done(number, wall_s)

    def name(self, number: int, attempt: int = 1) -> str:
        """Return the name of an attempt at a trial."""
        return attempt_name(self.parts[number - 1].trial, attempt)


class Trials(PlannedTrials):
    """Trials that are folders of one folder of results, each named after its part.

    Parameters
    ----------
    folder : pathlib.Path
        Folder of the results, with a folder for trials.
    journal : Journal
        Of this folder.

    Attributes
    ----------
    mark : str
        Part of the names of unfinished folders.
    """

    def __init__(self, folder: Path, journal: Journal, parts: Sequence[Part]) -> None:
        super().__init__(journal.emit, parts)
        self.folder = folder
        self.journal = journal
        self.mark = secrets.token_hex(4)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Remove unfinished trials at the end of the block or of the process."""
        with guarded(self.folder, self.mark):
            yield

    @contextmanager
    def begun(
        self,
        number: int,
        treatment: str,
        block: int,
        seed: int | None = None,
        inside: Sequence[str] = (),
        attempt: int = 1,
    ) -> Iterator[Path]:
        """Begin a trial and yield its unfinished folder with the folders `inside`; an error in the block fails it.

        Raises
        ------
        WavebedError
            If the folder cannot be made.
        """
        name = self.name(number, attempt)
        partial = new_partial(self.folder, name, self.mark, inside)
        self.begin(number, treatment, block, seed, attempt)
        try:
            yield partial
        except BaseException as error:
            with suppress(WavebedError):  # on a full disk
                self.journal.emit(TrialFailed(trial=name, number=number, reason=str(error) or type(error).__name__))
            raise
