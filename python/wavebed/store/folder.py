"""The folder of a run's results while the run is under way: begun, resumed after a kill, filled, ended.

A trial is written in a hidden folder, which gets its name when all of it is on the disk. The head of the folder
(``run.json``) is written when the run begins and when it ends. Between the two, the journal and the folders of the
trials list the trials, so storing a trial takes the same time however many there are.

A block that ran elsewhere arrives whole, by one rename, and waits until all blocks before it are stored. So journal,
metrics and stop rule meet the blocks in the order of the plan, whichever machine was faster. An arrived block survives
a kill of this process: the next resume goes on storing it.
"""

from __future__ import annotations

import gzip
import os
import secrets
import shutil
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import msgspec

from wavebed.beneath import make_folder, make_folders, open_beneath, remove, remove_tree, rename
from wavebed.errors import UserError, WavebedError
from wavebed.foreign import read_bytes
from wavebed.output import replace_file
from wavebed.prepared import prepared
from wavebed.result.model import TrialLine
from wavebed.result.names import ASIDE_FOLDER, PARTIAL, RUN_FILE, SCENARIO_FILE, SPEC_FILE, TRIAL_FILE, TRIALS_FOLDER
from wavebed.secret import redacted_toml
from wavebed.store.disk import (
    KEPT,
    attempt_name,
    explained,
    guarded,
    keep_partial,
    make_new,
    new_partial,
    sync,
    sync_tree,
)
from wavebed.store.journal import (
    BlockEnded,
    CheckFailed,
    PlannedPart,
    PlannedTrials,
    RunEnded,
    RunResumed,
    TrialFailed,
    TrialStored,
    read_journal,
)
from wavebed.store.metrics import blocks_with_metrics, factors_of, keep_metrics, merge_metrics
from wavebed.store.records import read_trial, run_json, spec_json, trial_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from wavebed.result.model import RunRecord, TrialRecord, Verdict
    from wavebed.store.journal import Journal, RunBegun

Keep: TypeAlias = Literal["all", "series", "metrics"]
KEEP: tuple[Keep, ...] = ("all", "series", "metrics")
_UNKEPT: dict[Keep, tuple[str, ...]] = {"all": (), "series": ("raw",), "metrics": ("raw", "series")}
_PICTURES_AND_FILMS = (".gif", ".jpeg", ".jpg", ".m4s", ".mkv", ".mp4", ".png", ".webm", ".webp")
COMPRESSED = frozenset((*_PICTURES_AND_FILMS, ".br", ".bz2", ".gz", ".parquet", ".woff2", ".xz", ".zip", ".zst"))
"""Compressed formats; these files are not compressed again."""
_GZIP_LEVEL = 6
_ORIGIN_FILE = "block.json"
_ARRIVED = ".block-{:05d}.arrived"


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """A trial of the plan.

    Parameters
    ----------
    number, block : int
        Its place in the order of the trials, and the place of its seed, from 1.
    seed : int or None
        ``None`` where nothing is drawn.
    kind : str
        Trials of one kind take about as long; empty: the trials of one treatment.
    """

    number: int
    block: int
    treatment: str
    seed: int | None
    expected_s: float
    kind: str = ""

    @property
    def name(self) -> str:
        """The folder name of its first attempt."""
        return f"{self.number:04d}-{self.treatment}"

    def line(self, name: str, verdict: Verdict, reasons: Sequence[str], attempt: int) -> TrialLine:
        """Return the line of an attempt at it."""
        return TrialLine(name, self.block, self.treatment, self.seed or 0, verdict, reasons, attempt)


@dataclass(frozen=True, slots=True)
class StoredAttempt:
    """A stored attempt at a trial; `number` is the trial's place in the order, from 1."""

    line: TrialLine
    number: int
    wall_s: float


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


class ReadAttempt(NamedTuple):
    """What the record of a stored trial says of itself."""

    name: str
    verdict: Verdict
    wall_s: float
    reasons: Sequence[str]
    attempt: int = 1


class TrialForm(NamedTuple):
    """How trials are stored: the file that each one has, and how its folder is read."""

    file: str
    read: Callable[[Path], ReadAttempt]


