"""A cell of devices in virtual time beside independent computations: shares, delays, accounting, speed.

Usage: python benches/cell.py shares|delays|accounting|speed [--quick] [--save FILE]

`shares`: air time and rate of devices with full buffers beside `tests/validation/schedulers.py`, within 5 %.
`delays`: each packet of a thin flow beside a bound, and beside the same computation. `accounting`: 10⁸ packets through
cells of 32 devices with drops, failed blocks, AQMs and handovers; none may be unaccounted. `speed`: packets per second
of one core, and a cell of one device beside its radio alone, in turns. Prints JSON and a table. Build first:

    cargo build --release -p wavebed-link --example cell
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import systems
from run import machine

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from tests.validation import schedulers  # noqa: E402 - found by the line above
from tests.validation.cell_cases import (  # noqa: E402
    POLICIES,
    SEATS,
    SLOT_NS,
    THIN_LOAD,
    UNITS,
    alone_ns,
    by_slot,
    compute,
    first_slot,
    full,
    longest_waits,
    radio,
    steps,
    thin,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    Json = dict[str, Any]

PROGRAM = systems.TARGET / "release/examples/cell"
MOST_DIFFERENCE = 0.05
LEAST_PER_S = 1e6
LEAST_RATIO = 0.98


def call(case: Json, *options: str) -> Json:
    """Run a case."""
    done = subprocess.run([str(PROGRAM), *options], input=json.dumps(case), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{PROGRAM.name}: {done.stderr}")
    figures: Json = json.loads(done.stdout)
    return figures


def traces(quick: bool) -> Iterator[tuple[str, int, np.ndarray, float]]:
    """Yield the traces: a name, devices, rates by block, seconds of a block."""
    counts = (2, 8, 32) if quick else (2, 3, 4, 8, 16, 24, 32)
    for devices in counts:
        equal = np.full(devices, 15.0)
        unequal = np.linspace(0, 30, devices)
        yield "constant, equal", devices, np.full((1, devices), 100e6), 1.0
        yield "constant, unequal", devices, np.geomspace(10e6, 300e6, devices)[None].round(), 1.0
        for step_s in (0.01,) if quick else (0.01, 0.002):
            blocks = round(6 / step_s)
            name = f"Rayleigh by {step_s * 1000:g} ms"
            yield f"{name}, equal", devices, schedulers.rayleigh(equal, blocks, 40e6, 20.0, 7), step_s
            yield f"{name}, unequal", devices, schedulers.rayleigh(unequal, blocks, 40e6, 20.0, 7), step_s


def worst(found: np.ndarray, expected: np.ndarray, least: float) -> float:
    """Return the largest relative difference; of shares below `least` the difference beside `least`."""
    return float(np.max(np.abs(found - expected) / np.maximum(expected, least)))


def compare(found: Json, expected: schedulers.Shares, seconds: float, mean: np.ndarray) -> dict[str, float]:
    """Compare air and rates of a case, seconds long, with the computation."""
    devices = found["devices"]
    air = np.array([device["air_ns"] for device in devices]) / (seconds * 1e9)
    rate = np.array([device["bytes"] for device in devices]) * 8 / seconds
    # Shares below a twentieth of an equal share are compared beside that twentieth.
    least = 0.05 / len(devices)
    return {
        "air": worst(air, expected.air, least),
        "rate": worst(rate, expected.rate, least * float(mean.max())),
        "jain": schedulers.jain(rate),
        "jain_expected": schedulers.jain(expected.rate),
        "mbps": float(rate.sum() / 1e6),
        "mbps_expected": float(expected.rate.sum() / 1e6),
        "unaccounted": sum(abs(device["unaccounted"]) for device in devices),
    }


def measure_shares(quick: bool) -> list[Json]:
    """Compare all traces and policies, then blocks that fail."""
    rows: list[Json] = []

    def compare_all(
        name: str, rates: np.ndarray, step_s: float, seconds: float, errors: str, bler: list[float] | None
    ) -> None:
        for policy in POLICIES if bler is None else POLICIES[:2]:
            for way, seats in SEATS.items():
                found = call(full(rates, step_s, policy, seconds, bler=bler, devices_per_slot=seats))
                slots = by_slot(rates, step_s, round(seconds * 1e9 / SLOT_NS))
                expected = [compute(slots, policy, seats, bler)]
                if policy == "round_robin" and seats == 1 and bler is None:
                    # Nobody says who is first: a turn in 32 slots meets other blocks of the trace for each.
                    expected = [schedulers.turns(slots, first) for first in range(rates.shape[1])]
                results = [compare(found, each, seconds / 2, rates.mean(axis=0)) for each in expected]
                result = min(results, key=lambda each: each["rate"])
                devices = rates.shape[1]
                row = {"trace": name, "devices": devices, "policy": policy, "way": way, "errors": errors}
                rows.append(row | result)
                show(rows[-1])

    for name, _, rates, step_s in traces(quick):
        compare_all(name, rates, step_s, 6.0, "none", None)
    for errors, of in (("10 % of all", (0.1, 0.1)), ("30 % of every second", (0.0, 0.3))):
        for devices in (2, 8) if quick else (2, 8, 32):
            rates = np.geomspace(10e6, 300e6, devices)[None].round()
            bler = [of[number % 2] for number in range(devices)]
            compare_all("constant, unequal", rates, 1.0, 40.0, errors, bler)
    return rows


def show(row: Json) -> None:
    """Tell a result as it comes."""
    print({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}, file=sys.stderr)


def shares_table(rows: list[Json]) -> str:
    """Draw one line for each trace and policy: the worst of all numbers of devices."""
    lines = ["| trace | failed blocks | policy | slots | devices | worst air | worst rate | |", "|" + 8 * "---|"]
    groups: dict[tuple[str, str, str, str], list[Json]] = {}
    for row in rows:
        groups.setdefault((row["trace"], row["errors"], row["policy"], row["way"]), []).append(row)
    for (trace, errors, policy, way), group in groups.items():
        air, rate = (max(row[key] for row in group) for key in ("air", "rate"))
        met = "met" if max(air, rate) <= MOST_DIFFERENCE else "MISSED"
        counts = f"{min(row['devices'] for row in group)} to {max(row['devices'] for row in group)}"
        lines.append(
            f"| {trace} | {errors} | {policy.replace('_', ' ')} | {way} | {counts} | {air:.1%} | {rate:.1%} | {met} |"
        )
    return "\n".join(lines)


def arrivals(kind: str, seconds: float) -> list[int]:
    """Return times of packets: each 20 ms with every phase of a slot, or a Poisson process with that mean."""
    start = 1_000_000_000
    if kind == "each 20 ms":
        gap = 20_000_000 + 37_000
        return list(range(start, round((seconds - 0.5) * 1e9), gap))
    gaps = np.random.default_rng(11).exponential(20e6, round(seconds * 50))
    times = start + np.cumsum(gaps).astype(int)
    return [int(time) for time in times if time < (seconds - 0.5) * 1e9]


def measure_delays(quick: bool) -> list[Json]:
    """Compare the delay of each packet of a thin flow with its bound and with the computation."""
    rows: list[Json] = []
    seconds = 21.0 if quick else 61.0
    for direction in ("down", "up"):
        for others in (1, 31) if quick else (1, 3, 7, 15, 31):
            for policy in POLICIES[:2]:
                for kind in ("each 20 ms", "Poisson, mean 20 ms"):
                    times = arrivals(kind, seconds)
                    found = call(thin(others, policy, direction, times, round(seconds * 1e9)))
                    delays = found["devices"][-1]["delays_ns"]
                    if None in delays:
                        raise SystemExit(f"{delays.count(None)} packets of the thin flow did not arrive")
                    starts = [first_slot(at_ns, direction) for at_ns in times]
                    idle = alone_ns(times, direction)
                    waits = [(delay - alone) / SLOT_NS for delay, alone in zip(delays, idle, strict=True)]
                    row: Json = {
                        "direction": direction,
                        "others": others,
                        "policy": policy,
                        "packets": kind,
                        "count": len(times),
                        "mean_ms": statistics.fmean(delays) / 1e6,
                        "p99_ms": float(np.quantile(delays, 0.99)) / 1e6,
                        "longest_ms": max(delays) / 1e6,
                        "alone_ms": statistics.fmean(idle) / 1e6,
                        "longest_wait": max(waits),
                    }
                    bounds = longest_waits(others, policy, direction, times, kind != "each 20 ms")
                    row["bound"] = max(bounds)
                    if direction == "down":
                        exact = schedulers.thin_flow(
                            [(start, THIN_LOAD) for start in starts],
                            schedulers.constant([1.0] * (others + 1), round(seconds * 1e9) // SLOT_NS),
                            policy,
                        )
                        computed = [slot - start for slot, start in zip(exact, starts, strict=False)]
                        row["computed_mean_wait"] = statistics.fmean(computed)
                        row["computed_longest_wait"] = max(computed)
                    row["mean_wait"] = statistics.fmean(waits)
                    row["beyond"] = sum(wait > bound + 1e-9 for wait, bound in zip(waits, bounds, strict=True))
                    rows.append(row)
                    show(row)
    return rows


def delays_table(rows: list[Json]) -> str:
    """Draw one line for each case: waits in slots, delays in milliseconds."""
    lines = [
        "| direction | packets | policy | others | mean, p99, longest ms | longest wait, slots | bound | computed | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        met = "met" if row["beyond"] == 0 else "MISSED"
        computed = row.get("computed_longest_wait", "")
        lines.append(
            f"| {row['direction']} | {row['packets']} | {row['policy'].replace('_', ' ')} | {row['others']} "
            f"| {row['mean_ms']:.2f}, {row['p99_ms']:.2f}, {row['longest_ms']:.2f} | {row['longest_wait']:.0f} "
            f"| {row['bound']} | {computed} | {met} |"
        )
    return "\n".join(lines)


def losing(number: int) -> Iterator[tuple[str, Json]]:
    """Yield cells of 32 devices that lose packets in each way, by name."""
    packets, devices = {"kind": "random", "bytes": 1200, "flows": 3}, 32
    queues: dict[str, Json] = {
        "tail drop": {"kind": "droptail", "limit": {"packets": 40}},
        "head drop": {"kind": "drophead", "limit": {"bytes": 60_000}},
        "CoDel": {"kind": "codel", "limit": {"packets": 1000}},
        "FQ-CoDel": {"kind": "fq_codel", "limit": {"packets": 1000}},
        "DualPI2": {"kind": "dualpi2", "limit": {"packets": 1000}},
    }
    policies = ("proportional_fair", "round_robin", "maximum_rate", "priority")
    for place, (name, queue) in enumerate(queues.items()):
        for direction in ("down", "up"):
            random = np.random.default_rng(100 + place)
            rates = schedulers.rayleigh(np.linspace(5, 25, devices), 400, 80e6, 7.4, place)
            states = [["los"] * 400 for _ in range(devices)]
            patterns, members = {}, []
            for device in range(devices):
                values = rates[:, device].copy()
                for start in random.integers(10, 380, 5):
                    values[start : start + 4] = 0
                    states[device][start : start + 4] = ["handover"] * 4
                bler = [0.1 if state == "los" else 0 for state in states[device]]
                patterns[f"device {device}"] = steps(values, 0.01, {"bler": list(bler), "state": list(states[device])})
                rate = {"kind": "pattern", "file": f"device {device}", "end": "repeat", "start_ns": 0}
                keys: Json = {
                    "queue": queue,
                    "overhead_bytes": 10,
                    "handover": "lose" if device % 3 == 0 else "forward",
                }
                if device % 2:
                    keys["rlc"] = {"mode": "um"}
                if device % 4 == 1 and queue["kind"] != "fq_codel":
                    keys["discard_ns"] = 80_000_000
                stage = radio(rate, direction=direction, frame="DDDSU", **keys)
                # One device in two offers more than its share, and blocks that always fail come to their limit.
                stage["slots"]["harq"] |= {"limit": 2, "slope_per_db": 0.3, "nack_loss": 0.01}
                mean = float(rates[:, device].mean()) / devices
                gap = round(1200 * 8e9 / mean / (1.5 if device % 2 else 0.9))
                service = {"level": 10 + device, "guaranteed_bps": 2_000_000 if device % 5 == 0 else None}
                members.append({"stages": [stage], "service": service, "traffic": packets | {"gap_ns": gap}})
            policy = policies[(place + (direction == "up")) % 4]
            offered = sum(1e9 / member["traffic"]["gap_ns"] for member in members)
            yield (
                f"{name}, {direction}, {policy.replace('_', ' ')}",
                {
                    "seed": place + 1,
                    "duration_ns": round(number / 10 / offered * 1e9),
                    "scheduler": {"policy": policy, "units": UNITS, "devices_per_slot": 8, "control_units": 1},
                    "devices": members,
                    "patterns": patterns,
                },
            )


def measure_accounting(quick: bool) -> list[Json]:
    """Count what each device of the cells lost."""
    rows: list[Json] = []
    for name, case in losing(1_000_000 if quick else 105_000_000):
        found = call(case, "--drain")
        lost: dict[str, int] = {}
        for device in found["devices"]:
            for reason, count in device["dropped"].items():
                lost[reason] = lost.get(reason, 0) + count
        total = {
            key: sum(device[key] for device in found["devices"])
            for key in ("offered", "delivered", "left", "marked", "blocks", "blocks_failed")
        }
        unaccounted = [device["unaccounted"] for device in found["devices"]]
        rows.append(
            {"cell": name, "dropped": lost, "worst_unaccounted": max(map(abs, unaccounted)), "cpu_s": found["cpu_s"]}
            | total
        )
        show(rows[-1])
    return rows


def accounting_table(rows: list[Json]) -> str:
    """Draw one line for each cell and the sum."""
    lines = [
        "| cell of 32 | packets | delivered | dropped, by reason | failed blocks | unaccounted of any device |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        dropped = ", ".join(
            f"{reason} {count / row['offered']:.2%}" for reason, count in sorted(row["dropped"].items())
        )
        lines.append(
            f"| {row['cell']} | {row['offered']:,} | {row['delivered'] / row['offered']:.1%} | {dropped} "
            f"| {row['blocks_failed'] / row['blocks']:.1%} | {row['worst_unaccounted']} |"
        )
    lines.append(
        f"| all | {sum(row['offered'] for row in rows):,} | | | | {max(row['worst_unaccounted'] for row in rows)} |"
    )
    return "\n".join(lines)


def crowd(devices: int, policy: str, direction: str, packets: int, **keys: object) -> Json:
    """Return a cell of devices with 1 Gbit/s of all slots each, offered 95 % of the slots in sum."""
    rates = 1e9 * np.linspace(0.5, 1.5, devices) if devices > 1 else np.array([1e9])
    gaps = [round(1200 * 8e9 / (rate / devices * 0.95)) for rate in rates]
    members = []
    for rate, gap in zip(rates, gaps, strict=True):
        stage = radio({"kind": "constant", "rate_bps": int(rate)}, "nr-120khz", direction, None)
        stage |= {"overhead_bytes": 10, "queue": {"kind": "droptail", "limit": {"packets": 1000}}, "bler": 0.1}
        traffic = {"kind": "random", "bytes": 1200, "gap_ns": gap, "flows": 1}
        members.append({"stages": [stage], "traffic": traffic})
    duration_ns = round(packets / sum(1e9 / gap for gap in gaps) * 1e9)
    scheduler = {"policy": policy, "units": UNITS, "devices_per_slot": 8}
    # One poll a slot, as by a program that has many packets for each.
    case = {"seed": 1, "duration_ns": duration_ns, "step_ns": 125_000, "scheduler": scheduler, "devices": members}
    return case | keys


def measure_speed(rounds: int, packets: int) -> dict[str, list[Json]]:
    """Measure cells of 64 devices, and one device with a cell and alone, in turns."""
    cases: dict[str, Json] = {}
    for policy in POLICIES:
        for direction in ("down", "up"):
            cases[f"64 devices, {policy.replace('_', ' ')}, {direction}"] = crowd(64, policy, direction, packets)
    for direction in ("down", "up"):
        cases[f"alone, {direction}"] = crowd(1, POLICIES[0], direction, packets, alone=True)
        cases[f"1 device, {direction}"] = crowd(1, POLICIES[0], direction, packets)
    runs: dict[str, list[Json]] = {name: [] for name in cases}
    for turn in range(rounds):
        names = list(cases) if turn % 2 else list(reversed(cases))
        for name in names:
            found = call(cases[name])
            keys = ("packets", "events", "cpu_s", "packets_per_s")
            lost = sum(sum(device["dropped"].values()) for device in found["devices"])
            figures: Json = {key: found[key] for key in keys}
            figures["dropped"] = lost / found["packets"]
            figures["bytes"] = sum(device["bytes"] for device in found["devices"])
            runs[name].append(figures)
            show({"case": name} | figures)
    return runs


def speed_table(runs: dict[str, list[Json]]) -> str:
    """Draw the rates, and the ratio of one device in a cell to its radio alone, of pairs in turns."""
    lines = ["| cell | million packets per second of one core | dropped | |", "|---|---|---|---|"]
    for name, figures in runs.items():
        rates = [run["packets_per_s"] / 1e6 for run in figures]
        met = ("met" if statistics.median(rates) * 1e6 >= LEAST_PER_S else "MISSED") if "64" in name else ""
        shown = f"{statistics.median(rates):.2f} ({min(rates):.2f} to {max(rates):.2f})"
        lines.append(f"| {name} | {shown} | {figures[0]['dropped']:.0%} | {met} |")
    for direction in ("down", "up"):
        pairs = zip(runs[f"1 device, {direction}"], runs[f"alone, {direction}"], strict=True)
        ratios = sorted(one["packets_per_s"] / alone["packets_per_s"] for one, alone in pairs)
        middle = statistics.median(ratios)
        met = "met" if middle >= LEAST_RATIO else "MISSED"
        shown = f"ratio {middle:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"
        lines.append(f"| 1 device beside its radio alone, {direction} | {shown} | | {met} |")
    return "\n".join(lines)


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("shares", "delays", "accounting", "speed"), help="what is compared")
    parser.add_argument("--quick", action="store_true", help="fewer cases and packets")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="runs of each case of `speed` (default: 7)")
    parser.add_argument(
        "--packets", type=int, default=2_000_000, metavar="N", help="packets of each (default: 2000000)"
    )
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the run, with its machine, in this JSON file")
    arguments = parser.parse_args()
    described = machine()
    if arguments.what == "speed":
        runs: object = measure_speed(arguments.rounds, arguments.packets)
        table = speed_table(runs)  # type: ignore[arg-type]
    else:
        measure, draw = {
            "shares": (measure_shares, shares_table),
            "delays": (measure_delays, delays_table),
            "accounting": (measure_accounting, accounting_table),
        }[arguments.what]
        rows = measure(arguments.quick)
        runs, table = rows, draw(rows)
    record = {"machine": described, "what": arguments.what, "runs": runs}
    if arguments.save:
        arguments.save.parent.mkdir(parents=True, exist_ok=True)
        arguments.save.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record))
    print(table, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
