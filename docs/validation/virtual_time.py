"""Compare queues of this program with Linux' own in guests of virtual time, and write the tables in `recorded`.

Usage: python docs/validation/virtual_time.py [--seconds N] [--seeds N] [--jobs N] [--only QUEUE]… [--page]

Each case runs in a guest of its own (`virtual_time_guest.py`). `virtual-time.json` keeps each result; its cases are not
run again. `--page` writes the tables from it and runs nothing. All cases take half an hour on two processors. Needs the
guest kernel, no root.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from real_traces import with_tables

from wavebed.virtual.guest import guest_folder, last_words, processors, run_guest
from wavebed.virtual.kernel import release

HERE: Final = Path(__file__).parent
RECORD: Final = HERE / "virtual-time.json"
PAGE: Final = HERE / "recorded" / "virtual-time.txt"
CONTROLS: Final = {"cubic": False, "bbr": False, "dctcp": True}
"""Whether the flow has ECN."""
COMMON: Final = {"limit": 1000}
CODEL: Final = [
    {**COMMON, "target_ms": target, "interval_ms": interval}
    for target, interval in ((1, 20), (2, 40), (5, 100), (10, 100), (20, 200))
]
QUEUES: Final[dict[str, list[dict[str, int]]]] = {
    "droptail": [{"limit": limit} for limit in (25, 50, 100, 200, 400)],
    "codel": CODEL,
    "fq_codel": CODEL,
    "dualpi2": [
        {**COMMON, "target_ms": target, "rtt_max_ms": rtt}
        for target, rtt in ((5, 50), (10, 100), (15, 100), (15, 200), (25, 100))
    ],
}
RANDOM: Final = {"dualpi2"}
"""Queues that draw random numbers: one run of each says little."""
OVERHEAD: Final = 14
"""Bytes of an Ethernet header, which tbf counts."""
LARGE: Final = 0.005


def cases(seconds: int, seeds: int) -> dict[str, dict[str, Any]]:
    """Return all cases, by a name for each."""
    found: dict[str, dict[str, Any]] = {}
    for system in ("linux", "wavebed"):
        found[f"{system} ping"] = {"system": system, "ping": True, "control": "cubic", "ecn": False}
        for kind, settings in QUEUES.items():
            for setting in settings:
                for control, ecn in CONTROLS.items():
                    for seed in range(1, seeds + 1 if kind in RANDOM else 2):
                        case = {"system": system, "control": control, "ecn": ecn, "seconds": seconds, "seed": seed}
                        queue = {"kind": kind, **setting, "ecn": ecn}
                        name = f"{system} {kind} {_words(setting)} {control} {seed}"
                        found[name] = {**case, "overhead": OVERHEAD, "queue": queue}
    bare = found["wavebed droptail limit 100 cubic 1"]
    found["wavebed without overhead"] = {**bare, "overhead": 0}
    return found


def _words(setting: dict[str, int]) -> str:
    return " ".join(f"{name.removesuffix('_ms').replace('_', '-')} {value}" for name, value in setting.items())


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Run a case in a guest; return its figures."""
    command = [sys.executable, str(HERE / "virtual_time_guest.py"), json.dumps(case)]
    with guest_folder() as folder:
        status = run_guest(folder, command, case.get("seed", 1))
        if status:
            raise SystemExit(f"{case}: {last_words(folder)}")
        lines = (folder.output / "log").read_text().splitlines()
    return dict(json.loads(next(line for line in reversed(lines) if line.startswith("{"))))


