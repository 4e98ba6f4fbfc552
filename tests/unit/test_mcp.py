"""The server for agents: the protocol, its bounds, and that nothing is left behind."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION

from wavebed import __version__, shipped
from wavebed.cli import main
from wavebed.mcp.processes import ToolError
from wavebed.mcp.runs import RunProgress
from wavebed.mcp.scenarios import ScenarioFacts, ScenarioQuestion, facts_of
from wavebed.mcp.server import MOST_CALLS, MOST_LINE_BYTES, AgentServer
from wavebed.mcp.tools import TOOLS, CancelArgs, RunArgs, ServerBounds, ToolCall, Tools

AFTER = {"jsonrpc": "2.0", "id": "after", "result": {}}
WAIT_S = 60.0
"""For a process, which may stand still for seconds."""


class Connection:
    """A server in a thread, and the client's ends of its pipes."""

    def __init__(self, folder: Path, bounds: ServerBounds = ServerBounds()) -> None:  # noqa: B008 - frozen
        reading, self._writing = os.pipe()
        self._reading, writing = os.pipe()
        self.out: IO[bytes] = os.fdopen(self._reading, "rb")
        self._streams = os.fdopen(reading, "rb"), os.fdopen(writing, "wb")
        self.tools = Tools(folder, bounds)
        server = AgentServer(self.tools, bounds, *self._streams)
        self._thread = threading.Thread(target=server.serve, daemon=True)
        self._thread.start()
        self.send(introduction())
        self.introduction = self.next()

    def send(self, message: object) -> None:
        """Send a message; bytes are sent as they are."""
        os.write(self._writing, message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")

    def next(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out.readline())
        return found

    def close(self) -> None:
        os.close(self._writing)
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
        for stream in (*self._streams, self.out):
            stream.close()


def answers(folder: Path, *sent: object) -> list[dict[str, Any]]:
    """Return what a server wrote to these messages, in which "after" is the id of the last request."""
    connection = Connection(folder)
    writer = threading.Thread(target=lambda: [connection.send(each) for each in sent])
    writer.start()
    found = []
    while not found or found[-1].get("id") != "after":
        found.append(connection.next())
    writer.join()
    connection.close()
    return found


def asked(method: str, number: object = 1, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


PING_AFTER = asked("ping", "after")


def called(tool: str, number: object = 1, **arguments: object) -> dict[str, object]:
    return asked("tools/call", number, name=tool, arguments=arguments)


def introduction(version: str = LATEST_HANDSHAKE_VERSION, number: object = "begin") -> dict[str, object]:
    about = {"name": "test", "version": "0"}
    return asked("initialize", number, protocolVersion=version, capabilities={}, clientInfo=about)


def test_a_client_of_each_version_is_greeted_with_it_and_another_with_the_newest(tmp_path: Path) -> None:
    sent = [introduction(version, number) for number, version in enumerate([*HANDSHAKE_PROTOCOL_VERSIONS, "1"])]
    found = [answer["result"].get("protocolVersion") for answer in answers(tmp_path, *sent, PING_AFTER)]
    assert found == [*HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, None]


def test_the_server_says_its_name_and_its_bounds(tmp_path: Path) -> None:
    connection = Connection(tmp_path)
    connection.close()
    told = connection.introduction["result"]
    assert told["serverInfo"] == {"name": "wavebed", "version": __version__}
    assert "Bounds: 20 trials and 600 s a run, 60 s a call." in told["instructions"]


def test_the_tools_have_schemas_of_objects(tmp_path: Path) -> None:
    answer, _ = answers(tmp_path, asked("tools/list"), PING_AFTER)
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
    first, second = answers(tmp_path, line, PING_AFTER)
    assert first["error"]["code"] == code
    assert second == AFTER


@given(st.lists(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), max_size=5))
@settings(max_examples=50)
def test_no_bytes_end_the_server(junk: list[bytes]) -> None:
    found = answers(Path(), *(part.replace(b"\n", b" ") + b"\n" for part in junk), PING_AFTER)
    assert found[-1] == AFTER


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
    found = answers(Path(), message, PING_AFTER)
    assert found[-1] == AFTER


def test_a_notification_and_an_answer_get_none(tmp_path: Path) -> None:
    sent = [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    ]
    assert answers(tmp_path, *sent, PING_AFTER) == [AFTER]


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
            ("run", {"scenario": "demo", "time": "slow"}, "arguments: Invalid enum value 'slow'"),
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


def test_a_call_with_a_token_gets_its_progress_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def call(_name: str, _arguments: object, given: ToolCall) -> CancelArgs:
        given.tell(RunProgress(3, 1, {}, 7.6, None))
        return CancelArgs("walk")

    connection = Connection(tmp_path)
    monkeypatch.setattr(connection.tools, "call", call)
    params = {"name": "run", "arguments": {}, "_meta": {"progressToken": "token"}}
    connection.send(asked("tools/call", 3, **params))
    notice, answer = connection.next(), connection.next()
    assert notice["method"] == "notifications/progress"
    assert notice["params"].pop("progress") >= 0
    assert notice["params"] == {"progressToken": "token", "message": "1 of 3 trials, about 8 s left"}
    assert (answer["id"], answer["result"]["structuredContent"]) == (3, {"run": "walk"})
    connection.close()


def test_a_fault_of_a_tool_is_an_internal_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(tmp_path)
    monkeypatch.setattr(connection.tools, "call", lambda *_: 1 / 0)
    connection.send(called("list", 3))
    problem = {"code": -32603, "message": "internal error: ZeroDivisionError: division by zero"}
    assert connection.next() == {"jsonrpc": "2.0", "id": 3, "error": problem}
    connection.close()


def test_more_calls_than_may_wait_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()

    def call(*_: object) -> CancelArgs:
        may_end.wait(WAIT_S)
        return CancelArgs("walk")

    connection = Connection(tmp_path)
    monkeypatch.setattr(connection.tools, "call", call)
    for number in range(MOST_CALLS + 1):
        connection.send(called("status", number))
    refused = connection.next()
    assert (refused["id"], refused["result"]["isError"]) == (MOST_CALLS, True)
    may_end.set()
    assert {connection.next()["id"] for _ in range(MOST_CALLS)} == set(range(MOST_CALLS))
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
    found = facts_of(ScenarioQuestion(str(file), False, changes, [], 2, 1))
    assert found.error == ""
    assert [line.removesuffix(" names a file elsewhere") for line in found.refused] == refused
    if not refused:
        assert found.trials == 2
        assert found.expected_s > 2 * 2


def test_a_wrong_scenario_is_told(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("[path]\nrat = 1\n" + PING)
    found = facts_of(ScenarioQuestion(str(tmp_path / "s.toml"), False, [], [], None, None))
    assert "rat" in found.error


def test_a_shipped_scenario_may_name_its_files() -> None:
    file = shipped.find("kau-e5g-1", "scenario")
    assert facts_of(ScenarioQuestion(str(file), True, [], [], 1, None)).refused == []


NO_CALL = ToolCall(threading.Event(), lambda _: None)
"""Never cancelled; nobody takes its progress."""


def test_the_time_is_a_change_as_any_other() -> None:
    given = {"scenario": "demo", "set": {"path.rate": "1mbit"}}
    asked = [msgspec.convert({**given, **more}, RunArgs).changes() for more in ({}, {"time": "virtual"})]
    assert asked == [["path.rate=1mbit"], ["path.rate=1mbit", "lab.time=virtual"]]


class FakeTools(Tools):
    """Tools that know the facts, and whose runs are a program of the test."""

    def __init__(self, folder: Path, bounds: ServerBounds, known: ScenarioFacts) -> None:
        super().__init__(folder, bounds)
        self._known = known

    def _output(self, *_: object) -> str:
        return msgspec.json.encode(self._known).decode()


@pytest.mark.parametrize(
    ("known", "bounds", "line"),
    [
        (ScenarioFacts(refused=["workload x runs a program"]), ServerBounds(), "was started without --allow-commands"),
        (ScenarioFacts(trials=21), ServerBounds(), "21 trials are more than 20"),
        (ScenarioFacts(trials=1, expected_s=700), ServerBounds(), "about 700 s, more than 600 s"),
        (ScenarioFacts(error="s.toml: path.rate: wrong"), ServerBounds(), "path.rate: wrong"),
    ],
)  # fmt: skip
def test_a_run_beyond_the_bounds_is_refused(
    tmp_path: Path, known: ScenarioFacts, bounds: ServerBounds, line: str
) -> None:
    tools = FakeTools(tmp_path, bounds, known)
    with pytest.raises(ToolError, match=line):
        tools.call("run", {"scenario": "demo"}, NO_CALL)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_must_be_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", str(tmp_path / "none")]) == 2
    assert "is no folder: make it" in capsys.readouterr().err
