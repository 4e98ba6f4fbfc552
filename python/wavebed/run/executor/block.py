"""A block of trials as a value, its run on the machine that received it, and its trials as packed files.

A packed trial is one file: the contents of its files one after the other, and a list of their names and sizes. It has
no format that could hide links, holes or further names: the list is checked before a byte is written.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Literal, Protocol

import msgspec

from wavebed._core import find_core
from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.experiment.machine_lock import measuring
from wavebed.extras import TABLES, absent
from wavebed.lab.tools import cache_folder, missing
from wavebed.result.identity import is_exact
from wavebed.result.machine import machine, versions
from wavebed.result.model import COUNTED
from wavebed.result.names import TRIALS_FOLDER
from wavebed.run.design import Slot, next_trial
from wavebed.run.devices import SharedContent
from wavebed.run.resolve import Resolved
from wavebed.run.scenario import StoredTrial, plan_of_spec
from wavebed.spec.network import with_pattern_files
from wavebed.spec.patterns import StoredPatterns
from wavebed.spec.trial import TrialSpec
from wavebed.store.disk import new_partial
from wavebed.store.folder import write_trial
from wavebed.stranger import MOST_FILES, Budget, Count, Line, Name, StrangerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wavebed.hosts.lab import RealHosts
    from wavebed.lab.protocol import Lab
    from wavebed.result.model import Check, TrialRecord
    from wavebed.run.play import RunningWorkload

_PIECE_BYTES = 1 << 20


class PackedFile(msgspec.Struct, frozen=True):
    """A file below the folder."""

    name: Name
    size_bytes: Count


class Packed(msgspec.Struct, frozen=True):
    """A packed folder.

    Parameters
    ----------
    name : str
        Of the folder.
    sha256 : str
        Of the contents of all files.
    files : tuple of PackedFile
        In the order of their contents.
    """

    name: Name
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    files: Annotated[tuple[PackedFile, ...], msgspec.Meta(max_length=MOST_FILES)]

    @property
    def size_bytes(self) -> int:
        """Return the size of all contents."""
        return sum(each.size_bytes for each in self.files)


def packed_file(folder: Path, trial: str) -> Path:
    """Return the file of a packed trial in a folder."""
    return folder / f"{trial}.packed"


def read_packed(folder: Path, trial: str, offset: int, size: int) -> bytes:
    """Return a piece of a packed trial in a folder."""
    with packed_file(folder, trial).open("rb") as stream:
        stream.seek(offset)
        return stream.read(size)


def pack(folder: Path, file: Path) -> Packed:
    """Write the contents of a folder's files into a file.

    Raises
    ------
    OSError
        If a file cannot be read, or the packed one not be written.
    UserError
        If something in the folder is neither file nor folder.
    """
    files, digest = [], hashlib.sha256()
    with file.open("wb") as target:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise UserError(f"{folder.name}: {name!r} is no file or folder inside a trial")
            if path.is_dir():
                continue
            begun = target.tell()
            with path.open("rb") as source:
                while piece := source.read(_PIECE_BYTES):
                    digest.update(piece)
                    target.write(piece)
            files.append(PackedFile(name, target.tell() - begun))
    return Packed(folder.name, digest.hexdigest(), tuple(files))


def with_file(packed: Packed, file: Path, name: str, content: bytes) -> Packed:
    """Add a file to a packed folder, whose contents are in `file`.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    digest = hashlib.sha256()
    with file.open("r+b") as stream:
        while piece := stream.read(_PIECE_BYTES):
            digest.update(piece)
        stream.write(content)
    digest.update(content)
    return Packed(packed.name, digest.hexdigest(), (*packed.files, PackedFile(name, len(content))))


