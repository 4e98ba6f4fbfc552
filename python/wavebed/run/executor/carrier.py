"""One block on one worker: its files go there, it runs, and its packed trials come back in pieces."""

from __future__ import annotations

import gzip
import io
import itertools
import math
import shutil
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, cast

import msgspec

from wavebed.errors import UserError
from wavebed.result.names import CHANGES_FILE, TRIAL_FILE
from wavebed.run.executor.block import TASK_FILE, BlockTask, TrialTask, unpack
from wavebed.run.executor.worker import (
    FailedError,
    LostError,
    absent_files,
    forget,
    put_piece,
    read_piece,
    run_task,
)
from wavebed.run.scenario import StoredTrial, limits_s
from wavebed.secret import redacted_table
from wavebed.spec.patterns import GIVEN, SITES
from wavebed.spec.trial import is_virtual
from wavebed.store.disk import KEPT, explained, new_partial
from wavebed.store.folder import Origin
from wavebed.store.records import read_trial
from wavebed.stranger import StrangerError, one_line

if TYPE_CHECKING:
    import queue
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from wavebed.run.design import Design, Slot
    from wavebed.run.executor.block import BlockResult, Packed, RunTrial
    from wavebed.run.executor.cluster import Cluster, Worker
    from wavebed.run.progress import Live
    from wavebed.run.resolve import Resolver
    from wavebed.run.scenario import Plan
    from wavebed.spec.trial import TrialSpec
    from wavebed.store.folder import RunFolder

IN_FLIGHT_BYTES = 256 << 20
"""Most bytes of results that are under way at the same time, of all workers."""
PIECE_BYTES = 8 << 20
BESIDE_S = 600.0
"""What a block may take beside its trials: the way there and back, and the wait for another run on the machine."""


