"""The laboratory of real hosts."""

from __future__ import annotations

import ipaddress
import socket
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Self, cast

from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.hosts.address import host_address
from wavebed.hosts.clocks import ClockSteppedError
from wavebed.hosts.host import AgentHost
from wavebed.hosts.samples import merge_samples
from wavebed.lab.clock import MachineClock
from wavebed.lab.errors import LaboratoryGoneError, LaboratoryHungError
from wavebed.lab.limits import LIMITS, Limits
from wavebed.lab.protocol import Lab
from wavebed.lab.tools import cache_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from wavebed.config.data import Json
    from wavebed.spec.lab import HostsLab

__all__ = ["RealHosts"]

_CLOCK_EVERY_S = 1.0
_CLOCK_FIRST = 8
"""Questions for the clock before a trial: the shortest round trip of them bounds it best."""
_FLOWS_NS = 10_000_000
_CPU_NS = 100_000_000
_NAMES = ("server", "client")


class RealHosts(Lab):
    """Two real hosts; leave the ``with`` block, and everything of the trial on them ends.

    Parameters
    ----------
    spec : HostsLab
        Where they are.
    log : pathlib.Path
        Folder for the samples of connections and processors.
    limits : Limits
        How long answers and the end may take.
    programs : mapping
        The programs that each host has to have.

    Raises
    ------
    UserError
        If the server has no address.
    MachineError
        If a host cannot be reached, cannot run programs, or lacks one.
    """

    def __init__(
        self,
        spec: HostsLab,
        log: Path,
        limits: Limits = LIMITS,
        programs: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        self.clock = MachineClock()
        self.messages = ""
        self.summary: dict[str, Json] | None = None
        self._spec = spec
        self._log = log
        self._limits = limits
        self._problem = ""
        self._said: dict[str, dict[str, Json]] = {}
        self._begun: dict[str, dict[str, Json]] = {}
        self._over = threading.Event()
        self._asking: threading.Thread | None = None
        self._hosts: dict[str, AgentHost] = {}
        address = _server_address(spec)
        # Files of a trial are in its folder, in the cache, or in the folder for temporary files.
        memory = [log.parent, cache_folder(), Path(tempfile.gettempdir())]
        try:
            for name, where in zip(_NAMES, (spec.server, spec.client), strict=True):
                self._hosts[name] = AgentHost(name, host_address(where), self.clock, memory)
            for name, host in self._hosts.items():
                self._said[name] = host.hello({"server": address})
                host.require(programs.get(name, ()))
            self._address = self._hosts["server"].only_address = address
            self._hosts["client"].only_address = cast("str", self._towards("client")["address"])
            for host in self._hosts.values():
                for _ in range(_CLOCK_FIRST):
                    host.agent.ask_clock(limits.answer_s)
        except BaseException:
            self._close(limits.interrupted_s)
            raise

    @property
    def problem(self) -> str:
        """The fault of a host or of its connection: one line, or nothing."""
        gone = (host.agent.why for host in self._hosts.values() if not host.agent.is_alive and not self._over.is_set())
        return self._problem or next(gone, "")

    def host(self, name: str) -> AgentHost:
        """Return a host by its name."""
        if name not in self._hosts:
            raise UserError(f'{name}: with backend = "hosts" there are server and client only')
        return self._hosts[name]

    def begin(self) -> int:
        """Begin the time of the trial; connections and processors are sampled from now on."""
        zero_ns = time.monotonic_ns()
        self.clock.begin(zero_ns)
        for name in reversed(_NAMES):  # the server's interface is that towards the client's address
            self._begun[name] = self._towards(name)
        for name, host in self._hosts.items():
            try:
                ahead_ns, _ = host.agent.monotonic.at(zero_ns)
            except ClockSteppedError:
                raise MachineError(f"{name}: its monotonic clock is not: its samples would have no time") from None
            host.agent.ask(
                {
                    "do": "sample",
                    "folder": str(self._log),
                    "host": name,
                    "zero_ns": zero_ns + ahead_ns,
                    "flows_ns": _FLOWS_NS,
                    "cpu_ns": _CPU_NS,
                }
            )
        self._asking = threading.Thread(target=self._ask_clocks, name="clocks of the hosts", daemon=True)
        self._asking.start()
        return zero_ns

    def _towards(self, name: str) -> dict[str, Json]:
        """Return the interface of a host towards the other, and its counters."""
        if name == "client":
            return self._hosts[name].agent.ask({"do": "towards", "address": self._address})
        with suppress(UserError):  # behind NAT, the server has no route to the client's own address
            return self._hosts[name].agent.ask({"do": "towards", "address": self._begun["client"]["address"]})
        return {}

    def _ask_clocks(self) -> None:
        while not self._over.wait(_CLOCK_EVERY_S):
            for host in self._hosts.values():
                with suppress(LaboratoryGoneError, LaboratoryHungError, UserError):
                    host.agent.ask_clock(self._limits.answer_s)

    def show(self) -> dict[str, Json]:
        """Return the counters of the client's interface; every agent must answer.

        Raises
        ------
        LaboratoryGoneError, LaboratoryHungError
            If one has ended or does not answer; a hanging one is cut off.
        """
        for host in self._hosts.values():
            try:
                host.agent.ask_clock(self._limits.stop_s)
            except LaboratoryHungError as error:
                host.agent.kill(str(error))
                raise
        now = self._towards("client")
        limit = self._spec.data_limit_bytes
        if limit is not None and "client" in self._begun and _carried(self._begun["client"], now) > limit:
            raise WavebedError(f"the trial carried more than {limit} bytes, the limit of lab.data-limit")
        return {"client": now}

    def set(self, **changes: str) -> None:
        """Refuse changes: the network is not ours."""
        raise UserError(f'{next(iter(changes), "set")}: with backend = "hosts" the network is not ours to change')

    def is_alive(self) -> bool:
        """Return whether both agents still answer."""
        return all(host.agent.is_alive for host in self._hosts.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        interrupted = kind is not None and not issubclass(kind, Exception)
        if not interrupted:
            self._bring_in()
        self._close(self._limits.interrupted_s if interrupted else self._limits.answer_s)

    def _bring_in(self) -> None:
        """Get the files of programs and the samples of both hosts, and make the summary."""
        ended = {}
        with tempfile.TemporaryDirectory(prefix="wavebed-samples-") as folder:
            for name, host in self._hosts.items():
                here = Path(folder) / name
                try:
                    ended[name] = self._towards(name)
                    host.agent.ask_clock(self._limits.answer_s)
                    host.fetch_written(self._limits.stop_s)
                    if self._begun:
                        host.agent.ask({"do": "stop_sampling"}, limit_s=self._limits.answer_s)
                        host.fetch(self._log, here, self._limits.stop_s)
                except WavebedError as error:
                    self._problem = self._problem or str(error)
            self._log.mkdir(parents=True, exist_ok=True)
            merge_samples({name: Path(folder) / name for name in self._hosts}, self._log)
        self.summary = self._summary(ended)

    def _summary(self, ended: dict[str, dict[str, Json]]) -> dict[str, Json]:
        hosts: list[Json] = []
        for name, host in self._hosts.items():
            begun = self._begun.get(name, {})
            entry: dict[str, Json] = {"name": name, "where": str(host.address), **self._said.get(name, {})}
            entry.pop("id", None)
            entry["interface"] = begun.get("interface")
            entry["address"] = begun.get("address")
            entry["address_at_end"] = ended.get(name, {}).get("address")
            for key in ("rx_bytes", "tx_bytes", "rx_dropped", "tx_dropped"):
                entry[key] = _grown(begun, ended.get(name, {}), key)
            if self._begun:
                offset = host.clock_offset(self.clock.now_s())
                entry["clock_ahead_s"] = None if offset is None else offset.ahead_s
                entry["clock_error_s"] = None if offset is None else offset.error_s
            hosts.append(entry)
        return {"backend": "hosts", "server_address": self._address, "hosts": hosts}

    def _close(self, limit_s: float) -> None:
        self._over.set()
        with ExitStack() as stack:
            for host in self._hosts.values():
                stack.callback(host.close, limit_s)


def _server_address(spec: HostsLab) -> str:
    """Return the server's address over the network under test.

    Raises
    ------
    UserError
        If its name has none.
    """
    where = host_address(spec.server)
    name = spec.server_address or where.name
    if not name:
        raise UserError('lab.server-address: is missing: the server is "local", and the client needs its address')
    with suppress(ValueError):
        return str(ipaddress.ip_address(name))
    try:
        found = socket.getaddrinfo(name, None, family=socket.AF_INET, type=socket.SOCK_STREAM)
    except OSError:
        raise UserError(f"lab.server-address: {name!r} has no IPv4 address here: write the address") from None
    return cast("str", found[0][4][0])


def _carried(begun: dict[str, Json], now: dict[str, Json]) -> int:
    return sum(_grown(begun, now, key) or 0 for key in ("rx_bytes", "tx_bytes"))


def _grown(begun: dict[str, Json], now: dict[str, Json], key: str) -> int | None:
    first, last = begun.get(key), now.get(key)
    return last - first if isinstance(first, int) and isinstance(last, int) else None
