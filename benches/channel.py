"""Times the channel: one realisation, an ensemble, and how the cost grows with time and with obstacles.

Usage: python benches/channel.py [--rounds N] [--save FILE]
       python benches/channel.py --crowds [--before FOLDER] [--rounds N] [--save FILE]

Prints a table and JSON. Times are of the wall clock, the best of the rounds; imports and files are read before.

`--crowds` measures people who walk along a street, with and without bodies that shade the others: processor time for
each, the median of the rounds. FOLDER has the package of another version, which is measured in turns with this one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from run import machine

from wavebed.channel import ensemble, realise, realise_devices
from wavebed.scene import load
from wavebed.scene.geometry import shifted
from wavebed.scene.model import Obstacle, Screen

if TYPE_CHECKING:
    from collections.abc import Callable

    from wavebed.scene.model import SceneModel

SEEDS = 100
SCENES = ("kau-e5g-1", "kau-e5g-2", "kau-e5g-3", "street-canyon-bus", "cas-mmwave-iron", "kau-e5g-lte")


def seconds(run: Callable[[], object], rounds: int) -> float:
    """Best of some runs, after one that warms up."""
    run()
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def people(scene: SceneModel, count: int) -> SceneModel:
    """Put so many people around the walk, a metre apart."""
    crowd = tuple(
        Obstacle(f"person {k}", "person", Screen((70.0 - k % 5, 0.3 * k, 0.0), 0.3, 1.7)) for k in range(count)
    )
    return replace(scene, obstacles=crowd)


def longer(scene: SceneModel, times: int) -> SceneModel:
    """The same walk, so many times as slow."""
    trajectory = scene.ue.trajectory
    slow = replace(trajectory, time_s=tuple(t * times for t in trajectory.time_s))
    return replace(scene, duration_s=scene.duration_s * times, ue=replace(scene.ue, trajectory=slow))


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Run everything."""
    figures: dict[str, dict[str, float]] = {}
    for name in SCENES:
        scene = load(name)
        alone = seconds(lambda scene=scene: realise(scene), rounds)
        many = seconds(lambda scene=scene: sum(1 for _ in ensemble(scene, seeds=range(SEEDS))), max(1, rounds // 3))
        figures[name] = {
            "steps": round(scene.duration_s / scene.step_s),
            "one_s": alone,
            "one_times_real_time": scene.duration_s / alone,
            "ensemble_s": many,
            "ensemble_times_real_time": SEEDS * scene.duration_s / many,
        }
    scene = load("kau-e5g-1")
    bases = {"duration": longer(scene, 1), "obstacles": people(scene, 10)}
    makers = {"duration": lambda times: longer(scene, times), "obstacles": lambda times: people(scene, 10 * times)}
    for name, make in makers.items():
        base = seconds(lambda name=name: realise(bases[name]), rounds)
        for times in (4, 16):
            grown = make(times)
            figures[f"{name} ×{times}"] = {"cost_ratio": seconds(lambda grown=grown: realise(grown), rounds) / base}
    return figures


CROWDS = (1, 6, 24, 64)


def crowd(count: int, *, bodies: bool) -> SceneModel:
    """Return the street of `street-crowd` with `count` people on 24 m of its pavement, who walk 56 m in 40 s."""
    scene = load("street-crowd")
    walker = next(device for device in scene.devices if device.name == "walker-1")
    people = tuple(
        replace(
            walker,
            name=f"walker-{number + 1}",
            stream=f" walker-{number + 1}",
            body=bodies,
            spread=None,
            trajectory=shifted(walker.trajectory, (36 + 24 * number / count, 16.9 + 0.1 * (number % 5), 1.5)),
        )
        for number in range(count)
    )
    return replace(scene, ue=people[0], devices=people)


def one_crowd(count: int, *, bodies: bool) -> None:
    """Print the processor time in seconds that each person of a crowd costs."""
    next(realise_devices(crowd(2, bodies=bodies)))  # imports and tables
    scene = crowd(count, bodies=bodies)
    start = time.process_time()
    found = sum(1 for _ in realise_devices(scene))
    print((time.process_time() - start) / found)


def crowds(rounds: int, before: Path | None) -> dict[str, list[float]]:
    """Measure crowds of all sizes, the versions in turns; each run is a process of its own."""
    versions = {"now": None} if before is None else {"before": before, "now": None}
    figures: dict[str, list[float]] = {}
    for _ in range(rounds):
        for count in CROWDS:
            for bodies in ("with", "without"):
                for version, folder in versions.items():
                    command = [sys.executable, __file__, "--one-crowd", f"{count}", "--bodies", bodies]
                    place = {} if folder is None else {"PYTHONPATH": str(folder.resolve())}
                    run = subprocess.run(command, env=os.environ | place, capture_output=True, text=True, check=True)
                    figures.setdefault(f"{count} {bodies} bodies, {version}", []).append(float(run.stdout))
    return figures


def crowd_table(figures: dict[str, list[float]]) -> str:
    """Lay the figures of crowds out."""
    return "\n".join(f"{name:<28}{statistics.median(all_s) * 1e3:>8.1f} ms" for name, all_s in figures.items())


def table(figures: dict[str, dict[str, float]]) -> str:
    """Lay the figures out."""
    lines = [f"{'scene':<20}{'steps':>8}{'one':>10}{'× real':>9}{f'{SEEDS} seeds':>12}{'× real':>9}"]
    for name, row in figures.items():
        if "steps" in row:
            lines.append(
                f"{name:<20}{row['steps']:>8.0f}{row['one_s'] * 1e3:>7.0f} ms{row['one_times_real_time']:>9.0f}"
                f"{row['ensemble_s']:>10.2f} s{row['ensemble_times_real_time']:>9.0f}"
            )
    lines += [
        f"{name:<20} costs {row['cost_ratio']:.1f} times as much"
        for name, row in figures.items()
        if "cost_ratio" in row
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--crowds", action="store_true")
    parser.add_argument("--before", type=Path)
    parser.add_argument("--one-crowd", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--bodies", choices=("with", "without"), default="with", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one_crowd is not None:
        one_crowd(args.one_crowd, bodies=args.bodies == "with")
        return
    if args.crowds:
        runs = crowds(args.rounds, args.before)
        print(crowd_table(runs))
        text = json.dumps({"machine": machine(), "rounds": args.rounds, "what": "crowds", "runs": runs}, indent=2)
    else:
        figures = measure(args.rounds)
        print(table(figures))
        text = json.dumps({"machine": machine(), "rounds": args.rounds, "figures": figures}, indent=2)
    print(text)
    if args.save is not None:
        args.save.write_text(text + "\n")


if __name__ == "__main__":
    main()
