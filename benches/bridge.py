"""`wavebed bridge` between two hosts on veth: its throughput, the error of its round trips, and its account of frames.

Usage: python benches/bridge.py [CASE]... [--save FILE] [--rounds N] [--frames N]

Cases:
  tcp       four TCP downloads at once through a bridge without a rate, by turns with offloads of all ports on, off, and
            over a Linux bridge (target: 9 Gbit/s, with offloads and without)
  rtt       round trips by time stamps of their own, with 5 ms in each direction (target: error 150 us at the median);
            by turns with a Linux bridge without delay, the control, whose round trip is that of the two hosts
  account   UDP in both directions, singly and in super-packets of 16, until so many frames have come
            (--frames, target: 0 of 10^8 unaccounted)

Prints JSON and a table. Runs as root, in a sandbox of which nothing is left.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/lab"))

import bridge_agent as agent
from forward import table
from run import machine
from systems import TOOL

from wavebed._core import find_core
from wavebed.forward.sandbox import inside, within

if TYPE_CHECKING:
    from collections.abc import Iterator

DELAY_MS = 5
PROBES, INTERVAL_US = 1000, 5000
TCP_S = 5
FLOWS = 4
SEGMENTS = (1, 16)


def offloads(*, on: bool) -> None:
    """Switch the offloads of both ports and both hosts."""
    for host, port in agent.PORTS.items():
        agent.set_offloads(port, on=on)
        with within(host):
            agent.set_offloads("eth0", on=on)


@contextmanager
def linux_bridge() -> Iterator[None]:
    """Connect the ports by a bridge of the kernel."""
    agent.ip("link", "add", "kernel0", "type", "bridge")
    agent.ip("link", "set", "kernel0", "up")
    for port in agent.PORTS.values():
        agent.ip("link", "set", port, "master", "kernel0")
    yield
    agent.ip("link", "del", "kernel0")


def download() -> float:
    """Return the goodput of some downloads at once, Gbit/s."""
    return agent.tcp("-t", str(TCP_S), "-P", str(FLOWS), "-O", "1") / 1e9


def tcp(rounds: int, _frames: int) -> dict[str, object]:
    """Download through each system by turns."""
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, on in (("offloads_gbit_s", True), ("no_offloads_gbit_s", False)):
            offloads(on=on)
            with agent.bridge():
                found.setdefault(name, []).append(download())
            with linux_bridge():
                found.setdefault(f"kernel_{name}", []).append(download())
    offloads(on=True)
    return dict(found)


def rtt(rounds: int, _frames: int) -> dict[str, object]:
    """Probe from the phone to the router and back."""
    server = agent.ADDRESSES["router"][0]
    expected_ns = 2 * DELAY_MS * 1_000_000
    probe = [*("--count", str(PROBES)), *("--interval-us", str(INTERVAL_US))]
    found: dict[str, list[float]] = {}

    def measure(prefix: str, expected: int) -> None:
        agent.pings(3)
        options = [*probe, "--expected-ns", str(expected)]
        result = json.loads(agent.at("phone", str(TOOL), "probe", f"{server}:7", *options).splitlines()[-1])
        for key in ("error_p50_us", "error_p99_us", "lost"):
            found.setdefault(f"{prefix}{key}", []).append(float(result[key]))

    echo = subprocess.Popen(["ip", "netns", "exec", "router", str(TOOL), "echo", "--port", "7"])
    try:
        for _ in range(rounds):
            found.setdefault("load_average", []).append(os.getloadavg()[0])
            with agent.bridge("--delay", f"{DELAY_MS}ms"):
                measure("", expected_ns)
            with linux_bridge():
                measure("kernel_", 0)
    finally:
        echo.terminate()
        echo.wait()
    return dict(found)


def account(_rounds: int, frames: int) -> dict[str, object]:
    """Load both directions with small datagrams until so many frames have come, and close the account."""
    senders = []
    began = time.monotonic()
    with agent.bridge("--delay", "1ms", "--loss", "0.1%") as process:
        for host, other in (("router", "phone"), ("phone", "router")):
            for segments in SEGMENTS:
                command = [str(TOOL), "send", f"{agent.ADDRESSES[other][0]}:9", "--payload", "100"]
                command += ["--segments", str(segments), "--seconds", "100000"]
                senders.append(subprocess.Popen(["ip", "netns", "exec", host, *command], stdout=subprocess.DEVNULL))
        try:
            while sum(each["received_frames"] for each in agent.show()["frames"]) < frames:
                time.sleep(1)
        finally:
            for sender in senders:
                sender.terminate()
                sender.wait()
        time.sleep(0.5)
        accounts = agent.show()["frames"]
        end = agent.ended(process, 15)
    return {
        "accounts": accounts,
        "frames": sum(each["received_frames"] for each in accounts),
        "unaccounted_frames": sum(each["unaccounted_frames"] for each in accounts),
        "status": end["status"],
        "took_s": time.monotonic() - began,
        "load_average": list(os.getloadavg()),
    }


CASES = {case.__name__: case for case in (tcp, rtt, account)}


def main() -> None:
    """Run the cases and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], metavar="CASE")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--frames", type=int, default=100_000_000)
    parser.add_argument("--save", type=Path)
    arguments = parser.parse_args()
    if not inside():
        core = find_core()
        os.execv(core, [core, "sandbox", "--", sys.executable, *sys.argv])
    results: dict[str, object] = {"machine": machine()}
    agent.build()
    for case in arguments.cases or CASES:
        found = CASES[case](arguments.rounds, arguments.frames)
        table(case, found)
        results[case] = found
    print(json.dumps(results))
    if arguments.save:
        arguments.save.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
