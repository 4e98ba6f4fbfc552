"""Remedies by programs of others: HAProxy, Hysteria, Multipath TCP."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal, Self

from msgspec import Struct

from wavebed.config import values
from wavebed.config.problems import Problem
from wavebed.config.reader import Reader
from wavebed.config.table import Key
from wavebed.errors import MachineError, WavebedError
from wavebed.lab.protocol import LIMITS, Host
from wavebed.lab.tools import find
from wavebed.remedy.model import (
    HOSTS,
    Detour,
    Remedy,
    RemedyEnd,
    RunningProgram,
    RunningRemedy,
    TwoEnded,
    ends_of,
    file_of,
    number_to,
    said_on,
    wait_for_device,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.confine import Confined
    from wavebed.lab.protocol import Lab, Port, Process, Redirect


PORT = 2859
_MARK = "0x2b59"
_TABLE = 2859
_NFT = "wavebed_haproxy"
_FAMILIES = ("-4", "-6")
_LOOK_S = 0.02
_CONTROL = re.compile(r" congctl (?:lock )?[a-z0-9_-]+")
_RULES = f"""table inet {_NFT} {{
  chain divert {{
    type filter hook prerouting priority mangle; policy accept;
    meta l4proto {{ tcp, icmp, icmpv6 }} socket transparent 1 socket wildcard 0 meta mark set {_MARK} accept
    meta l4proto != tcp accept
    fib daddr type != unicast accept
    meta nfproto ipv4 meta l4proto tcp tproxy ip to 127.0.0.1:{PORT} meta mark set {_MARK} accept
    meta nfproto ipv6 meta l4proto tcp tproxy ip6 to [::1]:{PORT} meta mark set {_MARK} accept
  }}
}}
"""
"""A connection to the edge itself is not split; nor is one that it makes."""


class HaproxyOptions(Struct, frozen=True, kw_only=True):
    """Its keys."""

    down: Annotated[
        str | None,
        Key(values.name, "congestion control towards the client", write="NAME", absent="that of the host"),
    ] = None
    up: Annotated[
        str | None,
        Key(values.name, "congestion control towards the server", write="NAME", absent="that of the host"),
    ] = None
    splice: Annotated[
        bool, Key(values.boolean, "`option splice-auto`: copy in the kernel where HAProxy thinks best")
    ] = True


class Haproxy(Remedy[HaproxyOptions]):
    """Each TCP connection is two, by HAProxy in transparent mode."""

    kind = "haproxy"
    summary = "Splits forwarded TCP connections in two as `splitter` does, by a transparent HAProxy: for comparison."
    options_type = HaproxyOptions
    hosts = ("edge",)
    programs = ("haproxy", "ip", "nft")

    def start(self, lab: Lab, host: str, log: Path) -> RunningHaproxy:
        """Start it, and lead forwarded TCP connections to it."""
        edge = lab.host(host)
        config = log.with_suffix(".cfg")
        config.write_text(haproxy_configuration(splice=self.options.splice))
        argv = [find("haproxy"), "-db", "-f", str(config)]
        running = RunningHaproxy(RunningProgram("haproxy", edge, argv, log, ended=-signal.SIGTERM))
        try:
            running.listen()
            for control, other in ((self.options.down, "client"), (self.options.up, "server")):
                if control is not None:
                    running.set_congestion_control(_device_to(lab, host, other), control)
            running.intercept()
        except BaseException:
            running.stop()
            raise
        return running


def haproxy_configuration(*, splice: bool) -> str:
    """Return its configuration: one thread, as other remedies have."""
    return f"""global
  nbthread 1
defaults
  mode tcp
  timeout connect 30s
  timeout client 1h
  timeout server 1h
{"  option splice-auto" if splice else "  no option splice-auto"}
listen split
  bind 127.0.0.1:{PORT} transparent
  bind [::1]:{PORT} transparent
  source 0.0.0.0 usesrc clientip
  server origin *
