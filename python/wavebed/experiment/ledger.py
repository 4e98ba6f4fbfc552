"""What is stored in a folder of results: its journal, checked against its folders of trials."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from wavebed.beneath import make_folders, rename
from wavebed.errors import UserError
from wavebed.result.names import ASIDE_FOLDER, STORED, TRIALS_FOLDER
from wavebed.store.disk import KEPT, attempt_name, explained, sync
from wavebed.store.journal import BlockEnded, RunEnded, RunResumed, TrialStored, read_journal
from wavebed.store.records import read_trial

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from wavebed.result.model import TrialLine, TrialRecord

__all__ = ["Ledger", "Stored", "read_ledger", "reconciled", "set_aside"]


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored attempt at a trial; `number` is the trial's place in the order, from 1."""

    line: TrialLine
    number: int
    wall_s: float


@dataclass(slots=True)
class Ledger:
    """The stored trials of a folder of results.

    Parameters
    ----------
    blocks : dict
        The stored trials of each block, by number and attempt.
    ended : dict
        Group of inputs of each block that has ended, from 1; blocks of one group have the same inputs.
    machines : dict
        The machine on which each block that has ended ran.
    changes : list of tuple of str
        The changed inputs of each group after the first.
    aside : list of list of Stored
        For each start with a change, or in which blocks began again as a whole, the trials that it set aside.
    stopped : str
        The reason of the stop rule, if it has ended the run.
    """

    blocks: dict[int, dict[tuple[int, int], Stored]] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    machines: dict[int, str] = field(default_factory=dict)
    changes: list[tuple[str, ...]] = field(default_factory=list)
    aside: list[list[Stored]] = field(default_factory=list)
    stopped: str = ""

    @property
    def group(self) -> int:
        """The group of the blocks that end next."""
        return len(self.changes) + 1

    def stored(self) -> Iterator[Stored]:
        """Yield the stored trials, in the order of their blocks, numbers and attempts."""
        for block in sorted(self.blocks):
            yield from self.of_block(block)

    def of_block(self, block: int) -> list[Stored]:
        """Return the stored trials of a block, in the order of their attempts and numbers."""
        stored = self.blocks.get(block, {})
        return [stored[key] for key in sorted(stored, key=lambda key: (key[1], key[0]))]

    def attempts(self, block: int) -> dict[int, list[TrialLine | None]]:
        """Return the attempts at each trial of a block, by the trial's number.

        An attempt that was deleted is ``None`` if a later one is there.
        """
        found: dict[int, list[TrialLine | None]] = {}
        for one in self.of_block(block):
            attempts = found.setdefault(one.number, [])
            attempts += [None] * (one.line.attempt - 1 - len(attempts))
            attempts.append(one.line)
        return found

    def add(self, one: Stored) -> None:
        """Add a trial that was stored."""
        self.blocks.setdefault(one.line.block, {})[(one.number, one.line.attempt)] = one

    def resume(self, changed: Sequence[str], *, whole: bool = False) -> None:
        """Take a new start.

        Parameters
        ----------
        changed : sequence of str
            Changed inputs: the trials of blocks that have not ended are set aside.
        whole : bool
            Whether they are set aside in any case.
        """
        self.stopped = ""
        if changed:
            self.changes.append(tuple(changed))
        if changed or whole:
            begun = sorted(self.blocks.keys() - self.ended.keys())
            self.aside.append([one for block in begun for one in self.of_block(block)])
            for block in begun:
                del self.blocks[block]


def read_ledger(folder: Path, planned: Mapping[str, TrialLine]) -> Ledger:
    """Return what the journal of a folder of results lists.

    Parameters
    ----------
    planned : mapping
        The planned trials by the name of their first attempt, of any verdict.

    Raises
    ------
    UserError
        If the journal is damaged, or lists a trial that is not planned.
    """
    ledger = Ledger()
    blocks = {line.block for line in planned.values()}
    for event in read_journal(folder):
        match event:
            case TrialStored():
                ledger.add(_stored(event, planned, folder))
            case BlockEnded() if event.block in blocks:
                ledger.ended[event.block] = ledger.group
                ledger.machines[event.block] = event.machine
            case RunResumed():
                ledger.resume(event.changed, whole=event.whole)
            case RunEnded():
                ledger.stopped = event.stopped
            case _:
                pass
    return ledger


def _stored(event: TrialStored, planned: Mapping[str, TrialLine], folder: Path) -> Stored:
    first = _planned(event.trial, event.attempt, planned)
    if first is None or event.number != _number(first):
        raise _unplanned(folder, event.trial)
    line = replace(
        planned[first], folder=event.trial, verdict=event.verdict, reasons=event.reasons, attempt=event.attempt
    )
    return Stored(line, event.number, event.wall_s)


def _planned(trial: str, attempt: int, planned: Mapping[str, TrialLine]) -> str | None:
    """Return the name of the first attempt at a trial, if it is planned."""
    first = trial if attempt == 1 else trial.removesuffix(f".{attempt}")
    return first if first in planned and attempt_name(first, attempt) == trial else None


def _number(trial: str) -> int:
    """Return the place of a trial in the order, which begins its name."""
    return int(trial.partition("-")[0])


def _unplanned(folder: Path, trial: str) -> UserError:
    return UserError(f"{folder}: has trial {trial}, which is not planned: name the folder of this plan")


def reconciled(ledger: Ledger, folder: Path, planned: Mapping[str, TrialLine]) -> list[tuple[int, TrialRecord]]:
    """Make a ledger agree with the folders of trials.

    A kill between the rename of a trial and its line in the journal leaves a trial that is not listed: it is returned,
    for the journal. A listed trial without a folder is forgotten, and runs again; its block has not ended then.

    Returns
    -------
    list of tuple
        Number and record of each trial that is stored but not listed.

    Raises
    ------
    UserError
        If a trial is not planned.
    """
    present = {file.parent.name for file in folder.glob(STORED)}
    for block, stored in ledger.blocks.items():
        for key, one in list(stored.items()):
            if one.line.folder not in present:
                del stored[key]
                ledger.ended.pop(block, None)
    unlisted = present - {one.line.folder for one in ledger.stored()}
    unlisted -= {source.name for source, target in _to_move(ledger, folder) if not target.exists()}
    found = []
    for name in sorted(unlisted):
        try:
            record = read_trial(folder / TRIALS_FOLDER / name)
        except UserError:  # damaged: it runs again
            continue
        first = _planned(name, record.attempt, planned)
        if record.folder != name or first is None:
            raise _unplanned(folder, name)
        found.append((_number(first), record))
    return found


def set_aside(ledger: Ledger, folder: Path) -> None:
    """Move the trials that were set aside out of the folder of trials; a repetition of a killed call ends it.

    Raises
    ------
    WavebedError
        If they cannot be moved.
    """
    kept = {one.line.folder for one in ledger.stored()}
    with explained(folder, KEPT):
        for source, target in _to_move(ledger, folder):
            if source.name not in kept and source.exists() and not target.exists():
                make_folders(target.parent)
                rename(source, target)
                sync(target.parent)
                sync(source.parent)


def _to_move(ledger: Ledger, folder: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the folder of each trial that was set aside, before and after."""
    for number, stored in enumerate(ledger.aside, 1):
        for one in stored:
            name = one.line.folder
            yield folder / TRIALS_FOLDER / name, folder / ASIDE_FOLDER / str(number) / name
