"""Two busy loops beside `wavebed check`: is any decision wrong?

Usage: python benches/check_inconclusive.py [--runs N] [--loops N] [--seeds N] [--save FILE]

Runs in turn: two applications that meet their requirements, one of a time by a small margin, the other of counts and
percentages, and each made worse (`check_programs`), all behind a condition and with busy loops on this machine. The
applications must not fail, the mutants must not pass; a late machine makes them inconclusive. Before that, the same
without busy loops, eight times: do the checks decide at all?

Fifty runs take about ten minutes. Prints a table, and JSON with `--save`; needs root.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from check_mutants import LOSSES, check
from run import machine

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES = (
    ("objects", "", "stadium/lte", ["load time max < 0.7 s"], "fail"),
    ("asks", "", LOSSES, ["unanswered mean < 0.5 %", "wrong answers every = 0"], "fail"),
    ("objects", "no-keep-alive", "stadium/lte", ["load time max < 0.7 s"], "pass"),
    ("asks", "no-retry", LOSSES, ["unanswered mean < 0.5 %", "wrong answers every = 0"], "pass"),
)
"""Program, mutant, scene, requirements, and what would be wrong. Without load the objects take about 0.55 s and 1 s."""
QUIET_RUNS = 8


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep this many processors busy."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def runs(count: int, seeds: int) -> list[dict[str, Any]]:
    found = []
    for number in range(count):
        program, mutant, scene, required, wrong = CASES[number % len(CASES)]
        result = check(program, mutant, ("--scene", scene), seeds, 1, required)
        name = f"{program} {mutant}".strip()
        found.append({"application": name, "wrong": result["outcome"] == wrong, **result})
        told = result["requirements"][-1]
        print(f"{number + 1:3} {name:22} {result['outcome']:12} {told['reasons'][:1]}", flush=True)
    return found


def counts(found: list[dict[str, Any]]) -> dict[str, Any]:
    outcomes: dict[str, Counter[str]] = {}
    for each in found:
        outcomes.setdefault(each["application"], Counter())[each["outcome"]] += 1
    return {"runs": len(found), "wrong": sum(each["wrong"] for each in found), "outcomes": outcomes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--loops", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--save", type=Path, help="keep the run, with its machine, in this JSON file")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no busy loop outlives this process
    described = machine()
    print("without busy loops")
    quiet = runs(QUIET_RUNS, args.seeds)
    print(f"with {args.loops} busy loops")
    with busy(args.loops):
        loaded = runs(args.runs, args.seeds)
    summary = {"quiet": counts(quiet), "busy": counts(loaded)}
    print(json.dumps(summary, indent=2))
    if args.save is not None:
        whole = {"machine": described, "loops": args.loops, "seeds": args.seeds, "summary": summary}
        args.save.write_text(json.dumps(whole | {"quiet": quiet, "busy": loaded}, indent=2) + "\n")
    sys.exit(summary["busy"]["wrong"] + summary["quiet"]["wrong"] > 0)


if __name__ == "__main__":
    main()
