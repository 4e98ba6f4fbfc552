"""The server for agents: the protocol, its bounds, and that nothing is left behind."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from datetime import datetime, tzinfo
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.unit.test_mcp import HEAD, NO_CALL, PING, WAIT_S, Connection, FakeTools, asked, called, introduction

import wavebed
from wavebed.beneath import remove_tree
from wavebed.mcp.processes import UNKNOWN, Child, ToolError
from wavebed.mcp.runs import RunAnswer, Runs
from wavebed.mcp.scenarios import ScenarioFacts, ScenarioFiles
from wavebed.mcp.tools import TOOLS, ServerBounds

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCES = str(Path(wavebed.__file__).parents[1])
FAKE_RUN = """\
import json, os, pathlib, subprocess, sys, time
folder = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
folder.mkdir()
(folder / "run.json").write_text("{}")
subprocess.Popen(["sleep", "1000"])
(folder / "group").write_text(str(os.getpgrp()))
if not {"--slow", "--workload=slow"}.isdisjoint(sys.argv):
    time.sleep(1000)
print(json.dumps({"folder": str(folder), "trials": 1}))
"""


@pytest.fixture
def fake_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have runs be a small program; return the folder of the runs."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "fake_run.py").write_text(FAKE_RUN)
    monkeypatch.setenv("PYTHONPATH", f"{SOURCES}:{modules}")
    monkeypatch.setattr(
        "wavebed.mcp.runs.Child", lambda _module, arguments, folder: Child("fake_run", arguments, folder)
    )
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


def waited(runs: Runs, name: str, *states: str) -> RunAnswer:
    until_s = time.monotonic() + WAIT_S
    while (answer := runs.answer(name, 0.5)).state not in states:
        assert time.monotonic() < until_s, answer
    return answer


def begun(folder: Path) -> int:
    """Return the process group of a run once it has begun."""
    until_s = time.monotonic() + WAIT_S
    while not (folder / "group").exists() or not (folder / "group").read_text():
        assert time.monotonic() < until_s
        time.sleep(0.02)
    return int((folder / "group").read_text())


def group_is_gone(group: int) -> bool:
    """Return whether no process of a group runs; a dead one may be listed until its parent has taken note."""
    until_s = time.monotonic() + WAIT_S
    while any(state != "Z" for state in states(group)):
        if time.monotonic() > until_s:
            return False
        time.sleep(0.02)
    return True


def states(group: int) -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, its_group = file.read_text().rpartition(")")[2].split()[:3]
            found += [state] if int(its_group) == group else []
    return found


def test_a_run_ends_with_its_results_and_its_session(fake_run: Path) -> None:
    runs = Runs(fake_run, 60.0)
    name = runs.start("walk", [])
    assert name.startswith("walk-2")
    answer = waited(runs, name, "ended", "failed")
    assert (answer.state, answer.results) == ("ended", {"folder": str(fake_run / name), "trials": 1})
    assert group_is_gone(begun(fake_run / name))
    assert runs.names() == [name]


def test_a_cancelled_run_leaves_nothing_and_another_may_follow(fake_run: Path) -> None:
    runs = Runs(fake_run, 60.0)
    name = runs.start("walk", ["--slow"])
    number = begun(fake_run / name)
    with pytest.raises(ToolError, match=f"run {name} is not over"):
        runs.start("walk", [])
    assert runs.answer(name, 0.0).state == "running"
    assert runs.cancel(name).state == "cancelled"
    assert group_is_gone(number)
    assert list(fake_run.iterdir()) == []
    assert runs.answer(name, 0.0).state == "cancelled"
    assert waited(runs, runs.start("walk", []), "ended").state == "ended"


def test_a_run_within_the_second_of_a_cancelled_one_has_a_name_of_its_own(
    fake_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Noon(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Noon:
            return cls(2026, 1, 2, 12, tzinfo=tz)

    monkeypatch.setattr("wavebed.mcp.runs.datetime", Noon)
    runs = Runs(fake_run, 60.0)
    first = runs.start("walk", ["--slow"])
    runs.cancel(first)
    second = runs.start("walk", [])
    assert (first, second) == ("walk-20260102T120000Z", "walk-20260102T120000Z-2")
    assert waited(runs, second, "ended").state == "ended"
    assert runs.answer(first, 0.0).state == "cancelled"


def test_what_a_laboratory_writes_while_its_cancelled_run_is_removed_does_not_stay(
    fake_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[Path] = []

    def remove(folder: Path) -> None:
        remove_tree(folder)
        removed.append(folder)
        if len(removed) == 1:
            folder.mkdir()
            (folder / "series.csv").touch()

    monkeypatch.setattr("wavebed.mcp.runs.remove_tree", remove)
    runs = Runs(fake_run, 60.0)
    name = runs.start("walk", ["--slow"])
    begun(fake_run / name)
    runs.cancel(name)
    assert list(fake_run.iterdir()) == []


class Ahead:
    """The time of the modules of runs, which may be put ahead."""

    sleep = staticmethod(time.sleep)

    def __init__(self) -> None:
        self.by_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.by_s


def test_a_run_that_takes_too_long_is_stopped_and_kept(fake_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Ahead()
    for module in ("runs", "processes"):
        monkeypatch.setattr(f"wavebed.mcp.{module}.time", clock)
    runs = Runs(fake_run, 600.0)
    name = runs.start("walk", ["--slow"])
    number = begun(fake_run / name)
    assert runs.answer(name, 0.0).state == "running"
    clock.by_s = 601.0
    answer = waited(runs, name, "stopped")
    assert answer.reason == "it took more than 600 s"
    assert group_is_gone(number)
    assert (fake_run / name / "run.json").exists()


def test_the_end_of_the_input_ends_the_run(fake_run: Path) -> None:
    connection = Connection(fake_run)
    name = connection.tools._runs.start("walk", ["--slow"])
    number = begun(fake_run / name)
    connection.close()
    assert group_is_gone(number)
    assert list(fake_run.iterdir()) == []


def test_a_cancelled_call_cancels_its_run_and_gets_no_answer(fake_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(fake_run)
    monkeypatch.setattr(connection.tools, "_output", lambda *_: msgspec.json.encode(ScenarioFacts(trials=1)).decode())
    connection.send(called("run", 7, scenario="demo", set={"x": "y"}, wait_s=600))
    until_s = time.monotonic() + WAIT_S
    while not list(fake_run.glob("demo-*")):
        assert time.monotonic() < until_s
        time.sleep(0.02)
    connection.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
    while list(fake_run.glob("demo-*")):
        assert time.monotonic() < until_s
        time.sleep(0.02)
    connection.send(asked("ping", 8))
    assert connection.next()["id"] == 8
    connection.close()


def test_a_killed_server_leaves_no_process(fake_run: Path) -> None:
    program = (
        "import sys, time, pathlib; from wavebed.mcp.processes import Child;"
        "folder = pathlib.Path(sys.argv[1]);"
        "Child('fake_run', ['-o', str(folder / 'r'), '--slow'], folder); time.sleep(1000)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(fake_run)]) as owner:
        number = begun(fake_run / "r")
        owner.send_signal(signal.SIGKILL)
    assert group_is_gone(number)


def test_the_number_of_a_process_that_ended_is_kept_until_its_session_was_ended(fake_run: Path) -> None:
    """Else another process could have the number by then, and lead the group that gets the signal."""
    child = Child("fake_run", ["-o", str(fake_run / "r")], fake_run)
    number = begun(fake_run / "r")
    assert child.wait(WAIT_S)
    assert "Z" in states(number)
    child.stop()
    assert child.close().status == 0
    assert not Path(f"/proc/{number}").exists()
    assert group_is_gone(number)


class NotedLock:
    """A lock that calls `noted` when a thread has to wait for it."""

    def __init__(self, noted: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._noted = noted

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._noted()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_process_may_be_stopped_while_another_thread_looks_whether_it_runs(
    fake_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = Child("fake_run", ["-o", str(fake_run / "r"), "--slow"], fake_run)
    begun(fake_run / "r")
    stopped_or_waits = threading.Event()
    monkeypatch.setattr(child, "_reaping", NotedLock(stopped_or_waits.set))

    def stop() -> None:
        child.stop()
        stopped_or_waits.set()

    stopper = threading.Thread(target=stop)
    waitid = os.waitid

    def stopped_before(*arguments: int) -> os.waitid_result | None:
        if stopper.ident is None:
            stopper.start()
            assert stopped_or_waits.wait(WAIT_S)
        return waitid(*arguments)

    monkeypatch.setattr(os, "waitid", stopped_before)
    assert child.runs
    stopper.join(WAIT_S)
    assert not child.runs
    child.close()


def test_the_number_of_a_process_that_ends_while_it_is_stopped_is_kept(
    fake_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = Child("fake_run", ["-o", str(fake_run / "r"), "--slow"], fake_run)
    number = begun(fake_run / "r")
    waitid, killpg = os.waitid, os.killpg
    kept: list[bool] = []

    def ended_after(*arguments: int) -> os.waitid_result | None:
        found = waitid(*arguments)
        if found is None:
            os.kill(number, signal.SIGKILL)
            waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT)
        return found

    def noted(group: int, signal_number: int) -> None:
        kept.append("Z" in states(group))
        killpg(group, signal_number)

    monkeypatch.setattr(os, "waitid", ended_after)
    monkeypatch.setattr(os, "killpg", noted)
    child.stop()
    assert kept == [True]
    assert child.close().status == -signal.SIGKILL
    assert group_is_gone(number)


def test_a_process_is_stopped_once(fake_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number may be another group's afterwards."""
    child = Child("fake_run", ["-o", str(fake_run / "r")], fake_run)
    child.stop()
    monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("a signal after its end"))
    child.stop()
    child.close()


