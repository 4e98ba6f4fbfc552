"""Python and Rust read the same patterns: random texts, right and nearly right, are thrown at both."""

from __future__ import annotations

import json
import random
import re
import subprocess
from typing import TYPE_CHECKING

from wavebed._core import find_core
from wavebed.errors import UserError
from wavebed.pattern import TraceSource, read_source

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 3000
HEAD = "# wavebed pattern 1\n# kind = steps\n# duration_s = 9\n"
COLUMNS = ("bler", "sinr_db", "need_db", "loss", "delay_s", "state", "cell")
LIGHT = "light_rate_bps"
FALLBACK = ("fallback_rate_bps", "fallback_sinr_db", "fallback_need_db")
WRONG = 0.03
"""Probability that a value breaks a rule of most columns."""
WRONG_VALUES = (
    *("", "-", "+1", "-1", "1.", ".5", "1e1", " 1", "--1", "1.1.1", "nan"),
    *("100.001", "-100.001", "1.0000", "9" * 30),
)


def value(draw: random.Random, column: str) -> str:
    if draw.random() < WRONG:
        return draw.choice(WRONG_VALUES)
    match column:
        case "sinr_db" | "need_db" | "fallback_sinr_db" | "fallback_need_db":
            digits = f"{draw.uniform(0, 100):.{draw.randint(0, 3)}f}"
            return draw.choice(["", "-"]) + draw.choice([digits, digits, "100", "100.000", "0", "007.5"])
        case "delay_s":
            return f"{draw.uniform(0, 9):.{draw.randint(0, 9)}f}"
        case "state":
            return draw.choice(["los", "nlos", "outage"])
        case "cell":
            return draw.choice(["0", "7", "999", "1000" if draw.random() < 0.2 else "8"])
        case "fallback_rate_bps" | "light_rate_bps":
            return str(draw.choice([0, 1, 10**12, 10**12, draw.randint(0, 10**9)]))
        case _:
            return draw.choice(["0", "1", f"{draw.random():.4f}"])


def text(draw: random.Random) -> str:
    names = draw.sample(COLUMNS, draw.randint(1, 4))
    if draw.random() < 0.9 and ("sinr_db" in names) != ("need_db" in names):
        names = list(dict.fromkeys([*names, "sinr_db", "need_db"]))
    if draw.random() < 0.3:
        names += FALLBACK[: draw.choice([1, 3, 3, 2])]
    light = draw.random() < 0.3
    if light:
        names.insert(draw.randint(0, len(names)), LIGHT)
    keys = "".join(
        light_key(draw, key) for key in ("light_bytes", "light_idle_s") if draw.random() < (0.98 if light else 0.02)
    )
    rows = [
        ",".join([str(row), str(draw.randint(0, 10**9)), *(value(draw, name) for name in names)])
        for row in range(draw.randint(1, 4))
    ]
    return HEAD + keys + "\n".join([",".join(["time_s", "rate_bps", *names]), *rows]) + "\n"


def light_key(draw: random.Random, key: str) -> str:
    values = ["1", "007", "1000000000", "0.000000001", "0.25", "12.50", str(draw.randint(1, 10**6))]
    wrong = ["0", "0.0", "1000000001", "1000000000.000000001", "0.0000000001", *WRONG_VALUES]
    if key == "light_bytes":
        values = [value for value in values if "." not in value]
    return f"# {key} = {draw.choice(wrong if draw.random() < 0.1 else values)}\n"


def refused_here(pattern: str) -> str | None:
    try:
        read_source(TraceSource("pattern", pattern), "native")
    except UserError as error:
        return str(error)
    return None


def refused_there(patterns: list[str], folder: Path) -> list[str | None]:
    """Ask `wavebed-core` to read each as the rate of a link."""
    hosts = [{"name": name, "congestion_control": None} for name in ("server", "client")]
    frame = {"mtu": 1500, "nat": False, "coalesce": {"kind": "off"}, "hosts": hosts}
    lines = []
    for place, pattern in enumerate(patterns):
        file = folder / f"{place}.csv"
        file.write_text(pattern)
        rate = {"kind": "pattern", "file": str(file), "end": "repeat", "start_ns": 0}
        stage = {"stage": "bottleneck", "rate": rate, "queue": {"kind": "infinite"}}
        hop = {"name": "s", "kind": "radio", "down": [stage], "up": []}
        lines.append(json.dumps({**frame, "legs": [{"from": "server", "to": "client", "hops": [hop]}]}))
    done = subprocess.run(
        [find_core(), "check", "--patterns"], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    return [json.loads(line)["problem"] for line in done.stdout.splitlines()]


def test_none_of_three_thousand_patterns_is_refused_by_one_side_alone(tmp_path: Path) -> None:
    draw = random.Random(1)
    patterns = [text(draw) for _ in range(COUNT)]
    here, there = [refused_here(pattern) for pattern in patterns], refused_there(patterns, tmp_path)
    assert len(there) == COUNT
    for pattern, one, other in zip(patterns, here, there, strict=True):
        assert (one is None) == (other is None), f"Python: {one}; Rust: {other}; {pattern}"
        assert other is None or re.search(r"\.csv:\d+: ", other), other
    accepted = sum(problem is None for problem in here)
    assert 0.3 * COUNT < accepted < 0.95 * COUNT
