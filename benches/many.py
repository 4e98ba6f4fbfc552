"""Many paths at once on this machine: goodput in sum, processor time of a packet, and whether each engine was on time.

Usage: python benches/many.py [--paths N]... [--rate RATE] [--rounds N] [--core NAME=PROGRAM]...
                              [--without relay|rattan] [--first] [--save FILE]

Each path is a laboratory of its own with one CUBIC flow by iperf3 -Z, 10 ms and a queue of 20 ms. `--core` names builds
of wavebed-core; they, the bare relay, and Rattan where it is installed (RATTAN names it) take turns in random order.
Processor time counts the paths' own processes. Prints JSON and a table.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from run import machine
from systems import QUIET, WAVEBED, PathSpec, rattan_argv, rattan_program, relay_argv

from wavebed._core import find_core

RTT_MS, QUEUE_MS = 10, 20
#: Bytes of a segment on the path, for the number of packets of a goodput.
SEGMENT_BYTES, PAYLOAD_BYTES = 1500, 1448
WARM_UP_S = 2


def bits(rate: str) -> int:
    """Return a rate such as `100mbit` in bits per second."""
    return int(rate[:-4]) * {"mbit": 1_000_000, "gbit": 1_000_000_000}[rate[-4:]]


def sends(server: str, seconds: int) -> str:
    """Return the client's command."""
    return f"iperf3 -c {server} -Z -C cubic -t {seconds} -O {WARM_UP_S} -J"


def laboratory(folder: Path, number: int, rate: str, seconds: int) -> Path:
    """Write the laboratory file of one path; its summary and the client's result go to the folder."""
    result, summary = folder / f"{number}.iperf.json", folder / f"{number}.summary.json"
    # On a full machine the server may listen later.
    client = f"for turn in 1 2 3 4 5 6 7 8; do {sends('server', seconds)} > {result} && exit; sleep 0.5; done"
    argv = [str(WAVEBED), "shell", "--rate", rate, "--delay", f"{RTT_MS / 2:g}ms", "--summary", str(summary)]
    argv += ["--queue", f"droptail:{bits(rate) * QUEUE_MS // 8_000_000}kb"]
    argv += ["--server", "iperf3 -s -1", "--print-laboratory", "--", "sh", "-c", client]
    file = folder / f"{number}.lab.json"
    file.write_text(subprocess.run(argv, capture_output=True, text=True, check=True).stdout, encoding="utf-8")
    return file


def of_wavebed(core: str, folder: Path, paths: int) -> list[subprocess.Popen[bytes]]:
    """Start a laboratory for each path."""
    return [subprocess.Popen([core, "lab", str(folder / f"{number}.lab.json")], **QUIET) for number in range(paths)]


def of_relay(folder: Path, rate: str, paths: int, seconds: int) -> list[subprocess.Popen[bytes]]:
    """Start the bare relay for each path."""
    argv = [*relay_argv(PathSpec(RTT_MS, bits(rate)), ["iperf3 -s -1"]), "sh", "-c"]
    client = f"exec {sends('{server}', seconds)} > {folder}"
    return [subprocess.Popen([*argv, f"{client}/{number}.iperf.json"], **QUIET) for number in range(paths)]


def of_rattan(folder: Path, rate: str, paths: int, seconds: int) -> list[subprocess.Popen[bytes]]:
    """Start Rattan in its compatible mode for each path, and a server for each."""
    argv = rattan_argv(PathSpec(RTT_MS, bits(rate)))
    running = []
    for number in range(paths):
        port = str(5301 + number)
        client = f"exec {sends(f'$RATTAN_BASE -p {port}', seconds)} > {folder}/{number}.iperf.json"
        running.append(subprocess.Popen(["iperf3", "-s", "-1", "-p", port], **QUIET))
        env = {**os.environ, "RUST_LOG": "error"}
        running.append(subprocess.Popen([*argv, "sh", "-c", client], **QUIET, env=env))
    return running


