"""Serve the page: the options of ``wavebed ui``, the token, and the end."""

from __future__ import annotations

import ipaddress
import re
import secrets
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.config.problems import at
from wavebed.config.values import name as read_name
from wavebed.errors import UserError
from wavebed.foreign import read_private
from wavebed.secret import Secret
from wavebed.ui.app import App
from wavebed.ui.guard import Guard
from wavebed.ui.labs import Labs
from wavebed.ui.recordings import Recordings
from wavebed.ui.server import PageServer, listen_address

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Options", "serve", "serving", "token_of"]

_TOKEN = re.compile(r"[A-Za-z0-9._~-]{22,256}")
"""22 characters of 64 have 128 bits."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line said."""

    lab: str | None = None
    listen: str = "127.0.0.1:0"
    token_file: Path | None = None
    record_to: Path | None = None


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