def unpack(stream: IO[bytes], packed: Packed, folder: Path) -> None:
    """Make a folder from what `pack` wrote: regular files and their folders, with the default permissions.

    Parameters
    ----------
    stream : file
        The contents; they are read once, in order, and not beyond their size.

    Raises
    ------
    OSError
        If the folder cannot be written.
    StrangerError
        If a name leads out of the folder or comes twice, the files are too many or too large, or the content differs.
    """
    budget = Budget()
    for each in packed.files:
        budget.file(each.name, each.size_bytes)
    digest = hashlib.sha256()
    folder.mkdir()
    for each in packed.files:
        path = folder / each.name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            target = path.open("xb")
        except (FileExistsError, NotADirectoryError):
            raise StrangerError(f"{folder.name}: {each.name!r} came twice") from None
        left = each.size_bytes
        with target:
            while left:
                piece = stream.read(min(left, _PIECE_BYTES))
                if not piece:
                    raise StrangerError(f"{folder.name}: {each.name!r} is cut off")
                digest.update(piece)
                target.write(piece)
                left -= len(piece)
    if digest.hexdigest() != packed.sha256:
        raise StrangerError(f"{folder.name}: arrived damaged")


TASK_FILE = "block.json.gz"
"""The compressed `BlockTask`, in the folder of its patterns and sites."""

RESULTS = "results"
"""Folder of the results of the last block, in the folder of a worker."""
_CORE = "wavebed-core"
_MARK = "worker"
_MOST_FACTS = 1000


class RunTrial(Protocol):
    """`wavebed.run.trial.run_trial`, or a simulation of it."""

    def __call__(
        self,
        slot: Slot,
        resolved: Resolved,
        partial: Path,
        look: Callable[[Lab, Sequence[RunningWorkload]], None],
        of_machine: Callable[[], Sequence[Check]],
        /,
    ) -> TrialRecord:
        """Run a trial into the folder `partial`."""


class TrialTask(msgspec.Struct, frozen=True):
    """A trial of a block: its number in the plan, and its specification."""

    number: int
    spec: TrialSpec


class WorkerMachine(msgspec.Struct, frozen=True):
    """A machine and what it has installed, as far as results depend on it.

    Parameters
    ----------
    name : str
        Its host name.
    versions : dict
        Of wavebed, the kernel, Python and the programs; of the link engine the SHA-256.
    machine : dict
        Processor, cores and memory.
    absent : tuple of str
        Needed programs and packages that are not installed.
    """

    name: Line
    versions: Annotated[dict[Line, Line], msgspec.Meta(max_length=_MOST_FACTS)]
    machine: Annotated[dict[Line, Line], msgspec.Meta(max_length=_MOST_FACTS)]
    absent: Annotated[tuple[Line, ...], msgspec.Meta(max_length=_MOST_FACTS)] = ()


class BlockTask(msgspec.Struct, frozen=True):
    """A block to run.

    Parameters
    ----------
    trials : tuple of TrialTask
        In the order of the plan.
    versions : dict
        The campaign's versions (`WorkerMachine.versions`).
    programs : tuple of str
        That its workloads start.
    attempts, keep, alone
        As in `wavebed.run.design.Design`.
    """

    block: int
    trials: tuple[TrialTask, ...]
    versions: dict[str, str]
    programs: tuple[str, ...]
    attempts: int
    keep: Literal["all", "series", "metrics"]
    alone: bool


class BlockResult(msgspec.Struct, frozen=True):
    """A block that ran: where, and its packed attempts at trials in order."""

    block: Count
    site: WorkerMachine
    packed: Annotated[tuple[Packed, ...], msgspec.Meta(max_length=MOST_FILES)]


class NotWantedError(BaseException):
    """The block is not wanted any more, or not by this process of the worker: its files went with an earlier one."""


def site(programs: Sequence[str]) -> WorkerMachine:
    """Return this machine, and what it has installed.

    Raises
    ------
    MachineError
        If the link engine is not installed.
    """
    with Path(find_core()).open("rb") as core:
        digest = hashlib.file_digest(core, "sha256").hexdigest()
    lacking = (*missing(set(programs)), *absent(TABLES))
    return WorkerMachine(platform.node(), {**versions(programs), _CORE: digest}, machine(), tuple(lacking))


def differences(found: WorkerMachine, wanted: dict[str, str]) -> list[str]:
    """Return why a machine is not fit for a campaign, a line each."""
    lines = [f"{name} is not installed" for name in found.absent]
    for name in sorted({*found.versions, *wanted}):
        here, there = found.versions.get(name, "missing"), wanted.get(name, "missing")
        if here != there and name not in found.absent:
            said = "is another build" if name == _CORE else f"is {here}, that of the campaign {there}"
            lines.append(f"{name} {said}")
    return lines


