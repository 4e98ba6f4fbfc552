"""The server for agents: the protocol, its bounds, and that nothing is left behind."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from wavebed import shipped
from wavebed.cli import main
from wavebed.mcp import facts
from wavebed.mcp.lines import MOST_LINE_BYTES
from wavebed.mcp.model import Bounds, RunArgs, ToolError
from wavebed.mcp.server import VERSIONS, Server
from wavebed.mcp.tools import TOOLS, Call, Tools

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


NO_CALL = Call(threading.Event(), lambda _: None)
"""Never cancelled; nobody takes its progress."""


def test_the_time_is_a_change_as_any_other() -> None:
    given = {"scenario": "demo", "set": {"path.rate": "1mbit"}}
    asked = [msgspec.convert({**given, **more}, RunArgs).changes() for more in ({}, {"time": "virtual"})]
    assert asked == [["path.rate=1mbit"], ["path.rate=1mbit", "lab.time=virtual"]]


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
    tools = FakeTools(tmp_path, bounds, known)
    with pytest.raises(ToolError, match=line):
        tools.call("run", {"scenario": "demo"}, NO_CALL)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_must_be_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", str(tmp_path / "none")]) == 2
    assert "is no folder: make it" in capsys.readouterr().err
