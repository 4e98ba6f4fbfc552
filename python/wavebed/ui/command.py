"""The laboratories that the page shows: all that ``wavebed ctl`` lists, or one of them.

They are this user's own. Root's page opens no laboratory of another user, who would choose its answers.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from wavebed.config.problems import at
from wavebed.config.values import name as read_name
from wavebed.errors import UserError
from wavebed.foreign import read_private
from wavebed.page import asset
from wavebed.secret import Secret
from wavebed.ui.api import description, find, routes
from wavebed.ui.events import Recordings
from wavebed.ui.guard import Guard, Labs, Reply, json_answer
from wavebed.ui.server import PageServer, listen_address

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wavebed.ui.guard import HttpRequest


class _File(NamedTuple):
    package: str
    name: str
    kind: str


_HTML, _CSS, _SCRIPT = "text/html; charset=utf-8", "text/css; charset=utf-8", "text/javascript; charset=utf-8"
_UI = "wavebed.ui"
FILES = {
    "/": _File(_UI, "page.html", _HTML),
    "/page.css": _File(_UI, "page.css", _CSS),
    "/page.js": _File(_UI, "page.js", _SCRIPT),
    "/charts.js": _File(_UI, "charts.js", _SCRIPT),
    "/devices.js": _File(_UI, "devices.js", _SCRIPT),
    "/faults.js": _File(_UI, "faults.js", _SCRIPT),
    "/feed.js": _File(_UI, "feed.js", _SCRIPT),
    "/format.js": _File(_UI, "format.js", _SCRIPT),
    "/kinds.js": _File(_UI, "kinds.js", _SCRIPT),
    "/layer.js": _File(_UI, "layer.js", _SCRIPT),
    "/links.js": _File(_UI, "links.js", _SCRIPT),
    "/map.js": _File(_UI, "map.js", _SCRIPT),
    "/recordings.js": _File(_UI, "recordings.js", _SCRIPT),
    "/store.js": _File(_UI, "store.js", _SCRIPT),
    "/timeline.js": _File(_UI, "timeline.js", _SCRIPT),
    "/uplot.css": _File("wavebed.page", "uplot/uPlot.min.css", _CSS),
    "/uplot.js": _File("wavebed.page", "uplot/uPlot.iife.min.js", _SCRIPT),
}
"""The files of the page, by path: nothing else is ever read. uPlot is the one that reports have in them."""


class App:
    """The page and the API of these laboratories and recordings."""

    def __init__(self, labs: Labs, recordings: Recordings) -> None:
        self.routes = routes(labs, recordings, self._description)
        self._files = {path: asset(file.name, file.package).encode() for path, file in FILES.items()}

    def serve(self, request: HttpRequest, guard: Guard) -> Reply:
        """Answer a request that the guard let pass.

        Raises
        ------
        RefusedError
            If there is nothing of this name, or it cannot be done.
        """
        if request.path in FILES and request.method in ("GET", "HEAD"):
            cookie = guard.cookie_for(request) if request.path == "/" else None
            headers = {} if cookie is None else {"Set-Cookie": cookie}
            return Reply(kind=FILES[request.path].kind, body=self._files[request.path], headers=headers)
        route, call = find(self.routes, request)
        return route.serve(call)

    def _description(self) -> Reply:
        return json_answer(description(self.routes))


_TOKEN = re.compile(r"[A-Za-z0-9._~-]{22,256}")
"""22 characters of 64 have 128 bits."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line said."""

    lab: str | None = None
    listen: str = "127.0.0.1:0"
    token_file: Path | None = None
    record_to: Path | None = None
    note: str = ""
    """What is printed below the address."""


@contextmanager
def serving(options: Options) -> Iterator[tuple[PageServer, Secret]]:
    """Listen, and stop every recording at the end.

    Raises
    ------
    UserError
        If an option is wrong.
    MachineError
        If it cannot listen there.
    """
    lab = None if options.lab is None else at("LAB", read_name, options.lab)
    address = listen_address(options.listen)
    token = Secret(secrets.token_urlsafe(32)) if options.token_file is None else token_of(options.token_file)
    recordings = Recordings(options.record_to)
    try:
        app = App(Labs(lab), recordings)
        with PageServer(address, app.serve, lambda host, port: Guard(host, port, token)) as server:
            yield server, token
    finally:
        recordings.close()


def serve(options: Options) -> None:
    """Serve until Ctrl-C, and print the address first."""
    with serving(options) as (server, token):
        if not ipaddress.ip_address(str(server.server_address[0]).partition("%")[0]).is_loopback:
            note = "is open to the network, and nothing is encrypted: use it on a network that is yours"
            print(f"wavebed: note: {options.listen} {note}", file=sys.stderr)
        if options.token_file is None:
            print(f"{server.origin}/?token={token.reveal()}", flush=True)
        else:
            print(f"{server.origin}/", flush=True)
            print(f"wavebed: the token is in {options.token_file}: add ?token=TOKEN", file=sys.stderr)
        if options.note:
            print(f"wavebed: {options.note}", file=sys.stderr)
        print("wavebed: Ctrl-C ends the page; the laboratories go on", file=sys.stderr)
        server.serve_forever(poll_interval=0.2)


def token_of(file: Path) -> Secret:
    """Return the token in a file that nobody else can read.

    Raises
    ------
    UserError
        If others own it or can read it, or it holds no token.
    """
    text = at("--token-file", lambda name: read_private(name, "name a file with a token", most=4096), file).strip()
    if not _TOKEN.fullmatch(text):
        raise UserError(
            f"--token-file: {str(file)!r}: holds no token of 22 to 256 letters, digits and - . _ ~:"
            " write one with `openssl rand -hex 16`"
        )
    return Secret(text)
