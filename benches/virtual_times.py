"""How long do runs in virtual time take?

Usage: python benches/virtual_times.py [--rounds N] [--only NAME]… [--save FILE]

Each case runs alone, and two at the same time. Told are the wall time, and the processor time of all that the run
started, which other work on the machine moves less. Prints a table, and JSON with `--save`. Needs the guest kernel, no
root.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from run import machine

IDLE = """
import sys, time
from pathlib import Path
from wavebed.path.api import Path as LabPath
file = Path("/tmp/path.toml")
file.write_text('[path]\\nrate = "10mbit"\\ndelay = "10ms"\\n')
with LabPath.load(file).up():
    time.sleep(3600)
"""
IN_GUEST = """
import sys
from wavebed.virtual.guest import guest_folder, last_words, run_guest
with guest_folder() as folder:
    if run_guest(folder, [sys.executable, "-c", sys.argv[1]], 1):
        sys.exit(last_words(folder))
"""
FLOW = """title = "one flow"
[path]
rate = "{rate}"
delay = "10ms"
[[workload]]
kind = "bulk"
duration = "10s"
"""
CALL = """title = "call"
[path]
rate = "20mbit"
delay = "10ms"
[[workload]]
kind = "call"
duration = "10s"
"""
PYTHON = sys.executable
RUN = (PYTHON, "-m", "wavebed", "run")
TO = ("--trials", "1", "--virtual-time", "-o", "{folder}")
CASES: dict[str, tuple[tuple[str, ...], str]] = {
    "idle hour": ((PYTHON, "-c", IN_GUEST, IDLE), ""),
    "10 s at 100 Mbit/s": ((*RUN, "{scenario}", *TO), FLOW.replace("{rate}", "100mbit")),
    "10 s at 1 Gbit/s": ((*RUN, "{scenario}", *TO), FLOW.replace("{rate}", "1gbit")),
    "page load": ((*RUN, "kau-e5g-page", *TO), ""),
    "40 s of DASH": ((*RUN, "kau-e5g-video", *TO), ""),
    "10 s of a call": ((*RUN, "{scenario}", *TO), CALL),
    "demo": ((PYTHON, "-m", "wavebed", "demo", "--virtual-time", "-o", "{folder}"), ""),
}


def started(name: str, work: Path, number: int) -> tuple[int, float]:
    """Start a case; return its process and the time."""
    argv, text = CASES[name]
    scenario, folder = work / "scenario.toml", work / f"{name.replace('/', '')}-{number}"
    scenario.write_text(text)
    filled = [each.replace("{scenario}", str(scenario)).replace("{folder}", str(folder)) for each in argv]
    log = (work / f"log-{number}").open("wb")
    process = subprocess.Popen(filled, stdout=log, stderr=subprocess.STDOUT)
    return process.pid, time.monotonic()


def ended(name: str, work: Path, number: int, pid: int, began: float) -> dict[str, float]:
    """Wait for a case; return its wall time and its processor time."""
    _, status, used = os.wait4(pid, 0)
    if status:
        sys.exit(f"{name}: {(work / f'log-{number}').read_text(errors='replace').strip().splitlines()[-1]}")
    return {
        "wall_s": round(time.monotonic() - began, 2),
        "processor_s": round(used.ru_utime + used.ru_stime, 2),
    }


def measured(name: str, number: int) -> list[dict[str, float]]:
    """Run so many of a case at the same time."""
    with tempfile.TemporaryDirectory() as made:
        work = Path(made)
        running = [started(name, work, each) for each in range(number)]
        return [ended(name, work, each, *one) for each, one in enumerate(running)]


def row(name: str, rounds: list[dict[str, Any]]) -> str:
    """Return a row of the table: medians."""
    alone = statistics.median(each["alone"]["wall_s"] for each in rounds)
    cost = statistics.median(each["alone"]["processor_s"] for each in rounds)
    both = statistics.median(max(one["wall_s"] for one in each["two"]) for each in rounds)
    return f"| {name} | {alone:.1f} | {cost:.1f} | {both:.1f} | {2 * alone / both:.2f} |"


def main() -> None:
    """Run all, print the table, save the run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", default=[], choices=CASES, metavar="NAME", help="this case")
    parser.add_argument("--save", type=Path, help="keep the run, with its machine, in this JSON file")
    args = parser.parse_args()
    described = machine()
    results: dict[str, list[dict[str, Any]]] = {}
    print("| what | alone, s | its processor time, s | two at once, s | times as many |\n|---|---|---|---|---|")
    for name in args.only or CASES:
        results[name] = [{"alone": measured(name, 1)[0], "two": measured(name, 2)} for _ in range(args.rounds)]
        print(row(name, results[name]), flush=True)
        if args.save:
            args.save.write_text(json.dumps({"machine": described, "cases": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
