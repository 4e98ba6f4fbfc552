"""Put the network namespace of the caller behind a path: its addresses and routes move to an interface behind links."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from wavebed.errors import UserError, WavebedError
from wavebed.path.attach import asked, default_interface, interfaces, ip

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

INSIDE, PORT = "wb0", "wb0-port"
"""The interface that programs use, and its other end, a port of the bridge."""
FOREVER = 2**32 - 1
"""Seconds of an address that does not expire."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_NOT_TYPED = re.compile(r" (?:linkdown|dead|expires \d+sec)\b")
"""What `ip route show` prints and `ip route add` does not take."""


class Outward(Struct, frozen=True):
    """The interface of a namespace towards its network, with its addresses and routes.

    Parameters
    ----------
    address_mode : str
        How the kernel makes up its IPv6 addresses; empty without IPv6.
    """

    name: str
    mac: str
    mtu: int
    addresses: tuple[str, ...]
    routes: tuple[str, ...]
    address_mode: str = ""


def outward(wanted: str | None) -> Outward:
    """Return the interface towards the network.

    Parameters
    ----------
    wanted : str or None
        Its name; by default the one of the default route.

    Raises
    ------
    UserError
        If there is none of Ethernet, or a gateway runs here already.
    """
    links = {str(link["ifname"]): link for link in interfaces()}
    if INSIDE in links:
        raise UserError(f"{INSIDE} is here already: one gateway runs in each network namespace")
    name = wanted or default_interface("gateway")
    if name not in links:
        raise UserError(f"--interface: there is no {name!r}: `ip link` lists them")
    link = links[name]
    if link.get("link_type") != "ether":
        raise UserError(f"--interface: {name} is no Ethernet interface: name another one")
    shown = asked(["-j", "address", "show", "dev", name])
    addresses = [found for each in shown for found in each.get("addr_info", ()) if found.get("local")]
    routes = [
        (family, line)
        for family in ("-4", "-6")
        for line in ip([family, "route", "show", "table", "all", "dev", name]).splitlines()
        if "proto kernel" not in line and "table local" not in line
    ]
    # A gateway is reached by a route that must be there first.
    routes.sort(key=lambda route: " via " in route[1])
    return Outward(
        name=name,
        mac=str(link["address"]),
        mtu=int(link["mtu"]),
        addresses=tuple(_typed(address) for address in addresses),
        routes=tuple(f"{family} {_NOT_TYPED.sub('', line).strip()}" for family, line in routes),
        address_mode=str(link.get("inet6_addr_gen_mode", "")),
    )


def _typed(address: dict[str, Any]) -> str:
    words = [f"{address['local']}/{address['prefixlen']}"]
    if "broadcast" in address:
        words += ["broadcast", str(address["broadcast"])]
    words += ["scope", str(address["scope"])]
    if address["family"] == "inet6":
        words.append("nodad")
    if address.get("valid_life_time", FOREVER) < FOREVER:
        words += ["valid_lft", str(address["valid_life_time"]), "preferred_lft", str(address["preferred_life_time"])]
    return " ".join(words)


def _move(interface: Outward) -> None:
    """Move addresses and routes behind the links."""
    name, mtu = interface.name, interface.mtu
    ip(
        [
            "link",
            "add",
            INSIDE,
            "mtu",
            str(mtu),
            "address",
            interface.mac,
            "type",
            "veth",
            "peer",
            PORT,
            "mtu",
            str(mtu),
        ]
    )
    # Without these no address would be made up for a port.
    for port in (PORT, name):
        with suppress(WavebedError):  # a kernel without IPv6
            ip(["link", "set", port, "addrgenmode", "none"])
    ip(["link", "set", PORT, "up"])
    ip(["link", "set", INSIDE, "up"])
    ip(["address", "flush", "dev", name])
    for words, given in _giving(INSIDE, interface):
        ip(words, given=given)


def _move_back(interface: Outward) -> None:
    """Remove the veth pair, and give the interface its addresses and routes again."""
    with suppress(WavebedError):
        ip(["link", "delete", INSIDE])
    if interface.address_mode:
        with suppress(WavebedError):
            ip(["link", "set", interface.name, "addrgenmode", interface.address_mode])
    for words, given in _giving(interface.name, interface):
        with suppress(WavebedError):  # the interface may have gone; one that fails must not cost the others
            ip(words, given=given)


def _giving(name: str, interface: Outward) -> Iterator[tuple[list[str], str]]:
    """Yield what gives an interface the addresses and the routes: words for `ip`, and its input."""
    lines = [f"address replace {address} dev {name}" for address in interface.addresses]
    yield ["-force", "-batch", "-"], "\n".join(lines) + "\n"
    for route in interface.routes:
        family, _, line = route.partition(" ")
        yield [family, "route", "replace", *line.split(), "dev", name], ""


def run_behind(interface: Outward, core: Sequence[str]) -> int:
    """Run a bridge between the interface and the programs of this namespace; return its exit status.

    A process of its own moves the addresses, runs the bridge and moves the addresses back, also if this one is killed.
    If that one is killed, this one moves them back: the bridge ends with its port.

    Parameters
    ----------
    core : sequence of str
        The command of the bridge, from `interface` to `PORT`.
    """
    ending, ask = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    guard = os.fork()
    if guard == 0:
        status = 1
        with suppress(BaseException):
            os.close(ask)
            os.setsid()
            status = _guard(interface, core, ending)
        os._exit(status)
    os.close(ending)

    def pass_on(number: int, _frame: FrameType | None) -> None:
        with suppress(OSError):
            os.write(ask, bytes([number]))

    for number in _ENDING:
        signal.signal(number, pass_on)
    _, state = os.waitpid(guard, 0)
    if os.WIFSIGNALED(state):
        _move_back(interface)
    return os.waitstatus_to_exitcode(state)


def _guard(interface: Outward, core: Sequence[str], ending: int) -> int:
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    try:
        _move(interface)
        return _bridge(core, ending)
    except WavebedError as error:
        print(f"wavebed gateway: {error}", file=sys.stderr, flush=True)
        return error.exit_status
    finally:
        _move_back(interface)


def _bridge(core: Sequence[str], ending: int) -> int:
    """Run the bridge until it ends, and pass on the signals that come through `ending`."""
    process = subprocess.Popen(core, close_fds=False)
    ended = os.pidfd_open(process.pid)
    watched = [ended, ending]
    while process.poll() is None:
        ready, _, _ = select.select(watched, [], [])
        if ending in ready:
            number = os.read(ending, 1)
            if not number:  # the process above was killed
                watched = [ended]
            process.send_signal(number[0] if number else signal.SIGTERM)
    return process.returncode