@dataclass(frozen=True, slots=True)
class RunSession:
    """A run whose folder is open.

    Parameters
    ----------
    slots : sequence of Slot
        The trials of the plan in order.
    programs : set of str
        Programs that the workloads start.
    """

    plan: Plan
    slots: Sequence[Slot]
    programs: set[str]
    folder: RunFolder
    resolver: Resolver
    live: Live
    design: Design

    def left(self) -> dict[int, list[Slot]]:
        """Return the blocks that have not ended, in order, with their trials."""
        ended = self.folder.ledger.ended
        grouped = itertools.groupby(self.slots, key=lambda slot: slot.block)
        return {block: list(slots) for block, slots in grouped if block not in ended}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A block that is ready to be sent.

    Parameters
    ----------
    task : bytes
        The compressed `BlockTask`.
    files : mapping
        Patterns and sites in the folder of results: name, and size in bytes.
    longest_s : float
        The time after which a worker keeps the block too long; in virtual time none is.
    trials : mapping
        The slot of each attempt at its trials, by the name of its folder.
    changes : bytes
        Those that a guest repeats in its first trial; no part of the task, whose bytes are an input of the guest.
    """

    block: int
    task: bytes
    folder: Path
    files: Mapping[str, int]
    longest_s: float
    trials: Mapping[str, Slot]
    changes: bytes = b""


@dataclass(frozen=True, slots=True)
class Carried:
    """The end of a carrier's work.

    Parameters
    ----------
    partial : Path or None
        Folder with the unpacked trials; ``None`` if there are none: the worker was lost or given up.
    origin : Origin or None
        Where the block ran.
    error : str
        What failed on the worker.
    fatal : BaseException or None
        What failed here.
    """

    carrier: BlockCarrier
    partial: Path | None = None
    origin: Origin | None = None
    error: str = ""
    fatal: BaseException | None = None


def outgoing(block: int, slots: Sequence[Slot], session: RunSession, versions: Mapping[str, str]) -> Outgoing:
    """Resolve a block.

    Raises
    ------
    UserError
        If a trial cannot be resolved, or has a secret: it is not sent to other machines.
    WavebedError
        If a pattern cannot be stored.
    """
    trials = []
    for slot in slots:
        with session.resolver.resolved(slot) as resolved:
            if slot.number == 1:
                session.resolver.draw_scene()
            trials.append(TrialTask(slot.number, resolved.spec))
    folder, design = session.folder.path, session.design
    names = {name for trial in trials for name in needed_files(trial.spec, folder)}
    task = BlockTask(
        block=block,
        trials=tuple(trials),
        versions=dict(versions),
        programs=tuple(sorted(session.programs)),
        attempts=design.attempts,
        keep=design.keep,
        alone=design.alone,
    )
    files = {name: (folder / name).stat().st_size for name in sorted(names)}
    attempts = [replace(slot, attempt=number) for slot in slots for number in range(1, design.attempts + 1)]
    named = {slot.folder: slot for slot in attempts}
    limits = 2 * design.attempts * sum(limits_s(slot.treatment.workloads) for slot in slots) + BESIDE_S
    stored = slots[0].treatment.path
    changes = stored.changes.encode() if isinstance(stored, StoredTrial) else b""
    longest_s = math.inf if any(is_virtual(slot.treatment.lab) for slot in slots) else limits
    packed = gzip.compress(msgspec.json.encode(task), 6, mtime=0)
    return Outgoing(block, packed, folder, files, longest_s, named, changes)


def needed_files(spec: TrialSpec, folder: Path) -> Iterator[str]:
    """Yield the names of the files in the folder of results that a specification needs.

    Raises
    ------
    UserError
        If a workload has a secret.
    """
    for name in spec.patterns:
        yield f"{name}.gz"
    if (folder / GIVEN).is_dir():
        yield from (path.relative_to(folder).as_posix() for path in (folder / GIVEN).iterdir())
    for workload in spec.workloads:
        if redacted_table(workload.options) != workload.options:
            raise UserError(f"workload {workload.name}: has a secret, which is not sent to workers: run it locally")
        for value in workload.options.values():
            if isinstance(value, str) and value.startswith(f"{SITES}/"):
                place = folder / "/".join(value.split("/")[:2])
                yield from (path.relative_to(folder).as_posix() for path in place.rglob("*") if path.is_file())


_NUMBERS = itertools.count(1)
"""Two carriers may bring the same block. The system gives the number of a thread that ended to the next one."""


class BlockCarrier(threading.Thread):
    """Carries a block to a worker and its results back; puts a `Carried` into a queue at its end, whatever happens.

    Parameters
    ----------
    places : threading.Semaphore
        One for each piece of results that may be under way.
    run_trial : callable
        Runs one trial on the worker.
    """

    def __init__(
        self,
        cluster: Cluster,
        worker: Worker,
        block: Outgoing,
        mark: str,
        places: threading.Semaphore,
        ended: queue.SimpleQueue[Carried],
        run_trial: RunTrial,
    ) -> None:
        super().__init__(name=f"block {block.block}", daemon=True)
        self.worker = worker
        self.block = block.block
        self._number = next(_NUMBERS)
        self.given_up = threading.Event()
        self._overdue_s = time.monotonic() + block.longest_s
        self._cluster = cluster
        self._outgoing = block
        self._mark = mark
        self._places = places
        self._ended = ended
        self._run_trial = run_trial

    @property
    def is_overdue(self) -> bool:
        """Whether the block takes longer than an honest worker needs for it."""
        return time.monotonic() > self._overdue_s

    def run(self) -> None:
        """Carry the block."""
        try:
            carried = self._carry()
        except LostError:
            carried = Carried(self)
        except FailedError as error:
            carried = Carried(self, error=str(error))
        except BaseException as error:  # noqa: BLE001 - the front raises it
            carried = Carried(self, fatal=error)
        self._ended.put(carried)

    def _carry(self) -> Carried:
        self._send()
        result = self._cluster.call(self.worker, self.given_up, run_task, self._run_trial)
        partial = self._fetch(result)
        with suppress(LostError, FailedError):  # all results are here; a worker that is not well fails the next block
            self._cluster.call(self.worker, self.given_up, forget)
        names = tuple(each.name for each in result.packed)
        return Carried(self, partial, Origin(result.site.name, result.site.machine, names))

    def _send(self) -> None:
        block, task_size = self._outgoing, len(self._outgoing.task)
        wanted = {**block.files, TASK_FILE: task_size}
        absent = set(self._cluster.call(self.worker, self.given_up, absent_files, wanted))
        if others := absent - wanted.keys():
            raise FailedError(f"{one_line(min(others))!r} is no file of its block, and it asked for it")
        for name in sorted(absent - {TASK_FILE}):
            with (block.folder / name).open("rb") as stream:
                offset = 0
                while piece := stream.read(PIECE_BYTES):
                    self._cluster.call(self.worker, self.given_up, put_piece, name, offset, piece)
                    offset += len(piece)
        if block.changes:
            self._cluster.call(self.worker, self.given_up, put_piece, CHANGES_FILE, 0, block.changes)
        for offset in range(0, task_size, PIECE_BYTES):
            piece = block.task[offset : offset + PIECE_BYTES]
            self._cluster.call(self.worker, self.given_up, put_piece, TASK_FILE, offset, piece)

    def _fetch(self, result: BlockResult) -> Path:
        """Unpack the trials of a block into a partial folder as they come."""
        folder = self._outgoing.folder
        name = f"block-{self.block:05d}-{self._number}"
        partial = new_partial(folder, name, self._mark, ())
        try:
            with explained(folder, KEPT):
                for packed in result.packed:
                    self._take(packed, partial)
        except (StrangerError, UserError) as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise FailedError(str(error)) from None
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        return partial

    def _take(self, packed: Packed, partial: Path) -> None:
        """Unpack a trial. A trial or a record of another block is an error of the worker."""
        slot = self._outgoing.trials.get(packed.name)
        if slot is None or (partial / packed.name).exists():
            raise StrangerError(f"{one_line(packed.name)!r} came as the name of a trial")
        unpack(cast("IO[bytes]", _Arriving(self._piece, packed)), packed, partial / packed.name)
        trial = read_trial(partial / packed.name)
        told = (trial.folder, trial.block, trial.treatment, trial.seed, trial.attempt)
        if told != (slot.folder, slot.block, slot.treatment.name, slot.seed, slot.attempt):
            raise StrangerError(f"{packed.name}: {TRIAL_FILE} is that of another trial")

    def _piece(self, name: str, offset: int) -> bytes:
        with self._places:
            return self._cluster.call(self.worker, self.given_up, read_piece, name, offset, PIECE_BYTES)


class _Arriving(io.RawIOBase):
    """A packed trial on a worker, read in order."""

    def __init__(self, fetch: Callable[[str, int], bytes], packed: Packed) -> None:
        self._fetch = fetch
        self._packed = packed
        self._offset = 0
        self._piece = memoryview(b"")

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes; none at the end."""
        if not self._piece and self._offset < self._packed.size_bytes:
            piece = self._fetch(self._packed.name, self._offset)
            self._offset += len(piece)
            self._piece = memoryview(piece)
        taken = bytes(self._piece if size < 0 else self._piece[:size])
        self._piece = self._piece[len(taken) :]
        return taken
