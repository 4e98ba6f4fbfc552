"""Round-trip times of the idle path before and after a trial: a change of them is a sign of cross traffic."""

from __future__ import annotations

import ipaddress
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Self, cast

from wavebed.config.units import format_size
from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.hosts.agent import SILENT_S, ClockSteppedError, host_address
from wavebed.hosts.host import AgentHost
from wavebed.hosts.live import Answers, HostsState, LiveTrial
from wavebed.hosts.samples import NONE, HostLoad, ModemSamples, load_of, merge_samples
from wavebed.lab.protocol import (
    LIMITS,
    WORKLOAD_PORTS,
    Lab,
    LaboratoryGoneError,
    LaboratoryHungError,
    Limits,
    MachineClock,
)
from wavebed.lab.tools import cache_folder
from wavebed.stranger import StrangerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from wavebed.config.data import Json
    from wavebed.spec.trial import HostsLab


PINGS = 20
_DRAINING = 10
"""Pings after a trial that are left out, in which queues of its load may drain."""
_INTERVAL_S = 0.05
_WAIT_S = 2
_TIME = re.compile(r"time=([0-9]{1,9}(?:\.[0-9]{1,9})?) ms")


def idle_rtts_ms(client: AgentHost, address: str, *, after: bool) -> list[float]:
    """Return the round-trip times of `PINGS` pings, ms; fewer if some were lost, none without ping or answers.

    Raises
    ------
    LaboratoryGoneError, LaboratoryHungError
        If the client's agent has ended or does not answer.
    """
    count = PINGS + (_DRAINING if after else 0)
    limit_s = count * _INTERVAL_S + _WAIT_S
    argv = ["ping", "-4", "-n", "-i", str(_INTERVAL_S), "-c", str(count), "-w", str(round(limit_s)), address]
    with suppress(subprocess.TimeoutExpired):
        try:
            told = client.run(argv, capture_output=True, timeout=limit_s + _WAIT_S, confined=True).stdout
        except WavebedError:
            if not client.agent.is_alive:
                raise
            return []  # there is no ping
        return [float(each) for each in _TIME.findall(told)][-PINGS:]
    return []


