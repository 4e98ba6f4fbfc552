"""Is each run in virtual time the same to the byte, on a busy machine too?

Usage: python benches/virtual_identity.py [--runs N] [--only NAME]… [--save FILE]

Each workload runs N times from the same scenario, one after another, every second time beside two busy loops. All files
of a trial are compared with those of the first run: record, series, packet log, captures, raw outputs. Where files
differ, the largest difference of a metric is told. Prints a table, and JSON with `--save`. Twenty runs of all take some
three hours on a shared machine. Needs the guest kernel, no root.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from run import machine

import wavebed
from wavebed.result.identity import digests

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOPS = 2
SITE = """
title = "one file"
source = "made up"
origins = ["www.file.example"]
document = "8kb"
[[objects]]
name = "file"
kind = "image"
bytes = "2mb"
"""
RADIO = """
[path]
congestion-control = "{control}"
packet-log = true
[[path.hop]]
name = "internet"
kind = "wired"
delay = "11ms"
[[path.hop]]
name = "radio"
kind = "radio"
scene = "kau-e5g-1"
start-at = "0s..20s"
"""
BULK = '[[workload]]\nkind = "bulk"\nduration = "3s"\n'

CELL = """
[lab]
processor = "infinite"
[[path.hop]]
name = "internet"
kind = "wired"
delay = "10ms"
[[path.hop]]
name = "radio"
kind = "radio"
radio = { preset = "nr-30khz", bler = "10%" }
rate = "400mbit"
up-rate = "60mbit"
[[device]]
name = "caller"
count = 4
[[device]]
name = "reader"
count = 4
[[device]]
name = "phone"
count = 56
[[workload]]
device = "caller"
kind = "call"
duration = "5s"
[[workload]]
device = "reader"
kind = "web"
site = "google"
limit = "20s"
[[workload]]
device = "phone"
kind = "download"
size = "1mb"
limit = "20s"
"""
"""64 host stacks need more than one processor whose system calls cost time, so here computing takes none."""
CUBIC, BBR = (RADIO.replace("{control}", name) for name in ("cubic", "bbr"))
WORKLOADS = {
    "CUBIC over the radio stage": CUBIC + BULK,
    "BBR over the radio stage": BBR + BULK,
    "page load": CUBIC + '[[workload]]\nkind = "web"\nsite = "google"\nlimit = "20s"\n',
    "HTTP/3 download": CUBIC + '[[workload]]\nkind = "web"\nsite = "{site}"\nprotocol = "h3"\nlimit = "20s"\n',
    "DASH": CUBIC + '[[workload]]\nkind = "video"\nduration = "12s"\nlimit = "40s"\n',
    "call": CUBIC + '[[workload]]\nkind = "call"\nduration = "5s"\n',
    "64 devices of a cell": CELL,
}
"""The rest of each scenario, after its title."""


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep processors busy with so many loops."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


def one_run(scenario: Path, folder: Path, loops: int) -> dict[str, Any]:
    """Run a scenario; return the hashes of its trial's files, its metrics, its verdict and its wall time."""
    argv = [sys.executable, "-m", "wavebed", "run", str(scenario), "--trials", "1", "--virtual-time", "-o", str(folder)]
    with busy(loops):
        began = time.monotonic()
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        wall_s = time.monotonic() - began
    if done.returncode:
        sys.exit(f"{scenario.stem}: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
    (trial,) = (folder / "trials").iterdir()
    results = wavebed.load(folder)
    return {
        "busy_loops": loops,
        "wall_s": round(wall_s, 1),
        "verdict": results.record.trials[0].verdict,
        "files": {name: digest[:16] for name, digest in digests(trial).items()},
        "metrics": {
            f"{metric.workload}: {metric.name}": None if math.isnan(metric.value) else metric.value
            for metric in results.metrics.itertuples()
        },
    }


def compared(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many runs are as the first one, which files differ how often, and by how much metrics differ."""
    first = runs[0]
    differ: Counter[str] = Counter()
    shares: dict[str, float] = {}
    for other in runs[1:]:
        names = {*first["files"], *other["files"]}
        differ.update(name for name in names if first["files"].get(name) != other["files"].get(name))
        for name, value in first["metrics"].items():
            found = other["metrics"].get(name)
            if isinstance(value, int | float) and isinstance(found, int | float) and found != value:
                share = abs(found - value) / abs(value) if value else 1.0
                shares[name] = max(shares.get(name, 0.0), share)
    return {
        "runs": len(runs),
        "identical": sum(each["files"] == first["files"] for each in runs),
        "verdicts": dict(Counter(each["verdict"] for each in runs)),
        "differing_files": dict(differ),
        "metric_differences": dict(sorted(shares.items(), key=lambda each: -each[1])),
        "wall_s": {
            str(loops): round(statistics.median(taken), 1)
            for loops in (0, LOOPS)
            if (taken := [each["wall_s"] for each in runs if each["busy_loops"] == loops])
        },
        "each_wall_s": [each["wall_s"] for each in runs],
    }


def row(name: str, found: dict[str, Any]) -> str:
    """Return a row of the table."""
    largest = next(iter(found["metric_differences"].items()), None)
    told = f"{largest[1]:.2%} ({largest[0]})" if largest else "none"
    walls = " / ".join(f"{value:.0f}" for value in found["wall_s"].values())
    differing = ", ".join(sorted(found["differing_files"])) or "none"
    return f"| {name} | {found['identical']} of {found['runs']} | {differing} | {told} | {walls} |"


def main() -> None:
    """Run all, print the table, save the run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only", action="append", default=[], choices=WORKLOADS, metavar="NAME", help="this workload")
    parser.add_argument("--save", type=Path, help="keep the run, with its machine, in this JSON file")
    args = parser.parse_args()
    described = machine()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the busy loops end, too
    results = {}
    with tempfile.TemporaryDirectory() as work:
        site = Path(work) / "file.toml"
        site.write_text(SITE)
        print("| workload | identical | files that differ | largest difference of a metric | s, alone / beside loops |")
        print("|---|---|---|---|---|")
        for name in args.only or WORKLOADS:
            scenario = Path(work) / "scenario.toml"
            text = WORKLOADS[name].replace("{site}", str(site))
            scenario.write_text(f'title = "{name}"\n{text}')
            runs = [
                one_run(scenario, Path(work) / f"{name.replace('/', '')}-{number}", LOOPS * (number % 2))
                for number in range(args.runs)
            ]
            results[name] = compared(runs)
            print(row(name, results[name]), flush=True)
            if args.save:
                args.save.write_text(json.dumps({"machine": described, "workloads": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
