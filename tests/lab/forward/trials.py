"""Runs inside a sandbox: makes trials between two ends of a cable, does to it what it is told, and prints them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from wavebed.forward.devices import read_device
from wavebed.forward.frames import Layout
from wavebed.forward.model import ValueRange
from wavebed.forward.port import Port
from wavebed.forward.setup import EmulatedSetup
from wavebed.forward.tester import Tester
from wavebed.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable

    from wavebed.forward.model import ForwardTrial

LAYOUT = Layout(ValueRange("198.18.0.2", 4), ValueRange("198.18.1.2", 16))
AMID = 5000
"""Of the 20 000 frames of a trial of two seconds."""


@dataclass
class Cable:
    """Two ports with nothing between them."""

    stack: ExitStack
    tx: Port
    rx: Port


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, timeout=40)


def plug() -> None:
    """Make the cable, without the host's own IPv6: the interfaces would count its solicitations and reports."""
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    ip("link", "add", "tx0", "type", "veth", "peer", "name", "rx0")
    for name in ("tx0", "rx0"):
        ip("link", "set", name, "up")


def cable(stack: ExitStack) -> Cable:
    plug()
    tx, rx = (stack.enter_context(Port.local(name)) for name in ("tx0", "rx0"))
    segmentation(tx, on=False)
    return Cable(stack, tx, rx)


def segmentation(port: Port, *, on: bool) -> None:
    for name in ("tx-udp-segmentation", "tx-gso-list"):
        if name in port.describe().offloads:
            port.set_offload(name, on=on)


def amid(tester: Tester, act: Callable[[], None]) -> None:
    """Do something amid the next trial; the tester is calibrated and the path warm, so that all frames are its own."""
    tester.trial("before", (64,), 10_000, 0.2)
    before = counted()

    def wait() -> None:
        end = time.monotonic() + 20
        while time.monotonic() < end and counted() - before < AMID:
            time.sleep(0.02)
        act()

    threading.Thread(target=wait, daemon=True).start()


def counted() -> int:
    # A program that is started to look may be late: the trial is short.
    return int(Path("/sys/class/net/rx0/statistics/rx_packets").read_text())


def exact(cable: Cable) -> list[ForwardTrial]:
    tester = Tester(cable.tx, cable.rx, LAYOUT)
    return [
        tester.trial("paced", (64,), 20_000, 1.0, 4),
        tester.trial("paced", (64, 64, 594, 1518), 8_000, 0.5),
        tester.trial("paced", (1518,), 5_000, 0.5),
    ]


def offload(cable: Cable) -> list[ForwardTrial]:
    tester = Tester(cable.tx, cable.rx, LAYOUT)
    cable.tx.set_offload("tx-udp-segmentation", on=True)
    trials = [tester.trial("trap", (64,), 1000, 0.2)]
    cable.tx.set_offload("tx-udp-segmentation", on=False)
    tester.prepare()
    return [*trials, tester.trial("mended", (64,), 1000, 0.2)]


def mtu(cable: Cable) -> list[ForwardTrial]:
    ip("link", "set", "rx0", "mtu", "1400")
    tester = Tester(cable.tx, cable.rx, LAYOUT)
    return [tester.trial("long", (1518,), 1000, 0.2), tester.trial("short", (64,), 1000, 0.2)]


def spoiled(tester: Tester, name: str, rate_pps: float = 10_000, seconds: float = 2.0, size: int = 64) -> ForwardTrial:
    """Repeat a trial until it is not valid: on a busy machine the fault may come after its end."""
    end = time.monotonic() + 60
    while (trial := tester.trial(name, (size,), rate_pps, seconds)).verdict == "valid" and time.monotonic() < end:
        pass
    return trial


def down(cable: Cable) -> list[ForwardTrial]:
    tester = Tester(cable.tx, cable.rx, LAYOUT)
    amid(tester, lambda: ip("link", "set", "rx0", "down"))
    return [spoiled(tester, "down"), tester.trial("after", (64,), 10_000, 0.2)]


def away(cable: Cable) -> list[ForwardTrial]:
    tester = Tester(cable.tx, cable.rx, LAYOUT)
    amid(tester, lambda: ip("link", "del", "tx0"))
    return [spoiled(tester, "away")]


def killed(cable: Cable) -> list[ForwardTrial]:
    tester = Tester(cable.tx, cable.rx, LAYOUT)
    pid = cable.rx.pid
    assert pid is not None
    amid(tester, lambda: os.kill(pid, signal.SIGKILL))
    return [spoiled(tester, "killed"), tester.trial("after", (64,), 10_000, 0.2)]


def peer(stack: ExitStack, *, kill: bool) -> list[ForwardTrial]:
    """The receiving port is behind `wavebed serve forward`, on the same machine."""
    plug()
    code = "import sys; from wavebed.forward.server import serve; serve('127.0.0.1:5544', sys.argv[1])"
    server = subprocess.Popen([sys.executable, "-c", code, "a long token"], stderr=subprocess.PIPE)
    stack.callback(server.wait, 60)
    stack.callback(server.terminate)
    assert server.stderr is not None
    server.stderr.readline()
    tx = stack.enter_context(Port.local("tx0"))
    rx = stack.enter_context(Port.remote("127.0.0.1", 5544, "rx0", Secret("a long token")))
    segmentation(tx, on=False)
    tester = Tester(tx, rx, LAYOUT)
    if kill:
        amid(tester, server.kill)
        return [spoiled(tester, "peer")]
    return [tester.trial("peer", (64,), 10_000, 0.3)]


def through(stack: ExitStack, text: str, size: int, rate_pps: float, seconds: float) -> list[ForwardTrial]:
    """A trial through a faulty device."""
    setup = stack.enter_context(EmulatedSetup())
    device = read_device(text)
    device.set_up(setup)
    stack.callback(device.tear_down)
    tx, rx = (
        stack.enter_context(Port.local(port.interface, netns=port.namespace, core=setup.tester_core))
        for port in (setup.tx, setup.rx)
    )
    return [spoiled(Tester(tx, rx, device.layout(4)), text, rate_pps, seconds, size)]


ON_A_CABLE = {act.__name__: act for act in (exact, offload, mtu, down, away, killed)}


def main() -> None:
    what = sys.argv[1]
    begin = time.monotonic()
    with ExitStack() as stack:
        if what == "through":
            trials = through(stack, sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))
        elif what in ON_A_CABLE:
            trials = ON_A_CABLE[what](cable(stack))
        else:
            trials = peer(stack, kill=what == "vanish")
    plain = [{**msgspec.to_builtins(trial, str_keys=True), "verdict": trial.verdict} for trial in trials]
    print(json.dumps({"trials": plain, "took_s": time.monotonic() - begin}, default=repr))


if __name__ == "__main__":
    main()
