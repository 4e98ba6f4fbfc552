"""The executor of virtual time: each trial runs in a guest of its own, on a processor of its own.

To `Remote` a place for a guest is a worker, so blocks are stored, resumed and stopped as on workers.
"""

from __future__ import annotations

import gzip
import os
import platform
import shutil
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec
from msgspec.structs import replace

from wavebed.errors import WavebedError
from wavebed.experiment.estimate import duration_text
from wavebed.experiment.machine_lock import measuring
from wavebed.prepared import prepared
from wavebed.result.identity import inputs_json
from wavebed.result.machine import machine
from wavebed.result.names import CHANGES_FILE, INPUTS_FILE
from wavebed.run.executor.block import (
    TASK_FILE,
    BlockResult,
    BlockTask,
    Packed,
    WorkerMachine,
    packed_file,
    read_packed,
    site,
    with_file,
)
from wavebed.run.executor.cluster import Worker
from wavebed.run.executor.inside import ERROR_FILE, OPENED_FILE, PACKED_FILE, write_place
from wavebed.run.executor.remote import Remote
from wavebed.run.executor.worker import FailedError, LostError
from wavebed.run.folder import check_programs, prepare
from wavebed.spec.patterns import GIVEN, given_in
from wavebed.spec.trial import IN_NAMESPACES, NamespacesLab
from wavebed.stranger import is_inside, one_line
from wavebed.virtual.channel import PROGRESS, Told, made_changes
from wavebed.virtual.guest import guest_folder, last_words, paths_in, processors, readable, run_guest
from wavebed.virtual.inputs import inputs_of
from wavebed.virtual.kernel import has_landlock, needed_kernel

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from wavebed.run.executor.carrier import RunSession
    from wavebed.run.executor.remote import Account
    from wavebed.run.progress import Live
    from wavebed.run.scenario import Plan
    from wavebed.virtual.channel import Made, Step
    from wavebed.virtual.guest import GuestFolder

T = TypeVar("T")

_NEVER_NS = 10**20 - 1


class Guests(Remote):
    """The executor of virtual time.

    Parameters
    ----------
    live : Live
        Shows the progress.
    jobs : int, optional
        Most guests at the same time; by default one for each processor, as far as the memory allows.
    memory_bytes : int, optional
        Memory of each guest.
    """

    most_failures = 1
    """A guest that failed would fail again in the same way."""

    def __init__(self, live: Live, jobs: int | None = None, memory_bytes: int | None = None) -> None:
        most = len(processors(memory_bytes))
        self._places = _Places(most if jobs is None else min(jobs, most))
        super().__init__(self._places, live)

    def check(self, plan: Plan) -> None:
        """Check that the kernel, and the programs and packages of a plan are installed.

        Raises
        ------
        MachineError
            If one is missing.
        """
        super().check(plan)
        needed_kernel()
        check_programs(plan)

    def site(self, programs: Sequence[str]) -> WorkerMachine:
        """Return this machine with the guest's kernel."""
        here = site(programs)
        kernel = needed_kernel()[1].release
        return replace(here, versions={**here.versions, "kernel": kernel}, machine=_machine())

    def run(self, session: RunSession) -> str:
        """Run the blocks that are left, as `Remote.run`; a concurrent run in real time detects them.

        Raises
        ------
        WavebedError
            If a guest fails, or the results cannot be stored.
        """
        prepare(session.plan, session.folder)
        self._places.stop_at(session.design.until_ns)
        with measuring(session.live.waiting):
            return super().run(session)

    def _tell(self, session: RunSession, account: Account, workers: Mapping[str, Worker]) -> None:
        """Record which blocks run where, and show how far their trials are."""
        super()._tell(session, account, workers)
        under_way = [each for each in self._places.courses() if each.step is not None]
        if under_way and self._live.is_due():
            text, left_s = progress_text(under_way, len(session.slots), session.folder.trials.left_s)
            self._live.say(text, left_s)


class GuestCourse:
    """How far a guest is: its last step, and virtual over real time."""

    def __init__(self) -> None:
        self.step: Step | None = None
        self.speed: float | None = None
        self._began: tuple[Step, float] | None = None

    def add(self, step: Step, now_s: float) -> None:
        """Add a step that the host read at `now_s`."""
        self.step = step
        if step.stage != "running":
            return
        if self._began is None or self._began[0].number != step.number or step.at_s < self._began[0].at_s:
            self._began = step, now_s
        first, began_s = self._began
        if step.at_s > first.at_s and now_s > began_s:
            self.speed = (step.at_s - first.at_s) / (now_s - began_s)

    def text(self) -> str:
        """Return the stage, or while the trial runs its virtual time."""
        assert self.step is not None, "the guest has told one"
        if self.step.stage != "running":
            return self.step.stage
        return f"{self.step.at_s:.1f} s of {max(self.step.planned_s, self.step.at_s):.4g} s"


