"""Records as JSON. NaN and infinities become null (not measured)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING

import msgspec

from wavebed.result.model import SCHEMA
from wavebed.secret import redacted_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.config.data import Json
    from wavebed.result.model import RunRecord, TrialRecord, WorkloadRecord
    from wavebed.workload.model import Metric

__all__ = ["PATH_WORKLOAD", "run_json", "spec_json", "trial_json"]

PATH_WORKLOAD = "path"
"""The workload name of metrics of the path and its flows."""


def run_json(record: RunRecord) -> str:
    """Return the text of ``run.json``."""
    return _text({"schema": SCHEMA, **msgspec.to_builtins(record)})


def trial_json(record: TrialRecord) -> str:
    """Return the text of ``trial.json``. Series and events are in the tables."""
    groups = [(PATH_WORKLOAD, record.transport), *((each.name, each.outcome.metrics) for each in record.workloads)]
    return _text(
        {
            "schema": SCHEMA,
            "folder": record.folder,
            "block": record.block,
            "treatment": record.treatment,
            "seed": record.seed,
            "attempt": record.attempt,
            "started": record.started,
            "wall_s": record.wall_s,
            "verdict": record.verdict,
            "reasons": record.reasons,
            "checks": record.checks,
            "workloads": [_workload(workload) for workload in record.workloads],
            "metrics": [_metric(workload, metric) for workload, metrics in groups for metric in metrics],
            "engine": record.engine,
        }
    )


def spec_json(resolved: Mapping[str, Json]) -> str:
    """Return the text of ``spec.json``; a repetition of the trial asks for the secrets that are left out."""
    return _text(resolved)


def _metric(workload: str, metric: Metric) -> dict[str, object]:
    return {"workload": workload, **msgspec.to_builtins(metric, enc_hook=_number)}


def _workload(workload: WorkloadRecord) -> dict[str, object]:
    span, outcome = workload.span, workload.outcome
    return {
        "name": workload.name,
        "kind": workload.kind,
        "status": outcome.status,
        "reason": outcome.reason,
        "start_s": None if span is None else span.start_s,
        "end_s": None if span is None else span.end_s,
        "is_load": None if span is None else span.is_load,
        "doubts": outcome.doubts,
        "details": outcome.details,
    }


def _text(value: object) -> str:
    """Return a record as JSON without secrets: every record of a run passes here."""
    return msgspec.json.format(redacted_json(msgspec.json.encode(value, enc_hook=_number)), indent=1).decode() + "\n"


def _number(value: object) -> int | float:
    """Return a number of NumPy as Python's."""
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"{type(value).__name__} in a record: JSON has no such type")
