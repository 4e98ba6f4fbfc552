"""Who may ask the server of the page: each rule, and what it refuses."""

from __future__ import annotations

import http.client
import os
import socket
import socketserver
import sys
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

import pytest
from tests.played_lab import PlayedLab, played
from tests.ui_client import page_server

from wavebed._core import find_core
from wavebed.errors import UserError
from wavebed.path.control import running
from wavebed.path.live import CHANGES, FAULTS
from wavebed.ui import server as server_module
from wavebed.ui.command import FILES, Options, serving, token_of
from wavebed.ui.server import MOST_BODY_BYTES, MOST_CONNECTIONS, MOST_STRANGERS, listen_address

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.ui_client import Client

JSON = {"Content-Type": "application/json"}
RATE = b'{"rate": "50mbit"}'
LINKS = "/api/labs/walk/links"
PAUSE = b'{"action": "pause"}'
TIMELINE = "/api/labs/walk/timeline"
CHANGE, CONTROL = ("PATCH", LINKS, RATE), ("POST", TIMELINE, PAUSE)


@pytest.fixture
def lab() -> PlayedLab:
    return PlayedLab("walk", timed=True)


@pytest.fixture
def client(lab: PlayedLab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    with played(monkeypatch, lab), page_server() as found:
        yield found


@pytest.fixture
def page(client: Client) -> dict[str, str]:
    """Return the headers that the page sends by itself: its cookie and its origin."""
    reply = client.ask("GET", f"/?token={client.token}")
    return {"Cookie": reply.headers["set-cookie"].partition(";")[0], "Origin": f"http://{client.host}"}


def changes(lab: PlayedLab) -> list[object]:
    return [request for request in lab.asked if request["do"] in ("set", "timeline")]


def test_without_the_token_nothing_is_answered(client: Client) -> None:
    read = [*FILES, "/api/labs", "/api/labs/walk", "/api/openapi.json", "/metrics", "/nothing"]
    for method, target in [*(("GET", target) for target in read), ("PATCH", LINKS), ("POST", TIMELINE)]:
        reply = client.ask(method, target)
        assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer"), target
        assert list(reply.json) == ["error"]


@pytest.mark.parametrize(
    "given", ["Bearer wrong", "Bearer", "Basic {token}", "{token}", "Bearer {token}x", "Bearer \udc80", "Bearer é"]
)
def test_a_wrong_token_is_refused(client: Client, given: str) -> None:
    text = given.format(token=client.token).encode("utf-8", "surrogateescape")
    request = b"GET /api/labs HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nAuthorization: %s\r\n\r\n"
    assert client.raw(request % (client.host.encode(), text)).status == 401


def test_a_wrong_token_is_not_helped_by_a_right_cookie(client: Client, page: dict[str, str]) -> None:
    assert client.ask("GET", "/api/labs", page).status == 200
    assert client.ask("GET", "/api/labs", {**page, "Authorization": "Bearer wrong"}).status == 401


def test_the_page_gets_a_cookie_for_the_token_that_scripts_and_other_sites_do_not_get(client: Client) -> None:
    reply = client.ask("GET", f"/?token={client.token}")
    name, _, rest = reply.headers["set-cookie"].partition("=")
    assert name == f"wavebed-ui-{client.server.port}"
    assert rest.split("; ")[1:] == ["HttpOnly", "SameSite=Strict", "Path=/"]
    assert client.token not in rest, "the cookie is not the token"
    assert "set-cookie" not in client.ask("GET", "/?token=wrong").headers
    assert client.ask("GET", "/?token=wrong").status == 401
    assert client.ask("GET", f"/api/labs?token={client.token}").status == 401, "only the page takes it in the address"
    assert client.ask("POST", f"/?token={client.token}").status == 401


@pytest.mark.parametrize("cookie", ["wavebed-ui-{port}=wrong", "other={value}", "wavebed-ui-{port}", "\x01=", "a=b; c"])
def test_a_wrong_cookie_is_refused(client: Client, page: dict[str, str], cookie: str) -> None:
    value = page["Cookie"].partition("=")[2]
    given = cookie.format(port=client.server.port, value=value)
    assert client.ask("GET", "/api/labs", {"Cookie": given}).status == 401


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.2:{port}", "[::1]:{port}",
        "127.0.0.1:{port}@evil.example", "127.0.0.1.evil.example:{port}", "localhost.:{port}", ":{port}",
        "2130706433:{port}",
    ],
)  # fmt: skip
def test_another_host_is_refused_whoever_asks(client: Client, host: str) -> None:
    """A name that its owner points at this machine would make a foreign page one of this server (DNS rebinding)."""
    reply = client.ask("GET", "/api/labs", client.bearer, host=host.format(port=client.server.port))
    assert (reply.status, str(reply.json["error"]).partition(":")[0]) == (403, "Host")


