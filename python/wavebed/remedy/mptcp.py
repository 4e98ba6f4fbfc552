"""Multipath TCP by the kernel (RFC 8684): the connections of workloads use both radios of the client.

The client's second radio becomes an endpoint for subflows. Programs that know TCP only open and accept MPTCP by the
library of mptcpize (`LD_PRELOAD`). The counters of the client's kernel say which connections did not use MPTCP.
"""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from typing import TYPE_CHECKING, Annotated, Self

from msgspec import Struct

from wavebed.config import values
from wavebed.config.table import Key
from wavebed.errors import MachineError
from wavebed.lab.limits import LIMITS
from wavebed.lab.protocol import Host
from wavebed.lab.tools import find
from wavebed.remedy.model import Remedy, RunningRemedy
from wavebed.remedy.program import said_on

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.lab.confine import Confined
    from wavebed.lab.protocol import Lab, Port, Process, Redirect

__all__ = ["Mptcp", "MptcpOptions", "fallback_problem", "read_counters"]

_PROGRAM = "mptcpize"
_PRELOAD = "LD_PRELOAD"
_COUNTERS = ("/proc/net/snmp", "/proc/net/netstat")
_FALLBACKS = (
    "MPCapableFallbackACK",
    "MPCapableFallbackSYNACK",
    "MPCapableSYNTXDrop",
    "MPFallbackTokenInit",
    "DSSCorruptionFallback",
    "MPCapableDataFallback",
    "MD5SigFallback",
    "DssFallback",
    "SimultConnectFallback",
    "InfiniteMapTx",
    "InfiniteMapRx",
)
"""Counters of connections that began as MPTCP and went on as TCP (``net/mptcp/mib.c`` of Linux 6.18)."""


class MptcpOptions(Struct, frozen=True, kw_only=True):
    """Its keys."""

    backup: Annotated[
        bool, Key(values.boolean, "use the second radio only while the first one does not deliver (RFC 8684, 3.3.8)")
    ] = False


class Mptcp(Remedy[MptcpOptions]):
    """Both radios for each connection."""

    kind = "mptcp"
    summary = (
        "Multipath TCP for the connections of all workloads, over the client's first and second radio"
        " (`[path.second-radio]`)."
    )
    options_type = MptcpOptions
    hosts = ("client",)
    programs = (_PROGRAM, "ip")

    def start(self, lab: Lab, host: str, log: Path) -> RunningRemedy:
        """Make the second radio an endpoint of MPTCP."""
        client = lab.host(host)
        library = _library()
        endpoints = _endpoints(_ip(client, "-json", "address", "show"))
        flags = ["subflow", "backup"] if self.options.backup else ["subflow"]
        for address, device in endpoints:
            _ip(client, "mptcp", "endpoint", "add", address, "dev", device, *flags)
        log.write_text(
            f"{_PRELOAD}={library}\n{_ip(client, 'mptcp', 'endpoint', 'show')}{_ip(client, 'mptcp', 'limits')}"
        )
        return _RunningMptcp(client, library, log)


class _RunningMptcp(RunningRemedy):
    def __init__(self, host: Host, library: str, log: Path) -> None:
        self._host = host
        self._library = library
        self._log = log

    def of_programs(self, host: Host) -> Host:
        return _MptcpHost(host, self._library)

    def stop(self) -> str:
        text = "".join(said_on(self._host, ["cat", file]) for file in _COUNTERS)
        counters = read_counters(text)
        kept = {name: count for name, count in counters.items() if count and name.startswith(("MPTcpExt", "Tcp."))}
        with self._log.open("a", encoding="utf-8") as log:
            log.writelines(f"{name} {count}\n" for name, count in kept.items())
        return fallback_problem(counters)


class _MptcpHost(Host):
    """A host whose programs open MPTCP sockets where they ask for TCP."""

    def __init__(self, host: Host, library: str) -> None:
        self._host = host
        self._library = library
        self.name = host.name
        self.clock = host.clock

    def of_workload(self, name: str) -> Self:
        """Return this host as one workload is to see it."""
        return type(self)(self._host.of_workload(name), self._library)

    def start(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        stdin: Redirect = subprocess.DEVNULL,
        stdout: Redirect = None,
        stderr: Redirect = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        confined: bool | Confined = False,
    ) -> Process:
        """Start a program with the library of mptcpize."""
        if env is None:
            env = {} if confined else os.environ
        env = {**env, _PRELOAD: " ".join(filter(None, (self._library, env.get(_PRELOAD, ""))))}
        return self._host.start(argv, stdin=stdin, stdout=stdout, stderr=stderr, env=env, cwd=cwd, confined=confined)

    def run(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        capture_output: bool = False,
        timeout: float | None = None,
        check: bool = False,
        input: str | None = None,  # noqa: A002 - as in subprocess.run
        confined: bool | Confined = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as it is: it sets up the host."""
        return self._host.run(
            argv, capture_output=capture_output, timeout=timeout, check=check, input=input, confined=confined
        )

    def open_ports(self) -> frozenset[Port]:
        """Return the open ports; the first subflow of an MPTCP socket listens as a TCP socket does."""
        return self._host.open_ports()


@cache
def _library() -> str:
    """Return the file of the library that makes TCP sockets MPTCP sockets."""
    argv = [find(_PROGRAM), "run", "printenv", _PRELOAD]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=LIMITS.answer_s)
    file = done.stdout.strip()
    if done.returncode != 0 or not file:
        raise MachineError(f"{_PROGRAM}: does not say which library it preloads: install another version")
    return file


def _endpoints(addresses: str) -> list[tuple[str, str]]:
    """Return the global addresses of all devices but the first one that has any, each with its device.

    Kernels with tunnels built in have devices without addresses in each namespace: ``sit0``, ``tunl0``.
    """
    found = [
        (address["local"], device["ifname"])
        for device in json.loads(addresses)
        for address in device["addr_info"]
        if address["scope"] == "global"
    ]
    return [(address, device) for address, device in found if device != found[0][1]]


def _ip(host: Host, *arguments: str) -> str:
    return said_on(host, ["ip", *arguments])


def read_counters(text: str) -> dict[str, int]:
    """Return the counters of ``/proc/net/snmp`` and ``/proc/net/netstat``, named ``Tcp.ActiveOpens``."""
    found: dict[str, int] = {}
    lines = text.splitlines()
    for names, numbers in zip(lines[::2], lines[1::2], strict=False):
        group = names.partition(":")[0]
        found.update(
            (f"{group}.{name}", int(number))
            for name, number in zip(names.split()[1:], numbers.split()[1:], strict=False)
        )
    return found


def fallback_problem(counters: Mapping[str, int]) -> str:
    """Return a line about connections of the client that did not use MPTCP; empty if all did.

    Parameters
    ----------
    counters : mapping
        Those of the client, by `read_counters`.
    """

    def of(name: str) -> int:
        return counters.get(f"MPTcpExt.{name}", 0)

    # Older kernels count requests for subflows only if they are answered.
    joins = of("MPJoinSynTx") if "MPTcpExt.MPJoinSynTx" in counters else of("MPJoinSynAckRx")
    opened = counters.get("Tcp.ActiveOpens", 0) - joins
    plain = opened - of("MPCapableSYNTX")
    if plain > 0:
        return f"{plain} of {opened} TCP connections of the client did not ask for MPTCP"
    fallbacks = {name: of(name) for name in _FALLBACKS if of(name)}
    if fallbacks:
        told = ", ".join(f"{name} {count}" for name, count in fallbacks.items())
        return f"MPTCP connections of the client fell back to TCP: {told}"
    return ""
