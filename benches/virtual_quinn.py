"""A download by QUIC over a radio scene in virtual time, beside the same by quinn in a laboratory.

Usage: python benches/virtual_quinn.py [--seeds 1-10] [--only SCENE]... [--save FILE] (--help: all options)

For each scene and seed: the path of one trial (`wavebed resolve`), twice in virtual time (targets: the same bytes and
times) and once with real sockets between the hosts of a laboratory, with the same stack, size and time of start; up to
three times where a host has lost datagrams at a full socket. Timers in virtual time have the resolution of tokio, 1 ms.
Target: the medians over the seeds differ by at most 10 %. Then one download without end over 40 s of the radio in
virtual time (target: at most 4 s). Prints JSON and a table. Build first:

    cargo build --release -p wavebed-link-quinn --examples
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TypeAlias

import systems
from run import machine

import wavebed
from wavebed.errors import WavebedError

Figures: TypeAlias = dict[str, float | int | str | None]

EXAMPLES = systems.TARGET / "release/examples"
PORT = 4433
START_S = 2.0
"""When a download begins on the path's clock: the programs of a laboratory are up by then."""
LIMIT_S = 60.0
ENDLESS = 100_000_000_000
MEGABYTES = {"corner-lte": 40, "crowd-sub6": 60, "street-canyon-bus": 100}
SCENARIO = """title = "a download by QUIC"
[[path.hop]]
name = "internet"
kind = "wired"
delay = "8ms"

[[path.hop]]
name = "radio"
kind = "radio"
scene = "{scene}"

[[workload]]
kind = "command"
run = ["true"]
"""
MOST_ATTEMPTS = 3
MOST_RATIO = 1.1
MOST_WALL_S = 4.0


