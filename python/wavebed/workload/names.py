"""How clients find the addresses of servers: the key `names` of workloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from wavebed.config import values
from wavebed.config.table import Key
from wavebed.lab.tools import Program

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NAMES", "RESOLVER_PROGRAMS", "Names", "chromium_arguments", "resolver_needed"]

Names: TypeAlias = Literal["mapped", "resolver"]

NAMES = Key(
    values.word("mapped", "resolver"),
    "resolver: the client asks a DNS server, over the path; mapped: it knows the addresses",
)

RESOLVER_PROGRAMS = tuple(Program(name, "names", ("resolver",)) for name in ("dnsmasq", "unshare"))
"""The programs of a workload that has a resolver."""

_NAMES_OF_CHROMIUM = ("accounts.google.com", "update.googleapis.com")
"""Chromium asks for them by itself, before and beside pages."""


def resolver_needed(names: Names) -> str:
    """Return what a workload needs that real hosts do not have, and what to write instead; perhaps nothing."""
    return 'a DNS server of its own: write names = "mapped"' if names == "resolver" else ""


def chromium_arguments(names: Names, addresses: Mapping[str, str]) -> list[str]:
    """Return Chromium's arguments for the addresses of names.

    Parameters
    ----------
    names : str
        ``mapped``: other names fail at once. ``resolver``: all names are asked for, but those of Chromium itself.
    addresses : mapping
        The IPv4 address of each name of the site, perhaps with a port that replaces that of the URL.
    """
    if names == "mapped":
        rules = [*(f"MAP {name} {address}" for name, address in addresses.items()), "MAP * ~NOTFOUND"]
    else:
        rules = [f"MAP {name} ~NOTFOUND" for name in _NAMES_OF_CHROMIUM if name not in addresses]
    return [f"--host-resolver-rules={', '.join(rules)}"]
