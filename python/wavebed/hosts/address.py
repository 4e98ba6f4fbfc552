"""Where a host of the backend ``hosts`` is: this machine, or one that ssh reaches."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from urllib.parse import urlsplit

from wavebed.config.problems import Problem, described
from wavebed.config.reader import reader

__all__ = ["LOCAL", "HostAddress", "host_address", "ssh_command"]

LOCAL = "local"
_SCHEME = "ssh"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*|[0-9A-Fa-f:]+")
_ALIVE_EVERY_S = 5
_ALIVE_TRIES = 3
_CONNECT_S = 10


@dataclass(frozen=True, slots=True)
class HostAddress:
    """A host: this machine, or one behind ssh.

    Parameters
    ----------
    name : str
        Its name or address for ssh, perhaps an alias of the user's configuration; empty: this machine.
    user : str
        The account; empty: that of the user's configuration.
    port : int or None
        The port of ssh; ``None``: that of the user's configuration.
    """

    name: str = ""
    user: str = ""
    port: int | None = None

    @property
    def is_local(self) -> bool:
        """Whether it is this machine."""
        return not self.name

    def __str__(self) -> str:
        if self.is_local:
            return LOCAL
        name = f"[{self.name}]" if ":" in self.name else self.name
        return f"ssh://{self.user + '@' if self.user else ''}{name}{'' if self.port is None else f':{self.port}'}"


@reader("ssh://[USER@]HOST[:PORT]|local", {"type": "string", "pattern": "^(local|ssh://.+)$"}, str)
def host_address(value: object) -> HostAddress:
    """Read ``local`` or an address of ssh."""
    wanted = 'write "local" or "ssh://USER@HOST:PORT"'
    if value == LOCAL:
        return HostAddress()
    if not isinstance(value, str):
        raise Problem(f"{described(value)} is not a host: {wanted}")
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise Problem(f"{described(value)} has no port from 1 to 65535: {wanted}") from None
    if parts.scheme != _SCHEME or parts.path not in ("", "/") or parts.query or parts.fragment or not parts.hostname:
        raise Problem(f"{described(value)} is not a host: {wanted}")
    if parts.password is not None:
        raise Problem("has a password: leave it out, ssh uses keys")
    if not _HOST.fullmatch(parts.hostname) or (parts.username and not _NAME.fullmatch(parts.username)):
        raise Problem(f"{described(value)} has a name that is none of a host or user: {wanted}")
    return HostAddress(parts.hostname, parts.username or "", port)


def ssh_command(address: HostAddress, script: str) -> list[str]:
    """Return the command that runs a script of the shell on a host.

    The variable ``WAVEBED_SSH`` replaces ``ssh``, with options, as ``GIT_SSH_COMMAND`` does for git. Everything else is
    the user's configuration of ssh.
    """
    program = shlex.split(os.environ.get("WAVEBED_SSH", "")) or ["ssh"]
    options = [
        "-T",
        "-C",
        "-oBatchMode=yes",
        f"-oConnectTimeout={_CONNECT_S}",
        f"-oServerAliveInterval={_ALIVE_EVERY_S}",
        f"-oServerAliveCountMax={_ALIVE_TRIES}",
    ]
    where = [f"-p{address.port}"] if address.port is not None else []
    account = [f"-l{address.user}"] if address.user else []
    return [*program, *options, *where, *account, "--", address.name, f"sh -c {shlex.quote(script)}"]
