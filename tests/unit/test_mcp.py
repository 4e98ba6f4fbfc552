"""The server for agents: the protocol, its bounds, and that nothing is left behind."""

from __future__ import annotations

import io
import json
import os
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
from shutil import rmtree
from typing import IO, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import wavebed
from wavebed import shipped
from wavebed.cli import main
from wavebed.mcp import facts
from wavebed.mcp.lines import MOST_LINE_BYTES
from wavebed.mcp.model import Bounds, RunAnswer, ToolError
from wavebed.mcp.processes import Child
from wavebed.mcp.runs import Runs
from wavebed.mcp.server import VERSIONS, Server
from wavebed.mcp.tools import TOOLS, Tools

SOURCES = str(Path(wavebed.__file__).parents[1])
FAKE_RUN = """\
import json, os, pathlib, subprocess, sys, time
folder = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
folder.mkdir()
(folder / "run.json").write_text("{}")
subprocess.Popen(["sleep", "1000"])
(folder / "group").write_text(str(os.getpgrp()))
if "--slow" in sys.argv:
    time.sleep(1000)
print(json.dumps({"folder": str(folder), "trials": 1}))
"""
WAIT_S = 60.0
"""For a process, which may stand still for seconds."""


def answers(folder: Path, *sent: object, bounds: Bounds = Bounds()) -> list[dict[str, Any]]:  # noqa: B008 - frozen
    """Return what a server wrote to these messages: bytes are sent as they are."""
    parts = [each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in sent]
    written = io.BytesIO()
    Server(Tools(folder, bounds), bounds, io.BytesIO(b"".join(parts)), written).serve()
    return [json.loads(line) for line in written.getvalue().splitlines()]


def asked(method: str, number: object = 1, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def called(tool: str, number: object = 1, **arguments: object) -> dict[str, object]:
    return asked("tools/call", number, name=tool, arguments=arguments)


def test_a_client_of_each_version_is_greeted_with_it_and_another_with_the_newest(tmp_path: Path) -> None:
    sent = [
        asked("initialize", number, protocolVersion=version) for number, version in enumerate([*VERSIONS, "1", None])
    ]
    found = [answer["result"]["protocolVersion"] for answer in answers(tmp_path, *sent)]
    assert found == [*VERSIONS, VERSIONS[0], VERSIONS[0]]


def test_the_tools_have_schemas_of_objects(tmp_path: Path) -> None:
    (answer,) = answers(tmp_path, asked("tools/list"))
    tools = {tool["name"]: tool for tool in answer["result"]["tools"]}
    assert set(tools) == set(TOOLS)
    for tool in tools.values():
        for schema in (tool["inputSchema"], tool.get("outputSchema", {"type": "object"})):
            assert schema["type"] == "object"
            Draft202012Validator.check_schema(schema)
    read_only = {name for name, tool in tools.items() if tool["annotations"]["readOnlyHint"]}
    assert read_only == set(TOOLS) - {"run", "cancel"}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{\n", -32700),
        (b"\xff\xfe\n", -32700),
        (b"[" * 100_000 + b"\n", -32700),
        (b"[]\n", -32600),
        (b'{"id": 1, "method": "ping"}\n', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 5}\n', -32600),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}\n', -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}\n', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}\n', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}\n', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rm"}}\n', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": ["list"]}}\n', -32602),
        (b"x" * (3 * MOST_LINE_BYTES) + b"\n", -32600),
    ],
)
def test_a_wrong_message_is_refused_and_the_next_one_answered(tmp_path: Path, line: bytes, code: int) -> None:
    first, second = answers(tmp_path, line, asked("ping", "after"))
    assert first["error"]["code"] == code
    assert second == {"jsonrpc": "2.0", "id": "after", "result": {}}


@given(st.lists(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), max_size=5))
@settings(max_examples=50)
def test_no_bytes_end_the_server(junk: list[bytes]) -> None:
    found = answers(Path(), *(part.replace(b"\n", b" ") + b"\n" for part in junk), asked("ping", "after"))
    assert found[-1] == {"jsonrpc": "2.0", "id": "after", "result": {}}


