"""The emulated test setup: a device between two cables, in network namespaces; tester and device have a processor each.

::

    namespace tx      namespace dut        namespace rx
    tx0 ───────────── in0   out0 ───────────────── rx0
    tester's          the device           tester's

Where frames are taken from the cables is chosen by measurement (docs/development/traps.md): the device's ports have
kernel threads (threaded NAPI) on the device's processor; the tester's receiving port is polled right behind the device,
there too, so that its ring cannot run over.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from wavebed.errors import MachineError, WavebedError
from wavebed.forward.port import Port
from wavebed.forward.sandbox import inside, napi_instances, pin, within

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from io import FileIO
    from types import TracebackType

NAMESPACES = ("tx", "dut", "rx")
DEVICE_FIFO = 40
"""Priority of the device's threads: as if its processor were its own. Without it, whatever else runs on the machine
makes the device lose frames: 0.6 % of 0.22 Mpps, where with it none of 0.24 Mpps was lost."""
FIRST = -20
"""Niceness of a device that is a process. SCHED_FIFO is nothing for one that never rests: the kernel stops it for 50 ms
in each second."""
LATENCY_DEVICE = "/dev/cpu_dma_latency"
"""While it is open, a processor wakes up within the number of microseconds written to it (PM QoS)."""
RUN_WITHIN_S = 20.0
END_GRACE_S = 2.0
HOUR_MS = "3600000"

QUIET_V6 = {
    "accept_ra": "0",
    "accept_dad": "0",
    "router_solicitations": "0",
    # 1: no link-local address.
    "addr_gen_mode": "1",
    # A host reports the groups of its addresses twice: at once (in ms), and not in the midst of a trial.
    "mldv2_unsolicited_report_interval": "1",
}
"""No frames of the device's own once it is set up."""


@dataclass(frozen=True, slots=True)
class SetupPort:
    """One end of a cable."""

    namespace: str
    interface: str


