"""Lending an interface to a test on another machine, and taking connections without a descriptor for one."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.descriptors import no_descriptors

from wavebed.accept import accept
from wavebed.errors import UserError, WavebedError
from wavebed.forward import server as subject
from wavebed.forward.port import LocalLines, Port, PortGoneError, RemoteLines
from wavebed.forward.server import Server
from wavebed.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Iterator


TOKEN = "correct horse"
WAIT_S = 60.0
"""Longest wait for a process or an answer, which a busy machine delays by seconds."""
PROGRAM = """
import json, sys, time
for line in sys.stdin:
    question = json.loads(line)
    if question["do"] == "end":
        print("the interface went away", file=sys.stderr)
        sys.exit(1)
    if question["do"] == "send":
        time.sleep(60)
    if question["do"] == "ceiling":
        time.sleep(0.7)
    print(json.dumps({"ok": {"on": True}}), flush=True)
"""


class Started(list[LocalLines]):
    """The ports that a server started."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__()
        self.program = tmp_path / "program.py"
        self.program.write_text(PROGRAM)

    def __call__(self, interface: str) -> LocalLines:
        self.append(LocalLines(interface, [sys.executable, "-S", str(self.program)]))
        return self[-1]


@contextmanager
def serving(started: Started) -> Iterator[Server]:
    server = Server("127.0.0.1:0", TOKEN, start=started)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(WAIT_S)
        assert not thread.is_alive()
        assert all(ended(lines) for lines in started)


def ended(lines: LocalLines) -> bool:
    return not Path(f"/proc/{lines.pid}").exists()