def test_this_server_is_known_by_address_and_as_localhost_once(client: Client) -> None:
    assert client.ask("GET", "/api/labs", client.bearer, host=f"localhost:{client.server.port}").status == 200
    twice = {**client.bearer, "host": client.host}
    assert client.ask("GET", "/api/labs", twice).status == 403
    no_host = b"GET /api/labs HTTP/1.1\r\nConnection: close\r\nAuthorization: Bearer %s\r\n\r\n"
    assert client.raw(no_host % client.token.encode()).status == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1", "https://{host}", "http://{host}/"]
)
@pytest.mark.parametrize(("method", "target", "body"), [("GET", "/api/labs/walk", b""), CHANGE, CONTROL])
def test_a_foreign_origin_is_refused(
    client: Client, lab: PlayedLab, page: dict[str, str], origin: str, method: str, target: str, body: bytes
) -> None:
    headers = {**page, **JSON, "Origin": origin.format(host=client.host)}
    reply = client.ask(method, target, headers, body)
    assert (reply.status, changes(lab)) == (403, [])
    headers = {**client.bearer, **JSON, "Origin": origin.format(host=client.host)}
    assert client.ask("GET", "/api/labs", headers).status == 403, "the token does not help"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_requests_of_other_sites_are_refused_where_the_browser_says_so(
    client: Client, page: dict[str, str], site: str
) -> None:
    """A page on another port of this machine is of the same site: the cookie would be sent."""
    headers = {"Cookie": page["Cookie"], "Sec-Fetch-Site": site}
    assert client.ask("GET", "/api/labs", headers).status == 403
    assert client.ask("GET", "/", {**headers, "Sec-Fetch-Mode": "navigate"}).status == 403
    link = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
    assert client.ask("GET", f"/?token={client.token}", link).status == 200, "a link with the token opens the page"
    assert client.ask("GET", "/api/labs", {"Cookie": page["Cookie"], "Sec-Fetch-Site": "same-origin"}).status == 200


def test_a_change_by_the_cookie_comes_from_the_page(client: Client, lab: PlayedLab, page: dict[str, str]) -> None:
    without = {**JSON, "Cookie": page["Cookie"]}
    assert client.ask("PATCH", LINKS, without, RATE).status == 403
    assert client.ask("POST", TIMELINE, without, PAUSE).status == 403
    assert client.ask("POST", "/api/recordings/1/stop", without).status == 403
    assert changes(lab) == []
    assert client.ask("PATCH", LINKS, {**without, "Origin": page["Origin"]}, RATE).status == 200
    assert client.ask("POST", TIMELINE, {**without, "Origin": page["Origin"]}, PAUSE).status == 200
    assert len(changes(lab)) == 2


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx", ""],
)
def test_a_body_that_a_form_can_send_is_refused(
    client: Client, lab: PlayedLab, page: dict[str, str], kind: str
) -> None:
    headers = {**page, **({"Content-Type": kind} if kind else {})}
    assert client.ask("PATCH", LINKS, headers, RATE).status == 415
    assert client.ask("POST", TIMELINE, headers, PAUSE).status == 415
    assert changes(lab) == []


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "OPTIONS", "TRACE", "CONNECT"])
def test_other_methods_are_refused_and_the_possible_ones_named(client: Client, method: str) -> None:
    reply = client.ask(method, LINKS, {**client.bearer, **JSON}, RATE)
    assert (reply.status, reply.headers["allow"]) == (405, "PATCH")
    assert client.ask(method, "/", client.bearer).status in (404, 405)


