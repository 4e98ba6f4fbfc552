"""Blocks on workers that are lost, silent or unfit, with workers in memory: no Dask, and trials take no time."""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from dataclasses import replace as changed
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
import pytest
from msgspec.structs import replace
from tests.simulated_trials import quick_trial
from tests.worker_campaigns import Told, agree, campaign_in

from wavebed.beneath import remove_tree
from wavebed.campaign.results import read_campaign_results
from wavebed.campaign.run import resume_campaign, run_campaign
from wavebed.campaign.status import status_json, status_of, status_text
from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.run.executor import carrier, worker
from wavebed.run.executor.block import (
    BlockResult,
    Packed,
    PackedFile,
    WorkerMachine,
    differences,
    pack,
    perform_block,
    site,
    unpack,
)
from wavebed.run.executor.cluster import Worker, address_of
from wavebed.run.executor.remote import Remote
from wavebed.run.executor.worker import FailedError, LostError, answer, given_back
from wavebed.store.journal import BlockEnded, BlocksPlaced, Event, TrialStored
from wavebed.stranger import StrangerError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wavebed.campaign.read import Campaign
    from wavebed.run.executor.block import BlockTask, RunTrial
    from wavebed.run.progress import Live

T = TypeVar("T")
SILENT_S = 0.3
WAIT_S = 60.0


@dataclass
class Machine:
    """A worker in memory.

    Parameters
    ----------
    before : callable
        Called before each of its calls with the name of the function, in the thread of its carrier.
    lies : callable
        Makes what the front gets of what a function returned.
    frozen : bool
        Whether its heart stands still, and its calls wait.
    """

    folder: Path
    worker: Worker
    before: Callable[[str], None] = lambda _: None
    frozen: bool = False
    gone: bool = False
    beats: int = 0
    calls: list[str] = field(default_factory=list)
    here: WorkerMachine | None = None
    lies: Callable[[Callable[..., object], bytes], object] = lambda _, data: data


