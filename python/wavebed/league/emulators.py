"""The emulators of a league: where each is found, what it cannot play, and how its two ends become namespaces.

A program of others runs in namespaces of its own: the network namespace outside is the server, the one that it makes
is the client. wavebed then runs its workloads between both, as between real hosts. When the first process of the
namespaces ends, the kernel ends all others in them, so that nothing is left.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.config.units import format_rate
from wavebed.errors import MachineError
from wavebed.league.recordings import is_constant, mean_bps
from wavebed.path.tables import DEFAULT_SYSCTLS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wavebed.league.recordings import LeagueRecording
    from wavebed.pattern.model import Pattern

START_S = 20.0
"""Longest time from the start of an emulator to its client."""
CONTROL = "cubic"
"""Congestion control of both ends, whatever the machine has: CUBIC."""
_MARK = "2147480000"
"""What the client's first program sleeps: by it the client's namespace is found."""
_SERVER_MARK = ["iperf3", "-s", "-p", "65001"]
"""A server, as `wavebed shell` waits for the port of a program on the server."""
_LOOK_EVERY_S = 0.05
_KERNEL = {"net.ipv4.ping_group_range": "0 2147483647", "net.ipv4.tcp_congestion_control": CONTROL}
_NOBODY = "65534"
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Emulator:
    """One emulator.

    Parameters
    ----------
    name, title : str
        As typed; for tables.
    programs : tuple of str
        That it needs in PATH.
    recipe : str
        What to do where they are missing.
    script : callable, optional
        Returns the shell's script that starts it outside; ``None``: it is part of a scenario in virtual time.
    variable : str
        Of the client's first program, with the server's address.
    needs : callable
        Returns why it cannot play a recording, or nothing.
    """

    name: str
    title: str
    programs: tuple[str, ...] = ()
    recipe: str = ""
    script: Callable[[LeagueRecording, Path], str] | None = None
    variable: str = ""
    needs: Callable[[LeagueRecording], str] = lambda _recording: ""

    @property
    def is_virtual(self) -> bool:
        """Whether it runs in a guest of virtual time."""
        return self.script is None

    def absent(self) -> str:
        """Return why it cannot run on this machine, or nothing."""
        if self.is_virtual:
            from wavebed.virtual.kernel import find_kernel

            return "" if find_kernel() is not None else "the guest kernel is missing: wavebed kernel build"
        if os.geteuid() != 0:
            return "needs root: sudo wavebed league"
        beside = () if self.name == "wavebed" else ("unshare", "nsenter", "setpriv", "sysctl")
        lacking = [name for name in (*self.programs, *beside) if shutil.which(name) is None]
        if lacking:
            return f"{', '.join(lacking)} is not in PATH: {self.recipe or 'install util-linux and procps'}"
        return ""


def _queue(limit: int) -> str:
    return f"bytes={limit}"


def _mahimahi(recording: LeagueRecording, folder: Path) -> str:
    """mm-delay outside, mm-link inside. Each asks for forwarding, which a new namespace does not have."""
    link = ["mm-link", str(folder / "up.mahimahi"), str(folder / "down.mahimahi")]
    link += ["--uplink-queue=droptail", f"--uplink-queue-args={_queue(recording.up_queue_bytes)}"]
    link += ["--downlink-queue=droptail", f"--downlink-queue-args={_queue(recording.down_queue_bytes)}"]
    wait = 'until [ "$(cat /proc/sys/net/ipv4/ip_forward)" = 1 ]; do sleep 0.05; done; exec '
    inner = wait + shlex.join([*link, "--", "sleep", _MARK])
    user = ["setpriv", "--reuid", _NOBODY, "--regid", _NOBODY, "--clear-groups"]
    return shlex.join([*user, "mm-delay", str(recording.delay_ms), "sh", "-c", inner])


def _rattan(recording: LeagueRecording, folder: Path) -> str:
    words = ["rattan", "link"]
    sides = (
        ("uplink", "up", recording.up, recording.up_queue_bytes),
        ("downlink", "down", recording.down, recording.down_queue_bytes),
    )
    for side, name, pattern, limit in sides:
        words += [f"--{side}-delay", f"{recording.delay_ms}ms"]
        words += _rattan_rate(side, folder / name, pattern)
        words += [
            f"--{side}-queue",
            "droptail",
            f"--{side}-queue-args",
            f'{{"packet_limit":null,"byte_limit":{limit}}}',
        ]
    return f"RUST_LOG=error {shlex.join([*words, '--', 'sleep', _MARK])}"


def _rattan_rate(side: str, file: Path, pattern: Pattern) -> list[str]:
    if is_constant(pattern):
        return [f"--{side}-bandwidth", f"{round(mean_bps(pattern))}bps"]
    return [f"--{side}-trace", f"{file}.json"]


def _wavebed(recording: LeagueRecording, folder: Path) -> str:
    words = [sys.executable, "-m", "wavebed", "shell", "--scenario", str(path_file(recording, folder))]
    return shlex.join([*words, "--server", f"exec {shlex.join(_SERVER_MARK)}", "--", "sleep", _MARK])


def path_tables(recording: LeagueRecording, folder: Path) -> str:
    """Return the recording as ``[path]`` of a scenario."""
    lines = ["[path]", f'congestion-control = "{CONTROL}"', f'delay = "{recording.delay_ms}ms"']
    for name, pattern, limit in (
        ("down", recording.down, recording.down_queue_bytes),
        ("up", recording.up, recording.up_queue_bytes),
    ):
        rate = f'rate = "{format_rate(round(mean_bps(pattern)))}"' if is_constant(pattern) else ""
        lines.append(f"{name}-{rate}" if rate else f'{name}-trace = "{folder / name}.csv"')
        lines.append(f'{name}-queue = "droptail:{limit}b"')
    return "\n".join(lines) + "\n"


def path_file(recording: LeagueRecording, folder: Path) -> Path:
    """Write the path of a recording as a scenario in its folder, and return the file."""
    file = folder / "path.toml"
    file.write_text(path_tables(recording, folder), encoding="utf-8")
    return file


_MAHIMAHI_RECIPE = "build it by docs/validation/league.md (GPL-3.0, not shipped)"
_RATTAN_RECIPE = "cargo install rattan --version 0.1.1 --locked"
MAHIMAHI, RATTAN, WAVEBED = "mahimahi", "rattan", "wavebed"
VIRTUAL, NETEM, CELLREPLAY = "wavebed-virtual", "netem", "cellreplay-method"
EMULATORS = {
    each.name: each
    for each in (
        Emulator(MAHIMAHI, "mahimahi", ("mm-link", "mm-delay"), _MAHIMAHI_RECIPE, _mahimahi, "MAHIMAHI_BASE"),
        Emulator(RATTAN, "Rattan", ("rattan",), _RATTAN_RECIPE, _rattan, "RATTAN_BASE"),
        Emulator(WAVEBED, "wavebed", ("iperf3",), "", _wavebed, "WAVEBED_SERVER"),
        Emulator(VIRTUAL, "wavebed, virtual time"),
        Emulator(NETEM, "netem and tbf, guest"),
        Emulator(CELLREPLAY, "CellReplay's method in our engine"),
    )
}


@dataclass(frozen=True)
class Ends:
    """The two ends of a running emulator.

    Parameters
    ----------
    server_pid, client_pid : int
        Processes in their network namespaces.
    address : str
        The server's.
    zero_s : float
        When the recording began, seconds of ``/proc/uptime``.
    root_pid : int
        The first process of all that belongs to the emulator.
    """

    server_pid: int
    client_pid: int
    address: str
    zero_s: float
    root_pid: int

    def processor_s(self) -> float:
        """Return the processor time of the emulator's processes until now, user and system, without our two ends."""
        return sum(
            _processor_s(pid) for pid in _below(self.root_pid) if _command(pid)[:1] not in (["sleep"], _SERVER_MARK[:1])
        )