def figures(folder: Path, paths: int, spent_s: float) -> dict[str, float]:
    """Return the figures of one run from the files of its paths."""
    found = {"goodput_mbps": 0.0, "failed": 0.0, "valid": 0.0, "suspect": 0.0, "invalid": 0.0}
    packets, engine_s, late_us = 0.0, 0.0, 0.0
    for number in range(paths):
        try:
            ended = json.loads((folder / f"{number}.iperf.json").read_text(encoding="utf-8"))
            found["goodput_mbps"] += ended["end"]["sum_received"]["bits_per_second"] / 1e6
            carried = sum(each["sum"]["bytes"] for each in ended["intervals"])
            packets += carried / PAYLOAD_BYTES
        except (ValueError, KeyError, OSError):
            found["failed"] += 1
        file = folder / f"{number}.summary.json"
        if file.exists():
            summary = json.loads(file.read_text(encoding="utf-8"))
            found[verdict(summary)] += 1
            engine_s += summary["cpu_s"]
            late = [each.get("surely_late_p99_us") or 0 for each in summary["departures"]]
            late_us = max(late_us, *late)
    found["us_per_packet"] = spent_s * 1e6 / packets if packets else 0.0
    found["engine_us_per_packet"] = engine_s * 1e6 / packets if packets else 0.0
    found["cpu_s_per_gbit"] = spent_s * 1e9 / (packets * PAYLOAD_BYTES * 8) if packets else 0.0
    found["late_p99_us"] = late_us
    return found


def verdict(summary: dict[str, Any]) -> str:
    """Return the worst verdict of the checks of the engine's time."""
    broken = {check["severity"] for check in summary["checks"] if not check["holds"]}
    return "invalid" if "invalid" in broken else "suspect" if broken else "valid"


def spent() -> float:
    """Return processor time of all children that have ended, with theirs, seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(system: str, core: str, rate: str, paths: int, seconds: int) -> dict[str, float]:
    """Run all paths once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if core:
            laboratory(folder, 0, rate, seconds)
            for number in range(1, paths):
                copy(folder, number)
        before, started = spent(), time.monotonic()
        if core:
            running = of_wavebed(core, folder, paths)
        else:
            running = {"rattan": of_rattan, "relay": of_relay}[system](folder, rate, paths, seconds)
        limit = started + seconds + WARM_UP_S + 60
        for each in running:
            try:
                each.wait(timeout=max(1.0, limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()
        found = figures(folder, paths, spent() - before)
        found["load_average"] = os.getloadavg()[0]
        print(f"{system} {paths} x {rate}: " + ", ".join(f"{k} {v:.5g}" for k, v in found.items()), file=sys.stderr)
        return found


def copy(folder: Path, number: int) -> None:
    """Write the laboratory file of a path like the first one's."""
    text = (folder / "0.lab.json").read_text(encoding="utf-8")
    lab = json.loads(text.replace("/0.iperf.json", f"/{number}.iperf.json").replace("/0.summary", f"/{number}.summary"))
    lab["name"] = f"{lab['name'][:3]}{number:02d}"
    (folder / f"{number}.lab.json").write_text(json.dumps(lab), encoding="utf-8")


def first() -> None:
    """Go on in a session before all others of the machine; this process waits for it, and ends."""
    if os.fork():
        sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
    os.setsid()
    Path("/proc/self/autogroup").write_text("-19", encoding="ascii")
    os.nice(-19)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paths", type=int, action="append")
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--core", action="append", default=[], metavar="NAME=PROGRAM")
    parser.add_argument("--without", action="append", default=[], choices=["relay", "rattan"])
    parser.add_argument("--first", action="store_true", help="before all other programs of the machine")
    parser.add_argument("--save", type=Path)
    arguments = parser.parse_args()
    systems: dict[str, str] = dict(named.split("=", 1) for named in arguments.core) or {"wavebed": find_core()}
    systems |= {name: "" for name in ("relay", "rattan") if name not in arguments.without}
    if not rattan_program():
        systems.pop("rattan", None)
    described = machine()
    if arguments.first:
        first()
    order = random.Random(1)
    runs: dict[str, dict[str, list[dict[str, float]]]] = {}
    for _ in range(arguments.rounds):
        for paths in arguments.paths or [16]:
            names = list(systems)
            order.shuffle(names)
            for name in names:
                found = measure(name, systems[name], arguments.rate, paths, arguments.seconds)
                runs.setdefault(f"{paths} x {arguments.rate}", {}).setdefault(name, []).append(found)
    for case, by_system in runs.items():
        for name, each in by_system.items():
            medians = {key: statistics.median(run[key] for run in each) for key in each[0]}
            print(f"{case:<14}{name:<10}" + "  ".join(f"{key} {value:.5g}" for key, value in medians.items()))
    record = {"machine": described, "rounds": arguments.rounds, "runs": runs}
    if arguments.save:
        arguments.save.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
