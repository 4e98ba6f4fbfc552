"""Ports of a laboratory's hosts on this machine's loopback, past the path: what drives a test is not under test.

The listening socket is this machine's. A relay inside the laboratory accepts its connections and carries each to a port
of its host.
"""

from __future__ import annotations

import os
import re
import select
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from wavebed.config.problems import Problem
from wavebed.errors import UserError, WavebedError
from wavebed.path import relay
from wavebed.path.control import connect_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.config.data import Json
    from wavebed.path.control import ControlConnection

_FORM = re.compile(r"(?:(?P<outside>\d{1,5}):)?(?:(?P<host>(?=[0-9_-]*[a-z])[a-z0-9_-]+):)?(?P<port>\d{1,5})")
_MOST_PORT = 65_535
_LOOK_MS = 50
_START_S = 60.0
_BACKLOG = 128
_RELAY = (sys.executable, "-I", os.fspath(Path(relay.__file__)))


HTTPS_NAMES = ("server", "edge", "client", "localhost")
_HTTPS_PORT = 443


def read_port(text: str) -> int:
    """Read the number of a port.

    Raises
    ------
    Problem
        If it is none.
    """
    if not re.fullmatch(r"\d{1,5}", text, re.ASCII) or not 1 <= int(text) <= _MOST_PORT:
        raise Problem(f"{text!r} is no port: write a number from 1 to {_MOST_PORT}, such as 3000")
    if int(text) == _HTTPS_PORT:
        raise Problem(
            f"{_HTTPS_PORT} is the port of the relay itself: let the server listen on another one, such as 3000"
        )
    return int(text)


def https_relay(port: int, certificate: Path) -> tuple[str, ...]:
    """Return the command of the server's relay from HTTPS to a port."""
    return (*_RELAY, "--listen", str(_HTTPS_PORT), "--certificate", str(certificate), "--to", str(port))


class PublishedPort(Struct, frozen=True):
    """A port of a host, and the port of this machine's 127.0.0.1 that leads to it.

    Parameters
    ----------
    outside : int
        The port of this machine.
    host : str
        ``server``, ``edge`` or ``client``.
    port : int
        The port of the host's 127.0.0.1.
    """

    outside: int
    host: str
    port: int


def read_published(text: str, hosts: Sequence[str], usual: str = "client") -> PublishedPort:
    """Read ``[OUTSIDE:][HOST:]PORT``; without them, the same port outside and the host `usual`.

    Raises
    ------
    Problem
        If it is something else, or the path has no such host.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise Problem(f"{text!r} is no port: write PORT, HOST:PORT or OUTSIDE:HOST:PORT, such as 3000:client:3000")
    host, port = found["host"] or usual, int(found["port"])
    outside = port if found["outside"] is None else int(found["outside"])
    if host not in hosts:
        raise Problem(f"{text!r}: there is no host {host!r}: write {' or '.join(hosts)}")
    if not 1 <= port <= _MOST_PORT or not 1 <= outside <= _MOST_PORT:
        raise Problem(f"{text!r}: a port is a number from 1 to {_MOST_PORT}")
    return PublishedPort(outside, host, port)


def listen(published: Sequence[PublishedPort]) -> list[socket.socket]:
    """Return a listening socket on 127.0.0.1 for each port.

    Raises
    ------
    UserError
        If a port is in use or may not be used.
    """
    found: list[socket.socket] = []
    for each in published:
        try:
            found.append(socket.create_server(("127.0.0.1", each.outside), backlog=_BACKLOG))
        except OSError as error:
            reason = os.strerror(error.errno).lower() if error.errno else "cannot be used"
            raise UserError(
                f"--publish: port {each.outside} of 127.0.0.1: {reason}: name another one, such as"
                f" {each.outside + 1 if each.outside < _MOST_PORT else 8000}:{each.host}:{each.port}"
            ) from None
    return found


def start_relay(connection: ControlConnection, port: PublishedPort, listener: socket.socket) -> None:
    """Start the relay of a port. It ends with the connection.

    Raises
    ------
    WavebedError
        If the laboratory does not start it.
    """
    request: dict[str, Json] = {
        "do": "run",
        "host": port.host,
        "argv": [*_RELAY, "--stdin", "--to", str(port.port)],
        "env": {},
        "cwd": "/",
        "confine": None,
    }
    connection.ask(request, [listener.fileno(), 2, 2], _START_S)  # it answers once its servers are there


def publish_beside(laboratory: str, published: Sequence[PublishedPort]) -> None:
    """Publish ports of the laboratory that this process becomes; return at once.

    A process beside this one holds the relays' connections. It ends with the laboratory.

    Raises
    ------
    UserError
        If a port of this machine cannot be used.
    """
    listeners = listen(published)
    lab = os.pidfd_open(os.getpid())
    sys.stdout.flush()
    sys.stderr.flush()
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)  # the laboratory must not have a child that it does not know
        for each in listeners:
            each.close()
        os.close(lab)
        return
    os.setsid()  # Ctrl-C is for the laboratory, which ends this process
    if os.fork():
        os._exit(0)
    status = 1
    try:
        _hold(laboratory, published, listeners, lab)
        status = 0
    except WavebedError as error:
        print(f"wavebed: --publish: {error}", file=sys.stderr)
    finally:
        os._exit(status)


def _hold(laboratory: str, published: Sequence[PublishedPort], listeners: Sequence[socket.socket], lab: int) -> None:
    """Start the relays as soon as the laboratory is there, and wait for its end.

    Raises
    ------
    WavebedError
        If the laboratory runs without relays.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):  # what reads the command's output must see its end
        os.dup2(nothing, standard)
    ended = select.poll()
    ended.register(lab, select.POLLIN)
    connections: list[ControlConnection] = []
    for port, listener in zip(published, listeners, strict=True):
        try:
            connections.append(_connected(laboratory, ended))
            start_relay(connections[-1], port, listener)
        except WavebedError:
            if ended.poll(0):
                return
            raise
        listener.close()
    ended.poll()


def _connected(laboratory: str, ended: select.poll) -> ControlConnection:
    """Return a connection to a laboratory that may have to start first."""
    end_s = time.monotonic() + _START_S
    while True:
        try:
            return connect_to(laboratory)
        except WavebedError:
            if ended.poll(_LOOK_MS) or time.monotonic() > end_s:
                raise
