"""Trials that are simulated, for tests of workers: a worker imports this module.

In each third block, trials with even numbers are invalid at their first attempt, except large ones.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, cast

from wavebed.result.model import TrialRecord, WorkloadRecord
from wavebed.spec.part import plain
from wavebed.workload.model import Metric, Outcome, TimeSpan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Lab
    from wavebed.result.model import Check
    from wavebed.run.design import Slot
    from wavebed.run.play import RunningWorkload
    from wavebed.run.resolve import Resolved

__all__ = ["LARGE_BYTES", "large_trial", "quick_trial", "slow_trial", "value_of"]

LARGE_BYTES = 20 << 20
_STEP_S = 0.05
_PIECE_BYTES = 1 << 20
_PIECE = random.Random(0).randbytes(_PIECE_BYTES)


def value_of(treatment: str, seed: int) -> float:
    """Return the metric of a trial: a function of its treatment and seed."""
    return (100 if treatment.startswith("5ms") else 130) + random.Random(f"{seed}").gauss(0, 1)


def quick_trial(
    slot: Slot,
    resolved: Resolved,
    partial: Path,
    look: Callable[[Lab, Sequence[RunningWorkload]], None],
    of_machine: Callable[[], Sequence[Check]],
) -> TrialRecord:
    """Take no time."""
    return _trial(slot, resolved, partial, look, of_machine, lasts_s=0.0, size=1000)


def slow_trial(
    slot: Slot,
    resolved: Resolved,
    partial: Path,
    look: Callable[[Lab, Sequence[RunningWorkload]], None],
    of_machine: Callable[[], Sequence[Check]],
) -> TrialRecord:
    """Take half a second."""
    return _trial(slot, resolved, partial, look, of_machine, lasts_s=0.5, size=1000)


def large_trial(
    slot: Slot,
    resolved: Resolved,
    partial: Path,
    look: Callable[[Lab, Sequence[RunningWorkload]], None],
    of_machine: Callable[[], Sequence[Check]],
) -> TrialRecord:
    """Take ten seconds, and leave 20 MiB; it is always valid."""
    return _trial(slot, resolved, partial, look, of_machine, lasts_s=10.0, size=LARGE_BYTES)


def _trial(
    slot: Slot,
    resolved: Resolved,
    partial: Path,
    look: Callable[[Lab, Sequence[RunningWorkload]], None],
    of_machine: Callable[[], Sequence[Check]],
    *,
    lasts_s: float,
    size: int,
) -> TrialRecord:
    end_s = time.monotonic() + lasts_s
    with (partial / "series" / "samples.bin.gz").open("wb") as samples:
        for written in range(0, size, _PIECE_BYTES):
            samples.write(_PIECE[: size - written])
    (partial / "raw" / "out.txt").write_text(str(slot.seed))
    while True:
        look(cast("Lab", None), ())
        if time.monotonic() >= end_s:
            break
        time.sleep(_STEP_S)
    metric = Metric("time", value_of(slot.treatment.name, slot.seed), "ms", "lower")
    invalid = size < LARGE_BYTES and slot.block % 3 == 0 and slot.number % 2 == 0 and slot.attempt == 1
    return TrialRecord(
        folder=slot.folder,
        block=slot.block,
        treatment=slot.treatment.name,
        seed=slot.seed,
        started="",
        wall_s=lasts_s,
        verdict="invalid" if invalid else "valid",
        reasons=["not so"] if invalid else [],
        checks=list(of_machine()),
        workloads=[WorkloadRecord("command", "command", TimeSpan(0, 1, False), Outcome(metrics=[metric]))],
        resolved=plain(resolved.spec),
        attempt=slot.attempt,
    )
