"""Whatever comes to the server of the page, it answers by the protocol or closes, changes nothing, and goes on."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.played_lab import PlayedLab, played
from tests.ui_client import WAIT_S, page_server

if TYPE_CHECKING:
    import pytest

METHODS = ["GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS", "CONNECT", "get", "", "PRI"]
TARGETS = [
    "/",
    "/api/labs",
    "/api/labs/walk",
    "/api/labs/walk/links",
    "/api/labs/walk/events",
    "/metrics",
    "*",
    "//",
    "/..",
    "",
]
NAMES = [
    "Host",
    "Origin",
    "Cookie",
    "Authorization",
    "Content-Length",
    "Content-Type",
    "Transfer-Encoding",
    "Expect",
    "Connection",
]
VALUES = [
    "",
    "0",
    "-1",
    "18",
    "99999999999",
    "chunked",
    "keep-alive",
    "100-continue",
    "application/json",
    "Bearer x",
    "null",
]

header = st.tuples(st.sampled_from(NAMES) | st.text(max_size=12), st.sampled_from(VALUES) | st.text(max_size=40))
requests = st.builds(
    lambda method, target, version, headers, body: (
        f"{method} {target} {version}\r\n".encode()
        + b"".join(f"{name}: {value}\r\n".encode("utf-8", "replace") for name, value in headers)
        + b"\r\n"
        + body
    ),
    st.sampled_from(METHODS),
    st.sampled_from(TARGETS) | st.text(max_size=30),
    st.sampled_from(["HTTP/1.1", "HTTP/1.0", "HTTP/0.9", "HTTP/9", "", "x"]),
    st.lists(header, max_size=8),
    st.binary(max_size=60),
)


def test_no_request_without_the_token_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = PlayedLab("walk")

    @settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
    @given(st.binary(max_size=200) | requests)
    def refused(data: bytes) -> None:
        answer = b""
        # What is refused early may be reset while the rest is sent.
        with (
            socket.create_connection(("127.0.0.1", client.server.port), timeout=WAIT_S) as stream,
            contextlib.suppress(ConnectionError),
        ):
            stream.sendall(data)
            stream.shutdown(socket.SHUT_WR)
            while part := stream.recv(1 << 16):
                answer += part
        assert not answer or (answer.startswith(b"HTTP/1.") and answer[9:10] in (b"4", b"5")), answer[:200]

    with played(monkeypatch, lab), page_server() as client:
        refused()
        assert client.get("/api/labs").status == 200, "it goes on"
    assert [request for request in lab.asked if request["do"] == "set"] == []
    assert lab.watches == 0