def json_values() -> st.SearchStrategy[object]:
    plain = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8) | st.floats(allow_nan=False)
    return st.recursive(
        plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    )


@given(
    st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0")},
        optional={
            "id": json_values(),
            "method": st.sampled_from(["initialize", "ping", "tools/list", "notifications/cancelled", "nothing"])
            | json_values(),
            "params": st.dictionaries(st.sampled_from(["name", "arguments", "requestId", "_meta"]), json_values())
            | json_values(),
        },
    )
)
@settings(max_examples=100)
def test_no_message_ends_the_server(message: dict[str, object]) -> None:
    found = answers(Path(), message, asked("ping", "after"))
    assert found[-1] == {"jsonrpc": "2.0", "id": "after", "result": {}}


def test_a_notification_and_an_answer_get_none(tmp_path: Path) -> None:
    sent = [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    ]
    assert answers(tmp_path, *sent) == []


class Connection:
    """A server in a thread, and the client's ends of its pipes."""

    def __init__(self, folder: Path, bounds: Bounds = Bounds()) -> None:  # noqa: B008 - frozen
        reading, self._writing = os.pipe()
        self._reading, writing = os.pipe()
        self.out: IO[bytes] = os.fdopen(self._reading, "rb")
        self._streams = os.fdopen(reading, "rb"), os.fdopen(writing, "wb")
        self.tools = Tools(folder, bounds)
        server = Server(self.tools, bounds, *self._streams)
        self._thread = threading.Thread(target=server.serve, daemon=True)
        self._thread.start()

    def send(self, message: object) -> None:
        os.write(self._writing, json.dumps(message).encode() + b"\n")

    def next(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out.readline())
        return found

    def close(self) -> None:
        os.close(self._writing)
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
        for stream in (*self._streams, self.out):
            stream.close()


def test_a_refusal_of_a_tool_is_its_answer(tmp_path: Path) -> None:
    connection = Connection(tmp_path)
    for number, (tool, arguments, line) in enumerate(
        [
            ("explain", {"run": "../elsewhere"}, "arguments: Expected `str` matching regex"),
            ("explain", {"run": "none"}, "there is no run none"),
            ("explain", {"run": "a", "from": "; rm"}, "arguments: Expected `str` matching regex"),
            ("compare", {"runs": ["a"]}, "arguments: Expected `array` of length >= 2"),
            ("run", {}, "name a scenario or give its toml"),
            ("run", {"scenario": "/etc/passwd"}, "'/etc/passwd' is no name"),
            ("run", {"scenario": "nowhere"}, "there is no scenario 'nowhere'"),
            ("run", {"scenario": "demo", "more": 1}, "arguments: Object contains unknown field `more`"),
            ("status", {}, "nothing was run in this session"),
            ("status", {"run": "none"}, "none: has no journal"),
            ("cancel", {"run": "none"}, "run none is not running"),
        ]
    ):
        connection.send(called(tool, number, **arguments))
        answer = connection.next()
        assert answer["id"] == number
        assert answer["result"]["isError"] is True
        assert line in answer["result"]["content"][0]["text"]
    connection.close()


def test_what_can_be_named_is_listed(tmp_path: Path) -> None:
    (tmp_path / "walk.toml").touch()
    (tmp_path / "-x.toml").touch()
    (tmp_path / "old").mkdir()
    (tmp_path / "old/run.json").touch()
    connection = Connection(tmp_path)
    connection.send(called("list"))
    found = connection.next()["result"]
    told = found["structuredContent"]
    assert json.loads(found["content"][0]["text"]) == told
    assert (told["files"], told["runs"]) == (["walk"], ["old"])
    assert {
        "name": "demo",
        "title": told["scenarios"][[each["name"] for each in told["scenarios"]].index("demo")]["title"],
    }
    assert "street-canyon-bus" in [each["name"] for each in told["scenes"]]
    connection.close()


HEAD = '[path]\nrate = "20mbit"\n'
PING = '[[workload]]\nkind = "latency"\nduration = "2s"\n'