class EmulatedSetup:
    """Two cables and a namespace for the device between them. Use it with ``with``, inside a sandbox.

    Parameters
    ----------
    keep_offloads : bool
        Leave segmentation offloads as the kernel has them: super-packets then cross the cables in one piece.
    mtu : int
        Of all four ports, bytes.

    Attributes
    ----------
    doubts : list of str
        Shortcomings of the setup, one line each.
    tester_core, device_core : int or None
        Their processors; ``None`` where there is only one for both.

    Raises
    ------
    MachineError
        If this is no sandbox, or a program is missing.
    """

    tx = SetupPort("tx", "tx0")
    rx = SetupPort("rx", "rx0")
    device_in = SetupPort("dut", "in0")
    device_out = SetupPort("dut", "out0")
    ports = (tx, rx, device_in, device_out)

    def __init__(self, *, keep_offloads: bool = False, mtu: int = 1500) -> None:
        self.keep_offloads = keep_offloads
        self.mtu = mtu
        self.doubts: list[str] = []
        self.tester_core: int | None = None
        self.device_core: int | None = None
        self.has_v6 = Path("/proc/sys/net/ipv6").is_dir()
        self._programs: list[subprocess.Popen[str]] = []
        self._awake: FileIO | None = None

    def __enter__(self) -> Self:
        """Make it."""
        if not inside():
            raise MachineError("a test setup is made inside a sandbox only: start with wavebed-core sandbox")
        self._choose_cores(sorted(os.sched_getaffinity(0)))
        try:
            self._stay_awake()
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the programs that were started on it, and remove the namespaces with all that is in them."""
        self._remove()

    def _choose_cores(self, cores: list[int]) -> None:
        if len(cores) == 1:
            self.doubts.append("one processor for tester and device: they take time from each other")
            return
        tester, *others = cores
        apart = [core for core in others if core not in _threads_beside(tester)]
        if not apart:
            self.doubts.append(
                f"processors {tester} and {others[0]} are threads of one core: they slow each other down"
            )
        self.tester_core, self.device_core = tester, (apart or others)[0]

    def _stay_awake(self) -> None:
        """Let idle processors poll: where they sleep, a frame waits up to 0.1 ms for its device to wake up."""
        try:
            self._awake = open(LATENCY_DEVICE, "wb", buffering=0)  # noqa: PTH123, SIM115 - held until the setup is removed
            self._awake.write(struct.pack("=i", 0))
        except OSError as error:
            self.doubts.append(f"idle processors sleep, which shows in latency: {LATENCY_DEVICE}: {error.strerror}")

    def _make(self) -> None:
        self.batch([f"netns add {name}" for name in NAMESPACES])
        for name in NAMESPACES:
            self.set(name, _settings(self.has_v6, forwards=name == "dut"))
        self.batch(
            [
                f"link add {near.interface} netns {near.namespace} mtu {self.mtu} type veth"
                f" peer name {far.interface} netns {far.namespace} mtu {self.mtu}"
                for near, far in ((self.tx, self.device_in), (self.rx, self.device_out))
            ]
        )
        for port in self.ports:
            self._set_features(port)
        for name in NAMESPACES:
            own = [port.interface for port in self.ports if port.namespace == name]
            # Without the multicast flag a forwarding host joins no routers' groups and reports none (MLD).
            self.batch([f"link set dev {interface} multicast off" for interface in own], name)
            if name == "dut":
                self.set(name, _forwarding(self.has_v6, own))
            self.batch([f"link set dev {interface} up" for interface in own], name)
        self.place_threads()

    def _set_features(self, port: SetupPort) -> None:
        with Port.local(port.interface, netns=port.namespace) as own:
            offloads = own.describe().offloads
            # A veth port needs GRO or an XDP program for NAPI. Without NAPI, frames from a BPF program are lost.
            wanted = {"rx-gro": True}
            if not self.keep_offloads:
                wanted |= dict.fromkeys(filter(_is_segmentation, offloads), False)
            still = [name for name, on in wanted.items() if offloads[name] != on and own.set_offload(name, on=on) != on]
        if still:
            state = "on" if wanted[still[0]] else "off"
            self.doubts.append(f"{port.interface}: cannot be switched {state}: {still[0]}")

    def place_threads(self) -> None:
        """Give the device's ports kernel threads on its processor. Again after a port was down: it gets new ones."""
        ports = (self.device_in, self.device_out)
        command = "; ".join(f"echo 1 > /sys/class/net/{port.interface}/threaded" for port in ports)
        try:
            self.run("dut", "sh", "-e", "-c", command)
        except WavebedError as error:
            self.doubts.append(f"the device is polled in softirqs, on the tester's processor: {error}")
            return
        if self.device_core is None:
            return
        for port in ports:
            try:
                with within(port.namespace):
                    instances = napi_instances(port.interface)
                for instance in instances:
                    pin(instance, self.device_core, DEVICE_FIFO)
            except WavebedError as error:
                self.doubts.append(f"{port.interface}: not kept on the device's processor {self.device_core}: {error}")

    def run(self, namespace: str, *argv: str, text: str | None = None) -> str:
        """Run a program in a namespace and return its standard output.

        Parameters
        ----------
        text : str, optional
            Its standard input.

        Raises
        ------
        MachineError
            If it is not installed.
        WavebedError
            If it fails, with its first line of errors.
        """
        return _run(self.argv(namespace, argv), text, argv[0])

    def argv(self, namespace: str, argv: Sequence[str], core: int | None = None) -> list[str]:
        """Return the command that runs a program in a namespace, on a processor."""
        pinned = [] if core is None else ["taskset", "-c", str(core)]
        return ["ip", "netns", "exec", namespace, *pinned, *argv]

    def start(self, namespace: str, argv: Sequence[str], core: int | None = None) -> subprocess.Popen[str]:
        """Start a device's program: it runs until its standard input ends, or the setup is removed."""
        program = subprocess.Popen(
            self.argv(namespace, argv, core),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        _go_first(program.pid)
        self._programs.append(program)
        return program

    def batch(self, lines: Sequence[str], namespace: str | None = None) -> None:
        """Give ``ip`` many commands at once, each as after the word ``ip``.

        Raises
        ------
        WavebedError
            If one of them fails.
        """
        where = [] if namespace is None else ["-n", namespace]
        _run(["ip", *where, "-batch", "-"], "".join(f"{line}\n" for line in lines), "ip")

    def set(self, namespace: str, settings: Mapping[str, str]) -> None:
        """Write settings of a namespace, by their names in ``sysctl``.

        Raises
        ------
        WavebedError
            If the kernel refuses one.
        """
        with within(namespace):
            for key, value in settings.items():
                try:
                    Path("/proc/sys", *key.split(".")).write_text(value)
                except OSError as error:
                    raise WavebedError(f"{namespace}: {key}: {error.strerror}") from None

    def mac(self, port: SetupPort) -> str:
        """Return a port's MAC address."""
        return str(self._link(port)["address"])

    def receiver_overruns(self) -> int:
        """Return how many frames found the ring of the tester's receiving port full since the setup was made.

        They left the device and were lost by the tester: a trial in which this rises tells nothing about the device.
        """
        return self._counter(self.device_out, "tx", "dropped")

    def _counter(self, port: SetupPort, direction: str, name: str) -> int:
        counters = self._link(port, "-s")["stats64"]
        assert isinstance(counters, dict), "counters have a table for each direction"
        return int(counters[direction][name])

    def _link(self, port: SetupPort, *options: str) -> dict[str, object]:
        command = ["ip", "-n", port.namespace, "-j", *options, "link", "show", "dev", port.interface]
        found: list[dict[str, object]] = json.loads(_run(command, None, "ip"))
        return found[0]

    def _remove(self) -> None:
        for program in self._programs:
            _end(program)
        self._programs.clear()
        if self._awake is not None:
            self._awake.close()
        for name in NAMESPACES:
            # One that was not made is no failure, and the sandbox removes the rest.
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False, timeout=RUN_WITHIN_S)