_CLOCK_EVERY_S = 1.0
_CLOCK_FIRST = 8
"""Questions for the clock before a trial: the shortest round trip of them bounds it best."""
_GRACE_S = 6.0
"""What a silent or stopped agent takes to end beyond `SILENT_S`."""
_LOOK_S = 0.3
_DOTS = 3
_FLOWS_NS = 10_000_000
_CPU_NS = 100_000_000
_NAMES = ("server", "client")
_COUNTERS = ("rx_bytes", "tx_bytes", "rx_dropped", "tx_dropped")


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
    after_break : bool
        Whether a trial before this one may have lost its connection, so that its programs may run for a while yet.

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
        *,
        after_break: bool = False,
    ) -> None:
        self.name = f"hosts-{secrets.token_hex(3)}"
        """As `wavebed ctl` lists it, once its time has begun."""
        self.clock = MachineClock()
        self.messages = ""
        self.summary: dict[str, Json] | None = None
        self._spec = spec
        self._log = log
        self._limits = limits
        self._problem = ""
        self._said: dict[str, dict[str, Json]] = {}
        self._begun: dict[str, dict[str, Json]] = {}
        self._is_over_limit = False
        self._modem: ModemSamples | None = None
        self._idle: dict[str, list[float]] = {}
        self._load: dict[str, HostLoad] = {}
        self._over = threading.Event()
        self._asking: threading.Thread | None = None
        self._live: LiveTrial | None = None
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
            if after_break:
                self._wait_for_ports()
            self._set_congestion_controls()
            for host in self._hosts.values():
                for _ in range(_CLOCK_FIRST):
                    host.agent.ask_clock(limits.answer_s)
        except BaseException:
            self._close(limits.interrupted_s)
            raise

    def _wait_for_ports(self) -> None:
        """Wait until the programs of an agent that lost its connection have ended; what still runs then is others'."""
        end_s = time.monotonic() + SILENT_S + _GRACE_S
        for host in self._hosts.values():
            while any(port in WORKLOAD_PORTS for _, port in host.open_ports()) and time.monotonic() < end_s:
                time.sleep(_LOOK_S)

    def _set_congestion_controls(self) -> None:
        """Give each host's connections to the other a congestion control; its agent restores the route at its end."""
        spec = self._spec
        controls: dict[str, tuple[Json, str]] = {}
        if spec.client_congestion_control is not None:
            controls["client"] = (self._address, spec.client_congestion_control)
        if spec.server_congestion_control is not None:
            towards = self._towards("client")["address"]
            seen = self._said["server"].get("reached_from")
            # Behind NAT the server knows the client by another address, where ssh comes from if it goes the same way.
            if spec.server_address is None and self._hosts["client"].address.is_local and _is_ipv4(seen):
                towards = seen
            controls["server"] = (towards, spec.server_congestion_control)
        for name, (address, control) in controls.items():
            self._hosts[name].agent.ask({"do": "congestion", "address": address, "algorithm": control})

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
        self._idle["before"] = idle_rtts_ms(self._hosts["client"], self._address, after=False)
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
        if self._spec.modem != NONE:
            file = self._log.parent / "raw" / "modem.txt"
            self._modem = ModemSamples(self._hosts["client"], self._spec.modem, file)
        self._asking = threading.Thread(target=self._ask_clocks, name="clocks of the hosts", daemon=True)
        self._asking.start()
        self._live = LiveTrial(Answers(self.name, zero_ns, lambda: self._look(zero_ns)))
        return zero_ns

    def _look(self, zero_ns: int) -> HostsState:
        """Return what both hosts say now, for those who watch the trial."""
        now = {name: self._towards(name) for name in _NAMES}
        ports: dict[str, Json] = {"do": "flows", "least": WORKLOAD_PORTS[0], "most": WORKLOAD_PORTS[-1]}
        flows = self._hosts["server"].agent.ask(ports)
        grown = {name: {key: _grown(self._begun.get(name, {}), now[name], key) for key in _COUNTERS} for name in _NAMES}
        hosts: list[Json] = []
        for name, host in self._hosts.items():
            offset = host.clock_offset(self.clock.now_s())
            ipv4 = self._address if name == "server" else now[name].get("address")
            entry: dict[str, Json] = {"name": name, "ipv4": ipv4, "ipv6": None, "interface": now[name].get("interface")}
            if offset is not None:
                entry |= {"clock_ahead_ms": offset.ahead_s * 1000, "clock_error_ms": offset.error_s * 1000}
            hosts.append(entry)
        flows = {key: flows[key] for key in ("count", "max_rtt_us")}
        return HostsState(time.monotonic_ns() - zero_ns, grown, flows, hosts)

    def _towards(self, name: str) -> dict[str, Json]:
        """Return the interface of a host towards the other, and its counters."""
        if name == "client":
            return self._hosts[name].agent.ask({"do": "towards", "address": self._address})
        if "client" not in self._begun:  # report what failed before the time began, and no error of its end
            return {}
        with suppress(UserError):  # behind NAT, the server has no route to the client's own address
            return self._hosts[name].agent.ask({"do": "towards", "address": self._begun["client"]["address"]})
        return {}

    def _ask_clocks(self) -> None:
        while not self._over.wait(_CLOCK_EVERY_S):
            for host in self._hosts.values():
                with suppress(LaboratoryGoneError, LaboratoryHungError, UserError):
                    host.agent.ask_clock(self._limits.answer_s)
            with suppress(LaboratoryGoneError, LaboratoryHungError, UserError):
                self._look_at_volume()

    def _look_at_volume(self) -> None:
        limit = self._spec.data_limit_bytes
        if limit is not None and _carried(self._begun["client"], self._towards("client")) > limit:
            self._is_over_limit = True
            self._problem = self._problem or (
                f"the trial carried more than {format_size(limit)}, the limit of lab.data-limit"
            )

    def show(self) -> dict[str, Json]:
        """Return the counters of the client's interface; every agent must answer.

        Raises
        ------
        LaboratoryGoneError, LaboratoryHungError
            If one has ended or does not answer; a hanging one is cut off.
        """
        for host in self._hosts.values():
            try:
                host.agent.ask_clock(min(SILENT_S, self._limits.stop_s))
            except LaboratoryHungError as error:
                host.agent.kill(str(error))
                raise
        return {"client": self._towards("client")}

    def set(self, **changes: str) -> None:
        """Refuse changes: the network is not ours."""
        raise UserError(f'{next(iter(changes), "set")}: with backend = "hosts" the network is not ours to change')

    def is_alive(self) -> bool:
        """Return whether both agents still answer, and the trial has not carried too much."""
        return not self._is_over_limit and all(host.agent.is_alive for host in self._hosts.values())

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
        with suppress(WavebedError):  # what ended, and why, is known
            if self._idle and not self.problem:
                self._idle["after"] = idle_rtts_ms(self._hosts["client"], self._address, after=True)
        with tempfile.TemporaryDirectory(prefix=".samples-", dir=self._log.parent) as folder:
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
                    shutil.rmtree(here, ignore_errors=True)  # half a file is none
                try:
                    self._load[name] = load_of(here, _CPU_NS)
                except StrangerError as error:
                    self._problem = self._problem or f"{name}: {error}"
                    shutil.rmtree(here, ignore_errors=True)
                    self._load[name] = load_of(here, _CPU_NS)
            self._log.mkdir(parents=True, exist_ok=True)
            try:
                merge_samples({name: Path(folder) / name for name in self._hosts}, self._log)
            except StrangerError as error:
                self._problem = self._problem or str(error)
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
            for key in _COUNTERS:
                entry[key] = _grown(begun, ended.get(name, {}), key)
            if self._begun:
                offset = host.clock_offset(self.clock.now_s())
                entry["clock_ahead_s"] = None if offset is None else offset.ahead_s
                entry["clock_error_s"] = None if offset is None else offset.error_s
            if name in self._load:
                entry["load"] = {**self._load[name]._asdict()}
            hosts.append(entry)
        idle: dict[str, Json] = {key: [*values] for key, values in self._idle.items()}
        modem: Json = None
        try:
            modem = None if self._modem is None else self._modem.end()
        except StrangerError as error:
            self._problem = self._problem or f"client: {error}"
        told: dict[str, Json] = {"backend": "hosts", "server_address": self._address, "hosts": hosts}
        return {**told, "idle_rtts_ms": idle, "modem": modem}

    def _close(self, limit_s: float) -> None:
        self._over.set()
        if self._live is not None:
            self._live.close()
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


def _is_ipv4(value: Json) -> bool:
    return isinstance(value, str) and value.count(".") == _DOTS


def _carried(begun: dict[str, Json], now: dict[str, Json]) -> int:
    return sum(_grown(begun, now, key) or 0 for key in ("rx_bytes", "tx_bytes"))


def _grown(begun: dict[str, Json], now: dict[str, Json], key: str) -> int | None:
    first, last = begun.get(key), now.get(key)
    return last - first if isinstance(first, int) and isinstance(last, int) else None