def test_a_method_that_does_not_exist_is_refused(client: Client, lab: PlayedLab) -> None:
    assert client.ask("BREW", LINKS, {**client.bearer, **JSON}, RATE).status == 501
    override = {**client.bearer, "X-HTTP-Method-Override": "PATCH", **JSON}
    assert client.ask("POST", LINKS, override, RATE).status == 405
    assert changes(lab) == []


def test_head_has_the_headers_of_get_and_no_body(client: Client) -> None:
    got, head = client.get("/page.css"), client.ask("HEAD", "/page.css", client.bearer)
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", got.headers["content-length"])
    assert client.ask("HEAD", "/api/labs/walk/events", client.bearer).body == b""


def test_a_body_that_is_too_large_is_refused_before_it_is_read(client: Client, lab: PlayedLab) -> None:
    headers = {**client.bearer, **JSON, "Content-Length": str(MOST_BODY_BYTES + 1)}
    assert client.ask("PATCH", LINKS, headers, RATE).status == 413
    pattern = b'{"pattern": "# wavebed pattern 1' + b"x" * 4_000_000 + b'"}'
    assert client.ask("PATCH", LINKS, {**client.bearer, **JSON}, pattern).status == 413
    assert changes(lab) == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Transfer-Encoding": "chunked"}, {"Content-Length": "-1"}, {"Content-Length": "1e3"}, {"Content-Length": "١"},
        {"Content-Length": "17", "content-length": "18"}, {"Transfer-Encoding": "chunked", "Content-Length": "18"},
    ],
)  # fmt: skip
def test_a_body_of_unclear_length_is_refused_and_the_connection_closed(
    client: Client, lab: PlayedLab, headers: dict[str, str]
) -> None:
    reply = client.ask("PATCH", LINKS, {**client.bearer, **JSON, **headers}, RATE)
    assert (reply.status, reply.headers["connection"]) == (411, "close")
    assert changes(lab) == []


def test_what_follows_a_refused_body_is_no_request(client: Client, lab: PlayedLab) -> None:
    inner = f"PATCH {LINKS} HTTP/1.1\r\nHost: {client.host}\r\nAuthorization: Bearer {client.token}\r\n"
    inner += f"Content-Type: application/json\r\nContent-Length: {len(RATE)}\r\n\r\n{RATE.decode()}"
    outer = f"GET /api/labs HTTP/1.1\r\nHost: {client.host}\r\nContent-Length: {len(inner)}\r\n\r\n{inner}"
    reply = client.raw(outer.encode())
    assert (reply.status, reply.body.count(b"HTTP/1.1")) == (401, 0)
    assert changes(lab) == []


@pytest.mark.parametrize(
    "body",
    [
        b"", b"nonsense", b"[]", b"null", b'{"rate": 5}', b'{"speed": "1"}', b"{}", b'{"rate": "fast"}', b"\xff",
        b'{"pattern": "/etc/passwd"}', b'{"rate": "1mbit; reboot"}', b'{"rate": "$(reboot)"}', b'{"delay": "-5ms"}',
        b"[" * 100_000, b'{"flap": "1:1s; reboot"}', b'{"handover": "$(reboot)"}', b'{"action": "seek", "value": 5}',
        b'{"action": "reboot"}', b'{"action": "seek", "value": "/etc/passwd"}',
        b'{"action": "speed", "value": "1e999"}',
    ],
)  # fmt: skip
def test_a_wrong_body_is_refused_in_one_line(client: Client, lab: PlayedLab, body: bytes) -> None:
    headers = {**client.bearer, **JSON, "Content-Length": str(len(body))}
    for method, target, _ in (CHANGE, CONTROL):
        reply = client.ask(method, target, headers, body)
        assert (reply.status, str(reply.json["error"]).count("\n")) == (400, 0), target
    assert changes(lab) == []


