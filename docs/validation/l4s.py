"""Run one scalable and one CUBIC flow over a radio, by queue, and print the table of `recorded/l4s.txt`.

Usage: python docs/validation/l4s.py [QUEUE…] [--seconds N]
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path as FilePath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from wavebed.path.api import Path

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.path.lab import Laboratory

FLOW: Final = FilePath(__file__).with_name("l4s_flow.py")
QUEUES: Final = {
    "dualpi2": '{ kind = "dualpi2", limit = "1mb" }',
    "dualpi2 measured": '{ kind = "dualpi2", limit = "1mb", predict = "off" }',
    "fq_codel": '{ kind = "fq_codel", limit = "1mb" }',
    "fq_codel 1 ms": '{ kind = "fq_codel", limit = "1mb", ce-threshold = "1ms" }',
    "droptail": '{ kind = "droptail", limit = "1mb" }',
}
SCENARIO: Final = """
[path]
trace = "{pattern}"
up-rate = "20mbit"
delay = "10ms"
radio = {{ preset = "nr-30khz", down-buffer = {queue} }}
[path.server]
congestion-control = "cubic"
[path.server.sysctl]
'net.ipv4.tcp_ecn' = 1
[path.client.sysctl]
'net.ipv4.tcp_ecn' = 1
"""
HEAD: Final = """\
| queue | scalable, Mbit/s | CUBIC, Mbit/s | share | scalable queue p50, p99, ms | longest wait p50, p99, ms \
| marks, scalable | marks, CUBIC | drops | engine late p99, µs |
|---|---|---|---|---|---|---|---|---|---|"""
STEPS: Final = 600
STEP_S: Final = 0.1
SKIP_S: Final = 3.0


class Outcome(NamedTuple):
    """What a queue made of both flows; times in ms, without the first seconds."""

    scalable_mbit: float
    cubic_mbit: float
    scalable_p50: float
    scalable_p99: float
    classic_p50: float
    classic_p99: float
    scalable_marks: int
    classic_marks: int
    drops: int
    late_us: float

    @property
    def share(self) -> float:
        """Fraction of the scalable flow."""
        return self.scalable_mbit / (self.scalable_mbit + self.cubic_mbit)


def pattern(folder: FilePath) -> FilePath:
    """Write a rate that wanders between 15 and 50 Mbit/s in steps of 100 ms, with one block in ten in error."""
    random = np.random.default_rng(7)
    rate, lines = 30e6, []
    for step in range(STEPS):
        rate = float(np.clip(rate * random.uniform(0.75, 1.25), 15e6, 50e6))
        lines.append(f"{step * STEP_S:.1f},{rate:.0f},0.1")
    head = f"# wavebed pattern 1\n# kind = steps\n# duration_s = {STEPS * STEP_S:.1f}\ntime_s,rate_bps,bler\n"
    file = folder / "rate.csv"
    file.write_text(head + "\n".join(lines) + "\n")
    return file


def measure(queue: str, seconds: float) -> Outcome:
    """Run both flows for so long over a radio whose buffer is this queue."""
    with TemporaryDirectory() as name:
        folder = FilePath(name)
        scenario = folder / "l4s.toml"
        scenario.write_text(SCENARIO.format(pattern=pattern(folder), queue=queue))
        with Path.load(scenario).up(log=folder / "log") as lab:
            delivered = _flows(lab, seconds)
        assert lab.summary is not None
        with (folder / "log" / "radio.down.csv").open() as file:
            return _outcome(list(csv.DictReader(file)), delivered, lab.summary, seconds)


def _flows(lab: Laboratory, seconds: float) -> float:
    """Run both flows; return the Mbit/s of the scalable one."""
    lab.server.start([sys.executable, str(FLOW), "send", str(seconds)])
    lab.server.start(["iperf3", "-s", "-1"], stdout=-1)
    lab.server.wait_for_port(5201, 60.0)
    scalable = lab.client.start([sys.executable, str(FLOW), "receive", str(seconds)], stdout=-1)
    argv = ["iperf3", "-c", "server", "-4", "-R", "-J", "-t", str(seconds)]
    lab.client.run(argv, capture_output=True, check=True, timeout=seconds + 20)
    scalable.wait(20)
    return float(json.loads(scalable.output()[0] or "{}")["mbit_per_s"])


def _outcome(rows: list[dict[str, str]], scalable_mbit: float, summary: dict[str, Any], seconds: float) -> Outcome:
    rows = [row for row in rows if SKIP_S * 1e3 <= int(row["time_ms"]) < seconds * 1e3]

    def column(name: str) -> NDArray[np.float64]:
        return np.array([float(row[name] or "nan") for row in rows])

    def percentile(prefix: str, part: int) -> float:
        return float(np.nanpercentile(column(f"{prefix}sojourn_max_ns"), part)) / 1e6

    all_mbit = column("delivered_bytes").sum() * 8 / (seconds - SKIP_S) / 1e6
    marks, scalable_marks = column("marked_segments").sum(), column("l4s_marked_segments").sum()
    drops = sum(column(name).sum() for name in ("dropped_overflow_segments", "dropped_aqm_segments"))
    departures = cast("list[dict[str, Any]]", summary["departures"])
    late_us = max(each["surely_late_p99_us"] or 0.0 for each in departures)
    return Outcome(
        scalable_mbit=scalable_mbit,
        cubic_mbit=float(all_mbit) - scalable_mbit,
        scalable_p50=percentile("l4s_", 50),
        scalable_p99=percentile("l4s_", 99),
        # The longest wait in a millisecond is that of a classic packet wherever one left.
        classic_p50=percentile("", 50),
        classic_p99=percentile("", 99),
        scalable_marks=int(scalable_marks),
        classic_marks=int(marks - scalable_marks),
        drops=int(drops),
        late_us=late_us,
    )


def main() -> None:
    """Print a row for each queue."""
    parser = argparse.ArgumentParser(description="one scalable and one CUBIC flow over a radio, by queue")
    parser.add_argument("queues", nargs="*", metavar="QUEUE", help=f"of {', '.join(QUEUES)}; all without")
    parser.add_argument("--seconds", type=float, default=60, help="length of a run (60)")
    given = parser.parse_args()
    print(HEAD)
    for name in given.queues or QUEUES:
        found = measure(QUEUES[name], given.seconds)
        print(
            f"| {name} | {found.scalable_mbit:.1f} | {found.cubic_mbit:.1f} | {found.share:.0%} "
            f"| {found.scalable_p50:.1f}, {found.scalable_p99:.1f} | {found.classic_p50:.1f}, {found.classic_p99:.1f} "
            f"| {found.scalable_marks} | {found.classic_marks} | {found.drops} | {found.late_us:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