def resolve(scenario: Path, seed: int, folder: Path) -> Path:
    """Write the trial of a seed, with its patterns unpacked."""
    spec = folder / f"{scenario.stem}-seed-{seed}" / "spec.json"
    spec.parent.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "wavebed", "resolve", str(scenario), "--seed", str(seed), "-o", str(spec)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for packed in spec.parent.glob("patterns/*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
    return spec


def virtual(spec: Path, size: int, limit_s: float) -> Figures:
    """Download in virtual time."""
    command = [str(EXAMPLES / "virtual_download"), str(spec), str(size), str(START_S), str(limit_s)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: Figures = json.loads(done.stdout)
    return figures


def real(scenario: Path, seed: int, size: int) -> Figures:
    """Download in a laboratory; the links' lateness is beside the figures."""
    program = str(EXAMPLES / "real_download")
    with wavebed.Path.load(scenario, seed=seed).up() as lab:
        lab.server.start([program, "server", f"0.0.0.0:{PORT}"], stdout=subprocess.DEVNULL)
        lab.server.wait_for_port(PORT, udp=True)
        zero_ns = lab.zero_ns
        if zero_ns is None:
            raise LookupError("the laboratory has no time zero")
        address = lab.server.run(["getent", "ahostsv4", "server"], capture_output=True, check=True).stdout.split()[0]
        at_ns = zero_ns + round(START_S * 1e9)
        client = [program, "client", f"{address}:{PORT}", str(size), str(at_ns)]
        done = lab.client.run(client, capture_output=True, timeout=LIMIT_S + 10, check=True)
    figures: Figures = json.loads(done.stdout)
    doubts = (lab.summary or {}).get("doubts")
    figures["doubts"] = "; ".join(map(str, doubts)) if isinstance(doubts, list) else ""
    return figures


def real_without_doubts(scenario: Path, seed: int, size: int) -> list[Figures]:
    """Download in laboratories until one has no doubts of its own, such as datagrams lost at a full socket."""
    attempts: list[Figures] = []
    while len(attempts) < MOST_ATTEMPTS and (not attempts or attempts[-1]["doubts"]):
        attempts.append(real(scenario, seed, size))
    return attempts


def measure(scene: str, seeds: range, folder: Path) -> list[dict[str, object]]:
    """Run every seed, the virtual and the real download in turn."""
    scenario = folder / f"{scene}.toml"
    scenario.write_text(SCENARIO.format(scene=scene))
    size = MEGABYTES[scene] * 1_000_000
    runs: list[dict[str, object]] = []
    for seed in seeds:
        spec = resolve(scenario, seed, folder)
        one, two = (virtual(spec, size, LIMIT_S) for _ in range(2))
        same = {key: one[key] == two[key] for key in one if key not in ("wall_s", "cpu_s")}
        try:
            *suspect, lab = real_without_doubts(scenario, seed, size)
        except (WavebedError, subprocess.SubprocessError, LookupError) as error:
            print(f"{scene}, seed {seed}: {error}", file=sys.stderr)
            continue
        again = all(same.values())
        runs.append({"seed": seed, "virtual": one, "is_same_again": again, "real": lab, "suspect": suspect})
        note = f" ({len(suspect)} before it with doubts)" if suspect else ""
        print(
            f"{scene}, seed {seed}: real {lab['done_s']:.3f} s{note}, "
            f"virtual {one['done_s']:.3f} s in {one['wall_s']} s",
            file=sys.stderr,
        )
    return runs


def endless(scene: str, folder: Path) -> Figures:
    """Download for 40 s of the radio in virtual time."""
    spec = resolve(folder / f"{scene}.toml", 1, folder)
    return virtual(spec, ENDLESS, 40.0)


def table(results: dict[str, dict[str, object]]) -> str:
    """Draw the table of all scenes."""
    head = (
        "scene",
        "MB",
        "seeds",
        "real, median",
        "virtual, median",
        "ratio (at most 10 % off)",
        "ratio by seed",
        "same again",
        "40 s of the radio (at most 4 s)",
    )
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for scene, result in results.items():
        runs, long = result["runs"], result["endless"]
        assert isinstance(runs, list)
        assert isinstance(long, dict)
        if not runs:
            lines.append(f"| {scene} | no figure |")
            continue
        real_s = [run["real"]["done_s"] for run in runs]
        virtual_s = [run["virtual"]["done_s"] for run in runs]
        each = sorted(one / other for one, other in zip(virtual_s, real_s, strict=True))
        ratio = statistics.median(virtual_s) / statistics.median(real_s)
        met = "met" if 1 / MOST_RATIO <= ratio <= MOST_RATIO else "MISSED"
        quick = "met" if long["wall_s"] <= MOST_WALL_S else "MISSED"
        same = sum(run["is_same_again"] for run in runs)
        long_s = f"{long['wall_s']:.1f} s ({long['cpu_s']:.1f} s of a core)"
        cells = (
            scene,
            MEGABYTES[scene],
            len(runs),
            f"{statistics.median(real_s):.2f} s",
            f"{statistics.median(virtual_s):.2f} s",
            f"{ratio:.3f}: {met}",
            f"{each[0]:.2f} to {each[-1]:.2f}",
            f"{same} of {len(runs)}",
            f"{long['received_bytes'] / 1e6:.0f} MB in {long_s}: {quick}",
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1-10", metavar="A-B", help="the seeds (default: 1-10)")
    parser.add_argument("--only", action="append", choices=[*MEGABYTES], help="a scene (default: all)")
    parser.add_argument("--save", type=Path, help="keep the run, with its machine, in this JSON file")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    described, began = machine(), time.monotonic()
    results: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for scene in arguments.only or MEGABYTES:
            runs = measure(scene, seeds, Path(folder))
            results[scene] = {"megabytes": MEGABYTES[scene], "runs": runs, "endless": endless(scene, Path(folder))}
    record = {"machine": described, "start_s": START_S, "took_s": round(time.monotonic() - began), "scenes": results}
    if arguments.save:
        arguments.save.parent.mkdir(parents=True, exist_ok=True)
        arguments.save.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record))
    print(table(results), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