def _read_attempt(folder: Path) -> ReadAttempt:
    trial = read_trial(folder)
    return ReadAttempt(trial.folder, trial.verdict, trial.wall_s, list(trial.reasons), trial.attempt)


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
    aside : list of list of StoredAttempt
        The trials that were set aside: one list for each resumption that changed inputs or began blocks again.
    stopped : str
        The reason of the stop rule, if it has ended the run.
    sizes : dict
        Trials of each block, if none is repeated: such a block has ended when all are stored.
    """

    blocks: dict[int, dict[tuple[int, int], StoredAttempt]] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    machines: dict[int, str] = field(default_factory=dict)
    changes: list[tuple[str, ...]] = field(default_factory=list)
    aside: list[list[StoredAttempt]] = field(default_factory=list)
    stopped: str = ""
    sizes: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, planned: Iterable[PlannedTrial], *, repeated: bool) -> Ledger:
        """Return the ledger of a plan before its first trial is stored."""
        return cls(sizes={} if repeated else Counter(trial.block for trial in planned))

    @property
    def group(self) -> int:
        """The group of the blocks that end next."""
        return len(self.changes) + 1

    def stored(self) -> Iterator[StoredAttempt]:
        """Yield the stored trials, in the order of their blocks, attempts and numbers."""
        for block in sorted(self.blocks):
            yield from self.of_block(block)

    def of_block(self, block: int) -> list[StoredAttempt]:
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

    def add(self, one: StoredAttempt) -> None:
        """Add a trial that was stored."""
        block = one.line.block
        stored = self.blocks.setdefault(block, {})
        stored[(one.number, one.line.attempt)] = one
        if len(stored) == self.sizes.get(block) and block not in self.ended:
            self.end(block, "")

    def end(self, block: int, machine: str) -> None:
        """Add the end of a block."""
        self.ended[block] = self.group
        self.machines[block] = machine

    def forget_absent(self, present: set[str]) -> None:
        """Forget the trials that have no folder any more; their blocks have not ended then."""
        for block, stored in self.blocks.items():
            for key, one in list(stored.items()):
                if one.line.folder not in present:
                    del stored[key]
                    self.ended.pop(block, None)

    def resume(self, changed: Sequence[str], *, whole: bool = False) -> None:
        """Add a new start.

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


def read_ledger(folder: Path, planned: Mapping[str, PlannedTrial], *, repeated: bool = True) -> Ledger:
    """Return what the journal of a folder of results lists.

    Parameters
    ----------
    planned : mapping
        The planned trials by name.
    repeated : bool
        Whether trials may be repeated; if not, a block has ended when all its trials are stored.

    Raises
    ------
    UserError
        If the journal is damaged, or lists a trial that is not planned.
    """
    blocks = {trial.block for trial in planned.values()}
    ledger = Ledger.of(planned.values(), repeated=repeated)
    for event in read_journal(folder):
        match event:
            case TrialStored():
                trial = _planned(event.trial, event.attempt, planned)
                if trial is None or event.number != trial.number:
                    raise _unplanned(folder, event.trial)
                line = trial.line(event.trial, event.verdict, event.reasons, event.attempt)
                ledger.add(StoredAttempt(line, event.number, event.wall_s))
            case BlockEnded() if event.block in blocks:
                ledger.end(event.block, event.machine)
            case RunResumed():
                ledger.resume(event.changed, whole=event.whole)
            case RunEnded():
                ledger.stopped = event.stopped
            case _:
                pass
    return ledger


def _planned(name: str, attempt: int, planned: Mapping[str, PlannedTrial]) -> PlannedTrial | None:
    """Return the trial of an attempt, if it is planned."""
    first = name if attempt == 1 else name.removesuffix(f".{attempt}")
    return planned.get(first) if attempt_name(first, attempt) == name else None


def _unplanned(folder: Path, trial: str) -> UserError:
    return UserError(f"{folder}: has trial {trial}, which is not planned: name the folder of this plan")


