"""Find a running container or namespace, and the port of a Linux bridge of this machine to which it is cabled."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import struct
import subprocess
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from wavebed.errors import MachineError, UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = "/run/netns"
"""Where iproute2 keeps names of network namespaces."""
ENGINES = ("podman", "docker")
WITHIN_S = 20.0
"""An engine that starts with its first question takes seconds."""
_GET_NAMESPACE_ID, _NAMESPACE_DESCRIPTOR, _NAMESPACE_ID = 90, 3, 1
"""`RTM_GETNSID`, `NETNSA_FD`, `NETNSA_NSID`."""


class AttachTarget(Struct, frozen=True):
    """A network namespace, as an option named it.

    Parameters
    ----------
    option, named : str
        The option and its value, for messages.
    path : str
        Leads to the namespace.
    """

    option: str
    named: str
    path: str

    @property
    def inside(self) -> str:
        """The command that puts the path into the namespace itself."""
        return f"nsenter --net={shlex.quote(self.path)} wavebed gateway"


class Cable(Struct, frozen=True):
    """The cable of a namespace: its own interface, and the other end on a bridge of this machine."""

    interface: str
    mac: str
    mtu: int
    index: int
    port: str
    switch: str


def by_path(value: str) -> AttachTarget:
    """Return the namespace at a path, or the one that `ip netns` lists by this name."""
    return AttachTarget("--netns", value, value if "/" in value else f"{NAMES}/{value}")


def by_pid(value: str) -> AttachTarget:
    """Return the namespace of a process.

    Raises
    ------
    UserError
        If this is no number of a process.
    """
    if not value.isascii() or not value.isdecimal():
        raise UserError(f"--pid: {value!r} is no number of a process: `ps` lists them")
    return AttachTarget("--pid", value, f"/proc/{value}/ns/net")


def by_container(value: str) -> AttachTarget:
    """Return the namespace of a container of podman or Docker.

    Raises
    ------
    UserError
        If no engine runs such a container, or both do.
    """
    engines = [engine for engine in ENGINES if shutil.which(engine)]
    if not engines:
        raise UserError("--container: neither podman nor docker is here: name the container's process with --pid")
    found = {engine: pid for engine in engines if (pid := _pid_of(engine, value))}
    if not found:
        lists = " or ".join(f"`{engine} ps`" for engine in engines)
        raise UserError(f"--container: no container {value!r} runs: {lists} shows those that run")
    if len(found) > 1:
        pids = ", ".join(f"{engine}: {pid}" for engine, pid in found.items())
        raise UserError(f"--container: {value!r} is a container of two engines: choose by --pid ({pids})")
    (pid,) = found.values()
    return AttachTarget("--container", value, f"/proc/{pid}/ns/net")


def _pid_of(engine: str, name: str) -> int:
    """Return the process of a running container; 0 if there is none."""
    command = [engine, "inspect", "--type", "container", "--format", "{{.State.Pid}}", "--", name]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=WITHIN_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    said = done.stdout.strip()
    return int(said) if done.returncode == 0 and said.isdecimal() else 0


def find_cable(target: AttachTarget, wanted: str | None) -> Cable:
    """Return the cable of a namespace.

    Parameters
    ----------
    wanted : str or None
        The interface inside; by default the one of the default route.

    Raises
    ------
    UserError
        If there is no such namespace, or it is no container behind a bridge of this machine.
    MachineError
        If this user may not look into it.
    """
    where = f"{target.option}: {target.named}"
    try:
        namespace = os.open(target.path, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        raise MachineError(f"{where}: requires root: sudo wavebed attach …") from None
    except OSError as error:
        raise UserError(f"{where}: no network namespace: {(error.strerror or 'cannot be opened').lower()}") from None
    try:
        if os.fstat(namespace).st_ino == os.stat("/proc/self/ns/net").st_ino:  # noqa: PTH116 - a link of the kernel
            raise UserError(
                f"{where}: is the network of this machine itself: name a container with a network of its own"
            )
        links = {str(link["ifname"]): link for link in interfaces(target.path)}
        name = wanted or default_interface(where, target.path)
        if name not in links:
            raise UserError(f"--interface: {where} has no interface {name!r}: it has {', '.join(sorted(links))}")
        own = links[name]
        instead = f"run the path inside: {target.inside}"
        if _kind(own) != "veth":
            raise UserError(f"{where}: {name} is no end of a veth pair: {instead}")
        here = interfaces()
        port = _other_end(own, here, _namespace_id(namespace))
    finally:
        os.close(namespace)
    if port is None:
        raise UserError(f"{where}: the other end of {name} is in another namespace: {instead}")
    switch = next((link for link in here if link["ifname"] == port.get("master") and _kind(link) == "bridge"), None)
    if switch is None:
        raise UserError(f"{where}: the other end of {name}, {port['ifname']}, is on no Linux bridge: {instead}")
    return Cable(
        interface=name,
        mac=str(own["address"]),
        mtu=int(own["mtu"]),
        index=int(port["ifindex"]),
        port=str(port["ifname"]),
        switch=str(switch["ifname"]),
    )


def _kind(link: dict[str, Any]) -> str:
    kind: str = link.get("linkinfo", {}).get("info_kind", "")
    return kind


def _other_end(own: dict[str, Any], here: list[dict[str, Any]], namespace_id: int) -> dict[str, Any] | None:
    """Return the interface of this machine that is the other end of a veth, or ``None``.

    Numbers of interfaces are unique in their namespace only, so each end must name the other, and the namespace.
    """
    for link in here:
        names_each_other = link["ifindex"] == own.get("link_index") and link.get("link_index") == own["ifindex"]
        if names_each_other and _kind(link) == "veth" and link.get("link_netnsid") == namespace_id:
            return link
    return None


def _namespace_id(namespace: int) -> int:
    """Return the number of a descriptor's namespace in this namespace; -1 without one."""
    attribute = struct.pack("=HHi", 8, _NAMESPACE_DESCRIPTOR, namespace)
    body = struct.pack("=B3x", 0) + attribute
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as netlink:
        netlink.settimeout(WITHIN_S)
        netlink.bind((0, 0))
        netlink.send(struct.pack("=IHHII", 16 + len(body), _GET_NAMESPACE_ID, 1, 1, 0) + body)
        answer = netlink.recv(1 << 16)
    at = 16 + 4
    while at + 8 <= len(answer):
        length, kind, value = struct.unpack_from("=HHi", answer, at)
        if kind == _NAMESPACE_ID:
            return int(value)
        at += max(4, (length + 3) & ~3)
    return -1


