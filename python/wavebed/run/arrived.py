"""Blocks that ran on other machines, between their arrival in the folder of results and their place in its order.

A block arrives whole, by one rename, and waits until all blocks before it are stored. So the journal, the metrics and
the stop rule meet the blocks in the order of the plan, whichever machine was faster. An arrived block survives a kill
of this process: `commit` goes on where it ended.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from wavebed.beneath import remove_tree, rename
from wavebed.errors import UserError
from wavebed.foreign import read_bytes
from wavebed.output import replace_file
from wavebed.prepared import prepared
from wavebed.result.model import TrialLine
from wavebed.result.names import PARTIAL, TRIALS_FOLDER
from wavebed.store.disk import KEPT, explained, sync, sync_tree
from wavebed.store.journal import CheckFailed
from wavebed.store.records import read_trial

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.run.folder import Opened

__all__ = ["Origin", "arrived_blocks", "commit", "commit_begun", "discard_arrived", "keep_arrived"]

_FILE = "block.json"
_NAME = ".block-{:05d}.arrived"


class Origin(msgspec.Struct, frozen=True):
    """Where a block ran, and the names of its trials in the order in which they ended.

    Parameters
    ----------
    machine : str
        Host name of the machine.
    about : dict
        Its processor, cores and memory.
    """

    machine: str
    about: dict[str, str]
    trials: tuple[str, ...]


def arrived_blocks(folder: Path) -> list[int]:
    """Return the blocks that have arrived in a folder of results and have not ended, in order."""
    found = (folder / TRIALS_FOLDER).glob(_NAME.replace("{:05d}", "*"))
    return sorted(int(path.name.partition("-")[2].partition(".")[0]) for path in found)


def keep_arrived(folder: Path, block: int, partial: Path, origin: Origin) -> None:
    """Give the folder with all trials of a block its name in the folder of results, once all is on the disk.

    Raises
    ------
    WavebedError
        If it cannot be written.
    """
    with explained(folder, KEPT):
        replace_file(partial / _FILE, msgspec.json.encode(origin))
        sync_tree(partial)
        rename(partial, _place(folder, block))
        sync(folder / TRIALS_FOLDER)


def commit(opened: Opened, block: int) -> None:
    """Store the trials of an arrived block, and end it.

    Raises
    ------
    UserError
        If it is damaged.
    WavebedError
        If the folder cannot be written.
    """
    folder = opened.trials.folder
    place, origin = _read(folder, block)
    listed = {one.line.folder for one in opened.ledger.of_block(block)}
    for name in origin.trials:
        whole = folder / TRIALS_FOLDER / name
        with explained(folder, KEPT):
            if not whole.exists():
                rename(place / name, whole)
                sync(whole.parent)
        if name in listed:
            continue
        trial = read_trial(whole)
        opened.stored(TrialLine.of(trial), int(name.partition("-")[0]), trial.wall_s)
        for check in trial.checks:
            if not check.holds:
                failed = CheckFailed(trial=name, code=check.code, severity=check.severity, evidence=check.evidence)
                opened.trials.journal.emit(failed)
    if block not in opened.ledger.ended:
        opened.end_block(block, origin.machine)
        about = ", ".join(f"{name} {value}" for name, value in origin.about.items())
        opened.record.machine = {**opened.record.machine, origin.machine: about}
    _remove(place)


def commit_begun(opened: Opened, *, every: bool) -> None:
    """Store the arrived blocks whose storing a kill interrupted, or every one: they belong to the inputs so far.

    Raises
    ------
    UserError, WavebedError
        As `commit`.
    """
    folder = opened.trials.folder
    for block in arrived_blocks(folder):
        _, origin = _read(folder, block)
        if every or any((folder / TRIALS_FOLDER / name).exists() for name in origin.trials):
            commit(opened, block)


def discard_arrived(folder: Path, blocks: Sequence[int] | None = None) -> None:
    """Remove arrived blocks, by default all."""
    for block in arrived_blocks(folder) if blocks is None else blocks:
        _remove(_place(folder, block))


def _remove(place: Path) -> None:
    """Remove an arrived block: at once for a reader, and the rest at the next resume if a kill interrupts it."""
    unnamed = place.with_suffix(PARTIAL)
    remove_tree(unnamed)
    with suppress(OSError):
        rename(place, unnamed)
    remove_tree(unnamed)


def _place(folder: Path, block: int) -> Path:
    return folder / TRIALS_FOLDER / _NAME.format(block)


def _read(folder: Path, block: int) -> tuple[Path, Origin]:
    place = _place(folder, block)
    file = place / _FILE
    try:
        return place, msgspec.json.decode(
            read_bytes(file, "remove its folder: the block runs again"), type=prepared(Origin)
        )
    except msgspec.MsgspecError as error:
        raise UserError(f"{file}: is damaged ({error}): remove its folder: the block runs again") from None