@pytest.mark.parametrize(
    "target",
    [
        "/../etc/passwd", "/page.css/../../../etc/passwd", "/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd", "/./page.css",
        "//page.css//", "/PAGE.CSS", "/page.css%00", "/api/labs/..", "/api/labs/%2e%2e", "/api/labs/walk%2flinks",
        "/api/recordings/..%2f1", "/api/recordings/../1", "/api/recordings/0", "/api/recordings/-1",
        "/api/labs/walk/links/radio.sideways", "/api/labs/wälk", "/assets/page.css", "/uplot/LICENSE",
    ],
)  # fmt: skip
def test_nothing_but_the_known_paths_is_found(client: Client, target: str) -> None:
    assert client.get(target).status == 404


def test_every_file_of_the_page_is_served(client: Client) -> None:
    for path, file in FILES.items():
        reply = client.get(path)
        assert (reply.status, reply.headers["content-type"]) == (200, file.kind)
        assert len(reply.body) > 500


@pytest.mark.parametrize(
    "request_line",
    ["GET http://{host}/api/labs HTTP/1.1", "GET * HTTP/1.1", "GET evil HTTP/1.1", "CONNECT {host} HTTP/1.1"],
)
def test_a_target_that_is_no_path_is_refused(client: Client, request_line: str) -> None:
    lines = [
        request_line.format(host=client.host),
        f"Host: {client.host}",
        f"Authorization: Bearer {client.token}",
        "",
        "",
    ]
    assert client.raw("\r\n".join(lines).encode()).status == 400


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /\r\n\r\n", 505),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 505),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"X: x\r\n" * 200 + b"\r\n", 431),
        (b"GET /?" + b"a=b&" * 20 + b" HTTP/1.1\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_of_this_protocol_is_refused(client: Client, request_bytes: bytes, status: int) -> None:
    reply = client.raw(request_bytes)
    assert reply.status == status
    assert list(reply.json) == ["error"]


def test_every_answer_forbids_other_sources_frames_and_guesses(client: Client) -> None:
    for reply in (
        client.get("/"),
        client.get("/api/labs"),
        client.get("/nothing"),
        client.ask("GET", "/"),
        client.raw(b"x\r\n\r\n"),
    ):
        policy = reply.headers["content-security-policy"].split("; ")
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert not any("unsafe" in rule or "http" in rule or "*" in rule for rule in policy)
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cross-origin-resource-policy"] == "same-origin"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["server"] == "wavebed", "no versions"
        assert "access-control-allow-origin" not in reply.headers


def stranger(client: Client, beginning: bytes) -> socket.socket:
    """Return a connection that says this and no more."""
    stream = socket.create_connection(("127.0.0.1", client.server.port), timeout=60)
    stream.sendall(beginning)
    return stream


def asked_and_kept(client: Client) -> tuple[socket.socket, int]:
    """Return a connection that has the token and stays, and the status of its first answer."""
    stream = socket.create_connection(("127.0.0.1", client.server.port), timeout=60)
    return stream, ask_again(client, stream)


def ask_again(client: Client, stream: socket.socket) -> int:
    lines = ["GET /page.css HTTP/1.1", f"Host: {client.host}", f"Authorization: Bearer {client.token}", "", ""]
    stream.sendall("\r\n".join(lines).encode())
    answer = http.client.HTTPResponse(stream)
    answer.begin()
    answer.read()
    return answer.status


@pytest.mark.parametrize(
    "beginning", [b"", b"G", b"GET / HTTP/1.1\r\nHost: x\r\nX: ", b"PATCH / HTTP/1.1\r\nContent-Length: 9\r\n\r\n"]
)
def test_strangers_that_hold_connections_keep_no_client_out(client: Client, beginning: bytes) -> None:
    kept, status = asked_and_kept(client)
    strangers = [stranger(client, beginning) for _ in range(2 * (MOST_CONNECTIONS + MOST_STRANGERS))]
    assert status == client.get("/api/labs").status == 200
    assert ask_again(client, kept) == 200, "one that has the token keeps its place"
    for stream in (kept, *strangers):
        stream.close()


def test_more_clients_than_there_may_be_are_refused_and_the_others_served(client: Client) -> None:
    kept = [asked_and_kept(client) for _ in range(MOST_CONNECTIONS)]
    assert {status for _, status in kept} == {200}
    reply = client.get("/api/labs")
    assert (reply.status, reply.json) == (503, {"error": f"{MOST_CONNECTIONS} connections are open: close one"})
    assert ask_again(client, kept[0][0]) == 200
    for stream, _ in kept:
        stream.close()
    deadline = time.monotonic() + 60
    while client.get("/api/labs").status == 503 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert client.get("/api/labs").status == 200


def drips_until_closed(client: Client, beginning: bytes) -> bytes:
    """Send a byte after the other until the server closes; return its answer."""
    stream = stranger(client, beginning)
    stream.settimeout(0.02)
    deadline = time.monotonic() + 60
    answer = b""
    with stream:
        while time.monotonic() < deadline:
            try:
                stream.sendall(b"a")
                part = stream.recv(1 << 16)
            except TimeoutError:
                continue
            except ConnectionError:
                return answer
            if not part:
                return answer
            answer += part
    pytest.fail("the server reads on and on")


@pytest.mark.parametrize("beginning", [b"GET /", b"GET / HTTP/1.1\r\nHost", b"GET / HTTP/1.1\r\nHost: x\r\nX: "])
def test_a_request_that_drips_ends_in_time(client: Client, monkeypatch: pytest.MonkeyPatch, beginning: bytes) -> None:
    monkeypatch.setattr(server_module, "HEADERS_S", 0.2)
    assert drips_until_closed(client, beginning) == b""


def test_a_body_that_drips_ends_in_time(client: Client, lab: PlayedLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "BODY_S", 0.2)
    lines = [f"PATCH {LINKS} HTTP/1.1", f"Host: {client.host}", f"Authorization: Bearer {client.token}"]
    lines += ["Content-Type: application/json", "Content-Length: 1000000", "", ""]
    assert drips_until_closed(client, "\r\n".join(lines).encode()).startswith(b"HTTP/1.1 408 ")
    assert changes(lab) == []


def test_ctrl_c_ends_the_server_though_the_connection_of_that_moment_was_served_already(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Served(threading.Thread):
        """A thread that has served its connection when the main thread is interrupted in `start`."""

        def start(self) -> None:
            super().start()
            self.join(30)
            raise KeyboardInterrupt

    with serving(Options()) as (server, _):
        socket.create_connection(("127.0.0.1", server.port)).close()
        monkeypatch.setattr(socketserver, "threading", SimpleNamespace(Thread=Served))
        goes_on = threading.Timer(30, server.shutdown)
        goes_on.start()
        with pytest.raises(KeyboardInterrupt):
            server.serve_forever(0.01)
        goes_on.cancel()


def test_a_client_that_says_nothing_is_left_after_a_while(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "HEADERS_S", 0.05)
    with stranger(client, b"GET / HTTP/1.1\r\nHost") as stream:
        assert stream.recv(1) == b""


def test_only_the_named_laboratory_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with played(monkeypatch, PlayedLab("walk"), PlayedLab("other")), page_server(Options(lab="walk")) as client:
        listed = client.get("/api/labs").json["laboratories"]
        assert isinstance(listed, list)
        assert [each["name"] for each in listed] == ["walk"]
        assert client.get("/api/labs/walk").status == 200
        assert client.get("/api/labs/other").status == 404
        assert client.send("PATCH", "/api/labs/other/links", {"rate": "1mbit"}).status == 404


def test_it_listens_on_loopback_unless_told_otherwise() -> None:
    with serving(Options()) as (server, _):
        assert server.server_address[0] == "127.0.0.1"
        assert server.origin == f"http://127.0.0.1:{server.port}"


def test_on_all_addresses_a_host_is_an_address_or_localhost(monkeypatch: pytest.MonkeyPatch) -> None:
    with played(monkeypatch, PlayedLab("walk")), page_server(Options(listen="0.0.0.0:0")) as client:
        port = client.server.port
        for host, status in ((f"192.0.2.7:{port}", 200), (f"localhost:{port}", 200), (f"evil.example:{port}", 403)):
            assert client.ask("GET", "/api/labs", client.bearer, host=host).status == status


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)), ("localhost:80", ("127.0.0.1", 80)), ("127.0.0.1", ("127.0.0.1", 0)),
        ("[::1]:8080", ("::1", 8080)), ("0.0.0.0:1", ("0.0.0.0", 1)),
    ],
)  # fmt: skip
def test_an_address_to_listen_on_is_read(text: str, address: tuple[str, int]) -> None:
    assert listen_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "8080", ":8080", "example.org:80", "127.0.0.1:", "127.0.0.1:65536", "::1:80", "1.2.3:80"]
)
def test_what_is_no_address_to_listen_on_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"^--listen: .*write 127\.0\.0\.1:8080"):
        listen_address(text)