def default_interface(where: str, path: str | None = None) -> str:
    """Return the interface of the default route.

    Raises
    ------
    UserError
        If there is none, and more than one interface.
    """
    for family in ("-4", "-6"):
        for route in asked([family, "-j", "route", "show", "default"], path):
            if "dev" in route:
                return str(route["dev"])
    others = [str(link["ifname"]) for link in interfaces(path) if "LOOPBACK" not in link["flags"]]
    if len(others) == 1:
        return others[0]
    names = ", ".join(others) or "none"
    raise UserError(f"{where}: has no default route: name an interface with --interface ({names})")


def interfaces(path: str | None = None) -> list[dict[str, Any]]:
    """Return the interfaces of a namespace, this one by default, as `ip -d -j link` prints them."""
    return asked(["-d", "-j", "link", "show"], path)


def asked(words: Sequence[str], path: str | None = None) -> list[dict[str, Any]]:
    """Return the JSON that `ip` prints in a namespace, this one by default."""
    said = ip(words, path)
    try:
        # Whoever owns the namespace names its interfaces: control characters come as they are.
        found: list[dict[str, Any]] = json.loads(said or "[]", strict=False)
    except ValueError:
        raise MachineError(f"ip {shlex.join(words)}: printed no JSON: rename interfaces with odd names") from None
    return [each for each in found if each]


def ip(words: Sequence[str], path: str | None = None, given: str = "") -> str:
    """Run `ip` in a namespace, this one by default, and return what it prints.

    Raises
    ------
    MachineError
        If it fails.
    """
    inside = [] if path is None else ["nsenter", f"--net={path}"]
    command = [*inside, "ip", *words]
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, errors="replace", check=False, timeout=WITHIN_S
        )
    except FileNotFoundError as error:
        raise MachineError(f"{error.filename} is missing: apt install iproute2 util-linux") from None
    except subprocess.TimeoutExpired:
        raise MachineError(f"{shlex.join(command)}: no answer within {WITHIN_S:g} s") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise MachineError(f"{shlex.join(command)}: {said[0] if said else 'failed'}: root (CAP_NET_ADMIN) may")
    return done.stdout