@contextmanager
def running(emulator: Emulator, recording: LeagueRecording, folder: Path, log: Path) -> Iterator[Ends]:
    """Start an emulator and yield its ends; nothing of it is left afterwards.

    Raises
    ------
    MachineError
        If it ends, or has no client within 20 s; with its last line.
    """
    assert emulator.script is not None, "only programs of their own are started"
    # Names of namespaces that Rattan makes stay in a /run/netns of its own.
    names = "mkdir -p /run/netns; mount -t tmpfs none /run/netns"
    script = f"{names}; ip link set lo up; sysctl -qw net.ipv4.ip_forward=1; {emulator.script(recording, folder)}"
    inside = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script]
    with log.open("wb") as said:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *inside],
            stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True, cwd=folder,
        )  # fmt: skip
        try:
            yield _ends(emulator, process, log)
        finally:
            _end(process)


def _ends(emulator: Emulator, process: subprocess.Popen[bytes], log: Path) -> Ends:
    until_s = time.monotonic() + START_S
    forwarded: set[int] = set()
    while time.monotonic() < until_s:
        below = _below(process.pid)
        client = next((pid for pid in below if _command(pid) == ["sleep", _MARK]), None)
        if client is not None:
            address = _variable(client, emulator.variable)
            marked = next((pid for pid in below if _command(pid) == _SERVER_MARK), None)
            server = marked if emulator.name == WAVEBED else (below[0] if below else None)
            if address and server is not None:
                _set_kernel(emulator, server, client)
                return Ends(server, client, address, uptime_s(), process.pid)
        if process.poll() is not None:
            break
        for pid in below:
            if pid not in forwarded and emulator.name == MAHIMAHI and _command(pid)[:1] == ["sh"]:
                forward = ["nsenter", "-t", str(pid), "-n", "sysctl", "-qw", "net.ipv4.ip_forward=1"]
                if subprocess.run(forward, capture_output=True, check=False).returncode == 0:
                    forwarded.add(pid)
        time.sleep(_LOOK_EVERY_S)
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    raise MachineError(f"{emulator.title} did not start: {lines[-1] if lines else 'it printed nothing'}")


def _set_kernel(emulator: Emulator, *ends: int) -> None:
    """Give the ends of others the kernel settings of a laboratory's hosts, and ping without privileges."""
    if emulator.name != WAVEBED:
        for pid in ends:
            set_here = [f"{name}={value}" for name, value in {**DEFAULT_SYSCTLS, **_KERNEL}.items()]
            subprocess.run(
                ["nsenter", "-t", str(pid), "-n", "sysctl", "-qw", *set_here], capture_output=True, check=False
            )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the emulator's own programs first, so that they can take down what they made; the kernel ends the others."""
    for pid in reversed(_below(process.pid)):
        if _command(pid) == ["sleep", _MARK]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(10.0)
    if process.poll() is None:
        process.kill()
    process.wait()


def uptime_s() -> float:
    """Return the time of ``/proc/uptime`` with more digits, seconds."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _below(pid: int) -> list[int]:
    """Return a process's descendants, parents first."""
    found: list[int] = []
    left = [pid]
    while left:
        parent = left.pop(0)
        for file in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):
                left += [int(word) for word in file.read_text().split()]
        if parent != pid:
            found.append(parent)
    return found


def _command(pid: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    return []


def _variable(pid: int, name: str) -> str:
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0"):
            if entry.startswith(f"{name}="):
                return entry.partition("=")[2]
    return ""


def _processor_s(pid: int) -> float:
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS
    return 0.0