def measure_all(wanted: dict[str, dict[str, Any]], jobs: int) -> None:
    """Run the cases that the record does not have, and add them to it."""
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if record.get("kernel") != release():
        record = {"kernel": release(), "results": {}}
    results = record["results"]
    left = {name: case for name, case in wanted.items() if results.get(name, {}).get("case") != case}
    with ThreadPoolExecutor(jobs) as pool:
        # The kernel ends a guest with the thread that started it: the pool's threads live as long as the run.
        for name, figures in zip(left, pool.map(measure, left.values()), strict=True):
            results[name] = {"case": left[name], "figures": figures}
            print(name, figures, flush=True)
            record["results"] = dict(sorted(results.items()))
            RECORD.write_text(json.dumps(record, indent=1) + "\n")


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Return each table of the page, in Markdown."""
    found = {"ping": _ping_table(results)}
    head = "| setting | control | goodput: Linux, wavebed, Mbit/s | difference | round trip, ms | drops | marks |\n"
    for kind, settings in QUEUES.items():
        rows = [_row(results, kind, setting, control) for setting in settings for control in CONTROLS]
        found[kind] = f"{head}|---|---|---|---|---|---|---|\n{''.join(filter(None, rows))}"
    large = [line for kind in QUEUES for line in found[kind].splitlines() if "**" in line]
    found["count"] = f"{sum(found[kind].count('%') for kind in QUEUES)} pairs, {len(large)} above {LARGE:.1%}.\n"
    return found


def _ping_table(results: dict[str, Any]) -> str:
    rows = "| path | least | mean | most | mdev |\n|---|---|---|---|---|\n"
    for system in ("linux", "wavebed"):
        if (found := results.get(f"{system} ping")) is not None:
            cells = [f"{found['figures'][name]:.3f}" for name in ("min_ms", "mean_ms", "max_ms", "mdev_ms")]
            rows += f"| {system} | {' | '.join(cells)} |\n"
    return rows


def _row(results: dict[str, Any], kind: str, setting: dict[str, int], control: str) -> str:
    """Return the row of a setting: means over seeds, and for goodput the range. Empty if it was not measured."""
    runs = {}
    for system in ("linux", "wavebed"):
        head = f"{system} {kind} {_words(setting)} {control} "
        runs[system] = [each["figures"] for name, each in results.items() if name.startswith(head)]
    if not all(runs.values()):
        return ""

    def both(name: str, form: str) -> str:
        return ", ".join(form.format(statistics.fmean(each[name] for each in runs[system])) for system in runs)

    def goodput(system: str) -> str:
        values = [each["mbit"] for each in runs[system]]
        mean = f"{statistics.fmean(values):.2f}"
        return mean if len(values) == 1 else f"{mean} ({min(values):.2f} to {max(values):.2f})"

    mean = {system: statistics.fmean(each["mbit"] for each in runs[system]) for system in runs}
    share = mean["wavebed"] / mean["linux"] - 1
    told = f"{share:+.2%}"
    return (
        f"| {_words({name: value for name, value in setting.items() if name != 'limit' or kind == 'droptail'})} "
        f"| {control} | {goodput('linux')}, {goodput('wavebed')} | {told if abs(share) <= LARGE else f'**{told}**'} "
        f"| {both('rtt_ms', '{:.1f}')} | {both('drops', '{:.0f}')} | {both('marks', '{:.0f}')} |\n"
    )


def main() -> None:
    """Measure, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=10, help="length of a flow (10)")
    parser.add_argument("--seeds", type=int, default=5, help="runs of a queue that draws random numbers (5)")
    parser.add_argument("--jobs", type=int, default=len(processors()), help="guests at the same time")
    parser.add_argument("--only", action="append", default=[], choices=QUEUES, metavar="QUEUE", help="this queue")
    parser.add_argument("--page", action="store_true", help="write the tables from the record, and run nothing")
    given = parser.parse_args()
    if not given.page:
        wanted = cases(given.seconds, given.seeds)
        if given.only:
            wanted = {name: case for name, case in wanted.items() if case.get("queue", {}).get("kind") in given.only}
        measure_all(wanted, given.jobs)
    results = json.loads(RECORD.read_text())["results"]
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), tables(results)), encoding="utf-8")


if __name__ == "__main__":
    main()
