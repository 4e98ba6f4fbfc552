"""The folder of a reproduction while it runs: begun, resumed after a kill, its stored trials.

A test of a device is stored whole or made again. Its parts cannot be resumed one by one: the loads of a search lie on a
grid below the highest load, which is calibrated anew with every new device, and loads that were decided by trials on
another device, in another state, decide nothing.
"""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from wavebed.beneath import guard, make_folder, make_folders, remove, remove_tree, rename
from wavebed.errors import UserError
from wavebed.experiment.inputs import accepted_changes
from wavebed.experiment.trials import Trials
from wavebed.foreign import MAX_BYTES, open_foreign, read_json
from wavebed.forward.folder import RAW_FOLDER, read_forward
from wavebed.forward.model import Value, from_plain, to_plain
from wavebed.forward.result import refused_parts, verdict_of
from wavebed.output import replace_file
from wavebed.result.names import ASIDE_FOLDER, INCOMPLETE, PARTIAL, RUN_FILE, TRIALS_FOLDER
from wavebed.secret import redacted_line
from wavebed.store.disk import KEPT, explained, sync
from wavebed.store.journal import Part, RunBegun, RunResumed, TrialStored, read_journal

if TYPE_CHECKING:
    import io
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.forward.result import DeviceResult
    from wavebed.forward.settings import ForwardSpec
    from wavebed.store.journal import Event, Journal

__all__ = [
    "Asked",
    "Begun",
    "Opened",
    "PlannedTest",
    "begin",
    "go_on",
    "has_begun",
    "read_begun",
    "stored_raw",
    "stored_result",
]

STUDY = "small-packets"
BEGUN_FILE = "reproduction.json"


class Asked(Value, frozen=True):
    """What was asked for; the order and the tests follow from it."""

    quick: bool
    seed: int
    kinds: tuple[str, ...]
    rounds: int


class Begun(Value, frozen=True):
    """The file of a reproduction that has begun.

    Parameters
    ----------
    inputs : mapping of str to str
        Tests, programs, kernel and machine of the last start.
    changed : tuple of tuple of str
        The inputs that changed at each resume that accepted it, a line each.
    """

    study: str
    asked: Asked
    started: str
    command_line: tuple[str, ...]
    inputs: dict[str, str]
    changed: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedTest:
    """The test of one device in one round: a trial of the folder.

    Parameters
    ----------
    number, round : int
        Its place in the order, and the place of its round, from 1.
    """

    number: int
    kind: str
    round: int
    rounds: int
    spec: ForwardSpec
    expected_s: float

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.number:04d}-{self.kind}"

    @property
    def parts(self) -> str:
        """The parts of the test; tests of the same parts take about as long."""
        return ",".join(self.spec.settings.parts)


@dataclass(frozen=True, slots=True)
class Opened:
    """The folder of a reproduction that is under way.

    Parameters
    ----------
    stored : set of int
        Numbers of the trials that were stored before.
    changed : tuple of str
        Inputs that changed since the first start, a line each.
    """

    trials: Trials
    stored: frozenset[int] = frozenset()
    changed: tuple[str, ...] = ()


def has_begun(folder: Path) -> bool:
    """Return whether a folder holds a reproduction; what one left that was killed while it began is removed."""
    guard(folder)
    if folder.is_dir() and not (folder / BEGUN_FILE).exists():
        for file in folder.glob(".wavebed-*"):
            remove(file)
        return any(folder.iterdir())
    return folder.exists()


def read_begun(folder: Path) -> Begun:
    """Return what a reproduction was begun with.

    Raises
    ------
    UserError
        If the folder has none.
    """
    guard(folder)
    file = folder / BEGUN_FILE
    if not file.exists():
        raise UserError(f"{folder}: holds no reproduction that can be resumed: leave --resume out")
    try:
        return from_plain(Begun, read_json(file, "name a folder of wavebed reproduce"))
    except UserError as error:
        raise UserError(f"{file}: {error}: name a folder of wavebed reproduce") from None


def begin(
    folder: Path,
    asked: Asked,
    inputs: Mapping[str, str],
    command_line: Sequence[str],
    journal: Journal,
    tests: Sequence[PlannedTest],
) -> Opened:
    """Begin a new, empty folder.

    Raises
    ------
    WavebedError
        If it cannot be written.
    """
    started = datetime.now(UTC).isoformat(timespec="seconds")
    _write(folder, Begun(STUDY, asked, started, tuple(redacted_line(command_line)), dict(inputs)))
    with explained(folder, KEPT):
        make_folder(folder / TRIALS_FOLDER)
    journal.open(folder)
    journal.emit(RunBegun(kind="reproduction", title=STUDY))
    return Opened(_trials(folder, journal, tests))


