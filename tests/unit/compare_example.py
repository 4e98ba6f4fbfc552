"""Folders of runs with chosen values, for tests of what compares them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.unit.test_run_write import run_record, trial_record

from wavebed.experiment.store import new_partial
from wavebed.result.model import TrialLine, TrialRecord, WorkloadRecord
from wavebed.run.write import open_run, write_run, write_trial
from wavebed.workload.model import Metric, Outcome, Span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.result.campaign import CampaignRecord

GOODPUT = Metric("goodput", None, "Mbit/s", "higher", "bytes of the body")
TIME = Metric("time", None, "ms", "lower", "curl time_total")
LINES = Metric("lines", None, "", "neither", "a count")


def write_values(
    folder: Path,
    values: Mapping[str, Mapping[Metric, Sequence[float | None]]],
    *,
    processor: str = "an example",
    first_seed: int = 1,
    campaign: CampaignRecord | None = None,
    invalid: Mapping[str, int] | None = None,
) -> Path:
    """Write a run of the workload ``file``.

    Parameters
    ----------
    values : mapping
        By treatment and metric, one of each block; ``None`` is not measured.
    invalid : mapping, optional
        How many of the first trials of a treatment are invalid.
    """
    record = replace(
        run_record(),
        title="One",
        treatments=[{"name": name, "set": {}} for name in values],
        machine={"processor": processor, "cores": "2"},
        campaign=campaign,
    )
    open_run(folder, record, "")
    for treatment, metrics in values.items():
        for block in range(max(map(len, metrics.values()))):
            name = f"{len(record.trials) + 1:04d}-{treatment}"
            given = [replace(each, value=mine[block]) for each, mine in metrics.items() if block < len(mine)]
            trial = _trial(name, block + 1, treatment, first_seed + block, given)
            write_trial(folder, new_partial(folder, name, "mark"), trial)
            verdict = "invalid" if block < (invalid or {}).get(treatment, 0) else "valid"
            record.trials.append(TrialLine(name, block + 1, treatment, first_seed + block, verdict))
    record.ended = "2026-11-21T10:01:00Z"
    write_run(folder, record)
    return folder


def _trial(name: str, block: int, treatment: str, seed: int, metrics: Sequence[Metric]) -> TrialRecord:
    workload = WorkloadRecord("file", "download", Span(0.0, 1.0, True), Outcome(metrics=metrics))
    return replace(
        trial_record(name),
        block=block,
        treatment=treatment,
        seed=seed,
        workloads=[workload],
        transport=[],
        verdict="valid",
    )


def around(middle: float, count: int = 10, spread: float = 1.0) -> list[float]:
    """Return values around a middle, without ties, in no order."""
    return [middle + spread * ((7 * place) % count - (count - 1) / 2) / count for place in range(count)]
