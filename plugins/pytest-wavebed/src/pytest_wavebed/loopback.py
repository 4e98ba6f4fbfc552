"""Loopback traffic of a test, carried by the path: servers live on the server, all other sockets on the client.

Test suites start a server in their own process, on 127.0.0.1 or ::1, and connect to it. While a `Loopback` is
installed, sockets that Python code makes for IPv4 and IPv6 are sockets of the two hosts, and loopback addresses stand
for the other host; the test sees loopback addresses in return. What does not go through `socket.socket` stays where it
is: other programs, and libraries with sockets of their own.

A TCP socket that is bound is on the server, unless it connects later; a UDP socket that is bound to a loopback address
or to a port. All others are on the client.
"""

from __future__ import annotations

import _socket
import fcntl
import os
import socket
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from pytest_wavebed.sockets import address_file, foreign_socket
from wavebed.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Loopback", "loopback_inside"]

Side: TypeAlias = Literal["server", "client"]
Addresses: TypeAlias = tuple[str, str]
"""IPv4 and IPv6."""

_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_OTHER: dict[Side, Side] = {"server": "client", "client": "server"}
_MAPPED = "::ffff:"
_DOTS = 3
_START_S = 30.0
_LOOK_S = 0.01
_WITH_ADDRESS = 3
"""Arguments of `sendmsg` after the data, if the address is one of them."""


class Loopback:
    """Gives sockets of two hosts to the Python code of this process.

    Parameters
    ----------
    server : pathlib.Path
        The file of `pytest_wavebed.sockets` on the server.
    client : pathlib.Path or None
        The same on the client; ``None``: this process runs on the client.
    server_addresses, client_addresses : tuple of str
        IPv4 and IPv6 addresses of the hosts.
    """

    def __init__(
        self, server: Path, client: Path | None, server_addresses: Addresses, client_addresses: Addresses
    ) -> None:
        self._files: dict[Side, Path | None] = {"server": server, "client": client}
        self._addresses: dict[Side, Addresses] = {"server": server_addresses, "client": client_addresses}
        self._sides: weakref.WeakKeyDictionary[socket.socket, Side] = weakref.WeakKeyDictionary()
        self._options: weakref.WeakKeyDictionary[socket.socket, list[tuple[Any, ...]]] = weakref.WeakKeyDictionary()
        self._own_methods: dict[str, object] = {}
        self._real: dict[str, Callable[..., Any]] = {}
        self.moved = 0
        """How many sockets were put on the server."""

    def install(self) -> None:
        """Take the place of the methods of `socket.socket`."""
        for name in ("__init__", "setsockopt", "bind", "connect", "connect_ex", "sendto", "sendmsg"):
            self._replace(name, getattr(self, f"_{name.strip('_')}"))
        for name in ("getsockname", "getpeername", "accept", "recvfrom", "recvfrom_into", "recvmsg"):
            self._replace(name, self._told_home)

    def remove(self) -> None:
        """Give the methods back."""
        for name, own in self._own_methods.items():
            if own is None:
                delattr(socket.socket, name)
            else:
                setattr(socket.socket, name, own)
        self._own_methods.clear()

    def _replace(self, name: str, method: Callable[..., object]) -> None:
        self._own_methods[name] = vars(socket.socket).get(name)
        real = self._real[name] = getattr(socket.socket, name)

        def replaced(sock: socket.socket, *args: Any, **kwargs: Any) -> object:
            return method(real, sock, *args, **kwargs)

        setattr(socket.socket, name, replaced)

    def _init(
        self,
        real: Callable[..., None],
        sock: socket.socket,
        family: int = -1,
        type: int = -1,  # noqa: A002 - as in socket.socket
        proto: int = -1,
        fileno: int | None = None,
    ) -> None:
        file = self._files["client"]
        if fileno is not None or family not in (-1, *_FAMILIES) or file is None:
            real(sock, family, type, proto, fileno)
            return
        family, kind = (socket.AF_INET if family == -1 else family), (socket.SOCK_STREAM if type == -1 else type)
        real(sock, family, kind, max(proto, 0), foreign_socket(file, family, kind, max(proto, 0)))

    def _setsockopt(self, real: Callable[..., None], sock: socket.socket, *args: Any) -> None:
        real(sock, *args)
        if sock.family in _FAMILIES:
            self._options.setdefault(sock, []).append(args)

    def _bind(self, real: Callable[..., None], sock: socket.socket, address: Any) -> None:
        if sock.family not in _FAMILIES:
            real(sock, address)
            return
        host, port, *rest = address
        if (sock.type == socket.SOCK_STREAM or _is_loopback(host) or port != 0) and self._side(sock) == "client":
            self._move(sock, "server")
        real(sock, (self._place(sock, host, self._side(sock)), port, *rest))

    def _connect(self, real: Callable[..., object], sock: socket.socket, address: Any) -> object:
        if sock.family not in _FAMILIES or not _is_loopback(address[0]):
            return real(sock, address)
        if self._sides.get(sock) == "server":  # it was bound, and is a client all the same
            port = self._real["getsockname"](sock)[1]
            self._move(sock, "client")
            own = self._place(sock, address[0], "client")  # another address may use the port
            self._real["bind"](sock, (own, port))
        return real(sock, self._to_other(sock, address))

    _connect_ex = _connect

    def _sendto(self, real: Callable[..., int], sock: socket.socket, data: Any, *args: Any) -> int:
        *flags, address = args
        return real(sock, data, *flags, self._to_other(sock, address))

    def _sendmsg(self, real: Callable[..., int], sock: socket.socket, buffers: Any, *args: Any) -> int:
        if len(args) < _WITH_ADDRESS or args[-1] is None:
            return real(sock, buffers, *args)
        return real(sock, buffers, *args[:-1], self._to_other(sock, args[-1]))

    def _told_home(self, real: Callable[..., object], sock: socket.socket, *args: Any) -> object:
        found = real(sock, *args)
        if sock.family not in _FAMILIES:
            return found
        if real in (self._real["getsockname"], self._real["getpeername"]):
            return self._home(found)
        assert isinstance(found, tuple), "a result and an address"
        return (*found[:-1], self._home(found[-1]))

    def _side(self, sock: socket.socket) -> Side:
        """Return the host on which a socket is; that of an accepted connection follows from its address."""
        if sock in self._sides:
            return self._sides[sock]
        host = str(self._real["getsockname"](sock)[0]).removeprefix(_MAPPED)
        return "server" if host in self._addresses["server"] else "client"

    def _move(self, sock: socket.socket, side: Side) -> None:
        """Put a new socket on the other host in the place of one that is not bound there."""
        file = self._files[side]
        if file is None:
            plain = _socket.socket(sock.family, sock.type, sock.proto)
            new = plain.detach()
        else:
            new = foreign_socket(file, sock.family, sock.type, sock.proto)
        descriptor = sock.fileno()
        try:
            fcntl.fcntl(new, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL))
            os.dup2(new, descriptor, inheritable=os.get_inheritable(descriptor))
        finally:
            os.close(new)
        for option in self._options.get(sock, ()):
            self._real["setsockopt"](sock, *option)
        self._sides[sock] = side
        self.moved += side == "server"

    def _to_other(self, sock: socket.socket, address: Any) -> Any:
        if sock.family not in _FAMILIES or not isinstance(address, tuple):
            return address
        host, *rest = address
        return (self._place(sock, host, _OTHER[self._side(sock)]), *rest)

    def _place(self, sock: socket.socket, host: str, side: Side) -> str:
        """Return the address of a host for a loopback address; others stay."""
        if not _is_loopback(host):
            return host
        v4, v6 = self._addresses[side]
        if sock.family == socket.AF_INET:
            return v4
        return f"{_MAPPED}{v4}" if host.startswith(_MAPPED) else v6

    def _home(self, address: Any) -> Any:
        """Return a loopback address for that of a host."""
        if not isinstance(address, tuple):
            return address
        host, *rest = address
        bare = str(host).removeprefix(_MAPPED)
        hosts = [*self._addresses["server"], *self._addresses["client"]]
        if bare not in hosts:
            return address
        return (f"{_MAPPED}127.0.0.1" if host != bare else "127.0.0.1" if "." in bare else "::1", *rest)