class Machines:
    """A cluster in memory."""

    def __init__(self, folder: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machines: dict[str, Machine] = {}
        self.lost_scheduler = 0
        self._folder = folder
        self._local = threading.local()
        for _ in range(count):
            self.add()
        monkeypatch.setattr(worker, "_folder", lambda: self._local.folder)
        monkeypatch.setattr(worker, "_cancelled", lambda: self._local.given_up.is_set)
        monkeypatch.setattr(worker, "_check_doors", lambda: None)
        monkeypatch.setattr(worker, "perform_block", self._perform)
        monkeypatch.setattr(worker, "site", self._site)

    def add(self, unfit: str = "") -> Machine:
        name = f"m{len(self.machines)}"
        machine = self.machines[name] = Machine(self._folder / name, Worker(name, unfit))
        machine.folder.mkdir(parents=True)
        return machine

    def workers(self) -> Mapping[str, Worker]:
        if self.lost_scheduler:
            raise LostError("scheduler")
        present = {name: each for name, each in self.machines.items() if not each.gone}
        for each in present.values():
            each.beats += not each.frozen
            each.worker.beat(each.beats)
        return {name: each.worker for name, each in present.items()}

    def call(self, at: Worker, given_up: threading.Event, function: Callable[..., T], *given: object) -> T:
        machine = self.machines[at.address]
        machine.before(function.__name__)
        while machine.frozen and not given_up.is_set():
            time.sleep(0.01)
        if machine.gone or given_up.is_set() or self.lost_scheduler:
            raise LostError(at.address)
        self._local.folder, self._local.given_up, self._local.machine = machine.folder, given_up, machine
        machine.calls.append(function.__name__)
        return cast("T", given_back(function.__name__, machine.lies(function, answer(function, *given))))

    def connect(self) -> bool:
        self.lost_scheduler = max(self.lost_scheduler - 1, 0)
        return not self.lost_scheduler

    def close(self) -> None:
        pass

    def _site(self, programs: list[str]) -> WorkerMachine:
        machine: Machine = self._local.machine
        found = machine.here or site(programs)
        return WorkerMachine(machine.worker.address, found.versions, found.machine, found.absent)

    def _perform(
        self, task: BlockTask, folder: Path, cancelled: Callable[[], bool], run_trial: RunTrial
    ) -> BlockResult:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("wavebed.run.executor.block.site", self._site)
            return perform_block(task, folder, cancelled, run_trial)


def _run(
    campaign: Campaign, folder: Path, machines: Machines, live: Live | None = None, *, resume: bool = False
) -> None:
    live = live or Told()
    with Remote(machines, live, quick_trial, SILENT_S) as remote:
        (resume_campaign if resume else run_campaign)(campaign, folder / "run", [], live, remote)


@pytest.fixture(autouse=True)
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavebed.run.executor.remote.LOOK_S", 0.05)


def test_blocks_of_two_workers_are_stored_in_the_order_of_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, machines = campaign_in(tmp_path, 7), Machines(tmp_path / "machines", 2, monkeypatch)
    machines.machines["m0"].before = lambda name: time.sleep(0.05) if name == "run_task" else None
    _run(campaign, tmp_path, machines)
    agree(tmp_path, campaign, monkeypatch)
    frame = read_campaign_results(tmp_path / "run").metrics.to_pandas()
    assert set(frame["machine"]) == {"m0", "m1"}
    assert all(len(set(rows["machine"])) == 1 for _, rows in frame.groupby("block"))


def test_a_block_of_a_lost_worker_goes_to_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, machines = campaign_in(tmp_path, 5), Machines(tmp_path / "machines", 2, monkeypatch)
    lost, other = machines.machines["m0"], machines.machines["m1"]
    second = threading.Event()

    def before(name: str) -> None:
        if name == "read_piece" and lost.calls.count("run_task") == 2:
            lost.gone = True
            second.set()

    def others(name: str) -> None:
        if name == "run_task" and other.calls.count("run_task") == 1:  # a block is left for the one that is lost
            second.wait(WAIT_S)

    lost.before, other.before = before, others
    _run(campaign, tmp_path, machines)
    assert lost.gone
    assert lost.calls.count("run_task") == 2
    agree(tmp_path, campaign, monkeypatch)


def test_a_silent_worker_that_comes_back_late_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, machines = campaign_in(tmp_path, 4), Machines(tmp_path / "machines", 2, monkeypatch)
    silent, other = machines.machines["m0"], machines.machines["m1"]

    def before(name: str) -> None:
        silent.frozen = silent.frozen or name == "run_task"

    def thaw() -> None:
        silent.before, silent.frozen = (lambda _: None), False

    silent.before = before
    live = Told({3: thaw})
    _run(campaign, tmp_path, machines, live)
    assert other.calls.count("run_task") >= 3
    agree(tmp_path, campaign, monkeypatch)


def test_a_worker_is_silent_at_looks_only_however_late_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr("wavebed.run.executor.cluster.time", SimpleNamespace(monotonic=lambda: now_s))
    one = Worker("m0")
    one.beat(1)
    now_s += 40
    assert one.silent_s == 0, "nobody has looked"
    one.beat(2)
    assert one.silent_s == 0
    now_s += 40
    one.beat(2)
    assert one.silent_s == 40


def test_two_results_of_a_block_are_committed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, machines = campaign_in(tmp_path, 3), Machines(tmp_path / "machines", 2, monkeypatch)
    silent, other = machines.machines["m0"], machines.machines["m1"]
    both = threading.Barrier(2)

    def before(name: str) -> None:
        if name == "forget" and silent.calls.count("run_task") == 1:  # it has run block 1, and falls silent
            silent.frozen = True
            both.wait(WAIT_S)
            silent.frozen = False

    def others(name: str) -> None:
        # Blocks 2 and 3 are its own; the third one that it has run is block 1 again.
        if name == "forget" and other.calls.count("run_task") == 3:
            both.wait(WAIT_S)

    silent.before, other.before = before, others
    _run(campaign, tmp_path, machines)
    assert other.calls.count("run_task") == 3
    assert silent.calls.count("run_task") == 1
    agree(tmp_path, campaign, monkeypatch)


def test_a_lost_scheduler_costs_only_the_blocks_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, machines = campaign_in(tmp_path, 5), Machines(tmp_path / "machines", 2, monkeypatch)
    lost = threading.Event()

    def before(machine: Machine, name: str) -> None:
        if name == "run_task" and machine.calls.count("run_task") == 1:  # blocks are left when it is lost
            lost.wait(WAIT_S)

    for each in machines.machines.values():
        each.before = partial(before, each)

    def lose() -> None:
        machines.lost_scheduler = 3
        lost.set()

    live = Told({2: lose})
    _run(campaign, tmp_path, machines, live)
    assert "waiting for the scheduler" in live.text
    agree(tmp_path, campaign, monkeypatch)


@pytest.mark.parametrize("after", ["read_piece", "forget"])
def test_a_block_that_came_back_whole_is_kept_though_its_worker_is_lost(
    after: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, machines = campaign_in(tmp_path, 4), Machines(tmp_path / "machines", 2, monkeypatch)
    lost = machines.machines["m0"]

    def lose(name: str) -> None:
        lost.gone = lost.gone or name == after

    lost.before = lose
    _run(campaign, tmp_path, machines)
    again = after == "read_piece"
    assert [each.calls.count("run_task") for each in machines.machines.values()] == [1, 4 if again else 3]
    assert not list((tmp_path / "run" / "trials").glob(".block-*"))
    agree(tmp_path, campaign, monkeypatch)


@pytest.mark.parametrize("at", ["put_piece", "run_task", "read_piece"])
def test_a_worker_that_was_started_again_at_its_address_gets_its_block_anew(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrier, "PIECE_BYTES", 500)
    campaign, machines = campaign_in(tmp_path, 2), Machines(tmp_path / "machines", 1, monkeypatch)
    machine, called = machines.machines["m0"], 0

    def start_again(name: str) -> None:
        nonlocal called
        called += name == at
        if name == at and called == (1 if at == "run_task" else 2):  # the second piece, of a folder that has gone
            shutil.rmtree(machine.folder)
            machine.folder.mkdir()

    machine.before = start_again
    _run(campaign, tmp_path, machines)
    assert machine.calls.count("run_task") == (2 if at == "put_piece" else 3)
    agree(tmp_path, campaign, monkeypatch)


@pytest.mark.parametrize("kill_at", range(1, 12))
def test_a_front_killed_at_any_step_of_storing_goes_on(
    kill_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, machines = campaign_in(tmp_path, 4), Machines(tmp_path / "machines", 2, monkeypatch)

    class Killed(BaseException):
        pass

    class Fatal(Told):
        count = 0

        def __call__(self, event: Event) -> None:
            self.count += isinstance(event, TrialStored | BlockEnded)
            if self.count == kill_at:
                raise Killed

    with pytest.raises(Killed):
        _run(campaign, tmp_path, machines, Fatal())
    _run(campaign, tmp_path, machines, resume=True)
    agree(tmp_path, campaign, monkeypatch)


@pytest.mark.parametrize("kill_at", [1, 2, 3])
def test_a_front_killed_while_it_removes_a_stored_block_goes_on(
    kill_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, machines = campaign_in(tmp_path, 4), Machines(tmp_path / "machines", 2, monkeypatch)
    whole, count = remove_tree, 0

    class Killed(BaseException):
        pass

    def killed(folder: Path) -> None:
        nonlocal count
        if folder.parent == tmp_path / "run" / "trials" and folder.exists():
            count += 1
            if count == kill_at:
                (folder / "block.json").unlink()
                raise Killed
        whole(folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wavebed.store.folder.remove_tree", killed)
        with pytest.raises(Killed):
            _run(campaign, tmp_path, machines)
    _run(campaign, tmp_path, machines, resume=True)
    agree(tmp_path, campaign, monkeypatch)


def test_arrived_blocks_are_stored_by_a_local_resume_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, machines = campaign_in(tmp_path, 3), Machines(tmp_path / "machines", 2, monkeypatch)
    first = machines.machines["m0"]
    hold = threading.Event()

    def before(name: str) -> None:
        if name == "run_task":
            hold.wait(WAIT_S)

    first.before = before
    trials = tmp_path / "run" / "trials"

    def stop(*_: object) -> None:
        if len(list(trials.glob(".block-*.arrived"))) == 2:
            hold.set()
            raise KeyboardInterrupt

    monkeypatch.setattr(Remote, "_tell", stop)
    with pytest.raises(KeyboardInterrupt):
        _run(campaign, tmp_path, machines)
    monkeypatch.undo()
    assert not any(path.name.startswith("0") for path in trials.iterdir())
    monkeypatch.setattr("wavebed.run.runner.run_trial", quick_trial)
    resume_campaign(campaign, tmp_path / "run", [], Told())
    frame = read_campaign_results(tmp_path / "run").metrics.to_pandas()
    assert {block: set(rows["machine"]) for block, rows in frame.groupby("block")} == {1: {""}, 2: {"m1"}, 3: {"m1"}}
    agree(tmp_path, campaign, monkeypatch)


def test_the_stop_rule_meets_blocks_in_order_and_drops_what_is_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = '[stop]\nwhen = "decided"\nleast-blocks = 3'
    campaign, machines = campaign_in(tmp_path, 40, more), Machines(tmp_path / "machines", 3, monkeypatch)
    machines.machines["m0"].before = lambda name: time.sleep(0.1) if name == "run_task" else None
    _run(campaign, tmp_path, machines)
    results = read_campaign_results(tmp_path / "run")
    assert results.campaign.stopped == "every primary metric is decided"
    assert list(results.ended) == list(range(1, len(results.ended) + 1))
    assert len(results.ended) < 40
    agree(tmp_path, campaign, monkeypatch)


def test_a_worker_with_other_versions_gets_no_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, machines = campaign_in(tmp_path, 3), Machines(tmp_path / "machines", 2, monkeypatch)
    here = site(["true"])
    machines.machines["m1"].here = WorkerMachine("", {**here.versions, "kernel": "5.10"}, here.machine)
    live = Told()
    _run(campaign, tmp_path, machines, live)
    assert f"worker m1 gets no more blocks: kernel is 5.10, that of the campaign {here.versions['kernel']}" in live.text
    agree(tmp_path, campaign, monkeypatch)


def test_a_worker_that_is_started_otherwise_gets_no_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, machines = campaign_in(tmp_path, 2), Machines(tmp_path / "machines", 1, monkeypatch)
    machines.add(unfit="has 4 threads")
    live = Told()
    _run(campaign, tmp_path, machines, live)
    assert live.text.count("worker m1 gets no blocks: has 4 threads") == 1
    assert not machines.machines["m1"].calls


def test_no_fit_worker_ends_the_run_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, machines = campaign_in(tmp_path, 2), Machines(tmp_path / "machines", 1, monkeypatch)

    def fails(*_: object) -> None:
        raise WavebedError("no namespaces here")

    monkeypatch.setattr(worker, "perform_block", fails)
    with pytest.raises(MachineError, match=r"^no worker can run this campaign: no namespaces here$"):
        _run(campaign, tmp_path, machines)


def test_a_lost_worker_is_waited_for_where_the_others_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, machines = campaign_in(tmp_path, 4), Machines(tmp_path / "machines", 2, monkeypatch)
    here = site([])
    machines.machines["m1"].here = WorkerMachine("", {**here.versions, "kernel": "5.10"}, here.machine)
    good, looks = machines.machines["m0"], 0

    def lose() -> None:
        good.gone = True

    workers = machines.workers

    def back() -> Mapping[str, Worker]:
        nonlocal looks
        looks += good.gone
        good.gone = good.gone and looks < 20
        return workers()

    monkeypatch.setattr(machines, "workers", back)
    _run(campaign, tmp_path, machines, Told({2: lose}))
    assert machines.machines["m1"].calls.count("run_task") == 1
    agree(tmp_path, campaign, monkeypatch)


def test_a_block_that_fails_everywhere_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, machines = campaign_in(tmp_path, 1), Machines(tmp_path / "machines", 4, monkeypatch)

    def fails(*_: object) -> None:
        raise ZeroDivisionError("broken")

    monkeypatch.setattr(worker, "perform_block", fails)
    with pytest.raises(WavebedError, match=r"^block 1 failed on 3 workers: ZeroDivisionError: broken$"):
        _run(campaign, tmp_path, machines)


def test_a_worker_without_a_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machines = Machines(tmp_path / "machines", 1, monkeypatch)
    here = site([])
    machines.machines["m0"].here = WorkerMachine("", here.versions, here.machine, ("iperf3",))
    with pytest.raises(MachineError, match=r"^worker m0: iperf3 is not installed there$"):
        _run(campaign_in(tmp_path, 1), tmp_path, machines)
    assert not (tmp_path / "run").exists()


def test_results_come_in_pieces_and_never_more_than_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrier, "PIECE_BYTES", 1000)
    monkeypatch.setattr("wavebed.run.executor.remote.PIECE_BYTES", 1000)
    monkeypatch.setattr("wavebed.run.executor.remote.IN_FLIGHT_BYTES", 2000)
    campaign, machines = campaign_in(tmp_path, 4), Machines(tmp_path / "machines", 4, monkeypatch)
    now, most, lock, two = 0, 0, threading.Lock(), threading.Event()
    call = machines.call

    def counted(at: Worker, given_up: threading.Event, function: Callable[..., T], *given: object) -> T:
        nonlocal now, most
        if function.__name__ != "read_piece":
            return call(at, given_up, function, *given)
        with lock:
            now += 1
            most = max(most, now)
            if now == 2:
                two.set()
        two.wait(WAIT_S)
        time.sleep(0.001)
        try:
            return call(at, given_up, function, *given)
        finally:
            with lock:
                now -= 1

    monkeypatch.setattr(machines, "call", counted)
    _run(campaign, tmp_path, machines)
    assert most == 2
    agree(tmp_path, campaign, monkeypatch)


def test_the_status_names_the_blocks_that_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, machines = campaign_in(tmp_path, 4), Machines(tmp_path / "machines", 2, monkeypatch)
    told = []

    class Asks(Told):
        def __call__(self, event: Event) -> None:
            super().__call__(event)
            if isinstance(event, BlocksPlaced):
                status = status_of(tmp_path / "run")
                told.append((status_text(tmp_path / "run", status), status_json(status)["blocks"]))

    _run(campaign, tmp_path, machines, Asks())
    assert "now: 0 of 4 blocks ended; 1, 2 on 2 of 2 workers" in told[0][0]
    assert told[0][1] == [1, 2]
    assert status_json(status_of(tmp_path / "run"))["blocks"] == []


def test_a_packed_folder_is_the_same_unpacked(tmp_path: Path) -> None:
    source = tmp_path / "0001-a"
    (source / "raw" / "deep").mkdir(parents=True)
    (source / "raw" / "deep" / "ü.bin").write_bytes(bytes(range(256)) * 5000)
    (source / "trial.json").write_text("{}")
    (source / "empty").touch()
    packed = pack(source, tmp_path / "a.packed")
    assert packed.size_bytes == (tmp_path / "a.packed").stat().st_size
    with (tmp_path / "a.packed").open("rb") as stream:
        unpack(stream, packed, tmp_path / "b")
    both = [
        {p.relative_to(at): p.read_bytes() for p in at.rglob("*") if p.is_file()} for at in (source, tmp_path / "b")
    ]
    assert both[0] == both[1]


def test_links_are_not_packed(tmp_path: Path) -> None:
    source = tmp_path / "0001-a"
    source.mkdir()
    (source / "out").symlink_to("/etc/passwd")
    with pytest.raises(UserError, match="is no file or folder inside a trial"):
        pack(source, tmp_path / "a.packed")


def packed_as(*files: tuple[str, int], content: bytes = b"") -> Packed:
    return Packed("0001-a", hashlib.sha256(content).hexdigest(), tuple(PackedFile(*each) for each in files))


@pytest.mark.parametrize(
    ("packed", "content", "why"),
    [
        (packed_as(("../beside", 0)), b"", "came as the name of a file"),
        (packed_as(("deep/../../beside", 0)), b"", "came as the name of a file"),
        (packed_as(("/tmp/beside", 0)), b"", "came as the name of a file"),
        (packed_as(("a\x1b[2J", 0)), b"", "came as the name of a file"),
        (packed_as(("a//b", 0)), b"", "came as the name of a file"),
        (packed_as(("x" * 300, 0)), b"", "came as the name of a file"),
        (packed_as(("a", 0), ("a", 0)), b"", "came twice"),
        (packed_as(("a", 0), ("a/b", 0)), b"", "came twice"),
        (packed_as(("a", (1 << 30) + 1)), b"", "has 1073741825 bytes"),
        (packed_as(*((f"x{i}", 1 << 30) for i in range(5))), b"", "more than 4294967296 bytes"),
        (packed_as(*((f"x{i}", 0) for i in range(10_001))), b"", "more than 10000 files"),
        (packed_as(("a", 5)), b"four", "is cut off"),
        (packed_as(("a", 4)), b"four", "arrived damaged"),
    ],
    ids=range(13),
)
def test_what_is_no_packed_trial_is_refused_and_writes_nothing_beside(
    packed: Packed, content: bytes, why: str, tmp_path: Path
) -> None:
    with pytest.raises(StrangerError, match=re.escape(why)):
        unpack(io.BytesIO(content), packed, tmp_path / "b")
    assert {path.name for path in tmp_path.iterdir()} <= {"b"}


Lie = Callable[[BlockResult], object]
LIES: dict[str, tuple[str, Lie]] = {
    "a trial of a name that leads out": ("came as the name of a trial", lambda told: renamed(told, "../../beside")),
    "a trial of another block": ("came as the name of a trial", lambda told: renamed(told, "0007-5ms")),
    "a trial twice": ("came as the name of a trial", lambda told: replace(told, packed=told.packed * 2)),
    "no result": ("is malformed", lambda _: [1, 2]),
    "a text in place of a number": ("is malformed", lambda told: {**msgspec.to_builtins(told), "block": "one"}),
    "a long host name": (
        "is malformed", lambda told: replace(told, site=replace(told.site, name="x" * 10_000))
    ),
}  # fmt: skip


def renamed(told: BlockResult, name: str) -> BlockResult:
    first, *others = told.packed
    return replace(told, packed=(replace(first, name=name), *others))


@pytest.mark.parametrize("lie", LIES)
def test_a_worker_that_lies_of_its_block_gets_no_more_and_the_campaign_goes_on(
    lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why, made = LIES[lie]
    campaign, machines = campaign_in(tmp_path, 3), Machines(tmp_path / "machines", 2, monkeypatch)

    def lies(function: Callable[..., object], data: bytes) -> object:
        if function.__name__ != "run_task":
            return data
        return answer(lambda: made(given_back("run_task", data)))  # type: ignore[arg-type]

    machines.machines["m0"].lies = lies
    live = Told()
    _run(campaign, tmp_path, machines, live)
    assert "worker m0 gets no more blocks: " in live.text
    assert why in live.text
    assert {path.name for path in tmp_path.iterdir()} == {"s.toml", "c.toml", "run", "machines"}
    agree(tmp_path, campaign, monkeypatch)


@pytest.mark.parametrize("name", ["../secret", "{absolute}", "run.json", "s.toml\x1b[31m"])
def test_a_worker_that_asks_for_a_file_of_the_front_gets_none(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, machines = campaign_in(tmp_path, 3), Machines(tmp_path / "machines", 2, monkeypatch)
    (tmp_path / "secret").write_text("PRIVATE")
    hostile = machines.machines["m0"]

    def lies(function: Callable[..., object], data: bytes) -> object:
        wanted = [name.format(absolute=tmp_path / "secret")]
        return answer(lambda: wanted) if function.__name__ == "absent_files" else data

    hostile.lies = lies
    live = Told()
    _run(campaign, tmp_path, machines, live)
    assert "put_piece" not in hostile.calls
    assert "worker m0 gets no more blocks: " in live.text
    assert "is no file of its block" in live.text
    agree(tmp_path, campaign, monkeypatch)


def test_a_block_of_a_worker_that_never_answers_goes_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, machines = campaign_in(tmp_path, 4), Machines(tmp_path / "machines", 2, monkeypatch)
    hostile, end = machines.machines["m0"], threading.Event()
    monkeypatch.setattr(carrier.BlockCarrier, "is_overdue", property(lambda one: one.worker is hostile.worker))

    def before(name: str) -> None:
        if name != "describe":
            end.wait(WAIT_S)

    hostile.before = before
    live = Told({4: end.set})
    _run(campaign, tmp_path, machines, live)
    assert "worker m0 keeps block 1 longer than its trials may take: the next free worker runs it, too" in live.text
    assert machines.machines["m1"].calls.count("run_task") == 4
    agree(tmp_path, campaign, monkeypatch)


def test_a_block_is_overdue_after_twice_the_limits_of_its_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, real, overdue = 100.0, carrier.BlockCarrier.run, []
    monkeypatch.setattr(carrier, "time", SimpleNamespace(monotonic=lambda: now_s))
    campaign = campaign_in(tmp_path, 1)
    workloads = [each.workloads[0] for each in campaign.plan.treatments]
    longest_s = campaign.table.campaign.attempts * sum(each.common.limit_s + each.tail_s for each in workloads)

    def run(one: carrier.BlockCarrier) -> None:
        nonlocal now_s
        overdue.append(one.is_overdue)
        now_s += 2 * longest_s
        overdue.append(one.is_overdue)
        now_s += carrier.BESIDE_S + 1
        overdue.append(one.is_overdue)
        real(one)

    monkeypatch.setattr(carrier.BlockCarrier, "run", run)
    _run(campaign, tmp_path, Machines(tmp_path / "machines", 1, monkeypatch))
    assert overdue == [False, False, True]


def test_a_first_worker_that_never_answers_keeps_no_campaign_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wavebed.run.executor.remote.DESCRIBE_S", 0.2)
    campaign, machines = campaign_in(tmp_path, 2), Machines(tmp_path / "machines", 2, monkeypatch)
    machines.machines["m0"].frozen = True
    _run(campaign, tmp_path, machines)
    assert machines.machines["m1"].calls.count("run_task") == 2
    agree(tmp_path, campaign, monkeypatch)


@pytest.mark.parametrize("lie", ["an error", "no versions", "an absent program", "no bytes"])
def test_a_first_worker_that_is_not_fit_leaves_the_start_to_the_next(
    lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, machines = campaign_in(tmp_path, 2), Machines(tmp_path / "machines", 2, monkeypatch)

    def lies(function: Callable[..., object], data: bytes) -> object:
        if function.__name__ != "describe":
            return data
        if lie == "no bytes":
            return "?"
        if lie == "an error":
            return answer(lambda: 1 // 0)
        found = cast("WorkerMachine", given_back("describe", data))
        bad = WorkerMachine("", {}, found.machine) if lie == "no versions" else replace(found, absent=("iperf3",))
        return answer(lambda: bad)

    machines.machines["m0"].lies = lies
    _run(campaign, tmp_path, machines)
    agree(tmp_path, campaign, monkeypatch)


@pytest.mark.parametrize("field", ["folder", "block", "treatment", "seed", "attempt"])
def test_a_record_of_another_trial_is_refused(field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, machines = campaign_in(tmp_path, 1), Machines(tmp_path / "machines", 1, monkeypatch)

    lies = {"folder": "0007-other", "treatment": "../../.."}

    def lie(*given: Any) -> Any:
        return changed(quick_trial(*given), **{field: lies.get(field, 7)})

    with (
        Remote(machines, Told(), lie, SILENT_S) as remote,
        pytest.raises(MachineError, match=r"trial\.json is that of another trial$|came as the name of a trial$"),
    ):
        run_campaign(campaign, tmp_path / "run", [], Told(), remote)


def test_what_a_worker_says_reaches_no_terminal_with_control_characters() -> None:
    def fails() -> None:
        raise WavebedError("\x1b]0;pwned\x07" + "x" * 10_000)

    with pytest.raises(FailedError) as told:
        given_back("forget", answer(fails))
    assert str(told.value).isprintable()
    assert len(str(told.value)) < 1100


@pytest.mark.parametrize(
    ("given", "address"),
    [("dask://h:8786", "tcp://h:8786"), ("dask+tls://[::1]:8786", "tls://[::1]:8786")],
)
def test_the_address_of_a_scheduler(given: str, address: str) -> None:
    assert address_of(given) == address


@pytest.mark.parametrize("given", ["dask", "dask://h", "dask://:1", "tcp://h:1", "dask://h:x", ""])
def test_other_executors_are_refused(given: str) -> None:
    with pytest.raises(UserError, match="is no executor: write local, dask://HOST:PORT"):
        address_of(given)


def test_differences_of_a_machine_are_named() -> None:
    wanted = {"wavebed": "1", "iperf3": "3.12", "wavebed-core": "a"}
    found = WorkerMachine("m", {"wavebed": "2", "wavebed-core": "b"}, {}, ("iperf3",))
    assert differences(found, wanted) == [
        "iperf3 is not installed",
        "wavebed is 2, that of the campaign 1",
        "wavebed-core is another build",
    ]