def ends(lines: LocalLines) -> bool:
    """Wait for the end of a port; return whether it came."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if ended(lines):
            return True
        time.sleep(0.02)
    return False


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavebed.forward.port.END_GRACE_S", 0.2)


def connect(server: Server, interface: str = "lo", token: str = TOKEN) -> RemoteLines:
    return RemoteLines(*server.address, interface, Secret(token))


def test_a_conversation_crosses(tmp_path: Path) -> None:
    with serving(Started(tmp_path)) as server, Port.remote(*server.address, "lo", Secret(TOKEN)) as port:
        assert port.set_offload("rx-gro", on=True)
        assert port.set_offload("rx-gro", on=True)
        assert port.name == "lo of 127.0.0.1"


def test_an_answer_that_takes_its_time_is_waited_for(tmp_path: Path) -> None:
    with serving(Started(tmp_path)) as server:
        lines = connect(server)
        assert json.loads(lines.ask('{"do": "ceiling"}', WAIT_S)) == {"ok": {"on": True}}
        lines.close()


def test_the_port_ends_with_its_connection(tmp_path: Path) -> None:
    started = Started(tmp_path)
    with serving(started) as server:
        lines = connect(server)
        assert not ended(started[0])
        lines.close()
        assert ends(started[0])


def test_a_port_that_sends_ends_when_the_client_vanishes(tmp_path: Path) -> None:
    started = Started(tmp_path)
    with serving(started) as server:
        lines = connect(server)
        with pytest.raises(PortGoneError, match=r"did not answer within 0.3 s"):
            lines.ask('{"do": "send"}', 0.3)
        assert ends(started[0])


def test_one_conversation_for_each_interface(tmp_path: Path) -> None:
    started = Started(tmp_path)
    with serving(started) as server:
        first = connect(server)
        with pytest.raises(UserError, match="in use"):
            connect(server)
        first.close()
        assert ends(started[0])
        end = time.monotonic() + WAIT_S
        while True:  # the interface is free a moment after the process is gone
            try:
                connect(server).close()
                break
            except UserError:
                assert time.monotonic() < end
                time.sleep(0.02)


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", "ä"])
def test_a_wrong_token_gets_nothing(tmp_path: Path, token: str) -> None:
    started = Started(tmp_path)
    with serving(started) as server, pytest.raises(UserError, match="token is wrong"):
        connect(server, token=token)
    assert started == []


@pytest.mark.parametrize("name", ["", "-h", "a/b", "..", ".", "sixteen-letters-", "a b", "nothere0"])
def test_a_name_that_is_no_interface_starts_nothing(tmp_path: Path, name: str) -> None:
    started = Started(tmp_path)
    with serving(started) as server, pytest.raises(UserError, match="interface"):
        connect(server, interface=name)
    assert started == []


@pytest.mark.parametrize(
    "hello",
    [
        b"GET / HTTP/1.1\n",
        b"[]\n",
        b"{}\n",
        b'{"version": 2, "token": "correct horse", "interface": "lo", "more": 1}\n',
        b'{"version": 1, "token": "correct horse", "interface": "lo"}\n',
        b'{"version": 2, "token": 5, "interface": "lo"}\n',
        b'{"version": 2, "token": "\\ud800", "interface": "lo"}\n',
        b'{"version": 2, "token": "correct horse", "interface": "\\ud800"}\n',
        b"[" * 50_000 + b"\n",
        b"\xff\xfe\n",
    ],
)
def test_a_bad_beginning_is_refused_in_one_line(tmp_path: Path, hello: bytes) -> None:
    with serving(Started(tmp_path)) as server, socket.create_connection(server.address, timeout=WAIT_S) as client:
        client.sendall(hello)
        answer = json.loads(client.makefile("rb").readline())
        assert answer["kind"] == "wrong"
        assert client.recv(1) == b""


def test_a_beginning_that_never_ends_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "HELLO_S", 0.3)
    with serving(Started(tmp_path)) as server, socket.create_connection(server.address, timeout=WAIT_S) as client:
        client.sendall(b"{")
        assert client.recv(1) == b""


def test_silent_connections_take_no_place_of_who_knows_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "HELLO_S", 1000.0)
    with serving(Started(tmp_path)) as server, ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(server.address, timeout=WAIT_S)) for _ in range(20)]
        connect(server).close()
        assert silent[0].recv(1) == b"", "the oldest was closed"


def test_a_forgotten_conversation_frees_its_interface(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "IDLE_S", 0.3)
    started = Started(tmp_path)
    with serving(started) as server:
        lines = connect(server)
        assert ends(started[0])
        with pytest.raises(PortGoneError, match="ended"):
            lines.ask('{"do": "x"}', WAIT_S)


def test_no_more_connections_than_there_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MOST_CONNECTIONS", 1)
    with serving(Started(tmp_path)) as server:
        first = connect(server)
        with pytest.raises(WavebedError, match="1 connections are open"):
            connect(server)
        first.close()


def test_a_server_without_descriptors_serves_again_when_it_has_some(tmp_path: Path) -> None:
    with serving(Started(tmp_path)) as server, socket.socket() as waits:
        with no_descriptors():
            waits.connect(server.address)
            time.sleep(0.5)  # longer than the server waits each time
        connect(server).close()


def test_a_port_that_dies_is_told_to_the_other_machine(tmp_path: Path) -> None:
    with serving(Started(tmp_path)) as server:
        lines = connect(server)
        answer = json.loads(lines.ask('{"do": "end"}', WAIT_S))
        assert answer["kind"] == "failed"
        assert "the interface went away" in answer["error"]
        lines.close()


@pytest.mark.parametrize("pause_s", [0.0, 0.1])
def test_a_second_question_before_the_answer_ends_the_conversation(tmp_path: Path, pause_s: float) -> None:
    """Without a pause both are read at once."""
    started = Started(tmp_path)
    with serving(started) as server, socket.create_connection(server.address, timeout=WAIT_S) as client:
        client.sendall(json.dumps({"version": 2, "token": TOKEN, "interface": "lo"}).encode() + b"\n")
        reading = client.makefile("rb")
        assert json.loads(reading.readline()) == {"ok": {}}
        question = b'{"do": "send"}\n'
        client.sendall(question if pause_s else 2 * question)
        if pause_s:
            time.sleep(pause_s)
            client.sendall(question)
        assert ends(started[0])


def test_a_line_that_came_in_time_is_read_by_a_server_that_looks_late() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(0.01)
        reader = subject._Reader(ours, threading.Event())
        theirs.sendall(b"hello\nhalf")
        assert reader.line(-1.0) == b"hello"
        with pytest.raises(subject._LeftError):
            reader.line(-1.0)


def test_ports_end_with_the_server(tmp_path: Path) -> None:
    started = Started(tmp_path)
    with serving(started) as server:
        lines = connect(server)
    with pytest.raises(PortGoneError):
        lines.ask("{}", WAIT_S)


def test_a_token_is_made_and_never_the_same() -> None:
    tokens = set()
    for _ in range(2):
        server = Server("127.0.0.1:0")
        tokens.add(server.token)
        server.stop()
        server.run()
    assert len(tokens) == 2
    assert all(len(token) == 32 for token in tokens)


def test_a_short_token_is_refused() -> None:
    with pytest.raises(UserError, match="4 characters"):
        Server("127.0.0.1:0", "1234")


@pytest.mark.parametrize("listen", ["", ":5544", "host:99999", "a:b:c", "192.0.2.1:5544", "[::1"])
def test_an_address_that_cannot_be_listened_at_is_refused(listen: str) -> None:
    with pytest.raises(UserError, match="--listen"):
        Server(listen)


def test_only_this_machine_reaches_it_by_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Server, "run", lambda self: self._socket.close())
    subject.serve("127.0.0.1:0")
    said = capsys.readouterr()
    assert said.out == ""
    assert "127.0.0.1:" in said.err
    assert "only this machine" in said.err


def test_a_machine_where_nobody_listens_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(PortGoneError, match="run `wavebed serve forward` there"):
        Port.remote("127.0.0.1", port, "lo", Secret(TOKEN))


def test_a_machine_without_a_name_is_a_clear_error() -> None:
    with pytest.raises(UserError, match="no machine"):
        Port.remote("x" * 70, 5544, "lo", Secret(TOKEN))


def test_a_connection_is_watched_for_a_silent_machine() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as client,
    ):
        from wavebed.forward.port import VANISHED_S, keep_watch

        keep_watch(client)
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == VANISHED_S * 1000
        assert client.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(60)
        yield made


def test_a_connection_for_which_there_is_no_descriptor_waits_for_one(listener: socket.socket) -> None:
    with socket.create_connection(listener.getsockname()) as client:
        with no_descriptors():
            assert accept(listener) is None
        taken = accept(listener)
        assert taken is not None
        connection, address = taken
        with connection:
            assert address == client.getsockname()


def test_nobody_within_the_timeout_is_none(listener: socket.socket) -> None:
    listener.settimeout(0.01)
    assert accept(listener) is None


def test_a_listener_that_is_closed_is_an_error(listener: socket.socket) -> None:
    listener.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        accept(listener)
