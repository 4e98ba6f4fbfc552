"""Cells as JSON for `crates/wavebed-link/examples/cell_run`, with what `schedulers` says that they give.

`python -m tests.validation.cell_cases > crates/wavebed-link/tests/all/cell_shares.json` writes the cases that the tests
of the crate compare; `benches/cell.py` compares many more.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.validation import schedulers

if TYPE_CHECKING:
    Json = dict[str, Any]

__all__ = [
    "DECODE_NS",
    "POLICIES",
    "PREPARE_NS",
    "PRESETS",
    "SEATS",
    "SLOT_NS",
    "THIN_LOAD",
    "UNITS",
    "alone_ns",
    "by_slot",
    "compute",
    "first_slot",
    "fixture",
    "full",
    "longest_waits",
    "radio",
    "steps",
    "thin",
]

ROOT = Path(__file__).resolve().parent.parent.parent
PRESETS = json.loads((ROOT / "crates/wavebed-link/src/sim/presets.json").read_text())
POLICIES: tuple[schedulers.Policy, ...] = ("proportional_fair", "round_robin", "maximum_rate")
SLOT_NS = 500_000
PREPARE_NS = 1_000_000
DECODE_NS = 100_000
UNITS = 17
THIN_BYTES = 160
THIN_BPS = 100_000_000
THIN_LOAD = THIN_BYTES * 8 / (THIN_BPS * SLOT_NS / 1e9)
"""Part of a slot that a packet of the thin flow takes."""


def radio(
    rate: Json, preset: str = "nr-30khz", direction: str = "down", frame: str | None = "", **keys: object
) -> Json:
    """Return a radio of a preset, without headers and limits."""
    stage: Json = json.loads(json.dumps(PRESETS[preset][direction]))
    stage |= {"rate": rate, "queue": {"kind": "infinite"}, "overhead_bytes": 0} | keys
    if frame is not None:
        stage["slots"]["frame"] = frame
    return {key: value for key, value in stage.items() if value is not None}


def steps(values: np.ndarray, step_s: float, more: dict[str, list[object]] | None = None) -> str:
    """Return the text of a pattern with these rates."""
    names = ",".join(["time_s", "rate_bps", *(more or {})])
    lines = ["# wavebed pattern 1", "# kind = steps", f"# duration_s = {len(values) * step_s:.9g}", names]
    others = list((more or {}).values())
    for row, value in enumerate(values):
        lines.append(",".join([f"{row * step_s:.9g}", str(int(value)), *(str(column[row]) for column in others)]))
    return "\n".join(lines) + "\n"


def full(rates: np.ndarray, step_s: float, policy: str, duration_s: float, **keys: object) -> Json:
    """Return a case of devices with full buffers: one column of rates each; their blocks fail with `bler`."""
    devices: list[Json] = []
    patterns = {}
    bler = keys.pop("bler", None)
    for number, values in enumerate(rates.T):
        rate: Json = {"kind": "constant", "rate_bps": int(values[0])}
        if values.max() > values.min():
            patterns[f"device {number}"] = steps(values, step_s)
            rate = {"kind": "pattern", "file": f"device {number}", "end": "repeat", "start_ns": 0}
        stage = radio(rate, bler=bler[number] if isinstance(bler, list) else None)
        traffic = {"kind": "full", "bytes": 1200, "keep_bytes": int(values.max() / 8 * 0.06) + 5000}
        devices.append({"stages": [stage], "traffic": traffic})
    return {
        "seed": 1,
        "duration_ns": round(duration_s * 1e9),
        "from_ns": round(duration_s * 5e8),
        "blocks": True,
        "scheduler": {"policy": policy, "units": UNITS} | keys,
        "devices": devices,
        "patterns": patterns,
    }


def by_slot(rates: np.ndarray, step_s: float, slots: int) -> np.ndarray:
    """Repeat the rates of blocks for each slot."""
    rows = (np.arange(slots) * SLOT_NS) // round(step_s * 1e9) % len(rates)
    return rates[rows]


SEATS = {"one device a slot": 1, "parts of slots": None}


def compute(
    rates: np.ndarray, policy: schedulers.Policy, seats: int | None, bler: list[float] | None
) -> schedulers.Shares:
    """Compute what a cell gives; 4 slots after a block its repetition may be sent.

    In parts of slots each device has a block in each slot, unless there are more devices than parts.
    """
    if policy == "round_robin" and seats is None and (bler is None or rates.shape[1] <= UNITS):
        return schedulers.equal_parts(rates, bler)
    errors = schedulers.Errors(bler, 4) if bler else None
    return schedulers.shares(rates, policy, errors=errors)


def first_slot(at_ns: int, direction: str) -> int:
    """Return the first slot in which a packet of an idle device can be sent."""
    ready = math.ceil((at_ns + 1 + PREPARE_NS) / SLOT_NS)
    if direction == "down":
        return ready
    grants = PRESETS["nr-30khz"]["up"]["grants"]
    every = grants["request_slots"]
    request = math.ceil(math.ceil((at_ns + 1) / SLOT_NS) / every) * every
    return max(ready, request + grants["schedule_slots"] + grants["prepare_slots"])


def alone_ns(times: list[int], direction: str) -> list[int]:
    """Return the delay of each of these packets in an idle cell."""
    return [(first_slot(at_ns, direction) + 1) * SLOT_NS + DECODE_NS - at_ns for at_ns in times]


def thin(others: int, policy: str, direction: str, times: list[int], end_ns: int) -> Json:
    """Return a case of a device with a packet at each of these times, beside others with full buffers; one a slot."""
    stage = radio({"kind": "constant", "rate_bps": THIN_BPS}, direction=direction)
    busy = {"stages": [stage], "traffic": {"kind": "full", "bytes": 1200, "keep_bytes": 800_000}}
    last = {"stages": [stage], "traffic": {"kind": "times", "bytes": THIN_BYTES, "at_ns": times}}
    scheduler = {"policy": policy, "units": UNITS, "devices_per_slot": 1}
    return {"seed": 1, "duration_ns": end_ns, "scheduler": scheduler, "devices": [busy | {"count": others}, last]}


def longest_waits(others: int, policy: str, direction: str, times: list[int], overlap: bool) -> list[int]:
    """Bound the slots that each of these packets waits beyond an idle cell; `overlap`: several may wait together."""
    starts = [first_slot(at_ns, direction) for at_ns in times]
    if policy == "round_robin":
        bounds = [others] * len(times)
    else:
        bounds = schedulers.fair_waits([(start, THIN_LOAD) for start in starts], others)
    # A packet that the first grant does not cover is reported in its block: a second grant and turn.
    return [2 * bound + 4 for bound in bounds] if direction == "up" and overlap else bounds


def fixture() -> Json:
    """Return the cases of the crate's tests: full buffers with air and rates, thin flows with their longest delays."""
    cases: list[Json] = []
    patterns: dict[str, str] = {}
    devices, seconds = 4, 4.0
    constant = np.geomspace(10e6, 100e6, devices)[None].round()
    fading = schedulers.rayleigh(np.linspace(0, 20, devices), 200, 15e6, 20.0, 7)
    failing = [0.0, 0.3, 0.0, 0.3]
    for name, rates, bler in (
        ("constant rates", constant, None),
        ("Rayleigh fading", fading, None),
        ("blocks that fail", constant, failing),
    ):
        for policy in POLICIES if bler is None else POLICIES[:2]:
            for way, seats in SEATS.items():
                slots = by_slot(rates, 0.01, round(seconds * 1e9 / SLOT_NS))
                expected = compute(slots, policy, seats, bler)
                case = full(rates, 0.01, policy, seconds, bler=bler, devices_per_slot=seats)
                patterns |= case.pop("patterns")
                cases.append(
                    {
                        "name": f"{name}, {policy}, {way}",
                        "case": case,
                        "air": [round(float(air), 5) for air in expected.air],
                        "rate_bps": [round(float(rate)) for rate in expected.rate],
                    }
                )
    times = list(range(500_000_000, 2_500_000_000, 20_037_000))
    for direction in ("down", "up"):
        for policy in POLICIES[:2]:
            waits = longest_waits(12, policy, direction, times, overlap=False)
            pairs = list(zip(alone_ns(times, direction), waits, strict=True))
            cases.append(
                {
                    "name": f"thin flow, {policy}, {direction}",
                    "case": thin(12, policy, direction, times, 2_600_000_000),
                    "longest_ns": [idle + wait * SLOT_NS for idle, wait in pairs],
                }
            )
    return {"patterns": patterns, "cases": cases}


if __name__ == "__main__":
    json.dump(fixture(), sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")
