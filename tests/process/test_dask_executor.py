"""Campaigns on workers of Dask, beside the same campaign on this machine; trials are simulated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from tests.dask_workers import ROOT, DaskWorkers
from tests.samples_by_seed import sample
from tests.simulated_trials import quick_trial, slow_trial
from tests.worker_campaigns import Told, agree, campaign_in

from wavebed.campaign.results import read_campaign_results
from wavebed.campaign.run import resume_campaign, run_campaign
from wavebed.errors import MachineError
from wavebed.run.executor.cluster import DaskCluster
from wavebed.run.executor.remote import Remote
from wavebed.run.executor.worker import FailedError, describe
from wavebed.store.journal import BlockEnded, read_journal
from wavebed.store.load import load_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from wavebed.run.executor.block import RunTrial
    from wavebed.run.progress import Live


def _remote(cluster: DaskWorkers, live: Live, run_trial: RunTrial, silent_s: float = 30.0) -> Remote:
    return Remote(DaskCluster(cluster.address), live, run_trial, silent_s)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskWorkers]:
    with DaskWorkers(tmp_path_factory.mktemp("dask"), 2) as found:
        yield found


def test_a_campaign_on_workers_agrees_with_one_on_this_machine(
    cluster: DaskWorkers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = campaign_in(tmp_path, 6)
    live = Told()
    with _remote(cluster, live, quick_trial) as remote:
        run_campaign(campaign, tmp_path / "run", [], live, remote)
    agree(tmp_path, campaign, monkeypatch)
    run = read_campaign_results(tmp_path / "run").run
    assert set(read_campaign_results(tmp_path / "run").metrics.to_pandas()["machine"]) == {os.uname().nodename}
    assert set(run.machine) == {os.uname().nodename}
    cluster.check_nothing_left()
    assert "0 of 6 blocks ended; 1, 2 on 2 of 2 workers" in live.text


def test_a_campaign_that_began_here_goes_on_on_workers_with_whole_blocks(
    cluster: DaskWorkers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVEBED_LOCK", str(tmp_path / "lock"))
    campaign = campaign_in(tmp_path, 4)
    calls = 0

    def killed(*given: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return quick_trial(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("wavebed.run.runner.run_trial", killed)
    with pytest.raises(KeyboardInterrupt):
        run_campaign(campaign, tmp_path / "run", [], Told())
    with _remote(cluster, Told(), quick_trial) as remote:
        resume_campaign(campaign, tmp_path / "run", [], Told(), remote)
    results = read_campaign_results(tmp_path / "run")
    assert [line.folder for line in results.run.aside] == ["0003-20ms"]
    assert (tmp_path / "run/aside/1/0003-20ms/trial.json").exists()
    frame = results.metrics.to_pandas()
    assert {block: set(rows["machine"]) for block, rows in frame.groupby("block")} == {
        1: {""},
        **{block: {os.uname().nodename} for block in (2, 3, 4)},
    }
    monkeypatch.setattr("wavebed.run.runner.run_trial", quick_trial)
    run_campaign(campaign, tmp_path / "whole", [], Told())
    assert load_run(tmp_path / "whole").trials["folder"].equals(load_run(tmp_path / "run").trials["folder"])


def test_no_scheduler_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavebed.run.executor.cluster._CONNECT_S", 0.5)
    with (
        Remote(DaskCluster("tcp://127.0.0.1:9"), Told()) as remote,
        pytest.raises(MachineError, match="no scheduler answers there"),
    ):
        run_campaign(campaign_in(tmp_path, 1), tmp_path / "run", [], Told(), remote)
    assert not (tmp_path / "run").exists()


_EVIL = """
import os, pickle, sys
from pathlib import Path

class Bomb(Exception):  # a worker unpickles its own errors to see whether that is possible
    def __init__(self, file): self.file = file
    def __reduce__(self):
        opened = f"open({self.file!r}, 'w').write('x')"
        return (eval, (f"OSError('x') if __import__('os').getpid() == {os.getpid()} else {opened}",))

def attack(mode, file):
    def answer(function, *given):
        from distributed import get_worker
        if mode == "result": return Bomb(file)
        if mode == "error": raise Bomb(file)
        if mode == "event":
            bomb = pickle.dumps(Bomb(file))
            for topic in ("warn", "print"):
                get_worker().log_event(topic, {"message": bomb, "category": bomb, "args": ["\\x1b]0;pwned\\x07"]})
            raise OSError("event")
        if mode == "large": return b"x" * (200 << 20)
        if mode == "text": return "\\x1b]0;pwned\\x07"
        if mode == "type":
            import distributed.worker, distributed.worker_state_machine as machine
            real = machine.TaskFinishedMsg.to_dict
            def to_dict(self):
                told = real(self)
                told["type"] = pickle.dumps(Bomb(file))
                return told
            machine.TaskFinishedMsg.to_dict = to_dict
            return b"?"
    return answer