def test_a_server_has_the_status_of_its_processes_though_its_client_ignores_theirs(tmp_path: Path) -> None:
    program = (
        "import signal, sys; from wavebed.cli import main;"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN); sys.exit(main(sys.argv[1:]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, "mcp", tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SOURCES},
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for message in (introduction(), called("resolve", toml=HEAD + PING)):
            server.stdin.write(json.dumps(message).encode() + b"\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline())
        server.stdin.close()
    assert answer["result"]["isError"] is False, answer
    assert server.returncode == 0


def test_sigterm_ends_a_server_whose_client_stays(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "wavebed", "mcp", tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SOURCES},
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(introduction()).encode() + b"\n")
        server.stdin.flush()
        server.stdout.readline()
        server.terminate()
        assert server.wait(WAIT_S) == 128 + signal.SIGTERM


def scenario_files(folder: Path) -> list[Path]:
    return list(folder.glob(".*"))


def test_a_refused_run_leaves_no_scenario_file(fake_run: Path) -> None:
    tools = FakeTools(fake_run, ServerBounds(), ScenarioFacts(trials=1))
    name = tools._runs.start("walk", ["--slow"])
    with pytest.raises(ToolError, match=f"run {name} is not over"):
        tools.call("run", {"toml": HEAD + PING}, NO_CALL)
    assert scenario_files(fake_run) == []
    tools.close()


def test_a_scenario_file_is_there_until_its_run_is_over(fake_run: Path) -> None:
    tools = FakeTools(fake_run, ServerBounds(), ScenarioFacts(trials=1))
    answer = tools.call("run", {"toml": HEAD + PING, "workloads": ["slow"]}, NO_CALL)
    assert isinstance(answer, RunAnswer)
    (file,) = scenario_files(fake_run)
    assert file.read_text() == HEAD + PING
    tools.close()
    assert scenario_files(fake_run) == []


def test_a_text_that_cannot_be_written_leaves_no_scenario_file(tmp_path: Path) -> None:
    tools = FakeTools(tmp_path, ServerBounds(), ScenarioFacts(trials=1))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # as on a full disk
    try:
        with pytest.raises(ToolError, match="toml: cannot be written to a file: File too large"):
            tools.call("run", {"toml": HEAD + PING}, NO_CALL)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert scenario_files(tmp_path) == []


def test_the_end_of_the_server_removes_the_scenario_file_of_a_call(tmp_path: Path) -> None:
    asked_for, may_go_on = threading.Event(), threading.Event()

    class Waiting(FakeTools):
        def _output(self, *arguments: object) -> str:
            asked_for.set()
            may_go_on.wait(WAIT_S)
            return super()._output(*arguments)

    tools = Waiting(tmp_path, ServerBounds(), ScenarioFacts(trials=1))
    refusals: list[str] = []

    def call() -> None:
        try:
            tools.call("run", {"toml": HEAD + PING}, NO_CALL)
        except ToolError as error:
            refusals.append(str(error))

    caller = threading.Thread(target=call)
    caller.start()
    assert asked_for.wait(WAIT_S)
    tools.close()
    assert scenario_files(tmp_path) == []
    may_go_on.set()
    caller.join(WAIT_S)
    with pytest.raises(ToolError, match="the server ends"):
        tools.call("run", {"toml": HEAD + PING}, NO_CALL)
    assert refusals == ["the server ends"]
    assert scenario_files(tmp_path) == []


def test_the_next_server_removes_the_scenario_files_of_a_killed_one_alone(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from wavebed.mcp.scenarios import ScenarioFiles;"
        "ScenarioFiles(Path(sys.argv[1])).make(''); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True, env={**os.environ, "PYTHONPATH": SOURCES})
    assert len(scenario_files(tmp_path)) == 1
    first = ScenarioFiles(tmp_path)
    assert scenario_files(tmp_path) == []
    used = first.make(HEAD)
    ScenarioFiles(tmp_path)
    assert used.read_text() == HEAD
    first.close()
    assert scenario_files(tmp_path) == []


def test_a_process_that_cannot_be_started_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files: list[object] = []
    made = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: files.append(made()) or files[-1])
    with pytest.raises(FileNotFoundError):
        Child("fake_run", [], tmp_path / "none")
    assert [file.closed for file in files] == [True, True]  # type: ignore[attr-defined]


@pytest.mark.skipif(find_spec("mcp") is None, reason="the SDK is not installed: it is in the group tools")
def test_the_client_of_the_sdk_takes_the_answers(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("mcp_sdk_client.py"), tmp_path],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": SOURCES},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["server"] == "wavebed"
    assert found["tools"] == sorted(TOOLS)
    assert found["list"]["structuredContent"]["runs"] == []
    spec = found["resolved"]["structuredContent"]
    assert (spec["seed"], found["resolved"]["isError"]) == (4, False)
    assert "7000000" in json.dumps(spec["network"])
    assert found["refused"]["isError"] is True
    assert found["missing"]["isError"] is True
    assert list(tmp_path.iterdir()) == []


def test_a_child_that_other_code_has_reaped_is_over_and_nothing_is_signalled(
    fake_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = Child("fake_run", ["-o", str(fake_run / "r")], fake_run)
    reaper = threading.Thread(target=os.waitpid, args=(child._process.pid, 0))
    reaper.start()
    reaper.join()
    signalled: list[int] = []
    for kill in ("kill", "killpg"):
        monkeypatch.setattr(os, kill, lambda number, _: signalled.append(number))
    assert not child.runs
    assert child.wait(1.0)
    child.stop()
    assert not signalled
    assert child.close().status == UNKNOWN
