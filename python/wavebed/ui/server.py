"""The HTTP server: reads requests within bounds, asks the guard, and sends answers.

`http.server` of the standard library, because one page, eleven routes and one stream need no framework, and the page
then needs no package. Its limits are set here: connections, times, sizes, methods.
"""

from __future__ import annotations

import io
import ipaddress
import re
import socket
import socketserver
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.lab.protocol import LaboratoryGoneError, LaboratoryHungError, LaboratoryMalformedError
from wavebed.ui.guard import HttpRequest, Reply, RequestRefusedError, json_answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from wavebed.ui.guard import Guard


MOST_CONNECTIONS = 64
"""Of those that have shown the token or the cookie."""
MOST_STRANGERS = 32
"""Further ones, which have not; the oldest of them makes room for the next one."""
MOST_BODY_BYTES = 8 << 20
"""The text of a pattern, and its escapes."""
MOST_FIELDS = 8
HEADERS_S = 5.0
"""A stranger's whole request line and headers have come by then, counted from the connection."""
IDLE_S = 30.0
"""The next ones of the same client have come by then, counted from its last answer."""
BODY_S = 60.0
"""A whole body has come by then."""
SEND_S = 10.0
"""Limit for a client to make room for a part of an answer."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_LISTEN = re.compile(r"(\[[0-9A-Fa-f:.%a-z]+\]|[0-9.]+|localhost)(?::([0-9]{1,5}))?")


def listen_address(text: str) -> tuple[str, int]:
    """Return the address and port that ``--listen`` names; port 0 is a free one.

    Raises
    ------
    UserError
        If it names none.
    """
    match = _LISTEN.fullmatch(text)
    host = "" if match is None else match[1].removeprefix("[").removesuffix("]")
    port = int(match[2] or 0) if match is not None else 0
    host = "127.0.0.1" if host == "localhost" else host
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        port = -1
    if not 0 <= port < 1 << 16:
        raise UserError(f"--listen: {text!r} is no address and port: write 127.0.0.1:8080 or [::1]:8080")
    return host, port


class _Places:
    """The places of connections: some for strangers, and others for clients that have authenticated.

    Strangers hold no place against anybody: the oldest is closed when another connection comes. A client sends its
    request at once, so its place is one of the others before that.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._strangers: list[socket.socket] = []
        self._clients: set[socket.socket] = set()

    def enter(self, connection: socket.socket) -> None:
        """Give a new connection a stranger's place."""
        with self._lock:
            if len(self._strangers) >= MOST_STRANGERS:
                with suppress(OSError):  # it may have ended by itself
                    self._strangers.pop(0).shutdown(socket.SHUT_RDWR)
            self._strangers.append(connection)

    def know(self, connection: socket.socket) -> bool:
        """Move a connection that has authenticated to a client's place; return whether one is free."""
        with self._lock:
            if connection in self._clients:
                return True
            if len(self._clients) >= MOST_CONNECTIONS:
                return False
            if connection in self._strangers:
                self._strangers.remove(connection)
            self._clients.add(connection)
            return True

    def leave(self, connection: socket.socket) -> None:
        """Free the place of a connection."""
        with self._lock:
            self._clients.discard(connection)
            if connection in self._strangers:
                self._strangers.remove(connection)


