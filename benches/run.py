"""Runs every benchmark, the systems in turn, and prints JSON and a table.

Usage: python benches/run.py [--rounds N] [--only CASE]... [--save FILE]
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import systems
from cases import CASES, RATIOS, Case, FailedRunError, Figures


def machine() -> dict[str, object]:
    """Describe the machine that the figures belong to."""
    cpu = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), "unknown")  # fmt: skip
    memory_kb = int(Path("/proc/meminfo").read_text().split()[1])
    core = subprocess.run(
        [str(systems.WAVEBED.with_name("wavebed-core")), "--version"], capture_output=True, text=True, check=False
    )
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=systems.ROOT
    )
    return {
        "processor": cpu,
        "processors": len(Path("/proc/stat").read_text().split("cpu")) - 2,
        "memory_gib": round(memory_kb / 2**20, 1),
        "kernel": platform.release(),
        "virtual": "hypervisor" in Path("/proc/cpuinfo").read_text(),
        "load_average": Path("/proc/loadavg").read_text().split()[:3],
        "wavebed": core.stdout.strip(),
        "commit": commit.stdout.strip(),
        "rattan": systems.rattan_program() is not None,
    }


def offer_rattan() -> None:
    """Install Rattan when a person says so."""
    if systems.rattan_program() or not sys.stdin.isatty() or not shutil.which("cargo"):
        return
    if input("Rattan 0.1.1 is not installed; install it with cargo for the comparison? [y/N] ").lower().startswith("y"):
        subprocess.run(["cargo", "install", "rattan", "--version", "0.1.1", "--locked"], check=True)


def measure(cases: list[Case], rounds: int, seed: int) -> dict[str, dict[str, list[Figures]]]:
    """Run every case once per round on every system, the systems in random order."""
    order = random.Random(seed)
    results: dict[str, dict[str, list[Figures]]] = {}
    for turn in range(rounds):
        for case in cases:
            names = [name for name in case.systems if name != "rattan" or systems.rattan_program()]
            order.shuffle(names)
            for name in names:
                start = time.monotonic()
                try:
                    figures = case.measure(name)
                except (FailedRunError, LookupError, subprocess.SubprocessError) as error:
                    print(f"{case.name} on {name}: {error}", file=sys.stderr)
                    continue
                results.setdefault(case.name, {}).setdefault(name, []).append(figures)
                shown = ", ".join(f"{key} {value:.4g}" for key, value in figures.items() if value is not None)
                print(
                    f"[{turn + 1}/{rounds}] {case.name} {name}: {shown} ({time.monotonic() - start:.0f} s)",
                    file=sys.stderr,
                )
    return results


def median(runs: list[Figures]) -> Figures:
    """Take the median of every figure."""
    keys = runs[0].keys()
    found: Figures = {}
    for key in keys:
        values = [value for run in runs if (value := run.get(key)) is not None]
        found[key] = statistics.median(values) if values else None
    return found


def verdict(case: Case, medians: dict[str, Figures]) -> str:
    """Say whether the target is met."""
    own = medians.get("wavebed")
    if own is None:
        return "no figure"
    met = case.holds(own)
    for (name, other), least in RATIOS.items():
        if name == case.name and other in medians:
            met = met and (own[case.headline] or 0) >= least * (medians[other][case.headline] or 0)
    return "met" if met else "MISSED"


def table(cases: list[Case], results: dict[str, dict[str, list[Figures]]]) -> str:
    """Draw the table: median and range, ratios to the others in the same run."""
    lines = [f"{'case':<72}{'wavebed':>24}{'relay':>9}{'ratio':>7}{'rattan':>9}{'ratio':>7}{'CPU s/Gbit':>11}  target"]
    for case in cases:
        runs = results.get(case.name, {})
        if "wavebed" not in runs:
            lines.append(f"{case.title:<72}{'no figure':>24}")
            continue
        medians = {name: median(of) for name, of in runs.items()}
        own = [run[case.headline] or 0 for run in runs["wavebed"]]
        value = medians["wavebed"][case.headline]
        cell = f"{value:.4g} [{min(own):.4g}, {max(own):.4g}] {case.unit}" if value is not None else "-"
        others = ""
        for other in ("relay", "rattan"):
            figure = medians.get(other, {}).get(case.headline)
            ratio = value / figure if value and figure else None
            others += f"{figure:>9.4g}" if figure is not None else f"{'-':>9}"
            others += f"{ratio:>7.2f}" if ratio is not None else f"{'-':>7}"
        cpu = medians["wavebed"].get("cpu_s_per_gbit")
        others += f"{cpu:>11.3f}" if cpu is not None else f"{'-':>11}"
        lines.append(f"{case.title:<72}{cell:>24}{others}  {case.target}: {verdict(case, medians)}")
    return "\n".join(lines)


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", default=[], choices=[case.name for case in CASES])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", type=Path, help="keep the run, with its machine, in this JSON file")
    arguments = parser.parse_args()
    offer_rattan()
    cases = [case for case in CASES if not arguments.only or case.name in arguments.only]
    described = machine()
    results = measure(cases, arguments.rounds, arguments.seed)
    record = {"machine": described, "rounds": arguments.rounds, "seed": arguments.seed, "runs": results}
    if arguments.save:
        arguments.save.parent.mkdir(parents=True, exist_ok=True)
        arguments.save.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record))
    print(table(cases, results), file=sys.stderr)
    return 0 if all(case.name in results for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
