"""Times the channel: one realisation, an ensemble, and how the cost grows with time and with obstacles.

Usage: python benches/channel.py [--rounds N] [--save FILE]

Prints a table and JSON. Times are of the wall clock, the best of the rounds; imports and files are read before.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from run import machine

from wavebed.channel import ensemble, realise
from wavebed.scene import load
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
    args = parser.parse_args()
    figures = measure(args.rounds)
    print(table(figures))
    text = json.dumps({"machine": machine(), "rounds": args.rounds, "figures": figures}, indent=2)
    print(text)
    if args.save is not None:
        args.save.write_text(text + "\n")


if __name__ == "__main__":
    main()
