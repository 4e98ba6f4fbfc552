"""The processors of a device on the network: read by ssh, SNMP, or from a page of node_exporter."""

from __future__ import annotations

import contextlib
import http
import http.client
import os
import re
import selectors
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec.structs import replace

from wavebed.errors import MachineError, WavebedError
from wavebed.forward.cpu import LIMIT_S, CpuMeter, CpuUse, LocalMeter, Reading, Ticks, reading
from wavebed.secret import HIDDEN, redacted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import IO

    from wavebed.forward.cpu import CpuSource
    from wavebed.secret import Secret

_END_S = 0.5
"""For its last words, within the limit."""
_MOST_BYTES = 4 << 20
_LOOP = (
    "while read -r n; do for f in uptime stat softirqs net/softnet_stat; do"
    ' echo "=wavebed $f"; cat /proc/$f 2>/dev/null; done; echo "=wavebed end $n"; done'
)
"""For the smallest of shells (busybox ash): each line that it reads makes it write the four files."""


class SshMeter(CpuMeter):
    """Reads /proc of another machine by the program ``ssh``, which must come in without a password."""

    def __init__(self, host: str, user: str | None = None, port: int | None = None) -> None:
        super().__init__(
            f"ssh://{f'{user}@' if user else ''}{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}"
        )
        # OpenSSH's own way to answer nothing and to give up: ssh_config(5).
        self._command = ["ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=4", "-o", "ServerAliveInterval=2"]
        self._command += ["-o", "ServerAliveCountMax=3", *(["-l", user] if user else [])]
        self._command += [*(["-p", str(port)] if port else []), "--", host, _LOOP]
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._asked = 0
        self._rest = b""

    def read(self) -> Reading:
        """Read the counters now.

        Raises
        ------
        MachineError
            If there is no ``ssh``.
        WavebedError
            If the router does not answer.
        """
        process = self._open()
        self._asked += 1
        assert process.stdin is not None
        try:
            process.stdin.write(f"{self._asked}\n".encode())
            process.stdin.flush()
        except OSError:
            raise self._failed() from None
        parts = self._parts(self._answer(process, f"=wavebed end {self._asked}\n".encode()))
        uptime = parts.get("uptime", "").split()
        try:
            at_s = float(uptime[0])
        except (IndexError, ValueError):
            raise WavebedError(f"--cpu {self.source}: it has no /proc/uptime: only Linux is read by ssh") from None
        try:
            return reading(at_s, parts.get("stat", ""), parts.get("softirqs", ""), parts.get("net/softnet_stat", ""))
        except WavebedError as error:
            raise WavebedError(f"--cpu {self.source}: {error}") from None

    def close(self) -> None:
        """End the connection."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout, self._said):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        process.wait()

    def _open(self) -> subprocess.Popen[bytes]:
        if self._process is not None:
            return self._process
        self._rest = b""
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, start_new_session=True
            )
        except OSError:
            self._said.close()
            raise MachineError(f"--cpu {self.source}: there is no program ssh: install openssh-client") from None
        return self._process

    def _answer(self, process: subprocess.Popen[bytes], end: bytes) -> bytes:
        assert process.stdout is not None
        deadline = time.monotonic() + LIMIT_S - _END_S
        text = self._rest
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            while end not in text:
                if not ready.select(max(0.0, deadline - time.monotonic())):  # what has come by then is read
                    self.close()
                    raise WavebedError(f"--cpu {self.source}: no answer within {LIMIT_S:.0f} s")
                more = os.read(process.stdout.fileno(), 1 << 16)
                text += more
                if not more or len(text) > _MOST_BYTES:
                    raise self._failed()
        answer, _, self._rest = text.partition(end)
        return answer

    def _failed(self) -> WavebedError:
        said = ""
        if self._process is not None and self._said is not None:
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._said.seek(0)
            lines = self._said.read(1 << 16).decode("utf-8", "replace").strip().splitlines()
            said = lines[-1] if lines else ""
        self.close()
        remedy = "try: ssh -o BatchMode=yes, by hand; it must come in with a key, without a question"
        return WavebedError(f"--cpu {self.source}: ssh ended: {said or 'it said nothing'} ({remedy})")

    @staticmethod
    def _parts(answer: bytes) -> dict[str, str]:
        parts: dict[str, list[str]] = {}
        name = ""
        for line in answer.decode("ascii", "replace").splitlines():
            if line.startswith("=wavebed "):
                name = line.removeprefix("=wavebed ")
            elif name:
                parts.setdefault(name, []).append(line)
        return {name: "\n".join(lines) for name, lines in parts.items()}


_STATS = ".1.3.6.1.4.1.2021.11."
"""systemStats of UCD-SNMP-MIB."""
_USER, _NICE, _SYSTEM, _IDLE_TIME, _WAIT, _KERNEL, _INTERRUPT, _SOFTIRQ, _STEAL = 50, 51, 52, 53, 54, 55, 56, 61, 64
_CORES = 67
_NEEDED = (_USER, _NICE, _SYSTEM, _IDLE_TIME)
_UPTIME = ".1.3.6.1.2.1.1.3.0"
"""sysUpTime, hundredths of a second; the agent's."""
_MOST_SAID = 300
_SNMP_LINE = re.compile(r"(\.[0-9.]+) (\d+)\s*")