class _Timed(io.RawIOBase):
    """The bytes of a connection, until a time on the monotonic clock: what drips gets no more than that."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.end_s = 0.0

    def readable(self) -> bool:
        """Return whether it can be read."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read some bytes.

        Raises
        ------
        TimeoutError
            If the time is over.
        """
        left_s = self.end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connection.settimeout(left_s)
        return self._connection.recv_into(buffer)


class PageServer(ThreadingHTTPServer):
    """A server of one page and its API, a thread for each connection.

    Parameters
    ----------
    address : (str, int)
        Where it listens.
    serve : callable
        Answers a request that the guard let pass.
    make_guard : callable
        Makes the guard of an address and a port.

    Raises
    ------
    MachineError
        If it cannot listen there.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(
        self,
        address: tuple[str, int],
        serve: Callable[[HttpRequest, Guard], Reply],
        make_guard: Callable[[str, int], Guard],
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.places = _Places()
        self.serve = serve
        try:
            super().__init__(address, _Handler)
        except OSError as error:
            reason = (error.strerror or "cannot listen").lower()
            raise MachineError(f"--listen: {address[0]} port {address[1]}: {reason}: name another") from None
        self.guard = make_guard(address[0], self.port)

    @property
    def port(self) -> int:
        """The port at which it listens."""
        return int(self.socket.getsockname()[1])

    @property
    def origin(self) -> str:
        """The beginning of its addresses."""
        host = str(self.server_address[0])
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def server_bind(self) -> None:
        """Bind the socket, without asking a name server for a name that nobody needs."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.port

    def process_request_thread(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """Serve a connection in its thread.

        The main thread gives no place: it may be interrupted while it starts one, and could not tell who ends it.
        """
        assert isinstance(request, socket.socket), "connections are streams"
        self.places.enter(request)
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.leave(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Forget a connection that broke: a client that leaves is no error."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: PageServer
    protocol_version = "HTTP/1.1"
    connection: socket.socket
    error_content_type = "application/json"

    def setup(self) -> None:
        """Read within limits of time."""
        super().setup()
        self.rfile.close()
        self._timed = _Timed(self.connection)
        self.rfile = io.BufferedReader(self._timed)
        self._next_s = HEADERS_S

    def handle_one_request(self) -> None:
        """Serve one request, or close the connection if it did not come in time."""
        self._timed.end_s = time.monotonic() + self._next_s
        super().handle_one_request()

    def log_message(self, *_: object) -> None:
        """Log nothing: an address has the token in it."""

    def version_string(self) -> str:
        """Return the name in the header ``Server``, without versions."""
        return "wavebed"

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request that could not be read."""
        self.close_connection = True
        self.request_version = "HTTP/1.0"  # what came may be no version: the answer has headers all the same
        self._send(_refusal(RequestRefusedError(code, message or explain or "the request is wrong")))

    def handle_expect_100(self) -> bool:
        """Ask for no body before the request was checked: `_body` does."""
        return True

    def _serve(self) -> None:
        self._body_read = False
        try:
            answer = self._answer()
        except WavebedError as error:
            answer = _refusal(error)
            self.close_connection = True
        if self._has_body() and not self._body_read:
            self.close_connection = True
        self._send(answer)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - the names of the library
    do_OPTIONS = do_TRACE = do_CONNECT = _serve  # noqa: N815

    def _answer(self) -> Reply:
        if self.request_version not in ("HTTP/1.0", "HTTP/1.1"):
            self.request_version = "HTTP/1.0"
            raise RequestRefusedError(505, "this server speaks HTTP/1.1")
        path, _, query = self.path.partition("?")
        if not path.startswith("/"):
            raise RequestRefusedError(400, "the target is no path of this server")
        try:
            fields = dict(parse_qsl(query, max_num_fields=MOST_FIELDS))
        except ValueError:
            raise RequestRefusedError(400, f"the query has more than {MOST_FIELDS} fields") from None
        request = HttpRequest(self.command, path, fields, self.headers, self._body)
        self.server.guard.check(request)
        if not self.server.places.know(self.connection):
            raise RequestRefusedError(503, f"{MOST_CONNECTIONS} connections are open: close one")
        self._next_s = IDLE_S
        return self.server.serve(request, self.server.guard)

    def _has_body(self) -> bool:
        return "Content-Length" in self.headers or "Transfer-Encoding" in self.headers

    def _body(self) -> bytes:
        """Read the body, once its length is known to be within bounds."""
        lengths = self.headers.get_all("Content-Length") or []
        if "Transfer-Encoding" in self.headers or len(lengths) != 1 or not re.fullmatch("[0-9]{1,12}", lengths[0]):
            raise RequestRefusedError(411, "Content-Length: is missing or wrong: send the length of the body")
        length = int(lengths[0])
        if length > MOST_BODY_BYTES:
            raise RequestRefusedError(413, f"the body has {length} bytes: at most {MOST_BODY_BYTES} are read")
        if self.headers.get("Expect", "").lower() == "100-continue" and self.request_version == "HTTP/1.1":
            self.send_response_only(100)
            self.end_headers()
        self._timed.end_s = time.monotonic() + BODY_S
        try:
            body = self.rfile.read(length)
        except TimeoutError:
            raise RequestRefusedError(408, f"the body did not come within {BODY_S:g} s: send it at once") from None
        self._body_read = True
        if len(body) < length:
            raise RequestRefusedError(400, f"the body has {len(body)} bytes instead of {length}")
        return body

    def _send(self, answer: Reply) -> None:
        """Send an answer; its parts, if it has some, until the end of the connection."""
        parts = answer.parts
        try:
            # The first part before the headers: what refuses to begin is refused with a status.
            first = next(parts, b"") if parts is not None and self.command != "HEAD" else answer.body
        except WavebedError as error:
            self.close_connection = True
            answer = _refusal(error)
            first, parts = answer.body, None
        try:
            self.connection.settimeout(SEND_S)
            self.send_response(answer.status)
            for name, value in {**HEADERS, "Content-Type": answer.kind, **answer.headers}.items():
                self.send_header(name, value)
            if parts is None:
                self.send_header("Content-Length", str(len(answer.body)))
            else:
                self.close_connection = True
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            if self.command == "HEAD":
                return
            self.wfile.write(first)
            for part in parts or ():
                self.wfile.write(part)
        except OSError:
            self.close_connection = True
        finally:
            close = getattr(parts, "close", None)
            if close is not None:
                close()


def _refusal(error: WavebedError) -> Reply:
    answer = json_answer({"error": str(error)}, _status(error))
    if isinstance(error, RequestRefusedError):
        return Reply(answer.status, answer.kind, answer.body, error.headers)
    return answer


def _status(error: WavebedError) -> int:
    if isinstance(error, RequestRefusedError):
        return error.status
    if isinstance(error, LaboratoryHungError):
        return 504
    if isinstance(error, LaboratoryMalformedError):
        return 502
    if isinstance(error, LaboratoryGoneError):
        return 404
    return 400 if isinstance(error, UserError) else 500