class RunFolder:
    """The only writer of a folder of results whose run is under way; this process has claimed it.

    Parameters
    ----------
    planned : sequence of PlannedTrial
        The trials, in order.
    record : RunRecord, optional
        The content of ``run.json``. Without one there are no metrics, and the caller writes the head.
    form : TrialForm, optional
        How trials that are not repeated are stored; by default trials are stored as trials of a scenario.

    Attributes
    ----------
    ledger : Ledger
        What is stored.
    trials : PlannedTrials
        The trials in order, with the estimate of the time left.
    mark : str
        Part of the names of unfinished trials.
    """

    def __init__(
        self,
        path: Path,
        planned: Sequence[PlannedTrial],
        journal: Journal,
        record: RunRecord | None = None,
        form: TrialForm | None = None,
    ) -> None:
        self.path = path
        self.journal = journal
        self.record = record
        self._repeats = form is None
        self.ledger = Ledger.of(planned, repeated=self._repeats)
        self.mark = secrets.token_hex(4)
        self._planned = tuple(planned)
        self._names = {trial.name: trial for trial in planned}
        self._form = form or TrialForm(TRIAL_FILE, _read_attempt)

    def begin(self, begun: RunBegun, head: Mapping[str, str]) -> None:
        """Begin a new folder with the files `head`; the first one lets a run that is killed now be resumed.

        Raises
        ------
        UserError
            If the folder is not empty, or cannot be made.
        WavebedError
            If it cannot be written.
        """
        make_new(self.path)
        self.write(head)
        self.journal.open(self.path)
        self.journal.emit(begun)
        self._plan()

    def resume(self, begun: RunBegun, changed: Sequence[str] = (), *, whole: bool = False) -> None:
        """Go on in the folder.

        A kill between the rename of a trial and its line in the journal leaves a trial that is not listed: it is added
        now. A listed trial without a folder runs again.

        Parameters
        ----------
        begun : RunBegun
            Written if the run was killed before its first event.
        changed : sequence of str
            Accepted changes of inputs since the last start; blocks that have not ended begin again.
        whole : bool
            Whether they begin again in any case, because they may run on another machine.

        Raises
        ------
        UserError
            If the journal is damaged, or there is a trial that is not planned.
        WavebedError
            If the folder cannot be written.
        """
        with explained(self.path, KEPT):
            make_folder(self.path / TRIALS_FOLDER)  # a kill may have come before it
        self.ledger = read_ledger(self.path, self._names, repeated=self._repeats)
        unlisted = self._unlisted()
        self.journal.reopen(self.path)
        if not self.journal.holds_events:
            self.journal.emit(begun)
        self._plan()
        for one in unlisted:
            self.add(one.line, one.number, one.wall_s)
        for block in self.arrived_blocks():
            _, origin = self._arrived(block)
            if changed or any(self._folder(name).exists() for name in origin.trials):
                self.commit(block)
        if self.record is not None:
            for block in sorted(self.ledger.ended.keys() - blocks_with_metrics(self.path)):
                self._keep_metrics(block, self.ledger.ended[block], self.ledger.machines[block])
        self.journal.emit(RunResumed(changed=tuple(changed), whole=whole))
        self.ledger.resume(changed, whole=whole)
        self._set_aside()
        for one in self.ledger.stored():
            self.trials.finished(one.number, one.wall_s)

    def write(self, files: Mapping[str, str]) -> None:
        """Replace files of the folder, in order.

        Raises
        ------
        WavebedError
            If one cannot be written; it is unchanged.
        """
        write_head(self.path, files)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Remove unfinished trials at the end of the block or of the process."""
        with guarded(self.path, self.mark):
            yield

    @contextmanager
    def begun(self, number: int, attempt: int = 1, inside: Sequence[str] = ()) -> Iterator[Path]:
        """Begin a trial and yield its unfinished folder with the folders `inside`; an error in the block fails it.

        Raises
        ------
        WavebedError
            If the folder cannot be made.
        """
        planned = self._planned[number - 1]
        name = attempt_name(planned.name, attempt)
        partial = new_partial(self.path, name, self.mark, inside)
        self.trials.begin(number, planned.treatment, planned.block, planned.seed, attempt)
        try:
            yield partial
        except BaseException as error:
            with suppress(WavebedError):  # on a full disk
                self.journal.emit(TrialFailed(trial=name, number=number, reason=str(error) or type(error).__name__))
            raise

    def keep(self, partial: Path, number: int) -> None:
        """Give a trial its name, once all is on the disk.

        Raises
        ------
        WavebedError
            If it cannot be written.
        """
        with explained(self.path, KEPT):
            keep_partial(partial, self._planned[number - 1].name)

    def line(self, number: int, verdict: Verdict, reasons: Sequence[str]) -> TrialLine:
        """Return the line of the first attempt at a trial."""
        planned = self._planned[number - 1]
        return planned.line(planned.name, verdict, reasons, 1)

    def add(self, line: TrialLine, number: int, wall_s: float) -> None:
        """Record that a trial is on the disk under its final name."""
        self.trials.stored(number, line.verdict, wall_s, line.reasons, line.attempt)
        self.ledger.add(StoredAttempt(line, number, wall_s))

    def failed_checks(self, trial: TrialRecord, name: str) -> None:
        """Write the failed checks of a trial to the journal."""
        for check in trial.checks:
            if not check.holds:
                event = CheckFailed(trial=name, code=check.code, severity=check.severity, evidence=check.evidence)
                self.journal.emit(event)

    def end_block(self, block: int, machine: str = "") -> None:
        """Store the metrics of a block whose trials are stored, and record its end.

        Raises
        ------
        WavebedError
            If they cannot be written.
        """
        if self.record is not None:
            self._keep_metrics(block, self.ledger.group, machine)
        self.journal.emit(BlockEnded(block=block, machine=machine))
        self.ledger.end(block, machine)

    def end(self, stopped: str = "") -> None:
        """Write all metrics and the last ``run.json``, and record the end.

        Raises
        ------
        WavebedError
            If they cannot be written.
        """
        lines = [one.line for one in self.ledger.stored()]
        if self.record is not None:
            self.record.trials = lines
            self.record.ended = datetime.now(UTC).isoformat(timespec="seconds")
            if self.record.campaign is not None:
                self.record.campaign.stopped = stopped
            with explained(self.path, KEPT):
                merge_metrics(self.path, sorted(self.ledger.ended), factors_of(self.record))
            self.write({RUN_FILE: run_json(self.record)})
        self.journal.emit(RunEnded(trials=len(lines), stopped=stopped))

    def arrived_blocks(self) -> list[int]:
        """Return the blocks that have arrived and have not ended, in order."""
        found = (self.path / TRIALS_FOLDER).glob(_ARRIVED.replace("{:05d}", "*"))
        return sorted(int(path.name.partition("-")[2].partition(".")[0]) for path in found)

    def arrive(self, block: int, partial: Path, origin: Origin) -> None:
        """Give the folder with all trials of a block its name, once all is on the disk.

        Raises
        ------
        WavebedError
            If it cannot be written.
        """
        with explained(self.path, KEPT):
            replace_file(partial / _ORIGIN_FILE, msgspec.json.encode(origin))
            sync_tree(partial)
            rename(partial, self._folder(_ARRIVED.format(block)))
            sync(self.path / TRIALS_FOLDER)

    def commit(self, block: int) -> None:
        """Store the trials of an arrived block, and end it.

        Raises
        ------
        UserError
            If it is damaged.
        WavebedError
            If the folder cannot be written.
        """
        place, origin = self._arrived(block)
        listed = {one.line.folder for one in self.ledger.of_block(block)}
        for name in origin.trials:
            whole = self._folder(name)
            with explained(self.path, KEPT):
                if not whole.exists():
                    rename(place / name, whole)
                    sync(whole.parent)
            if name not in listed:
                trial = read_trial(whole)
                self.add(TrialLine.of(trial), _number(name), trial.wall_s)
                self.failed_checks(trial, name)
        if block not in self.ledger.ended:
            self.end_block(block, origin.machine)
            if self.record is not None:
                about = ", ".join(f"{name} {value}" for name, value in origin.about.items())
                self.record.machine = {**self.record.machine, origin.machine: about}
        _remove_arrived(place)

    def discard_arrived(self) -> None:
        """Remove the arrived blocks, which the stop rule left out."""
        for block in self.arrived_blocks():
            _remove_arrived(self._folder(_ARRIVED.format(block)))

    def _plan(self) -> None:
        parts = [PlannedPart(one.name, one.expected_s, kind=one.kind or one.treatment) for one in self._planned]
        self.trials = PlannedTrials(self.journal.emit, parts)

    def _folder(self, name: str) -> Path:
        return self.path / TRIALS_FOLDER / name

    def _keep_metrics(self, block: int, group: int, machine: str) -> None:
        lines = [one.line for one in self.ledger.of_block(block)]
        with explained(self.path, KEPT):
            keep_metrics(self.path, block, lines, group, machine)

    def _arrived(self, block: int) -> tuple[Path, Origin]:
        place = self._folder(_ARRIVED.format(block))
        file = place / _ORIGIN_FILE
        remedy = "remove its folder: the block runs again"
        try:
            return place, msgspec.json.decode(read_bytes(file, remedy), type=prepared(Origin))
        except msgspec.MsgspecError as error:
            raise UserError(f"{file}: is damaged ({error}): {remedy}") from None

    def _unlisted(self) -> list[StoredAttempt]:
        """Forget the listed trials without a folder, and return the trials that are not listed."""
        present = {file.parent.name for file in self.path.glob(f"{TRIALS_FOLDER}/[!.]*/{self._form.file}")}
        self.ledger.forget_absent(present)
        unlisted = present - {one.line.folder for one in self.ledger.stored()}
        unlisted -= {source.name for source, target in self._to_move() if not target.exists()}
        found = []
        for name in sorted(unlisted):
            try:
                read = self._form.read(self._folder(name))
            except UserError:  # damaged: it runs again
                continue
            planned = _planned(name, read.attempt, self._names)
            if planned is None or read.name != name:
                raise _unplanned(self.path, name)
            line = planned.line(name, read.verdict, read.reasons, read.attempt)
            found.append(StoredAttempt(line, planned.number, read.wall_s))
        return found

    def _set_aside(self) -> None:
        """Move the trials that were set aside out of the folder of trials; a call after a kill ends an earlier one."""
        kept = {one.line.folder for one in self.ledger.stored()}
        with explained(self.path, KEPT):
            for source, target in self._to_move():
                if source.name not in kept and source.exists() and not target.exists():
                    make_folders(target.parent)
                    rename(source, target)
                    sync(target.parent)
                    sync(source.parent)

    def _to_move(self) -> Iterator[tuple[Path, Path]]:
        """Yield the folder of each trial that was set aside, before and after."""
        for number, stored in enumerate(self.ledger.aside, 1):
            for one in stored:
                name = one.line.folder
                yield self._folder(name), self.path / ASIDE_FOLDER / str(number) / name


def head_files(record: RunRecord, scenario: str, texts: Mapping[str, str]) -> dict[str, str]:
    """Return the files beside the trials by name: ``run.json``, the scenario if it is a file, and others."""
    scenarios = {SCENARIO_FILE: scenario} if scenario else {}
    return {RUN_FILE: run_json(record)} | {
        name: redacted_toml(text) for name, text in (scenarios | dict(texts)).items()
    }


def write_head(folder: Path, files: Mapping[str, str]) -> None:
    """Replace files beside the trials, in order, as `RunFolder.write`."""
    with explained(folder, KEPT):
        for name, text in files.items():
            replace_file(folder / name, text.encode())
        make_folder(folder / TRIALS_FOLDER)
        sync(folder)


def _number(trial: str) -> int:
    """Return the place of a trial in the order, which begins its name."""
    return int(trial.partition("-")[0])


def _remove_arrived(place: Path) -> None:
    """Remove an arrived block: at once for a reader, and the rest at the next resume if a kill interrupts it."""
    unnamed = place.with_suffix(PARTIAL)
    remove_tree(unnamed)
    with suppress(OSError):
        rename(place, unnamed)
    remove_tree(unnamed)


def write_trial(folder: Path, partial: Path, record: TrialRecord, keep: Keep = "all", *, durable: bool = True) -> Path:
    """Compress a trial's raw outputs, write ``trial.json``, rename its folder and return it.

    Parameters
    ----------
    keep : str
        What is kept beside ``trial.json`` and ``spec.json``: ``all``, ``series`` (without raw outputs) or ``metrics``
        (without both).
    durable : bool
        Whether to wait until it is on the disk.

    Raises
    ------
    WavebedError
        If it cannot be written, as on a full disk; `partial` is removed.
    """
    try:
        with explained(folder, KEPT):
            for name in _UNKEPT[keep]:
                remove_tree(partial / name)
            if keep == "all":
                compress_raw(partial / "raw")
            if record.resolved:
                replace_file(partial / SPEC_FILE, spec_json(record.resolved).encode())
            replace_file(partial / TRIAL_FILE, trial_json(record).encode())
            if durable:
                return keep_partial(partial, record.folder)
            whole = partial.parent / record.folder
            rename(partial, whole)
            return whole
    except WavebedError:
        remove_tree(partial)
        raise


def compress_raw(folder: Path) -> None:
    """Compress every file in `folder` with gzip, except compressed formats; remove sockets and links."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            remove(path)
        elif path.is_file() and path.suffix.lower() not in COMPRESSED:
            _compress(path)


def _compress(path: Path) -> None:
    small = path.with_name(path.name + ".gz")
    with (
        os.fdopen(open_beneath(path, os.O_RDONLY), "rb") as source,
        os.fdopen(open_beneath(small, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as target,
        gzip.GzipFile(path.name, "wb", _GZIP_LEVEL, target, mtime=0) as packed,
    ):
        shutil.copyfileobj(source, packed, 1 << 18)
    remove(path)