class SnmpMeter(CpuMeter):
    """Asks an agent by SNMPv2c.

    Parameters
    ----------
    community : Secret
        It is handed over in a file that only we can read and that lasts for one request, not on the command line, and
        stands in no result.
    host : str
    port : int, optional
    """

    def __init__(self, community: Secret, host: str, port: int | None = None) -> None:
        self._at = (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
        super().__init__(f"snmp://{self._at}")
        self._community = community
        protocol = "udp6" if ":" in host else "udp"
        self._agent = f"{protocol}:{self._at}"

    def read(self) -> Reading:
        """Read the counters now.

        Raises
        ------
        MachineError
            If there is no ``snmpget``.
        WavebedError
            If the agent does not answer, or has no counters of the processor.
        """
        asked = (_USER, _NICE, _SYSTEM, _IDLE_TIME, _WAIT, _KERNEL, _INTERRUPT, _SOFTIRQ, _STEAL, _CORES)
        names = [_UPTIME, *(f"{_STATS}{number}.0" for number in asked)]
        answers = self._get(names)
        uptime = answers.get(_UPTIME)
        raw = {number: answers[f"{_STATS}{number}.0"] for number in asked if f"{_STATS}{number}.0" in answers}
        if uptime is None or any(number not in raw for number in _NEEDED):
            raise WavebedError(
                f"--cpu {self.source}: the agent has no ssCpuRaw counters (UCD-SNMP-MIB): let it show {_STATS[:-1]}"
            )
        spent = sum(raw.get(number, 0) for number in (_USER, _NICE, _INTERRUPT, _SOFTIRQ, _STEAL))
        # Net-SNMP on Linux counts in ssCpuRawSystem alone and leaves ssCpuRawKernel at 0; where both count, the former
        # repeats the latter and the time of waiting (UCD-SNMP-MIB).
        spent += raw.get(_KERNEL, 0) or raw[_SYSTEM]
        total = spent + raw[_IDLE_TIME] + raw.get(_WAIT, 0)
        ticks = Ticks(spent, raw.get(_SOFTIRQ, 0), total, raw.get(_STEAL, 0))
        return Reading(uptime / 100, {-1: ticks}, core_count=raw.get(_CORES))

    def stop(self) -> CpuUse:
        """Read them again, and tell the difference."""
        use = super().stop()
        if use.seconds < _SNMP_SURE_S:
            doubt = f"Net-SNMP renews its counters every 5 s only: a load to quote needs {_SNMP_SURE_S:.0f} s"
            use = replace(use, doubts=(*use.doubts, doubt))
        return use

    def _get(self, names: list[str]) -> dict[str, int]:
        command = ["snmpget", "-t", "2", "-r", "1", "-On", "-Oq", "-Ot", self._agent, *names]
        with tempfile.TemporaryDirectory(prefix="wavebed-snmp-") as folder:
            settings = f"defVersion 2c\ndefCommunity {self._community.reveal()}\nmibs :\n"
            Path(folder, "snmp.conf").write_text(settings, encoding="utf-8")
            try:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=LIMIT_S,
                    check=False,
                    env={**os.environ, "SNMPCONFPATH": folder, "MIBS": ""},
                )
            except OSError:
                raise MachineError(
                    f"--cpu {self.source}: there is no program snmpget: install the package snmp"
                ) from None
            except subprocess.TimeoutExpired:
                raise WavebedError(f"--cpu {self.source}: no answer within {LIMIT_S:.0f} s") from None
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["it said nothing"]
            said = lines[-1].replace(self._community.reveal(), HIDDEN)[:_MOST_SAID]
            raise WavebedError(
                f"--cpu {self.source}: snmpget: {said} (are host and community right, and SNMPv2c allowed?)"
            )
        answers = {}
        for line in done.stdout.splitlines():
            if match := _SNMP_LINE.fullmatch(line):
                answers[match.group(1)] = int(match.group(2))
        return answers


_SNMP_SURE_S = 60.0
"""Readings that may each be 5 s old: over 60 s a change of load at one end shifts the load by a twelfth at most."""


_MOST_PAGE_BYTES = 32 << 20
_METRIC_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?[ \t]+([^ \t]+)(?:[ \t]+-?\d+)?[ \t]*")
_METRIC_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)')
_IDLE = {"idle", "iowait"}
_CPU, _TIME, _START = "node_cpu_seconds_total", "node_time_seconds", "node_boot_time_seconds"
_DROPPED, _SQUEEZED = "node_softnet_dropped_total", "node_softnet_times_squeezed_total"
_FAMILIES = {_CPU, _TIME, _START, _DROPPED, _SQUEEZED}


