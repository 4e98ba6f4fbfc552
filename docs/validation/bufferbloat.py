"""Run the laboratories of `bufferbloat.md`: print its table and write its pictures.

Usage: python docs/validation/bufferbloat.py [--seeds N]
"""

from __future__ import annotations

import argparse
import platform
import statistics
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bufferbloat_pictures import draw_all
from bufferbloat_plan import FALLING, LATE_MS, SCENES, run_all

from wavebed.workload.tools import version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bufferbloat_run import Cell, Result

ROOT: Final = Path(__file__).parents[2]
SIZES: Final = {"20mib": "20 MiB", "256kib": "256 KiB"}
COLUMNS: Final = (
    "link",
    "direction",
    "buffer",
    "TCP",
    "idle p50, ms",
    "loaded p50, ms",
    "loaded mean, ms",
    "loaded p95, ms",
    "loaded max, ms",
    "goodput, Mbit/s",
    "echoes lost, %",
    "engine late p99, ms",
)


def machine() -> str:
    """Describe the machine that the figures belong to, in one line."""
    cpu = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    memory_gib = int(Path("/proc/meminfo").read_text().split()[1]) / 2**20
    virtual = ", virtual" if "hypervisor" in Path("/proc/cpuinfo").read_text() else ""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=ROOT
    ).stdout.strip()
    return (
        f"{len(cpu)} × {cpu[0] if cpu else 'unknown processor'}{virtual}, {memory_gib:.0f} GiB, "
        f"Linux {platform.release()}, {version('iperf3')}, wavebed at {commit or 'unknown'}"
    )


def table(results: Mapping[Cell, Sequence[Result]]) -> str:
    """Return the table: the median over seeds, and the least and greatest in brackets."""
    rows = [COLUMNS, ["---"] * len(COLUMNS)]
    for cell in FALLING + SCENES:
        runs = [result.figures() for result in results[cell]]
        figures = [_spread([run[key] for run in runs]) for key in ("idle_p50", "p50", "mean", "p95", "max", "goodput")]
        lost = _spread([100 * run["lost"] for run in runs])
        late = f"{max(run['late_p99'] for run in runs):.2f}"
        rows.append([cell.link, cell.direction, SIZES[cell.buffer], cell.control, *figures, lost, late])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _spread(values: Sequence[float]) -> str:
    return f"{_short(statistics.median(values))} [{_short(min(values))}–{_short(max(values))}]"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def late_runs(results: Mapping[Cell, Sequence[Result]]) -> str:
    """Say which runs the engine was late in."""
    late = [run for runs in results.values() for run in runs if run.late_p99_ms > LATE_MS]
    names = ", ".join(f"{run.cell.link} {run.cell.direction} {run.cell.control} seed {run.seed}" for run in late)
    return f"Runs whose engine was late by more than {LATE_MS:g} ms at p99: {names or 'none'}."


def main() -> None:
    """Run, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="the seeds 1 to N (default: %(default)s)")
    results = run_all(range(1, parser.parse_args().seeds + 1))
    print(f"{machine()}\n\n{table(results)}\n\n{late_runs(results)}")
    draw_all(ROOT / "docs/images", results)


if __name__ == "__main__":
    main()