def perform_block(task: BlockTask, folder: Path, cancelled: Callable[[], bool], run_trial: RunTrial) -> BlockResult:
    """Run a block with its repetitions, and leave its packed trials in the folder of results.

    Parameters
    ----------
    folder : pathlib.Path
        Has the patterns and sites of the specifications.
    cancelled : callable
        Called a few times a second; whether to stop.
    run_trial : callable
        Runs one trial.

    Raises
    ------
    MachineError
        If this machine is not fit for the campaign.
    NotWantedError
        If it was cancelled; nothing is left.
    WavebedError
        If no laboratory can be made here, or the results cannot be written.
    """
    found = site(task.programs)
    if differs := differences(found, task.versions):
        raise MachineError("; ".join(differs))
    packed = tuple(each for each, _ in perform_trials(task, folder, cancelled, run_trial))
    return BlockResult(task.block, found, packed)


def perform_trials(
    task: BlockTask, folder: Path, cancelled: Callable[[], bool], run_trial: RunTrial
) -> Iterator[tuple[Packed, Path]]:
    """Run a block as `perform_block`, on a machine that fits; yield each attempt at a trial, and its packed file.

    Raises
    ------
    NotWantedError, WavebedError
        As `perform_block`.
    """
    results = folder / RESULTS
    shutil.rmtree(results, ignore_errors=True)
    try:
        (results / TRIALS_FOLDER).mkdir(parents=True)
        yield from _attempts(task, folder, cancelled, run_trial)
    except OSError as error:
        shutil.rmtree(results, ignore_errors=True)
        raise WavebedError(f"{results}: {(error.strerror or 'cannot be written').lower()}") from error
    except BaseException:
        shutil.rmtree(results, ignore_errors=True)
        raise


def _attempts(
    task: BlockTask, folder: Path, cancelled: Callable[[], bool], run_trial: RunTrial
) -> Iterator[tuple[Packed, Path]]:
    def stop_if_cancelled(*_: object) -> None:
        if cancelled():
            raise NotWantedError

    results = folder / RESULTS
    slots = [_slot(each, task.block, folder) for each in task.trials]
    specs = {each.number: each.spec for each in task.trials}
    repeated: dict[int, list[bool]] = {}
    reached: dict[tuple[str, str], RealHosts] = {}
    with measuring(stop_if_cancelled, alone=task.alone) as neighbours:

        def look(_lab: Lab, _running: Sequence[RunningWorkload]) -> None:
            stop_if_cancelled()
            neighbours.look()

        def checks() -> Sequence[Check]:
            return [neighbours.check()]

        while (slot := next_trial(slots, repeated, task.attempts)) is not None:
            stop_if_cancelled()
            partial = new_partial(results, slot.folder, _MARK)
            neighbours.look()
            with _resolved(specs[slot.number], folder, reached) as resolved:
                trial = run_trial(slot, resolved, partial, look, checks)
            whole = write_trial(results, partial, trial, task.keep, durable=False)
            repeated.setdefault(slot.number, []).append(trial.verdict not in COUNTED and not is_exact(trial))
            file = packed_file(results, slot.folder)
            yield pack(whole, file), file
            shutil.rmtree(whole)


def _slot(task: TrialTask, block: int, folder: Path) -> Slot:
    """Return a trial with its workloads, whose content is made."""
    spec = task.spec
    (treatment,) = plan_of_spec(StoredTrial(spec, folder), Path(spec.treatment.name)).treatments
    content = SharedContent(cache_folder())
    for workload in treatment.workloads:
        content.prepare(workload)
    return Slot(task.number, block, spec.seed, treatment)


@contextmanager
def _resolved(spec: TrialSpec, folder: Path, reached: dict[tuple[str, str], RealHosts]) -> Iterator[Resolved]:
    patterns = StoredPatterns(spec.patterns, folder)
    try:
        network = with_pattern_files(spec.network, lambda name: patterns.files[name])
        yield Resolved(spec, network, patterns.files, patterns.descriptors, reached=reached)
    finally:
        patterns.close()