class NodeExporterMeter(CpuMeter):
    """Fetches the page at an address, without a proxy and without following redirections."""

    def __init__(self, address: str) -> None:
        super().__init__(redacted(address))
        self._address = address

    def read(self) -> Reading:
        """Fetch the counters now.

        Raises
        ------
        WavebedError
            If there is no page of node_exporter, or it takes longer than `LIMIT_S`.
        """
        try:
            return _metrics_reading(_Fetch(self._address).page())
        except WavebedError as error:
            raise WavebedError(f"--cpu {self.source}: {error}") from None


class _Fetch:
    """One request, in a thread of its own: neither name service nor a server that drips bytes holds up the test."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname or "", parts.port, timeout=LIMIT_S)
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._data = b""
        self._failure = ""
        self._over = threading.Event()

    def page(self) -> str:
        """Return the text, or raise `WavebedError` with the reason."""
        threading.Thread(target=self._run, daemon=True).start()
        if not self._over.wait(LIMIT_S):
            self._failure = f"no answer within {LIMIT_S:.0f} s"
            socket_then = self._connection.sock
            if socket_then is not None:
                with suppress(OSError):
                    socket_then.shutdown(socket.SHUT_RDWR)
        if self._failure:
            raise WavebedError(self._failure)
        return self._data.decode("utf-8", "replace")

    def _run(self) -> None:
        try:
            self._connection.request("GET", self._path, headers={"Accept": "text/plain"})
            answer = self._connection.getresponse()
            if answer.status != http.HTTPStatus.OK:
                self._failure = f"it answers {answer.status}: is the path /metrics?"
                return
            self._data = answer.read(_MOST_PAGE_BYTES + 1)
            if len(self._data) > _MOST_PAGE_BYTES:
                self._failure = f"the page is longer than {_MOST_PAGE_BYTES >> 20} MiB"
        except (OSError, ValueError, http.client.HTTPException) as error:
            self._failure = self._failure or str(error) or type(error).__name__
        finally:
            self._connection.close()
            self._over.set()


def parse_metrics(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Read the lines of the families that matter: name, labels, value.

    Raises
    ------
    WavebedError
        If such a line is malformed.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if re.split(r"[{ \t]", line, maxsplit=1)[0] not in _FAMILIES:
            continue
        match = _METRIC_LINE.fullmatch(line)
        if match is None:
            raise WavebedError(f"line {number} is not in the text format of Prometheus")
        name, inside, value = match.groups()
        try:
            yield name, _labels(inside or ""), float(value)
        except ValueError:
            raise WavebedError(f"line {number} is not in the text format of Prometheus") from None


def _labels(text: str) -> dict[str, str]:
    labels = {}
    at = 0
    while at < len(text):
        match = _METRIC_LABEL.match(text, at)
        if match is None:
            raise ValueError(text)
        labels[match.group(1)] = match.group(2)
        at = match.end()
    return labels


def _metrics_reading(text: str) -> Reading:
    modes: dict[int, dict[str, float]] = {}
    single: dict[str, float] = {}
    counts: dict[str, dict[int, int]] = {_DROPPED: {}, _SQUEEZED: {}}
    for name, labels, value in parse_metrics(text):
        core = int(labels["cpu"]) if labels.get("cpu", "").isdigit() else None
        if core is None:
            single[name] = value
        elif name == _CPU:
            modes.setdefault(core, {})[labels.get("mode", "")] = value
        elif name in counts:
            counts[name][core] = int(value)
    if not modes or _TIME not in single:
        raise WavebedError(f"the page lacks {_TIME if modes else _CPU}: is it that of node_exporter on Linux?")
    return Reading(
        single[_TIME],
        {core: _ticks(seconds) for core, seconds in modes.items()},
        started_s=single.get(_START),
        dropped=counts[_DROPPED] or None,
        squeezed=counts[_SQUEEZED] or None,
    )


def _ticks(modes: Mapping[str, float]) -> Ticks:
    total = sum(modes.values())
    idle = sum(seconds for mode, seconds in modes.items() if mode in _IDLE)
    return Ticks(total - idle, modes.get("softirq", 0.0), total, modes.get("steal", 0.0))


def open_meter(source: CpuSource, cores: Collection[int] | None = None) -> CpuMeter:
    """Make the meter of a source.

    Parameters
    ----------
    cores : collection of int, optional
        For ``local``: the device's processors, when it is on this machine.
    """
    if source.kind == "local":
        return LocalMeter(cores)
    if source.kind == "ssh":
        return SshMeter(source.host, source.user, source.port)
    if source.kind == "snmp":
        assert source.community is not None
        return SnmpMeter(source.community, source.host, source.port)
    return NodeExporterMeter(source.address)