def go_on(
    folder: Path,
    asked: Asked,
    inputs: Mapping[str, str],
    journal: Journal,
    tests: Sequence[PlannedTest],
    *,
    accept_changes: bool = False,
) -> Opened:
    """Go on in a folder whose lock is held; with accepted changes of inputs the round that has not ended begins again.

    Raises
    ------
    UserError
        If it is no reproduction, something else was asked for, or inputs changed and that is not accepted.
    WavebedError
        If it cannot be written.
    """
    begun = read_begun(folder)
    if begun.asked != asked:
        raise UserError(f"{folder}: something else was asked for there: resume it with the same options")
    changed = accepted_changes(folder, begun.inputs, inputs, accept=accept_changes)
    ledger = _read_ledger(folder, tests)
    unlisted = ledger.unlisted()
    journal.reopen(folder)
    for test, result in unlisted:
        # It was killed between the rename of the trial and its line in the journal.
        reasons = tuple(refusal.reason for refusal in refused_parts(result))
        found = TrialStored(
            trial=test.name, number=test.number, verdict=verdict_of(result), wall_s=result.took_s, reasons=reasons
        )
        journal.emit(found)
        ledger.hear(found)
    resumed = RunResumed(changed=changed)
    journal.emit(resumed)
    ledger.hear(resumed)
    ledger.tidy()
    if changed:
        begun = replace(begun, inputs=dict(inputs), changed=(*begun.changed, changed))
        _write(folder, begun)
    trials = _trials(folder, journal, tests)
    for number, event in ledger.stored.items():
        trials.known(number, event.wall_s)
    return Opened(trials, frozenset(ledger.stored), tuple(line for lines in begun.changed for line in lines))


def stored_result(folder: Path, trial: str) -> DeviceResult:
    """Return the result of a stored trial.

    Raises
    ------
    UserError
        If it is damaged.
    """
    return read_forward(folder / TRIALS_FOLDER / trial).result


def stored_raw(folder: Path, trial: str) -> dict[str, bytes]:
    """Return the outputs of other tools of a stored trial, by the names of their files."""
    files = sorted((folder / TRIALS_FOLDER / trial / RAW_FOLDER).glob("*.json.gz"))
    return {file.name.removesuffix(".gz"): _unpacked(file) for file in files}


def _unpacked(file: Path) -> bytes:
    with open_foreign(file, INCOMPLETE) as stream, gzip.open(cast("io.BufferedReader", stream)) as packed:
        try:
            data = packed.read(MAX_BYTES + 1)
        except (OSError, EOFError) as error:
            raise UserError(f"{file}: cannot be unpacked ({error}): {INCOMPLETE}") from None
    if len(data) > MAX_BYTES:
        raise UserError(f"{file}: is larger than {MAX_BYTES} bytes: {INCOMPLETE}")
    return data


def _trials(folder: Path, journal: Journal, tests: Sequence[PlannedTest]) -> Trials:
    return Trials(folder, journal, [Part(test.name, test.expected_s, kind=test.parts) for test in tests])


def _write(folder: Path, begun: Begun) -> None:
    with explained(folder, KEPT):
        text = json.dumps(to_plain(begun), allow_nan=False, ensure_ascii=False, indent=1) + "\n"
        replace_file(folder / BEGUN_FILE, text.encode())
        sync(folder)


@dataclass(slots=True)
class _Ledger:
    """What is stored, by the journal and the folders of the trials.

    Parameters
    ----------
    stored : dict of int to TrialStored
        By number.
    groups : int
        How often changed inputs were accepted.
    aside : dict of str to int
        The group at whose begin a trial was set aside, by its name.
    """

    folder: Path
    tests: Sequence[PlannedTest]
    stored: dict[int, TrialStored] = field(default_factory=dict)
    groups: int = 0
    aside: dict[str, int] = field(default_factory=dict)

    def hear(self, event: Event) -> None:
        """Take an event of the journal; with changed inputs, trials of rounds that have not ended are set aside."""
        if isinstance(event, TrialStored):
            self.stored[event.number] = event
            self.aside.pop(event.trial, None)
        elif isinstance(event, RunResumed) and event.changed:
            self.groups += 1
            still_open = {test.round for test in self.tests if test.number not in self.stored}
            for test in self.tests:
                if test.round in still_open and test.number in self.stored:
                    del self.stored[test.number]
                    self.aside[test.name] = self.groups

    def unlisted(self) -> list[tuple[PlannedTest, DeviceResult]]:
        """Return the trials that are there and that the journal does not list."""
        found = []
        for test in self.tests:
            waits = test.name in self.aside and not self._moved(test.name).exists()
            if test.number not in self.stored and not waits and self._trial(test.name).exists():
                with suppress(UserError):  # a damaged one is made again
                    found.append((test, stored_result(self.folder, test.name)))
        return found

    def tidy(self) -> None:
        """Move the trials that were set aside, and remove unfinished and damaged ones, which are made again.

        Raises
        ------
        WavebedError
            If they cannot be moved.
        """
        names = {test.name for test in self.tests if test.number not in self.stored}
        with explained(self.folder, KEPT):
            make_folder(self.folder / TRIALS_FOLDER)
            # A kill of the sandbox ends the guard with it.
            for partial in (self.folder / TRIALS_FOLDER).glob(f".*{PARTIAL}"):
                remove_tree(partial)
            for name in sorted(names):
                if name in self.aside and self._trial(name).exists() and not self._moved(name).exists():
                    make_folders(self._moved(name).parent)
                    rename(self._trial(name), self._moved(name))
                    sync(self._moved(name).parent)
                remove_tree(self._trial(name))
            sync(self.folder / TRIALS_FOLDER)

    def _trial(self, name: str) -> Path:
        return self.folder / TRIALS_FOLDER / name

    def _moved(self, name: str) -> Path:
        return self.folder / ASIDE_FOLDER / str(self.aside[name]) / name


def _read_ledger(folder: Path, tests: Sequence[PlannedTest]) -> _Ledger:
    ledger = _Ledger(folder, tests)
    for event in read_journal(folder):
        ledger.hear(event)
    for number, event in list(ledger.stored.items()):
        if not (folder / TRIALS_FOLDER / event.trial / RUN_FILE).exists():
            del ledger.stored[number]
    return ledger
