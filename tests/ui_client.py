"""A server of the page in a thread, and requests to it byte by byte."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.ui.command import Options, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wavebed.ui.server import PageServer

WAIT_S = 60
"""For an answer: a server in a thread may stand still for seconds."""


@dataclass
class Reply:
    """An answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, object]:
        found = json.loads(self.body)
        assert isinstance(found, dict)
        return found


class Client:
    """Speaks with a server."""

    def __init__(self, server: PageServer, token: str) -> None:
        self.server, self.token = server, token
        self.host = f"127.0.0.1:{server.port}"
        self.bearer = {"Authorization": f"Bearer {token}"}

    def ask(
        self, method: str, target: str, headers: dict[str, str] | None = None, body: bytes = b"", *, host: str = ""
    ) -> Reply:
        """Send one request and return the answer."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host or self.host}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if body and not any(name.lower() == "content-length" for name in headers or {}):
            lines.append(f"Content-Length: {len(body)}")
        return self.raw("\r\n".join([*lines, "", ""]).encode() + body)

    def raw(self, request: bytes) -> Reply:
        """Send bytes and return the answer."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=WAIT_S) as stream:
            with suppress(ConnectionError):  # what is refused early may be reset while the rest is sent
                stream.sendall(request)
            data = b""
            while part := stream.recv(1 << 16):
                data += part
        head, _, body = data.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return Reply(int(status.split()[1]) if status else 0, headers, body)

    def get(self, target: str) -> Reply:
        return self.ask("GET", target, self.bearer)

    def send(self, method: str, target: str, value: object) -> Reply:
        headers = {**self.bearer, "Content-Type": "application/json"}
        return self.ask(method, target, headers, json.dumps(value).encode())

    def events(self, target: str, count: int) -> Iterator[tuple[str, dict[str, object]]]:
        """Yield the first events of a stream, and leave."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=WAIT_S) as stream:
            lines = [f"GET {target} HTTP/1.1", f"Host: {self.host}", f"Authorization: Bearer {self.token}", "", ""]
            stream.sendall("\r\n".join(lines).encode())
            reader = stream.makefile("rb")
            assert reader.readline().split()[1] == b"200"
            while reader.readline().strip():
                pass
            name = ""
            while count:
                received = reader.readline()
                assert received, "the stream has ended"
                line = received.decode().rstrip("\n")
                if not line and not name:
                    continue
                key, _, text = line.partition(": ")
                if key == "event":
                    name = text
                elif key == "data":
                    count -= 1
                    yield name, json.loads(text)


@contextmanager
def page_server(options: Options | None = None) -> Iterator[Client]:
    """Serve until the end of the block."""
    with serving(options or Options()) as (server, token):
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Client(server, token.reveal())
        finally:
            server.shutdown()
            thread.join()
