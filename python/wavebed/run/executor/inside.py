"""What runs in a guest of virtual time: one block, from the folder `INPUT` into the folder `OUTPUT`."""

from __future__ import annotations

import dataclasses
import gzip
import shutil
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from wavebed.errors import WavebedError
from wavebed.extras import spare_pandas
from wavebed.output import replace_file
from wavebed.prepared import prepared
from wavebed.printable import printable
from wavebed.result.model import EXACT, Check
from wavebed.result.names import CHANGES_FILE
from wavebed.run.design import expected_end_s
from wavebed.run.executor.block import TASK_FILE, BlockTask, packed_file, perform_trials
from wavebed.run.progress import names_text, show_text
from wavebed.run.trial import run_trial
from wavebed.virtual.channel import ANSWERS, EVERY_S, PROGRESS, Made, Step, tell
from wavebed.virtual.guest import INPUT, LOOP_MS, OPENED, OUTPUT, forced_ticks, wait_for_begin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wavebed.lab.protocol import Lab
    from wavebed.result.model import TrialRecord
    from wavebed.run.design import Slot
    from wavebed.run.executor.block import Packed
    from wavebed.run.play import RunningWorkload
    from wavebed.run.progress import Counters
    from wavebed.run.resolve import Resolved

PACKED_FILE = "packed.json"
ERROR_FILE = "error"
OPENED_FILE = "opened.json"
"""The names of the host's files and folders that programs of the guest opened."""
_UNTIL_FILE, _PLACE_FILE = "until", "place"
_WORK = Path("/run/wavebed/work")
_PROGRESS_FILE = Path(OUTPUT, PROGRESS)
_ANSWERS_FILE = Path(OUTPUT, ANSWERS)
_MOST_SHOWN = 500


def write_place(given: Path, number: int, block: int, until_ns: int) -> None:
    """Give a guest the place of its trial in the run, and when to stop it.

    The task itself always has number 1 and block 1. The guest reads the place when the trial has ended. All texts have
    one length, since what a program has in memory moves its page faults, and with them the times of the trial.

    Parameters
    ----------
    given : pathlib.Path
        The folder that the guest reads.
    until_ns : int
        Nanoseconds since time zero.
    """
    (given / _UNTIL_FILE).write_text(f"{until_ns:020}")
    (given / _PLACE_FILE).write_text(f"{number:020} {block:020}")


def main(given: Path = Path(INPUT), output: Path = Path(OUTPUT), work: Path = _WORK) -> int:
    """Run the block, and leave its packed trials, or the error, in `output`."""
    spare_pandas()
    try:
        packed = _perform(given, output, work)
    except (WavebedError, OSError) as error:
        (output / ERROR_FILE).write_text(str(error))
        return 1
    (output / PACKED_FILE).write_bytes(msgspec.json.encode(packed))
    (output / OPENED_FILE).write_bytes(msgspec.json.encode(_opened(Path(OPENED))))
    return 0


def _opened(folder: Path) -> list[str]:
    """Return the names of the host's files and folders that are open in the kernel's process."""
    names = set()
    for each in folder.iterdir():
        with suppress(OSError):  # the list's own descriptor is closed by now
            names.add(str(each.readlink()))
    return sorted(names)


def _perform(given: Path, output: Path, work: Path) -> list[Packed]:
    work.mkdir()
    for each in sorted(given.iterdir()):
        (work / each.name).symlink_to(each)
    task = msgspec.json.decode(gzip.decompress((given / TASK_FILE).read_bytes()), type=prepared(BlockTask))
    run = partial(_run_trial, place=given / _PLACE_FILE, until_s=float((given / _UNTIL_FILE).read_bytes()) / 1e9)
    wait_for_begin()
    done = []
    for packed, file in perform_trials(task, work, lambda: False, run):
        shutil.copyfile(file, packed_file(output, packed.name))
        file.unlink()
        done.append(packed)
    return done


def _run_trial(
    slot: Slot,
    resolved: Resolved,
    folder: Path,
    look: Callable[[Lab, Sequence[RunningWorkload]], None],
    of_machine: Callable[[], Sequence[Check]],
    /,
    place: Path,
    until_s: float,
) -> TrialRecord:
    """Run a trial, tell the host how far it is, keep the changes made in it, and check that it is exact.

    Parameters
    ----------
    place : pathlib.Path
        Has the place of the trial in its run, which the record gets.
    """
    before, _ = forced_ticks()
    earlier_bytes = _ANSWERS_FILE.stat().st_size
    progress = _Progress(slot)

    def looked(lab: Lab, running: Sequence[RunningWorkload]) -> None:
        look(lab, running)
        progress.look(lab, running)

    def checks() -> Sequence[Check]:
        made = kept_changes(_ANSWERS_FILE, earlier_bytes, folder / CHANGES_FILE)
        return [*of_machine(), exactness(before, changes=made)]

    record = run_trial(slot, resolved, folder, looked, of_machine=checks, until_s=until_s)
    number, block = map(int, place.read_text().split())
    return dataclasses.replace(record, folder=dataclasses.replace(slot, number=number).folder, block=block)


def kept_changes(answers: Path, after_bytes: int, file: Path) -> int:
    """Copy the changes that guest-init made after `after_bytes` of its answers into a file, and return their number."""
    with answers.open("rb") as stream:
        stream.seek(after_bytes)
        lines = stream.read().splitlines()
    made = [msgspec.json.decode(line, type=prepared(Made)) for line in lines]
    if made:
        replace_file(file, b"".join(msgspec.json.encode(each) + b"\n" for each in made))
    return len(made)


class _Progress:
    """Tells the host how far a trial is."""

    def __init__(self, slot: Slot) -> None:
        self._step = Step(slot.number, slot.treatment.name, slot.seed, "set-up")
        self._planned_s = round(expected_end_s(slot.treatment), 3)
        self._next_s = 0.0
        self._before: Counters | None = None
        tell(_PROGRESS_FILE, self._step)

    def look(self, lab: Lab, running: Sequence[RunningWorkload]) -> None:
        """Tell it, if it is due by the virtual clock."""
        now_s = lab.clock.now_s()
        if all(one.over.is_set() for one in running):
            tell(_PROGRESS_FILE, replace(self._step, stage="analysing"))
        elif now_s >= self._next_s:
            self._next_s = now_s + EVERY_S
            shown, self._before = show_text(lab.show(), self._before)
            text = (shown or names_text(running))[:_MOST_SHOWN]
            at_s = round(now_s, 3)
            tell(
                _PROGRESS_FILE,
                replace(self._step, stage="running", at_s=at_s, planned_s=self._planned_s, shown=text),
            )


def exactness(before: int, told: Callable[[], tuple[int, str]] = forced_ticks, changes: int = 0) -> Check:
    """Return the check that no tick was forced since there were `before`: ticks come at the pace of the host.

    Parameters
    ----------
    changes : int
        Changes that were made in the laboratory from outside, which a rerun repeats.
    """
    now, program = told()
    times = now - before
    evidence = "no program waited for another without the kernel"
    if times:
        evidence = (
            f"not exact: {printable(program)} computed for {LOOP_MS / 1000:g} s without the kernel, {times} times"
        )
    if changes:
        evidence += f"; changes made from outside, which a rerun repeats: {changes}"
    return Check("exact", times == 0, "suspect", evidence, EXACT)


if __name__ == "__main__":
    sys.exit(main())
