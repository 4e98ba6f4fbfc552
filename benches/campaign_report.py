"""Times the report of a large campaign: 10 000 cells in 10 blocks with 30 metrics, of which only the records exist.

Usage: python benches/campaign_report.py [--cells N] [--blocks N] [--family all|comparison] [--save FILE]

Prints a table and JSON: wall and processor time of ``wavebed report`` in a process of its own (reading, answers,
exploration, figures, tables, page), its peak memory, and the size of the page.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "python")]

from tests.made_up_campaigns import Wanted, write_campaign_folder  # noqa: E402 - found by the line above


def wanted(cells: int, blocks: int, family: str) -> Wanted:
    """Return a campaign of two queues over delays and rates, with about so many cells."""
    rates = min(100, max(1, cells // 4))
    delays = max(1, cells // 2 // rates)
    factors = {
        "queue": ("droptail", "codel"),
        "delay": tuple(f"{each}ms" for each in range(1, delays + 1)),
        "rate": tuple(f"{each}mbit" for each in range(1, rates + 1)),
    }
    effects = {"codel": 0.8}
    return Wanted(factors, effects, blocks=blocks, planned=blocks, more_metrics=28, folders=5, family=family)


def measure(folder: Path) -> dict[str, float]:
    """Write the report of a folder and return what it took."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python")}
    begun = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "wavebed", "report", str(folder)], env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{folder}: the report failed")
    return {
        "wall_s": round(time.perf_counter() - begun, 1),
        "processor_s": round(used.ru_utime + used.ru_stime, 1),
        "peak_mib": round(used.ru_maxrss / 1024),
        "page_bytes": (folder / "report.html").stat().st_size,
    }


def main() -> None:
    """Make the folder, write its report, print what it took."""
    from wavebed.result.machine import machine, versions

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--family", choices=("all", "comparison"), default="comparison")
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(write_campaign_folder(Path(folder) / "run", wanted(args.cells, args.blocks, args.family)))
    for name, value in figures.items():
        print(f"{name:>12} {value:>10g}")
    whole: dict[str, object] = {
        "cells": args.cells,
        "blocks": args.blocks,
        "family": args.family,
        **figures,
        "versions": versions(()),
    }
    whole["machine"] = machine()
    if args.save:
        args.save.write_text(json.dumps(whole, indent=2) + "\n")
    print(json.dumps(whole))


if __name__ == "__main__":
    main()