"""


@pytest.mark.parametrize("mode", ["result", "error", "event", "large", "text", "type"])
def test_nothing_that_a_hostile_worker_returns_is_unpickled_by_the_front(
    mode: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "evil.py").write_text(_EVIL)
    opened = tmp_path / "opened"
    start = (
        f"import evil, wavebed.run.executor.worker as worker; worker.answer = evil.attack({mode!r}, {str(opened)!r})"
    )
    (tmp_path / "preload.py").write_text(start)
    with DaskWorkers(tmp_path / "dask", 1, preload=tmp_path / "preload.py") as cluster:
        front = DaskCluster(cluster.address)
        assert front.connect()
        (worker,) = front.workers().values()
        with pytest.raises(FailedError):
            front.call(worker, threading.Event(), describe, ())
        time.sleep(0.5)  # an event comes by its own way
        front.close()
    assert not opened.exists()
    assert "\x1b" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--dashboard"], "has a dashboard"),
        (["--dashboard-address", ":0"], "answers everybody by HTTP"),
        (["--host", "0.0.0.0"], "listens on every address"),
    ],
)
def test_a_worker_that_is_open_to_strangers_gets_no_blocks(options: list[str], why: str, tmp_path: Path) -> None:
    with DaskWorkers(tmp_path / "dask", 1, options=options) as cluster:
        front = DaskCluster(cluster.address)
        assert front.connect()
        (worker,) = front.workers().values()
        with pytest.raises(FailedError, match=why):
            front.call(worker, threading.Event(), describe, ())
        front.close()


def workers_are_killed_and_frozen_and_the_scheduler_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = campaign_in(tmp_path, 16)
    with DaskWorkers(tmp_path / "dask", 2, supervised=True) as cluster:
        live = Told({2: lambda: cluster.kill(0), 6: lambda: cluster.freeze(1, 8), 11: cluster.restart_scheduler})
        with _remote(cluster, live, slow_trial, silent_s=2.0) as remote:
            run_campaign(campaign, tmp_path / "run", [], live, remote)
        cluster.check_nothing_left()
    agree(tmp_path, campaign, monkeypatch)


_FRONT = """
import io, os, signal, sys
from pathlib import Path
from tests.simulated_trials import slow_trial
from wavebed.campaign.read import read_campaign
from wavebed.campaign.run import resume_campaign, run_campaign
from wavebed.run.executor.cluster import DaskCluster
from wavebed.run.executor.remote import Remote
from wavebed.store.journal import BlockEnded
from wavebed.run.progress import Live

class Killed(Live):
    left = int(sys.argv[3])

    def __call__(self, event):
        super().__call__(event)
        self.left -= isinstance(event, BlockEnded)
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

folder, address = Path(sys.argv[1]), sys.argv[2]
live = Killed("test", io.StringIO())
begin = resume_campaign if (folder / "run/run.json").exists() else run_campaign
with Remote(DaskCluster(address), live, slow_trial) as remote:
    begin(read_campaign(folder / "c.toml"), folder / "run", [], live, remote)
"""


def the_front_is_killed_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = campaign_in(tmp_path, 10)
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "python")])}
    with DaskWorkers(tmp_path / "dask", 2) as cluster:
        words = [sys.executable, "-c", _FRONT, str(tmp_path), cluster.address]
        # It kills itself at the end of so many blocks.
        for blocks, status in ((2, -signal.SIGKILL), (3, -signal.SIGKILL), (11, 0)):
            done = subprocess.run([*words, str(blocks)], env=variables, timeout=300, check=False)
            assert done.returncode == status
            assert (_ended(tmp_path / "run") < 10) == (status != 0)
        cluster.check_nothing_left()
    agree(tmp_path, campaign, monkeypatch)


def _ended(folder: Path) -> int:
    if not (folder / "journal.jsonl").exists():
        return 0
    return sum(isinstance(event, BlockEnded) for event in read_journal(folder))


@pytest.mark.parametrize(
    "happens", sample([workers_are_killed_and_frozen_and_the_scheduler_is_new, the_front_is_killed_and_resumed], 1)
)
def test_a_disturbed_campaign_on_workers_ends_as_if_undisturbed(
    happens: Callable[[Path, pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happens(tmp_path, monkeypatch)
