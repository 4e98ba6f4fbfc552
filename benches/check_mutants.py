"""The mutation check: does `wavebed check` find what was made worse on purpose, and nothing else?

Usage: python benches/check_mutants.py [--seeds N] [--attempts N] [--only NAME]… [--again FILE] [--save FILE]

Twenty mutants of five small applications (`check_programs`), each checked three times, in turn: the mutant behind the
condition that should catch it (it must fail), the application itself there (it must pass), the mutant over 1 Gbit/s
without delay (it must pass). A check whose machine was late is inconclusive and counts as neither; it is printed.

`--again` takes a saved run and repeats its inconclusive checks only, with more attempts, or with another processor of
virtual time: what decided stays.

Five seeds take about 40 minutes on a quiet machine, one seed eight. Prints a table, and JSON with `--save`; needs root.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from run import machine

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAMS = Path(__file__).parent / "check_programs"
LOSSES = "drop-rate --delay=15ms --bandwidth=10Mbps --queue=25 --rate_to_client=6 --rate_to_server=6"
PLAIN = ("--rate", "1gbit")

REQUIREMENTS = {
    "objects": ["load time p90 < 0.8 s"],
    "asks": [
        "unanswered mean < 0.5 %",
        "longest answer p50 < 2500 ms",
        "sent per question mean < 1.6",
        "wrong answers every = 0",
    ],
    "frames": ["missing frames mean < 3 %"],
    "upload": ["message p90 p90 < 400 ms", "arrived p50 > 3 Mbit/s"],
    "window": ["transfer time p90 < 2.5 s", "sent per packet mean < 2"],
}


@dataclass(frozen=True)
class Mutant:
    """An application made worse, and the condition that should catch it."""

    program: str
    name: str
    scene: str


MUTANTS = [
    *(
        Mutant("objects", name, "stadium/lte")
        for name in ("serial", "no-keep-alive", "chatty", "uncompressed", "no-cache")
    ),
    *(Mutant("asks", name, LOSSES) for name in ("no-retry", "slow-timer", "hasty-timer", "no-ids")),
    Mutant("frames", "no-buffer", "cell-edge-rush-hour/lte"),
    Mutant("frames", "small-buffer", "lift/lte"),
    Mutant("frames", "no-redundancy", LOSSES),
    Mutant("frames", "no-codec", "stadium/lte"),
    *(Mutant("upload", name, LOSSES) for name in ("send-buffer", "reno")),
    *(
        Mutant("window", name, LOSSES)
        for name in ("window-1", "window-80", "go-back", "no-fast-retransmit", "no-timeout")
    ),
]


def check(
    program: str,
    mutant: str,
    path: tuple[str, ...],
    seeds: int,
    attempts: int,
    requirements: list[str],
    time_options: Sequence[str] = ("--real-time",),
) -> dict[str, Any]:
    """Return the result of one check, as `wavebed check --json` prints it, and what it took."""
    client = [sys.executable, f"{PROGRAMS / program}.py", "client", "{server}", "{port}"]
    server = f"{sys.executable} {PROGRAMS / program}.py server {{port}} {mutant}"
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-m", "wavebed", "check", *path, "--seeds", str(seeds), "--attempts", str(attempts)]
        argv += time_options
        argv += [word for each in requirements for word in ("--require", each)]
        argv += ["--server", server, "--limit", "15s", "--json", "-o", f"{folder}/run", "--"]
        argv += [*client, mutant] if mutant else client
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 3) or not done.stdout:
        sys.exit(f"{program} {mutant}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.replace(sys.executable, "python"))
    return {
        "outcome": found["outcome"],
        "wall_s": round(time.monotonic() - began, 1),
        "requirements": [
            {key: each[key] for key in ("requirement", "outcome", "value", "unit", "values", "reasons")}
            for each in found["requirements"]
        ],
    }


def checked(
    mutant: Mutant, seeds: int, attempts: int, before: dict[str, Any], time_options: Sequence[str]
) -> dict[str, Any]:
    """Check a mutant, the application itself, and the mutant over a plain path, but for what was decided before."""
    found: dict[str, Any] = {"program": mutant.program, "mutant": mutant.name, "scene": mutant.scene}
    scene, required = ("--scene", mutant.scene), REQUIREMENTS[mutant.program]
    for column, name, path in (
        ("mutant_behind_scene", mutant.name, scene),
        ("original_behind_scene", "", scene),
        ("mutant_over_1gbit", mutant.name, PLAIN),
    ):
        found[column] = before.get(column) or check(mutant.program, name, path, seeds, attempts, required, time_options)
    return found


def decided(file: Path | None) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return the checks of a saved run that decided, by program, mutant and scene."""
    saved = [] if file is None else json.loads(file.read_text())["mutants"]
    return {
        (each["program"], each["mutant"], each["scene"]): {
            column: each[column] for column in COLUMNS if each[column]["outcome"] != "inconclusive"
        }
        for each in saved
    }


COLUMNS = {"mutant_behind_scene": "fail", "original_behind_scene": "pass", "mutant_over_1gbit": "pass"}


def row(found: dict[str, Any]) -> str:
    cells = [f"{found[column]['outcome']:12}" for column in COLUMNS]
    return f"{found['program']:8} {found['mutant']:20} {found['scene'].split()[0]:18} {' '.join(cells)}"


def counted(results: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return how many of each check had the outcome that was due, another one, or none."""
    told = {}
    for column, due in COLUMNS.items():
        outcomes = [each[column]["outcome"] for each in results]
        right, open_ = outcomes.count(due), outcomes.count("inconclusive")
        told[column] = {"right": right, "wrong": len(outcomes) - right - open_, "inconclusive": open_}
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--attempts", type=int, default=4, help="most attempts at a trial while the machine was late")
    parser.add_argument("--time", choices=("real", "virtual"), default="real", help="in which time the checks run")
    parser.add_argument("--processor", choices=("exact", "host"), default="exact", help="of virtual time (exact)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="these mutants only")
    parser.add_argument("--again", type=Path, metavar="FILE", help="a saved run: repeat what was inconclusive there")
    parser.add_argument("--save", type=Path, help="keep the run, with its machine, in this JSON file")
    args = parser.parse_args()
    described = machine()  # first: what it needs is missing before the run, not after it
    results: list[dict[str, Any]] = []
    before = decided(args.again)
    time_options = [f"--{args.time}-time", *(["--processor", args.processor] if args.time == "virtual" else [])]
    print(f"{'program':8} {'mutant':20} {'scene':18} {'mutant':12} {'original':12} {'1 Gbit/s':12}")
    for mutant in MUTANTS:
        if not args.only or mutant.name in args.only:
            key = (mutant.program, mutant.name, mutant.scene)
            results.append(checked(mutant, args.seeds, args.attempts, before.get(key, {}), time_options))
            print(row(results[-1]), flush=True)
    summary = counted(results)
    print(json.dumps(summary, indent=2))
    if args.save is not None:
        whole = {
            "machine": described,
            "time": time_options,
            "seeds": args.seeds,
            "attempts": args.attempts,
            "summary": summary,
        }
        whole["mutants"] = results
        args.save.write_text(json.dumps(whole, indent=2) + "\n")
    sys.exit(any(each["wrong"] for each in summary.values()))


if __name__ == "__main__":
    main()
