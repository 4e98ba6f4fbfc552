"""Run the experiment on bufferbloat of `applications.md`, and print its table.

Usage: python docs/validation/bufferbloat.py [--seeds N] [-o DIR]

With ``-o`` the run is kept in DIR/bufferbloat, for `wavebed report` and `wavebed compare`; a complete run is read.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
from typing import TYPE_CHECKING, Final, cast

from bufferbloat_plan import FALLING, SCENES, run_cells
from experiments import ROOT, add_output, echoes, output_folder, table, values

from wavebed.result.model import COUNTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bufferbloat_plan import Cell

    from wavebed.store.load import Run

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


LATE_MS: Final = 1.0
"""Trials with a later engine at p99 are named below the table."""
_METRICS: Final = (
    ("latency", "rtt idle p50"),
    ("latency", "rtt loaded p50"),
    ("latency", "rtt loaded average"),
    ("latency", "rtt loaded p95"),
)


def machine(run: Run) -> str:
    """Return the machine of the figures in one line."""
    facts, programs = run.record.machine, run.record.versions
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=ROOT
    ).stdout.strip()
    return (
        f"{facts['cores']} × {facts['processor']}, {facts['memory']}, Linux {programs['kernel']}, {programs['iperf3']},"
        f" wavebed at {commit or 'unknown'}"
    )


def figures_table(run: Run) -> str:
    """Return the table: the median over the seeds, with the least and the greatest in brackets."""
    rows = [list(COLUMNS)]
    for cell in FALLING + SCENES:
        found = [values(run, workload, metric, cell.name) for workload, metric in _METRICS]
        found += [_longest_ms(run, cell), values(run, "bulk", "goodput", cell.name)]
        found.append(values(run, "latency", "probe loss loaded", cell.name))
        late = f"{max(late_ms(run, cell).values(), default=float('nan')):.2f}"
        rows.append([cell.link, cell.direction, SIZES[cell.buffer], cell.control, *map(_spread, found), late])
    return table(rows)


def _spread(found: Sequence[float]) -> str:
    return f"{_short(statistics.median(found))} [{_short(min(found))}–{_short(max(found))}]" if found else "–"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _counted(run: Run, cell: Cell) -> list[str]:
    return [line.folder for line in run.record.trials if line.treatment == cell.name and line.verdict in COUNTED]


def _longest_ms(run: Run, cell: Cell) -> list[float]:
    """Return the longest round trip under load of each counted trial."""
    found = []
    for trial in _counted(run, cell):
        span = next(each.span for each in run.trial(trial).workloads if each.name == "bulk")
        assert span is not None, "a counted trial has run its transfer"
        probes = echoes(run, trial)
        found.append(float(probes[probes["time_s"].between(span.start_s, span.end_s)]["value"].max()))
    return found


def late_ms(run: Run, cell: Cell) -> dict[str, float]:
    """Return the engine's lateness at p99 in each counted trial, the worse direction."""
    found = {}
    for trial in _counted(run, cell):
        departures = cast("list[dict[str, float]]", run.trial(trial).engine["departures"])
        found[trial] = max(link["surely_late_p99_us"] for link in departures) / 1e3
    return found


def late_trials(run: Run) -> str:
    """Name the trials with a late engine."""
    late = [trial for cell in FALLING + SCENES for trial, each in late_ms(run, cell).items() if each > LATE_MS]
    return f"Trials whose engine was late by more than {LATE_MS:g} ms at p99: {', '.join(late) or 'none'}."


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="the seeds 1 to N (default: %(default)s)")
    add_output(parser)
    arguments = parser.parse_args()
    with output_folder(arguments.output) as folder:
        run = run_cells(folder, FALLING + SCENES, arguments.seeds)
        print(f"{machine(run)}\n\n{figures_table(run)}\n\n{late_trials(run)}")


if __name__ == "__main__":
    main()