def _is_segmentation(feature: str) -> bool:
    """Return whether a feature lets super-packets leave the stack, to be cut by the interface or not at all."""
    return feature.startswith("tx-") and (feature.endswith("-segmentation") or feature == "tx-gso-list")


def _threads_beside(core: int) -> set[int]:
    """Return the processors that are threads of the same core, this one too; only this one where nobody tells."""
    path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
    found = {core}
    with contextlib.suppress(OSError):
        for part in path.read_text().strip().split(","):
            first, _, last = part.partition("-")
            found |= set(range(int(first), int(last or first) + 1))
    return found


def _settings(has_v6: bool, *, forwards: bool) -> dict[str, str]:
    """Return the settings of a namespace before its interfaces are made."""
    settings = {
        "net.ipv4.conf.all.rp_filter": "0",
        "net.ipv4.conf.default.rp_filter": "0",
        "net.ipv4.conf.all.send_redirects": "0",
        "net.ipv4.conf.default.send_redirects": "0",
    }
    if has_v6:
        settings |= {f"net.ipv6.conf.default.{key}": value for key, value in QUIET_V6.items()}
        # The tester's ports answer for themselves; the kernel behind them says nothing.
        settings["net.ipv6.conf.default.disable_ipv6"] = "0" if forwards else "1"
    return settings


def _forwarding(has_v6: bool, interfaces: Sequence[str]) -> dict[str, str]:
    """Return the settings that make a router of a namespace with its interfaces."""
    settings = {"net.ipv4.ip_forward": "1"}
    if has_v6:
        settings["net.ipv6.conf.all.forwarding"] = "1"
    for family in ("ipv4", "ipv6") if has_v6 else ("ipv4",):
        for interface in interfaces:
            # Neighbours stay known during a test: asking again is no part of it.
            settings[f"net.{family}.neigh.{interface}.base_reachable_time_ms"] = HOUR_MS
    return settings


def _run(command: Sequence[str], text: str | None, name: str) -> str:
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=RUN_WITHIN_S)
    except FileNotFoundError:
        raise MachineError(f"{command[0]} is not installed: install iproute2") from None
    except subprocess.TimeoutExpired:
        raise WavebedError(f"{name} did not end within {RUN_WITHIN_S:.0f} s: {' '.join(command)}") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[0]
        if "No such file" in said and name in said:
            raise MachineError(f"{name} is not installed")
        raise WavebedError(f"{name}: {said}")
    return done.stdout


def _go_first(process: int) -> None:
    """Let a process that leads a session go before others, where that is allowed: it polls, and is never done."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process, FIRST)
    # The kernel may weigh sessions before it weighs their processes.
    with contextlib.suppress(OSError):
        Path(f"/proc/{process}/autogroup").write_text(str(FIRST))


def _end(program: subprocess.Popen[str]) -> None:
    if program.stdin is not None:
        program.stdin.close()
    try:
        program.wait(END_GRACE_S)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()
    if program.stdout is not None:
        program.stdout.close()