def told(
    tmp_path: Path,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    *changes: str,
) -> facts.Facts:
    file = tmp_path / "s.toml"
    file.write_text(text)
    question = facts.Asked(str(file), False, list(changes), [], 2, 1)
    monkeypatch.setattr(sys, "argv", ["facts", facts.json.encode(question).decode()])
    facts._main()
    return facts.json.decode(capsysbinary.readouterr().out, type=facts.Facts)


@pytest.mark.parametrize(
    ("text", "changes", "refused"),
    [
        (HEAD + PING, [], []),
        (HEAD + '[[workload]]\nkind = "command"\nrun = "id"\n', [], ["workload command runs a program"]),
        (HEAD + PING, ["path.delay=1ms"], []),
        ('[path]\ntrace = "/tmp/x"\n' + PING, ["path.trace=../x"], ["'../x'", "'/tmp/x'"]),
        ("[path]\n" + PING + '[lab]\nbackend = "hosts"\nserver = "ssh://h"\n', [], ["lab.backend is hosts"]),
        ("[path]\nnat = true\n" + PING, [], ["path.nat uses this machine's network"]),
    ],
)
def test_what_a_scenario_would_do_is_known_before(
    tmp_path: Path, text: str, changes: list[str], refused: list[str]
) -> None:
    file = tmp_path / "s.toml"
    file.write_text(text)
    found = facts.answer(facts.Asked(str(file), False, changes, [], 2, 1))
    assert found.error == ""
    assert [line.removesuffix(" names a file elsewhere") for line in found.refused] == refused
    if not refused:
        assert found.trials == 2
        assert found.expected_s > 2 * 2


def test_a_wrong_scenario_is_told(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("[path]\nrat = 1\n" + PING)
    found = facts.answer(facts.Asked(str(tmp_path / "s.toml"), False, [], [], None, None))
    assert "rat" in found.error


def test_a_shipped_scenario_may_name_its_files() -> None:
    file = shipped.find("kau-e5g-1", "scenario")
    assert facts.answer(facts.Asked(str(file), True, [], [], 1, None)).refused == []


class FakeTools(Tools):
    """Tools that know the facts, and whose runs are a program of the test."""

    def __init__(self, folder: Path, bounds: Bounds, known: facts.Facts) -> None:
        super().__init__(folder, bounds)
        self._known = known

    def _output(self, *_: object) -> str:
        return facts.json.encode(self._known).decode()


@pytest.mark.parametrize(
    ("known", "bounds", "line"),
    [
        (facts.Facts(refused=["workload x runs a program"]), Bounds(), "this server was started without --allow-"),
        (facts.Facts(trials=21), Bounds(), "21 trials are more than 20"),
        (facts.Facts(trials=1, expected_s=700), Bounds(), "about 700 s, more than 600 s"),
        (facts.Facts(error="s.toml: path.rate: wrong"), Bounds(), "path.rate: wrong"),
    ],
)  # fmt: skip
def test_a_run_beyond_the_bounds_is_refused(tmp_path: Path, known: facts.Facts, bounds: Bounds, line: str) -> None:
    from wavebed.mcp.tools import Call

    tools = FakeTools(tmp_path, bounds, known)
    with pytest.raises(ToolError, match=line):
        tools.call("run", {"scenario": "demo"}, Call(threading.Event(), lambda _: None))
    assert list(tmp_path.iterdir()) == []


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

    def remove(folder: Path, *, ignore_errors: bool) -> None:
        rmtree(folder, ignore_errors=ignore_errors)
        removed.append(folder)
        if len(removed) == 1:
            folder.mkdir()
            (folder / "series.csv").touch()

    monkeypatch.setattr("wavebed.mcp.runs.shutil.rmtree", remove)
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
    monkeypatch.setattr(connection.tools, "_output", lambda *_: facts.json.encode(facts.Facts(trials=1)).decode())
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


def test_a_process_that_cannot_be_started_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files: list[object] = []
    made = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: files.append(made()) or files[-1])
    with pytest.raises(FileNotFoundError):
        Child("fake_run", [], tmp_path / "none")
    assert [file.closed for file in files] == [True, True]  # type: ignore[attr-defined]


def test_the_folder_must_be_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", str(tmp_path / "none")]) == 2
    assert "is no folder: make it" in capsys.readouterr().err


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
