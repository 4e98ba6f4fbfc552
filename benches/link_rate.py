"""Packets per second that one core takes through a link of the crate wavebed-link, in virtual time.

Usage: python benches/link_rate.py [--rounds N] [--save FILE] (--help: all options)

Cases: a constant rate of 1 Gbit/s with a drop-tail queue and a delay; the same with the rate of a pattern; the radio of
5G with slots, HARQ and RLC; its uplink with grants. Packets of 1200 bytes at irregular times, 95 % of the mean rate.
Processor time of the thread, the cases in random order. Target: at least 1 million packets per second each. Prints JSON
and a table. Build first:

    cargo build --release -p wavebed-link --example packet_rate
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
from pathlib import Path

import systems
from run import machine

PROGRAM = systems.TARGET / "release/examples/packet_rate"
CASES = {
    "constant": "rate, queue and delay",
    "pattern": "rate of a pattern, queue and delay",
    "radio": "5G downlink: slots, HARQ, RLC, reordering",
    "radio-up": "5G uplink: the same with grants",
}
LEAST_PER_S = 1e6


def measure(case: str, packets: int) -> dict[str, float]:
    """Run one case."""
    done = subprocess.run([str(PROGRAM), case, str(packets)], check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def table(runs: dict[str, list[dict[str, float]]]) -> str:
    """Draw the table: median and range."""
    lines = ["| link | million packets per second of one core (at least 1) | dropped |", "|---|---|---|"]
    for case, figures in runs.items():
        rates = [run["packets_per_s"] / 1e6 for run in figures]
        met = "met" if statistics.median(rates) * 1e6 >= LEAST_PER_S else "MISSED"
        share = figures[0]["dropped"] / figures[0]["packets"]
        found = f"{statistics.median(rates):.2f} ({min(rates):.2f} to {max(rates):.2f}): {met}"
        lines.append(f"| {CASES[case]} | {found} | {share:.0%} |")
    return "\n".join(lines)


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="runs of each case (default: 5)")
    parser.add_argument(
        "--packets", type=int, default=2_000_000, metavar="N", help="packets of a run (default: 2000000)"
    )
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the run, with its machine, in this JSON file")
    arguments = parser.parse_args()
    described = machine()
    runs: dict[str, list[dict[str, float]]] = {case: [] for case in CASES}
    for _ in range(arguments.rounds):
        for case in random.sample(list(CASES), len(CASES)):
            runs[case].append(measure(case, arguments.packets))
    record = {"machine": described, "rounds": arguments.rounds, "packets": arguments.packets, "runs": runs}
    if arguments.save:
        arguments.save.parent.mkdir(parents=True, exist_ok=True)
        arguments.save.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record))
    print(table(runs), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