def progress_text(courses: Sequence[GuestCourse], trials: int, planned_left_s: float) -> tuple[str, float]:
    """Return how far trials are by both clocks, and the real time left, seconds.

    Parameters
    ----------
    courses : sequence of GuestCourse
        At least one; each has told a step.
    planned_left_s : float
        Virtual time of all trials that are not stored.
    """
    steps = [each.step for each in courses if each.step is not None]
    speed = sum(each.speed or 0.0 for each in courses)
    left_s = max(planned_left_s - sum(step.at_s for step in steps), 0.0) / (speed or len(steps))
    text = ", ".join(course.text() for course in courses)
    if speed:
        text += f", {speed:.2g} × real time"
    numbers = ", ".join(str(step.number) for step in steps)
    head = f"{'trial' if len(steps) == 1 else 'trials'} {numbers} of {trials}"
    (first, *others) = steps
    shown = "" if others else ", " + ", ".join(filter(None, [first.treatment, f"seed {first.seed}", first.shown]))
    return f"{head}, {duration_text(left_s)} left: {text}{shown}", left_s


class _Places:
    """Places for guests (a `Cluster`)."""

    def __init__(self, number: int) -> None:
        self._places = {f"guest {each}": _Place() for each in range(1, number + 1)}
        self._workers = {address: Worker(address) for address in self._places}

    def connect(self) -> bool:
        """Return that there are places."""
        return True

    def close(self) -> None:
        """Remove what guests left."""
        for place in self._places.values():
            place.forget()

    def stop_at(self, until_ns: int | None) -> None:
        """Stop each trial at a time, nanoseconds since its time zero."""
        for place in self._places.values():
            place.until_ns = _NEVER_NS if until_ns is None else until_ns

    def courses(self) -> list[GuestCourse]:
        """Return how far the guests are."""
        return [place.course for place in self._places.values()]

    def workers(self) -> Mapping[str, Worker]:
        """Return the places; a place is never silent."""
        for worker in self._workers.values():
            worker.beat(object())
        return self._workers

    def call(self, worker: Worker, given_up: threading.Event, function: Callable[..., T], *given: object) -> T:
        """Do what a function of `wavebed.run.executor.worker` does on a worker, and return its result.

        Raises
        ------
        LostError
            If the guest was given up.
        FailedError
            If it fails.
        """
        place = self._places[worker.address]
        if function.__name__ == "run_task":
            return cast("T", place.run_task(given_up.is_set))
        try:
            return cast("T", getattr(place, function.__name__)(*given))
        except (OSError, WavebedError) as error:
            raise FailedError(one_line(str(error))) from None


