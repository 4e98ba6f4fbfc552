"""Throughput and processor time of the tunnel, beside the same two hosts without it and with Hysteria 2.

Two hosts in network namespaces with a cable; one TCP flow of iperf3 for each system in turn, in random order. Root is
needed, and for Hysteria 2 `sing-box` and `openssl`: without them it is left out. The figures are those of both ends,
iperf3 and the kernel on one machine.

Usage: python benches/tunnel.py [--rounds N] [--seconds S] [--save FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from run import machine

from wavebed.remedy.third_party import HysteriaOptions, client_configuration, server_configuration

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PROGRAM = TARGET / "release/wavebed-edge"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
HOSTS = ("wb-bench-left", "wb-bench-right")
OUTSIDE = ("192.0.2.1", "192.0.2.2")
INSIDE = ("10.88.0.1", "10.88.0.2")
BEHIND = "10.99.0.1"
"""A second address of the right host, which the left one reaches through Hysteria."""
HYSTERIA_PORT = 4434
PATIENCE_S = 10.0


@dataclass(frozen=True)
class Figures:
    """One run: what arrived, and processor time of the two ends for each Gbit of it."""

    gbit_per_s: float
    ends_s_per_gbit: float
    machine_s_per_gbit: float


def on(host: str, *words: str) -> list[str]:
    """Return the command `words` on `host`."""
    return ["ip", "netns", "exec", host, *words]


def must(*words: str) -> str:
    """Run a command that must succeed; return its output."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def hosts() -> Iterator[None]:
    """Make two hosts with a cable, and remove them at the end."""
    left, right = HOSTS
    made = []
    try:
        for host in HOSTS:
            must("ip", "netns", "add", host)
            made.append(host)
        must("ip", "-n", left, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", right)
        for host, address in zip(HOSTS, OUTSIDE, strict=True):
            must("ip", "-n", host, "address", "add", f"{address}/24", "dev", "wire")
            must("ip", "-n", host, "link", "set", "wire", "up")
        yield
    finally:
        for host in made:
            must("ip", "netns", "del", host)


@contextlib.contextmanager
def ends(folder: Path) -> Iterator[list[int]]:
    """Start an end on each host; give their process numbers once a ping passes."""
    names = ("left", "right")
    keys = {name: must(str(PROGRAM), "tunnel", "key", str(folder / name)).strip() for name in names}
    running: list[subprocess.Popen[bytes]] = []
    try:
        for place, (name, other, kind) in enumerate((("left", "right", "listen"), ("right", "left", "connect"))):
            config = folder / f"{name}.toml"
            config.write_text(
                f'kind = "{kind}"\nat = "{OUTSIDE[0]}:4433"\nkey = "{folder / name}"\npeer = "{keys[other]}"\n'
                f'address = "{INSIDE[place]}/30"\nstart-mbit = 500\nmost-mbit = 20000\n'
            )
            command = on(HOSTS[place], str(PROGRAM), "tunnel", "--config", str(config))
            running.append(subprocess.Popen(command))
        wait_until("a ping passes the tunnel", on(HOSTS[1], "ping", "-c", "1", "-W", "1", INSIDE[0]))
        yield [process.pid for process in running]
    finally:
        end(running)


@contextlib.contextmanager
def hysteria_ends(folder: Path) -> Iterator[list[int]]:
    """Start Hysteria 2 on each host; give their process numbers once its device is there."""
    left, right = HOSTS
    certificate, key = folder / "pem", folder / "key"
    must("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=wavebed.invalid", "-out", str(certificate), "-keyout", str(key))  # fmt: skip
    given = (HysteriaOptions(peer="client"), OUTSIDE[1], HYSTERIA_PORT, "bench")
    configurations = {right: server_configuration(*given, certificate, key), left: client_configuration(*given, 1500)}
    must("ip", "-n", right, "link", "set", "lo", "up")
    must("ip", "-n", right, "address", "add", f"{BEHIND}/32", "dev", "lo")
    running: list[subprocess.Popen[bytes]] = []
    try:
        for host, configuration in configurations.items():
            file = folder / f"{host}.json"
            file.write_text(json.dumps(configuration))
            command = on(host, "sing-box", "run", "--config", str(file))
            running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        wait_until("Hysteria has a device", ["ip", "-n", left, "route", "add", BEHIND, "dev", "hysteria"])
        yield [process.pid for process in running]
    finally:
        end(running)


def wait_until(what: str, command: list[str]) -> None:
    """Run a command until it succeeds."""
    until = time.monotonic() + PATIENCE_S
    while subprocess.run(command, capture_output=True, check=False).returncode:
        if time.monotonic() > until:
            sys.exit(f"not in {PATIENCE_S:g} s: {what}")
        time.sleep(0.1)


def end(running: list[subprocess.Popen[bytes]]) -> None:
    """End processes."""
    for process in running:
        process.terminate()
        process.wait()


def processor_s(pid: int) -> float:
    """Return the processor time of a process, seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def machine_s() -> float:
    """Return the time in which the machine's processors were not idle, seconds."""
    user, nice, system, _idle, _wait, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / TICKS_PER_S


def measure(to: str, pids: list[int], seconds: int) -> Figures:
    """Send for `seconds` from the left host to address `to`."""
    server = subprocess.Popen(on(HOSTS[1], "iperf3", "-s", "-1"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        before, all_before = sum(map(processor_s, pids)), machine_s()
        text = must(*on(HOSTS[0], "iperf3", "-c", to, "-Z", "-J", "-O", "1", "-t", str(seconds)))
        used, all_used = sum(map(processor_s, pids)) - before, machine_s() - all_before
    finally:
        server.terminate()
        server.wait()
    rate = json.loads(text)["end"]["sum_received"]["bits_per_second"] / 1e9
    # The first second is not in the rate, but in the processor time.
    gbit = rate * (seconds + 1)
    return Figures(rate, used / gbit, all_used / gbit)


def one(system: str, seconds: int) -> Figures:
    """Measure a system once."""
    with hosts():
        if system == "cable":
            return measure(OUTSIDE[1], [], seconds)
        started, to = (hysteria_ends, BEHIND) if system == "hysteria" else (ends, INSIDE[1])
        with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as pids:
            return measure(to, pids, seconds)


def main() -> None:
    """Run all rounds, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    must("cargo", "build", "--release", "--quiet", "--manifest-path", str(ROOT / "Cargo.toml"), "-p", "wavebed-edge")
    systems = ["tunnel", "cable"] + (["hysteria"] if shutil.which("sing-box") else [])
    found: dict[str, list[Figures]] = {system: [] for system in systems}
    for _round in range(options.rounds):
        for system in random.sample(systems, len(systems)):
            found[system].append(one(system, options.seconds))
            print(system, found[system][-1], file=sys.stderr)
    print("| system | Gbit/s | processor time of both ends, s/Gbit | of the machine, s/Gbit |\n|---|---|---|---|")
    for system, runs in found.items():
        rates = [run.gbit_per_s for run in runs]
        middle = [statistics.median(values) for values in (
            rates, [run.ends_s_per_gbit for run in runs], [run.machine_s_per_gbit for run in runs])]  # fmt: skip
        print(
            f"| {system} | {middle[0]:.2f} ({min(rates):.2f} to {max(rates):.2f}) | {middle[1]:.2f} | {middle[2]:.2f} |"
        )
    if options.save:
        runs_json = {system: [run.__dict__ for run in runs] for system, runs in found.items()}
        options.save.write_text(json.dumps({"machine": machine(), "runs": runs_json}, indent=1) + "\n")


if __name__ == "__main__":
    main()
