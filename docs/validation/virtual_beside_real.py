"""Run each workload in virtual and in real time with the same seeds, and write the tables in `recorded`.

Usage: python docs/validation/virtual_beside_real.py [--seeds N] [--only WORKLOAD]… [--page]

`virtual-beside-real.json` keeps the metrics of each pair of trials. `--page` writes the tables, and runs nothing.
Ten seeds of all take half an hour. Needs the guest kernel, and root for real time.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from real_traces import with_tables

import wavebed
from wavebed.result.model import COUNTED
from wavebed.virtual.kernel import release

HERE: Final = Path(__file__).parent
RECORD: Final = HERE / "virtual-beside-real.json"
PAGE: Final = HERE / "recorded" / "virtual-beside-real.txt"
RADIO: Final = """
[path]
congestion-control = "{control}"
[[path.hop]]
name = "internet"
kind = "wired"
delay = "11ms"
[[path.hop]]
name = "radio"
kind = "radio"
scene = "kau-e5g-1"
mode = "study"
queue = "droptail:1000p"
start-at = "0s..20s"
"""
LINK: Final = '[path]\nrate = "20mbit"\ndelay = "20ms"\n'
BULK: Final = '[[workload]]\nkind = "bulk"\nduration = "5s"\n'
CUBIC: Final = RADIO.replace("{control}", "cubic")
SCENARIOS: Final = {
    "ping": f'{LINK}[[workload]]\nkind = "latency"\nduration = "5s"\n',
    "CUBIC": f"{CUBIC}{BULK}",
    "BBR": f"{RADIO.replace('{control}', 'bbr')}{BULK}",
    "download": f'{CUBIC}[[workload]]\nkind = "download"\nsize = "20mb"\nlimit = "30s"\n',
    "page": f'{CUBIC}[[workload]]\nkind = "web"\nsite = "google"\nlimit = "20s"\n',
    "HTTP/3 page": f'{CUBIC}[[workload]]\nkind = "web"\nsite = "google"\nprotocol = "h3"\nlimit = "20s"\n',
    "DASH": f'{LINK}[[workload]]\nkind = "video"\nduration = "20s"\nlimit = "40s"\n',
    "call": f'{LINK}[[workload]]\nkind = "call"\nduration = "10s"\n',
    "voice": f'{LINK}[[workload]]\nkind = "voice"\nduration = "5s"\n',
}
NETWORK: Final = (
    *("rtt average", "rtt p50", "goodput", "time to first byte", "ttfb", "total time", "throughput", "download time"),
    *("stalls", "stalled time", "mean bitrate", "segment throughput", "bitrate down", "bitrate up", "packet loss down"),
    *("one-way delay down p50", "one-way delay up p50", "MOS down", "duration", "rtt idle average", "rtt idle p50"),
)
"""Metrics of the network: their medians are to be within 5 %."""
COMPUTING: Final = (
    *("on load", "speed index", "first contentful paint", "largest contentful paint", "startup time"),
    *("time to first frame down", "frame rate down", "resolution down"),
)
"""Metrics that contain computing: of an infinitely fast device in virtual time."""
NEAR: Final = 0.05


def trials(text: str, seeds: int, virtual: bool) -> list[dict[str, Any]]:
    """Return the verdict and the metrics of a trial of each seed."""
    with TemporaryDirectory() as work:
        scenario, folder = Path(work) / "scenario.toml", Path(work) / "run"
        scenario.write_text(f'title = "virtual beside real"\n{text}')
        argv = [sys.executable, "-m", "wavebed", "run", str(scenario), "--trials", str(seeds), "-o", str(folder)]
        done = subprocess.run(
            [*argv, "--virtual-time"] if virtual else argv, capture_output=True, text=True, check=False
        )
        if done.returncode not in (0, 1) or not (folder / "run.json").exists():
            raise SystemExit((done.stderr or done.stdout).strip().splitlines()[-1])
        results = wavebed.load(folder)
        found = {
            each.seed: {"seed": each.seed, "verdict": each.verdict, "metrics": {}} for each in results.record.trials
        }
        for each in results.metrics.itertuples():
            if each.name in (*NETWORK, *COMPUTING) and not math.isnan(each.value):
                found[each.seed]["metrics"][each.name] = {"value": each.value, "unit": each.unit}
    return list(found.values())


NOTHING = "None of their workloads was run yet.\n"


def tables(workloads: dict[str, Any]) -> dict[str, str]:
    """Return both tables of the page, in Markdown."""
    head = "| workload | metric | pairs | real, median | virtual, median | virtual / real, median of pairs |\n"
    network, computing = ([_row(name, pairs, metric) for name, pairs in workloads.items() for metric in metrics]
                          for metrics in (NETWORK, COMPUTING))  # fmt: skip
    body = {"network": "".join(filter(None, network)), "computing": "".join(filter(None, computing))}
    shown = {name: f"{head}|---|---|---|---|---|---|\n{rows}" if rows else NOTHING for name, rows in body.items()}
    return shown | {"verdicts": _verdicts(workloads)}


def _row(workload: str, found: dict[str, list[dict[str, Any]]], metric: str) -> str:
    by_time = {
        time: {
            each["seed"]: each["metrics"][metric]
            for each in found[time]
            if metric in each["metrics"] and each["verdict"] in COUNTED
        }
        for time in ("real", "virtual")
    }
    seeds = sorted(by_time["real"].keys() & by_time["virtual"].keys())
    if not seeds:
        return ""
    real, virtual = ([by_time[time][seed]["value"] for seed in seeds] for time in ("real", "virtual"))
    unit = by_time["real"][seeds[0]]["unit"]
    ratios = [one / other for one, other in zip(virtual, real, strict=True) if other]
    ratio = statistics.median(ratios) if ratios else None
    far = ratio is not None and metric in NETWORK and abs(ratio - 1) > NEAR
    told = "–" if ratio is None else f"{ratio:.3f} ({min(ratios):.2f} to {max(ratios):.2f})"
    return (
        f"| {workload} | {metric}{f', {unit}' if unit else ''} | {len(seeds)} | {statistics.median(real):.4g} "
        f"| {statistics.median(virtual):.4g} | {f'**{told}**' if far else told} |\n"
    )


def _verdicts(workloads: dict[str, Any]) -> str:
    rows = "| workload | trials | real: suspect | real: invalid | virtual: not valid |\n|---|---|---|---|---|\n"
    for name, found in workloads.items():
        of = {time: Counter(each["verdict"] for each in found[time]) for time in ("real", "virtual")}
        cells = [len(found["real"]), of["real"]["suspect"], of["real"]["invalid"]]
        cells.append(len(found["virtual"]) - of["virtual"]["valid"])
        rows += f"| {name} | {' | '.join(map(str, cells))} |\n"
    return rows


def main() -> None:
    """Run all, keep the record, write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10, help="pairs of each workload (10)")
    parser.add_argument("--only", action="append", default=[], choices=SCENARIOS, metavar="WORKLOAD")
    parser.add_argument("--page", action="store_true", help="write the tables from the record, and run nothing")
    given = parser.parse_args()
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"workloads": {}}
    if not given.page:
        record |= {"kernel": {"real": platform.release(), "virtual": release()}}
        for name in given.only or SCENARIOS:
            pair = {
                time: trials(SCENARIOS[name], given.seeds, virtual)
                for time, virtual in (("real", False), ("virtual", True))
            }
            record["workloads"][name] = pair
            RECORD.write_text(json.dumps(record, indent=1) + "\n")
            print(f"{name}: {given.seeds} pairs", flush=True)
    workloads = {name: record["workloads"][name] for name in SCENARIOS if name in record["workloads"]}
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), tables(workloads)), encoding="utf-8")


if __name__ == "__main__":
    main()
