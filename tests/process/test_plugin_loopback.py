"""Loopback traffic on two hosts that are both this machine: 127.0.1.1 is the server, 127.0.2.1 the client."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from pytest_wavebed.loopback import Loopback, addresses_of_hosts, wait_for_file
from pytest_wavebed.sockets import foreign_socket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the runs inside have this plugin only: others take seconds to load."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.fixture(autouse=True)
def package_of_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the programs that make sockets find the plugin, which needs no installation here."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))


SERVER, CLIENT = ("127.0.1.1", "::1"), ("127.0.2.1", "::1")
LISTENS_LATE = """
import socket, sys, time
from pytest_wavebed.sockets import main
class Late(socket.socket):
    def listen(self, backlog):
        time.sleep(1)
        super().listen(backlog)
socket.socket = Late
main()
"""


@pytest.fixture
def loopback(tmp_path: Path) -> Iterator[Loopback]:
    files = [tmp_path / "s", tmp_path / "c"]
    makers = [subprocess.Popen([sys.executable, "-m", "pytest_wavebed.sockets", file]) for file in files]
    try:
        assert all(map(wait_for_file, files))
        carried = Loopback(files[0], files[1], SERVER, CLIENT)
        carried.install()
        try:
            yield carried
        finally:
            carried.remove()
    finally:
        for maker in makers:
            maker.kill()
            maker.wait()


def echo(listening: socket.socket) -> None:
    connection, _ = listening.accept()
    with connection:
        connection.sendall(connection.recv(100))


def raw_name(sock: socket.socket) -> str:
    """Return the local address of a socket as the kernel knows it."""
    return super(socket.socket, sock).getsockname()[0]


def test_a_listening_socket_is_on_the_server_and_the_test_sees_loopback(loopback: Loopback) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert raw_name(listening) == SERVER[0]
        host, port = listening.getsockname()
        assert host == "127.0.0.1"
        serving = threading.Thread(target=echo, args=(listening,))
        serving.start()
        with socket.create_connection(("127.0.0.1", port)) as connection:
            assert connection.getpeername() == ("127.0.0.1", port)
            connection.sendall(b"x")
            assert connection.recv(10) == b"x"
        serving.join()
    assert loopback.moved == 1


def test_an_accepted_connection_has_loopback_addresses(loopback: Loopback) -> None:
    with socket.create_server(("localhost", 0)) as listening, socket.socket() as connection:
        connection.connect(("127.0.0.1", listening.getsockname()[1]))
        accepted, peer = listening.accept()
        with accepted:
            assert peer == connection.getsockname()
            assert accepted.getsockname()[0] == accepted.getpeername()[0] == "127.0.0.1"


def test_datagrams_cross_in_both_directions(loopback: Loopback) -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
    ):
        server.settimeout(60)
        client.settimeout(60)
        server.bind(("127.0.0.1", 0))
        assert raw_name(server) == SERVER[0]
        client.sendto(b"a", server.getsockname())
        data, peer = server.recvfrom(10)
        assert data == b"a"
        server.sendto(b"b", peer)
        assert client.recvfrom(10) == (b"b", server.getsockname())


def test_a_bound_client_goes_back_to_the_client_when_it_connects(loopback: Loopback) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.1", 0)) as connection:
            accepted, _ = listening.accept()
            accepted.close()
            assert connection.getpeername() == ("127.0.0.1", port)


def test_options_and_blocking_mode_are_kept_by_a_socket_that_moves(loopback: Loopback) -> None:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setblocking(False)
        sock.bind(("127.0.0.1", 0))
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR) == 1
        sock.listen()
        with pytest.raises(BlockingIOError):
            sock.accept()


def test_other_sockets_stay(loopback: Loopback, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "own"))
    first, second = socket.socketpair()
    with first, second:
        first.send(b"x")
        assert second.recv(1) == b"x"
    assert loopback.moved == 0


def test_whoever_sees_the_file_of_a_program_that_makes_sockets_may_connect(tmp_path: Path) -> None:
    file = tmp_path / "s"
    maker = subprocess.Popen([sys.executable, "-c", LISTENS_LATE, file])
    try:
        assert wait_for_file(file)
        os.close(foreign_socket(file, socket.AF_INET, socket.SOCK_STREAM, 0))
    finally:
        maker.kill()
        maker.wait()
    assert [each.name for each in tmp_path.iterdir()] == ["s"]


def test_a_program_that_has_ended_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_wavebed.loopback._START_S", math.inf)
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"]) as maker:
        assert not wait_for_file(tmp_path / "s", maker)


def test_everything_is_given_back(tmp_path: Path) -> None:
    before = dict(vars(socket.socket))
    carried = Loopback(tmp_path / "s", None, SERVER, CLIENT)
    carried.install()
    assert vars(socket.socket)["bind"] is not before.get("bind")
    carried.remove()
    assert dict(vars(socket.socket)) == before


def test_the_addresses_of_the_hosts_are_read() -> None:
    text = "127.0.0.1 localhost # own\n198.18.0.1 server\nfd00::1 server\n198.18.0.2 client\n"
    assert addresses_of_hosts(text) == {"server": ("198.18.0.1", "fd00::1")}
