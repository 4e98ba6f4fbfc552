"""Lend the interfaces of this machine to a forwarding test that runs on another: ``wavebed serve forward``.

Whoever knows the token can send frames through every interface of this machine. So it is open to this machine only
unless told otherwise, and the token, which crosses the network as it is, is a new one each time.
"""

from __future__ import annotations

import json
import re
import secrets
import select
import socket
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.accept import accept
from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.forward.answers import VERSION
from wavebed.forward.port import Lines, LocalLines, keep_watch
from wavebed.forward.settings import DEFAULT_PEER_PORT
from wavebed.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HELLO_S = 10.0
"""A connection that has not said who it is by then is closed."""
SEND_S = 10.0
"""The other side may take this long to make room for an answer."""
IDLE_S = 900.0
"""A conversation without a question for this long is closed, so that a forgotten one frees its interface."""
ANSWER_S = 3600.0
"""No request takes longer; the other side has limits of its own."""
LOOK_S = 0.2
LONGEST_QUESTION = 1 << 16
MOST_CONNECTIONS = 8
"""That know the token."""
MOST_STRANGERS, MOST_STRANGERS_OF_AN_ADDRESS = 64, 8
"""That have not said yet who they are; one more, and the oldest is closed."""
TOKEN_BYTES = 16
SHORTEST_TOKEN = 8


class _LeftError(Exception):
    """The other side went away, or speaks out of turn."""


class _Hello:
    """The first line of a connection."""

    def __init__(self, line: bytes, token: Secret) -> None:
        try:
            value: object = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict) or set(value) != {"version", "token", "interface"}:
            raise UserError("this is no beginning of a conversation with wavebed serve forward")
        if value["version"] != VERSION:
            raise UserError(f"this machine speaks version {VERSION}: install the same wavebed on both")
        given = value["token"]
        if not isinstance(given, str) or not token.is_same(given):
            raise UserError("the token is wrong: give the one that wavebed serve forward printed")
        name = value["interface"]
        fits = isinstance(name, str) and name.isprintable() and re.fullmatch(r"[^-/\s][^/\s]{0,14}", name)
        if not isinstance(name, str) or not fits or name in {".", ".."}:
            raise UserError("the interface has no possible name")
        self.interface = name


class Server:
    """Listens, and gives each connection a port of its own.

    Parameters
    ----------
    listen : str
        ``HOST:PORT``; port 0 takes a free one.
    token : str, optional
        The token that a client must know; a random one by default.
    start : callable
        Starts the port of an interface.

    Raises
    ------
    UserError
        If it cannot listen there, or the token is too short.
    """

    def __init__(
        self,
        listen: str = f"127.0.0.1:{DEFAULT_PEER_PORT}",
        token: str | None = None,
        *,
        start: Callable[[str], Lines] = LocalLines.port,
    ) -> None:
        if token is not None and len(token) < SHORTEST_TOKEN:
            raise UserError(f"--token: {len(token)} characters can be guessed: give {SHORTEST_TOKEN} or more, or none")
        self._token = Secret(token or secrets.token_hex(TOKEN_BYTES))
        self._start = start
        self._taken: set[str] = set()
        self._strangers: dict[socket.socket, str] = {}
        self._known = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._socket = _listening(listen)
        self._socket.settimeout(LOOK_S)

    @property
    def token(self) -> str:
        """The token that a client must know; it is printed for whoever runs this."""
        return self._token.reveal()

    @property
    def address(self) -> tuple[str, int]:
        """The address at which it listens."""
        name = self._socket.getsockname()
        return str(name[0]), int(name[1])

    def run(self) -> None:
        """Serve until `stop` is called, or Ctrl-C; every port is ended then."""
        try:
            while not self._stop.is_set():
                taken = accept(self._socket)
                if taken is None:
                    continue
                connection, address = taken
                self._threads = [thread for thread in self._threads if thread.is_alive()]
                self._receive(connection, str(address[0]))
                thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                self._threads.append(thread)
                thread.start()
        finally:
            self.stop()
            self._socket.close()
            for thread in self._threads:
                thread.join()

    def stop(self) -> None:
        """Have `run` return soon."""
        self._stop.set()

    def _receive(self, connection: socket.socket, address: str) -> None:
        """Count a stranger in; who says nothing has no place that others need."""
        with self._lock:
            alike = [other for other, of in self._strangers.items() if of == address]
            if len(alike) >= MOST_STRANGERS_OF_AN_ADDRESS:
                self._send_away(alike[0])
            elif len(self._strangers) >= MOST_STRANGERS:
                self._send_away(next(iter(self._strangers)))
            self._strangers[connection] = address

    def _send_away(self, stranger: socket.socket) -> None:
        del self._strangers[stranger]
        with suppress(OSError):
            stranger.shutdown(socket.SHUT_RDWR)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                keep_watch(connection)
                connection.settimeout(LOOK_S)
                reader = _Reader(connection, self._stop)
                try:
                    hello = _Hello(reader.line(HELLO_S), self._token)
                finally:
                    with self._lock:
                        self._strangers.pop(connection, None)
                with self._place(), self._alone(hello.interface):
                    self._converse(reader, hello.interface)
            except WavebedError as error:
                _tell(connection, error)
            except (_LeftError, OSError):
                pass

    @contextmanager
    def _place(self) -> Iterator[None]:
        with self._lock:
            if self._known >= MOST_CONNECTIONS:
                raise MachineError(f"{self._known} connections are open, which is as many as there may be")
            self._known += 1
        try:
            yield
        finally:
            with self._lock:
                self._known -= 1

    @contextmanager
    def _alone(self, interface: str) -> Iterator[None]:
        if not Path("/sys/class/net", interface).exists():
            raise UserError(f"there is no interface {interface!r} on that machine: `ip link` lists them")
        with self._lock:
            if interface in self._taken:
                raise UserError(f"{interface} is in use by another test: wait for its end")
            self._taken.add(interface)
        try:
            yield
        finally:
            with self._lock:
                self._taken.discard(interface)

    def _converse(self, reader: _Reader, interface: str) -> None:
        lines = self._start(interface)
        try:
            reader.send('{"ok": {}}')
            while True:
                question = reader.line(IDLE_S).decode(errors="replace")
                reader.send(lines.ask(question, ANSWER_S, reader.still_there, LOOK_S))
        finally:
            lines.close()