class Started(Protocol):
    """A program that has been started."""

    def poll(self) -> int | None:
        """Return its exit status; ``None`` if it runs."""


def loopback_inside() -> Loopback:
    """Return what carries the loopback traffic of this process, which runs on the client of a laboratory.

    Raises
    ------
    UserError
        If it does not, or nothing on the server makes sockets.
    """
    host = os.environ.get("WAVEBED_HOST", "server")
    if host in ("server", "edge"):  # a device of a cell is a client
        raise UserError(
            "--wavebed-loopback: runs on the client of a laboratory: write wavebed check … --server 'python -m"
            " pytest_wavebed.sockets' -- pytest --wavebed-loopback"
        )
    file = address_file("server")
    if not wait_for_file(file):
        raise UserError("--wavebed-loopback: nothing makes sockets: add --server 'python -m pytest_wavebed.sockets'")
    server = (os.environ["WAVEBED_SERVER"], os.environ["WAVEBED_SERVER6"])
    return Loopback(file, None, server, addresses_of_hosts(Path("/etc/hosts").read_text(encoding="utf-8"))[host])


def wait_for_file(file: Path, program: Started | None = None) -> bool:
    """Wait for the socket of a program that has been started, until the program ends; return whether it came."""
    end = time.monotonic() + _START_S
    while not file.exists() and time.monotonic() < end and (program is None or program.poll() is None):
        time.sleep(_LOOK_S)
    return file.exists()


def addresses_of_hosts(hosts_file: str) -> dict[str, Addresses]:
    """Return the addresses of each host, from the text of ``/etc/hosts`` inside a laboratory."""
    found: dict[str, list[str]] = {}
    for line in hosts_file.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        for name in names:
            found.setdefault(name, []).append(address)
    v4 = {name: [each for each in given if "." in each] for name, given in found.items()}
    v6 = {name: [each for each in given if ":" in each] for name, given in found.items()}
    return {name: (v4[name][0], v6[name][0]) for name in found if v4[name] and v6[name]}


def _is_loopback(host: object) -> bool:
    if not isinstance(host, str):
        return False
    bare = host.removeprefix(_MAPPED)
    return bare in ("localhost", "::1") or (bare.startswith("127.") and bare.count(".") == _DOTS)
