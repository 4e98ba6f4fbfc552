"""The folder of a reproduction while it runs: begun, resumed after a kill, its stored trials.

A test of a device is stored whole or made again. Its parts cannot be resumed one by one: the loads of a search lie on a
grid below the highest load, which is calibrated anew with every new device, and loads that were decided by trials on
another device, in another state, decide nothing.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from wavebed.beneath import guard, remove
from wavebed.errors import UserError
from wavebed.experiment.inputs import accepted_changes
from wavebed.foreign import MAX_BYTES, open_foreign, read_json
from wavebed.forward.folder import RAW_FOLDER, read_forward
from wavebed.forward.model import Value, from_plain, to_plain
from wavebed.forward.result import refused_parts, verdict_of
from wavebed.result.names import INCOMPLETE, RUN_FILE, TRIALS_FOLDER
from wavebed.secret import redacted_line
from wavebed.store.folder import PlannedTrial, ReadAttempt, RunFolder, TrialForm
from wavebed.store.journal import RunBegun

if TYPE_CHECKING:
    import io
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.forward.result import DeviceResult
    from wavebed.forward.settings import ForwardSpec
    from wavebed.store.journal import Journal

STUDY = "small-packets"
BEGUN_FILE = "reproduction.json"
_BEGUN = RunBegun(kind="reproduction", title=STUDY)


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


def begin(folder: RunFolder, asked: Asked, inputs: Mapping[str, str], command_line: Sequence[str]) -> None:
    """Begin a new, empty folder.

    Raises
    ------
    WavebedError
        If it cannot be written.
    """
    started = datetime.now(UTC).isoformat(timespec="seconds")
    begun = Begun(STUDY, asked, started, tuple(redacted_line(command_line)), dict(inputs))
    folder.begin(_BEGUN, {BEGUN_FILE: _text(begun)})


def go_on(folder: RunFolder, asked: Asked, inputs: Mapping[str, str], *, accept_changes: bool = False) -> None:
    """Go on in a folder whose lock is held; with accepted changes of inputs the round that has not ended begins again.

    Raises
    ------
    UserError
        If it is no reproduction, something else was asked for, or inputs changed and that is not accepted.
    WavebedError
        If it cannot be written.
    """
    begun = read_begun(folder.path)
    if begun.asked != asked:
        raise UserError(f"{folder.path}: something else was asked for there: resume it with the same options")
    changed = accepted_changes(folder.path, begun.inputs, inputs, accept=accept_changes)
    folder.resume(_BEGUN, changed)
    if changed:
        begun = replace(begun, inputs=dict(inputs), changed=(*begun.changed, changed))
        folder.write({BEGUN_FILE: _text(begun)})


def run_folder(path: Path, journal: Journal, tests: Sequence[PlannedTest]) -> RunFolder:
    """Return the folder whose trials are tests of devices; its rounds are the blocks."""
    planned = [
        PlannedTrial(test.number, test.round, test.kind, None, test.expected_s, kind=test.parts) for test in tests
    ]
    return RunFolder(path, planned, journal, form=TrialForm(RUN_FILE, _read_attempt))


def _read_attempt(folder: Path) -> ReadAttempt:
    result = read_forward(folder).result
    reasons = [refusal.reason for refusal in refused_parts(result)]
    return ReadAttempt(folder.name, verdict_of(result), result.took_s, reasons)


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


def _text(begun: Begun) -> str:
    return json.dumps(to_plain(begun), allow_nan=False, ensure_ascii=False, indent=1) + "\n"