class _Place:
    """A place for a guest: the functions of `wavebed.run.executor.worker`, on the folder of the next guest."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._folder: GuestFolder | None = None
        self.course = GuestCourse()
        self.until_ns = _NEVER_NS

    @property
    def _now(self) -> GuestFolder:
        if self._folder is None:
            raise LostError("no guest is under way")
        return self._folder

    def forget(self) -> None:
        """Remove the folder of the guest."""
        self._folder = None
        self.course = GuestCourse()
        self._stack.close()

    def absent_files(self, files: Mapping[str, int]) -> list[str]:
        """Begin the folder of a guest, which has none of the files."""
        self.forget()
        self._folder = self._stack.enter_context(guest_folder())
        return list(files)

    def put_piece(self, name: str, offset: int, data: bytes) -> None:
        """Write a piece of a file; pieces come in order."""
        file = self._now.input / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("r+b" if offset else "wb") as stream:
            stream.seek(offset)
            stream.write(data)

    def run_task(self, given_up: Callable[[], bool]) -> BlockResult:
        """Run each trial of the block in a guest of its own: what a trial gives depends on no other one.

        Raises
        ------
        LostError
            If it was given up.
        FailedError
            If it fails.
        """
        received = self._now
        task = msgspec.json.decode(gzip.decompress((received.input / TASK_FILE).read_bytes()), type=prepared(BlockTask))
        changes = made_changes(_text(received.input / CHANGES_FILE))  # a rerun has one trial
        packed: list[Packed] = []
        for trial in task.trials:
            alone = replace(task, block=1, trials=(replace(trial, number=1),))
            with guest_folder() as folder:
                _give(received.input, folder, alone)
                write_place(folder.input, trial.number, task.block, self.until_ns)
                (folder.input / TASK_FILE).write_bytes(gzip.compress(msgspec.json.encode(alone), mtime=0))
                with closing(Told(folder.output / PROGRESS)) as told:
                    look = self._looking(told, trial.number, given_up)
                    packed += _run_alone(alone, folder, received.folder, look, changes)
        return BlockResult(task.block, WorkerMachine(platform.node(), task.versions, _machine()), tuple(packed))

    def _looking(self, told: Told, number: int, given_up: Callable[[], bool]) -> Callable[[], bool]:
        """Return what follows the guest of a trial by what it tells, and returns whether it was given up."""
        self.course = course = GuestCourse()

        def look() -> bool:
            if (step := told.last()) is not None:
                course.add(replace(step, number=number), time.monotonic())
            return given_up()

        return look

    def read_piece(self, name: str, offset: int, size: int) -> bytes:
        """Return a piece of a packed trial."""
        return read_packed(self._now.folder, name, offset, size)


def _give(received: Path, folder: GuestFolder, task: BlockTask) -> None:
    """Fill the folder of a guest with what came for its trial.

    The user's files from a bundle, and the working folders of its programs that this machine has not, are a layer of
    the guest's root: a file that the guest made would move its random numbers.
    """
    beside = shutil.ignore_patterns(TASK_FILE, CHANGES_FILE, GIVEN)
    shutil.copytree(received, folder.input, copy_function=os.link, dirs_exist_ok=True, ignore=beside)
    for workload in task.trials[0].spec.workloads:
        named = workload.options.get("folder")
        if isinstance(named, str) and not Path(named).is_dir():
            _below(folder.given, named).mkdir(parents=True, exist_ok=True)
    for each in given_in(received):
        place = _below(folder.given, each.name)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_below(received / GIVEN, each.place), place)
        place.chmod(each.mode & 0o777 | 0o400)
        os.utime(place, ns=(each.mtime_ns, each.mtime_ns))


def _below(folder: Path, name: str) -> Path:
    """Return the place of a name below a folder, which it must not leave.

    Raises
    ------
    FailedError
        If it does.
    """
    if not is_inside(name.lstrip("/")):
        raise FailedError(f"{one_line(name)!r} is no name of a file")
    return folder / name.lstrip("/")


def _run_alone(
    task: BlockTask, folder: GuestFolder, kept: Path, given_up: Callable[[], bool], changes: list[Made]
) -> list[Packed]:
    """Run the one trial of a task, and keep its attempts packed, with their inputs, in the folder `kept`.

    Parameters
    ----------
    changes : list of Made
        The changes of the first run.
    """
    command = [sys.executable, "-m", "wavebed.run.executor.inside"]
    named = named_paths(task)
    try:
        spec = task.trials[0].spec
        lab = spec.lab if isinstance(spec.lab, NamespacesLab) else IN_NAMESPACES
        status = run_guest(folder, command, spec.seed, given_up, named, lab, repeated=changes)
    except WavebedError as error:
        raise FailedError(one_line(str(error))) from None
    if status is None:
        raise LostError("given up")
    if status:
        why = _text(folder.output / ERROR_FILE) or last_words(folder) or f"it ended with {status}"
        raise FailedError(one_line(why))
    attempts = msgspec.json.decode((folder.output / PACKED_FILE).read_bytes(), type=prepared(list[Packed]))
    opened = msgspec.json.decode((folder.output / OPENED_FILE).read_bytes(), type=list[str])
    inputs = inputs_json(inputs_of(opened, readable(named), folder))
    packed = []
    for each in attempts:
        left = packed_file(folder.output, each.name)
        if not is_inside(each.name) or left.parent != folder.output or left.is_symlink() or not left.is_file():
            raise FailedError(f"the guest left no trial {one_line(each.name)!r}")
        packed.append(with_file(each, left.rename(kept / left.name), INPUTS_FILE, inputs))
    return packed


def named_paths(task: BlockTask) -> list[str]:
    """Return the absolute paths that the specifications of a block name, alone or in a command."""
    return paths_in(msgspec.to_builtins(task.trials))


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""


def _machine() -> dict[str, str]:
    """Return this machine, and that it has no Landlock, if so."""
    return machine() if has_landlock() else {**machine(), "landlock": "none"}
