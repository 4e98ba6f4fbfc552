"""Compute the figures of the named conditions, and write them beside the conditions.

    python docs/validation/condition_figures.py            all of them, or those that are named
    python docs/validation/condition_figures.py --check    say which are not those that are stored
    python docs/validation/condition_figures.py --page     only write the table of docs/guides/conditions.md again

It needs cargo: the idle round trip is that of the link engine in virtual time. The file is written only here;
`tests/validation/test_condition_figures.py` computes some of it again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

import wavebed
from wavebed.channel.low_orbit import STEP_NS, to_pattern
from wavebed.conditions.condition import LOW_ORBIT, RATES, condition, condition_names, low_orbit, variant_names
from wavebed.conditions.lookup import find
from wavebed.conditions.text import FILE, SEEDS, compute, figures_of, stored, text
from wavebed.shipped import folder

if TYPE_CHECKING:
    from wavebed.conditions.condition import PublishedTable
    from wavebed.conditions.text import ConditionFigures

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guides" / "conditions.md"
BEGIN, END = "<!-- table figures -->\n", "<!-- end -->"
GAPS_NS = [100_000_000 + 1_234_567 * number for number in range(101)]
"""Between an answer and the next probe; no multiple of a slot or a frame."""


def rtt_idle_us(name: str, rate_bps: int, up_rate_bps: int) -> int:
    """Return the median round trip of an idle path, at constant rates and without block errors.

    A low-orbit access has no radio stage: its round trip is the sum of the two delays of its patterns.
    """
    if name.endswith(f"/{LOW_ORBIT}"):
        return _pattern_rtt_us(name)
    found = find(name)
    laboratory = json.loads(json.dumps(wavebed.Path.of(**found.options).laboratory()))
    hop = laboratory["network"]["legs"][0]["hops"][0]
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


def _pattern_rtt_us(name: str) -> int:
    access = low_orbit(name)
    trips_ns = []
    for seed in SEEDS:
        down, up = (to_pattern(access, seed, direction) for direction in ("down", "up"))
        assert down.delay_ns is not None
        assert up.delay_ns is not None
        down_ns = np.repeat(down.delay_ns, down.lengths() // STEP_NS)
        up_ns = np.repeat(up.delay_ns, up.lengths() // STEP_NS)
        trips_ns.append(float(np.median(down_ns + up_ns)))
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


def table() -> str:
    """Return the table of the guide: our figures of each variant, and the published ones beside them."""
    lines = [
        "| condition | down: median (p5 to p95 of seconds), Mbit/s | up, Mbit/s | no service | idle RTT | published |",
        "|---|---|---|---|---|---|",
    ]
    for name in condition_names():
        for variant in condition(name).variants:
            ours = figures_of(variant.name)
            down = " to ".join(_mbit(each.median) for each in (ours.down_p5_bps, ours.down_p95_bps))
            compared = "; ".join(_compared(figure, ours) for figure in variant.published if figure.value is not None)
            cells = (
                f"`{variant.name}`",
                f"{_mbit(ours.down_median_bps.median)} ({down})",
                _mbit(ours.up_median_bps.median),
                f"{ours.no_service.median * 100:.2g} %",
                f"{ours.rtt_idle_ms:.3g} ms",
                compared or "–",
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "".join(f"{line}\n" for line in lines)


def _compared(figure: PublishedTable, ours: ConditionFigures) -> str:
    source = figure.source.partition(",")[0]
    if figure.figure not in RATES:
        return f"no service {figure.number() * 100:g} % ({source})"
    direction = figure.figure.partition("-")[0]
    own = getattr(ours, f"{direction}_{figure.statistic}_bps").median
    return f"{direction}, {figure.statistic}: {_mbit(figure.number())}, ours {_mbit(own)} ({source})"


def _mbit(value_bps: float) -> str:
    return f"{float(f'{value_bps / 1e6:.3g}'):g}"


def page() -> str:
    """Return the guide with its table written again."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


def main(arguments: list[str]) -> int:
    """Write or check."""
    if "--page" in arguments:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    chosen = [name for name in arguments if not name.startswith("--")] or list(variant_names())
    file = folder() / FILE
    before = stored() if file.exists() else {}
    kept = {name: each for name, each in before.items() if name in variant_names()}
    after = kept | {name: row(name) for name in chosen}
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    if "--check" not in arguments:
        file.write_text(text(after), encoding="utf-8")
        stored.cache_clear()
        PAGE.write_text(page(), encoding="utf-8")
    print("\n".join(changed) or "nothing has changed")
    return int("--check" in arguments and bool(changed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