"""


def _device_to(lab: Lab, host: str, other: str) -> str:
    return next(end.device for end in ends_of(lab, host, other) if end.host.name == host)


class RunningHaproxy(RunningRemedy):
    """A running HAProxy, and the routes and packet rules that belong to it.

    Parameters
    ----------
    program : RunningProgram
        HAProxy.
    """

    def __init__(self, program: RunningProgram) -> None:
        self._program = program
        self._host = program.host
        self._undo: list[tuple[Sequence[str], str]] = []

    def listen(self) -> None:
        """Wait until it listens.

        Raises
        ------
        WavebedError
            If it ends first, or does not.
        """
        self._program.wait_until(self._listens)

    def _listens(self) -> bool:
        try:
            self._host.wait_for_port(PORT, _LOOK_S)
        except TimeoutError:
            return False
        return True

    def set_congestion_control(self, device: str, name: str) -> None:
        """Give the routes by a device a congestion control; HAProxy 2.6 has no option for it.

        Raises
        ------
        WavebedError
            If there is no such congestion control.
        """
        for family in _FAMILIES:
            shown = said_on(self._host, [find("ip"), family, "route", "show", "dev", device])
            lines = [line.strip() for line in shown.splitlines() if line.strip() and "proto kernel" not in line]
            before = [f"{line} dev {device}" for line in lines]
            after = [f"{_CONTROL.sub('', line)} congctl {name}" for line in before]
            self._do([find("ip"), family, "-batch", "-"], _changes(after), _changes(before))

    def intercept(self) -> None:
        """Lead forwarded TCP connections to it, and the packets of its connections that have the client's address.

        Raises
        ------
        WavebedError
            If a rule is refused.
        """
        for family in _FAMILIES:
            what = (
                f"rule {{}} fwmark {_MARK} lookup {_TABLE} priority {_TABLE}",
                f"route {{}} local default dev lo table {_TABLE}",
            )
            add, remove = ("".join(f"{line.format(verb)}\n" for line in what) for verb in ("add", "del"))
            self._do([find("ip"), family, "-batch", "-"], add, remove)
        self._do([find("nft"), "-f", "-"], _RULES, f"delete table inet {_NFT}\n")

    def _do(self, argv: Sequence[str], given: str, undo: str) -> None:
        if given:
            said_on(self._host, argv, given)
            self._undo.append((argv, undo))

    def stop(self) -> str:
        """Remove the rules, put the routes back and end it."""
        said = []
        while self._undo:
            argv, given = self._undo.pop()
            try:
                said_on(self._host, argv, given)
            except WavebedError as error:
                said.append(str(error))
        return "; ".join(line for line in (*said, self._program.stop()) if line)


def _changes(routes: Sequence[str]) -> str:
    return "".join(f"route change {route}\n" for route in routes)


_DEVICE = "hysteria"
_ADDRESSES: list[Json] = ["172.19.78.1/30", "fd77:6176:6562:ff00::1/126"]
"""Of its device: link-local ones it refuses."""
_CARRIED = ("ipproto tcp", "ipproto udp")
"""It would answer pings itself."""
_NAME = "wavebed.invalid"
_NOT_KEPT = "(not kept)"


def _read_rate(value: object) -> int:
    rate_bps = values.rate_bps(value)
    if rate_bps % 1_000_000 or not rate_bps:
        raise Problem(f"{value!r} is not in whole Mbit/s, as Hysteria takes rates: write 1mbit or more")
    return rate_bps


_rate = Reader(_read_rate, "RATE", values.RATE_SCHEMA, values.rate_bps.raw)


class HysteriaOptions(Struct, frozen=True, kw_only=True):
    """Its keys."""

    peer: Annotated[
        Literal["server", "edge", "client"], Key(values.word(*HOSTS), "the host at the other end", write="HOST")
    ]
    down_bps: Annotated[
        int | None,
        Key(
            _rate,
            "rate towards the client, which its congestion control Brutal keeps whatever is lost",
            name="down",
            absent="none: BBR, in both directions",
        ),
    ] = None
    up_bps: Annotated[
        int | None,
        Key(_rate, "rate towards the server", name="up", absent="none: BBR, in both directions"),
    ] = None


class Hysteria(Remedy[HysteriaOptions]):
    """TCP and UDP of the far host through QUIC, by its own congestion control."""

    kind = "hysteria"
    summary = (
        "Carries TCP and UDP that begin at the end nearer to the client through QUIC, by Hysteria 2: for"
        " comparison. Servers see the address of the other end; ping is not carried."
    )
    options_type = HysteriaOptions
    programs = ("sing-box", "openssl", "ip")

    @property
    def peer(self) -> str:
        """The host of its other end."""
        return self.options.peer

    def start(self, lab: Lab, host: str, log: Path) -> TwoEnded:
        """Start both ends, and route what leaves the far one for the near one into it."""
        near, far = ends_of(lab, host, self.options.peer)
        port, password = number_to(near.host.name), secrets.token_hex(16)
        running = TwoEnded()
        with running.guarded() as undo:
            with _certificate(log) as (certificate, key):
                to = (self.options, near.address, port, password)
                configurations = {
                    file_of(log, near.host.name, ".json"): server_configuration(*to, certificate, key),
                    file_of(log, far.host.name, ".json"): client_configuration(*to, far.mtu),
                }
                with _files(configurations, password) as files:
                    for end, file in zip((near, far), files, strict=True):
                        running.programs.append(_program(end, file, log))
                    for program in running.programs:
                        program.wait_for_line(lambda line: "sing-box started" in line)
            wait_for_device(running.programs[1], _DEVICE)
            own = f"to {near.address} ipproto udp dport {port}"
            running.divert(Detour(far, near.host.name, own, _CARRIED), _DEVICE)
            undo.pop_all()
        return running


def server_configuration(
    options: HysteriaOptions, address: str, port: int, password: str, certificate: Path, key: Path
) -> Json:
    """Return the configuration of the end nearer to the server."""
    rates = _rates({"up_mbps": options.down_bps, "down_mbps": options.up_bps})
    tls: Json = {"enabled": True, "server_name": _NAME, "certificate_path": str(certificate), "key_path": str(key)}
    inbound: dict[str, Json] = {
        "type": "hysteria2",
        "listen": address,
        "listen_port": port,
        "users": [{"password": password}],
        "tls": tls,
        **(rates or {"ignore_client_bandwidth": True}),
    }
    return {"log": {"level": "info", "timestamp": False}, "inbounds": [inbound], "outbounds": [{"type": "direct"}]}


def client_configuration(options: HysteriaOptions, address: str, port: int, password: str, mtu: int) -> Json:
    """Return the configuration of the end nearer to the client; a certificate that was just made is not checked."""
    device: Json = {
        "type": "tun",
        "interface_name": _DEVICE,
        "address": _ADDRESSES,
        "mtu": mtu,
        "auto_route": False,
        "stack": "system",
    }
    outbound: dict[str, Json] = {
        "type": "hysteria2",
        "server": address,
        "server_port": port,
        "password": password,
        "tls": {"enabled": True, "server_name": _NAME, "insecure": True},
        **_rates({"up_mbps": options.up_bps, "down_mbps": options.down_bps}),
    }
    return {"log": {"level": "info", "timestamp": False}, "inbounds": [device], "outbounds": [outbound]}


def _rates(given: dict[str, int | None]) -> dict[str, Json]:
    return {name: bps // 1_000_000 for name, bps in given.items() if bps is not None}


@contextmanager
def _certificate(log: Path) -> Iterator[tuple[Path, Path]]:
    """Make a certificate and its key for the trial; the files are gone afterwards."""
    certificate, key = log.with_name(f"{log.stem}.pem"), log.with_name(f"{log.stem}.key")
    argv = [find("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    argv += ["-days", "2", "-subj", f"/CN={_NAME}", "-out", str(certificate), "-keyout", str(key)]
    try:
        _make(argv)
        yield certificate, key
    finally:
        certificate.unlink(missing_ok=True)
        key.unlink(missing_ok=True)


def _make(argv: Sequence[str]) -> None:
    limit_s = LIMITS.answer_s
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=limit_s
        )
    except subprocess.TimeoutExpired:
        raise WavebedError(f"hysteria: openssl did not end within {limit_s:g} s") from None
    if done.returncode != 0:
        raise WavebedError(f"hysteria: openssl: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}")


@contextmanager
def _files(configurations: dict[Path, Json], password: str) -> Iterator[list[Path]]:
    """Write configurations; the password is not in what is kept."""
    texts = {file: json.dumps(configuration, indent=1) for file, configuration in configurations.items()}
    try:
        for file, text in texts.items():
            file.touch(mode=0o600)
            file.write_text(text)
        yield list(texts)
    finally:
        for file, text in texts.items():
            file.write_text(text.replace(password, _NOT_KEPT))


def _program(end: RemedyEnd, config: Path, log: Path) -> RunningProgram:
    argv = [find("sing-box"), "run", "--disable-color", "--config", str(config)]
    return RunningProgram("hysteria", end.host, argv, file_of(log, end.host.name, ".log"))


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
        The client's, by `read_counters`.
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