def test_a_token_file_is_ones_own_and_has_a_token_that_nobody_guesses(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("0123456789abcdef0123456789abcdef\n")
    file.chmod(0o640)
    with pytest.raises(UserError, match="others can read it: chmod 600"):
        token_of(file)
    file.chmod(0o600)
    assert token_of(file).reveal() == "0123456789abcdef0123456789abcdef"
    for text in ("", "short", "x" * 300, "0123456789abcdef 0123456789abcdef", "0123456789abcdef\n0123456789abcdef"):
        file.write_text(text)
        with pytest.raises(UserError, match="holds no token"):
            token_of(file)
    with pytest.raises(UserError, match="no such file"):
        token_of(tmp_path / "absent")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another user")
def test_a_token_file_of_another_user_is_refused_whoever_reaches_it(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("0123456789abcdef0123456789abcdef\n")
    file.chmod(0o600)
    (tmp_path / "link").symlink_to(file)
    os.chown(file, 65534, 0)
    for name in (file, tmp_path / "link"):
        with pytest.raises(UserError, match="belongs to user 65534: name a file of your own"):
            token_of(name)


def test_tokens_are_new_each_time_and_long() -> None:
    with serving(Options()) as (_, one), serving(Options()) as (_, other):
        assert len(one.reveal()) >= 43
        assert not one.is_same(other.reveal())


HOSTILE = ("$(touch {})", "`touch {}`", "; touch {}", "| touch {}", "' && touch {} #", "\n touch {}\n")
STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn")


def test_no_text_of_a_request_reaches_a_shell_or_starts_a_program(
    client: Client, lab: PlayedLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interpreter reports every start of a program; the only one is the list of laboratories, without any text."""
    monkeypatch.setattr("wavebed.ui.guard.running", running)
    started: list[tuple[str, object]] = []
    counts = [True]

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        if counts[0] and event in (
            "subprocess.Popen",
            "os.system",
            "os.exec",
            "os.posix_spawn",
            "os.spawn",
            "pty.spawn",
        ):
            started.append((event, arguments[1] if event == "subprocess.Popen" else arguments))

    sys.addaudithook(hear)  # none can be taken away again
    file = tmp_path / "made"
    try:
        for pattern in HOSTILE:
            text = pattern.format(file)
            for key in (*CHANGES, *FAULTS):
                client.send("PATCH", "/api/labs/walk/links", {key: text})
                client.send("PATCH", "/api/labs/walk/links/hop0.down", {key: f"# wavebed pattern 1\n{text}"})
            quoted = quote(text, safe="")
            for target in (
                f"/api/labs/{quoted}",
                f"/api/labs/walk/events?every_ms={quoted}",
                f"/api/recordings/{quoted}",
            ):
                client.get(target)
            client.send("PATCH", f"/api/labs/walk/links/{quoted}", {"rate": "1mbit"})
            for action in ("seek", "speed", "loop", "set", text):
                client.send("POST", TIMELINE, {"action": action, "value": f"lift.rate={text}"})
                client.send("POST", TIMELINE, {"action": action, "value": text})
            client.send("POST", f"/api/labs/{quoted}/recordings", {"every_ms": 10})
            client.send("POST", "/api/labs/walk/recordings", {"every_ms": text})
        client.get("/api/labs")
    finally:
        counts[0] = False
    assert not file.exists()
    assert {event for event, _ in started} == {"subprocess.Popen"}, started
    assert {tuple(cast("list[str]", argv)) for _, argv in started} == {(find_core(), "list", "--json")}
    assert {request["do"] for request in lab.asked} <= {"set", "timeline", "show", "maps", "watch"}
