"""Compute the figures of the named conditions, and write them beside the conditions.

    python docs/validation/condition_figures.py            all of them, or those that are named
    python docs/validation/condition_figures.py --check    say which are not those that are stored

It needs cargo: the idle round trip is that of the link engine in virtual time. The file is written only here;
`tests/validation/test_condition_figures.py` computes some of it again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import wavebed
from wavebed.conditions.condition import variant_names
from wavebed.conditions.figures import FILE, SEEDS, compute, stored, text
from wavebed.conditions.lookup import find
from wavebed.shipped import folder

ROOT = Path(__file__).resolve().parents[2]
GAPS_NS = [100_000_000 + 1_234_567 * number for number in range(101)]
"""Between an answer and the next probe; no multiple of a slot or a frame."""


def rtt_idle_us(name: str, rate_bps: int, up_rate_bps: int) -> int:
    """Return the median round trip of an idle path, at constant rates and without block errors."""
    found = find(name)
    laboratory = json.loads(json.dumps(wavebed.Path.of(**found.options).laboratory()))
    hop = laboratory["legs"][0]["hops"][0]
    question = {
        "down": _at_constant_rate(hop["down"], rate_bps),
        "up": _at_constant_rate(hop["up"], up_rate_bps),
        "wire_ns": 0,
        "gaps_ns": GAPS_NS,
    }
    command = ["cargo", "run", "--quiet", "--package", "wavebed-link", "--example", "idle_probe"]
    done = subprocess.run(command, cwd=ROOT, input=json.dumps(question), stdout=subprocess.PIPE, text=True, check=True)
    trips_ns: list[int] = json.loads(done.stdout)
    return round(median(trips_ns) / 1e3)


def _at_constant_rate(stages: Any, rate_bps: int) -> list[Any]:
    changed = json.loads(json.dumps(stages))
    for stage in changed:
        if "rate" in stage:
            stage["rate"] = {"kind": "constant", "rate_bps": max(rate_bps, 1_000_000)}
    return list(changed)


def row(name: str) -> dict[str, object]:
    """Return the figures of a variant, as they are stored."""
    found = compute(name, SEEDS)
    rate_bps, up_rate_bps = (round(median(found[key])) for key in ("down_median_bps", "up_median_bps"))
    return {**found, "rtt_idle_us": rtt_idle_us(name, rate_bps, up_rate_bps)}


def main(arguments: list[str]) -> int:
    """Write or check."""
    chosen = [name for name in arguments if not name.startswith("--")] or list(variant_names())
    file = folder() / FILE
    before = stored() if file.exists() else {}
    kept = {name: each for name, each in before.items() if name in variant_names()}
    after = kept | {name: row(name) for name in chosen}
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    if "--check" not in arguments:
        file.write_text(text(after), encoding="utf-8")
    print("\n".join(changed) or "nothing has changed")
    return int("--check" in arguments and bool(changed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