class _Reader:
    """Lines of a client; one that leaves or speaks out of turn is noticed within a fraction of a second."""

    def __init__(self, connection: socket.socket, stop: threading.Event) -> None:
        self._connection = connection
        self._stop = stop
        self._rest = b""

    def line(self, limit_s: float) -> bytes:
        """Wait for the next line."""
        end = time.monotonic() + limit_s
        while b"\n" not in self._rest:
            late = time.monotonic() > end and not self._something_came()
            if late or self._stop.is_set() or len(self._rest) > LONGEST_QUESTION:
                raise _LeftError
            try:
                chunk = self._connection.recv(1 << 16)
            except TimeoutError:
                continue
            if not chunk:
                raise _LeftError
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def still_there(self) -> None:
        """Make sure that the client waits for its answer."""
        if self._rest or self._something_came() or self._stop.is_set():
            raise _LeftError  # it left, or asks again before it was answered

    def _something_came(self) -> bool:
        readable, _, _ = select.select([self._connection], [], [], 0)
        return bool(readable)

    def send(self, line: str) -> None:
        """Send a line."""
        self._connection.settimeout(SEND_S)
        self._connection.sendall(line.encode() + b"\n")
        self._connection.settimeout(LOOK_S)


def _tell(connection: socket.socket, error: WavebedError) -> None:
    kind = {UserError: "wrong", MachineError: "cannot"}.get(type(error), "failed")
    with suppress(OSError):
        connection.sendall(json.dumps({"error": str(error), "kind": kind}).encode() + b"\n")


def _listening(listen: str) -> socket.socket:
    match = re.fullmatch(r"(?:\[([^\]]+)\]|([^:\[\]]+))(?::(\d{1,5}))?", listen)
    if match is None or int(match[3] or DEFAULT_PEER_PORT) > 65535:
        raise UserError(f"--listen: {listen!r} is no address: write HOST:PORT, such as 192.0.2.7:{DEFAULT_PEER_PORT}")
    host, port = match[1] or match[2], int(match[3] or DEFAULT_PEER_PORT)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=MOST_STRANGERS)
    except (OSError, UnicodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise UserError(f"--listen: cannot listen at {listen}: {reason}") from None


def serve(listen: str = f"127.0.0.1:{DEFAULT_PEER_PORT}", token: str | None = None) -> None:
    """Serve until Ctrl-C, and say on standard error where, and with which token.

    Raises
    ------
    UserError
        If it cannot listen there, or the token is too short.
    """
    server = Server(listen, token)
    host, port = server.address
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    print(f"serving the interfaces of this machine at {where}, token {server.token}", file=sys.stderr)
    if host in {"127.0.0.1", "::1"}:
        print("only this machine can reach it: give --listen ADDRESS:PORT for another", file=sys.stderr)
    sys.stderr.flush()
    server.run()
