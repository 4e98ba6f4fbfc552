"""Records as JSON. NaN and infinities become null (not measured)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, cast

from wavebed.result.model import SCHEMA
from wavebed.secret import redacted_line, redacted_table

if TYPE_CHECKING:
    from wavebed.config.data import Json
    from wavebed.result.model import Check, RunRecord, TrialLine, TrialRecord, WorkloadRecord
    from wavebed.workload.model import Metric

__all__ = ["PATH_WORKLOAD", "run_json", "spec_json", "trial_json"]

PATH_WORKLOAD = "path"
"""The workload name of metrics of the path and its flows."""


def run_json(record: RunRecord) -> str:
    """Return the text of ``run.json``."""
    return _text(
        {
            "schema": SCHEMA,
            "title": record.title,
            "source": record.source,
            "scenario": record.scenario,
            "overrides": redacted_table(record.overrides),
            "command_line": redacted_line(record.command_line),
            "started": record.started,
            "ended": record.ended,
            "seed": record.seed,
            "blocks": record.blocks,
            "versions": record.versions,
            "machine": record.machine,
            "workloads": record.workloads,
            "treatments": record.treatments,
            "trials": [_line(line) for line in record.trials],
        }
    )


def trial_json(record: TrialRecord) -> str:
    """Return the text of ``trial.json``. Series and events are in the tables."""
    metrics = [(PATH_WORKLOAD, metric) for metric in record.transport]
    metrics += [(workload.name, metric) for workload in record.workloads for metric in workload.outcome.metrics]
    return _text(
        {
            "schema": SCHEMA,
            "folder": record.folder,
            "block": record.block,
            "treatment": record.treatment,
            "seed": record.seed,
            "started": record.started,
            "wall_s": record.wall_s,
            "verdict": record.verdict,
            "reasons": record.reasons,
            "checks": [_check(check) for check in record.checks],
            "workloads": [_workload(workload) for workload in record.workloads],
            "metrics": [_metric(workload, metric) for workload, metric in metrics],
            "engine": record.engine,
        }
    )


def spec_json(resolved: Mapping[str, Json]) -> str:
    """Return the text of ``spec.json`` with secrets replaced, which a repetition of the trial reports."""
    known = dict(resolved)
    for key in ("treatment", "workloads"):
        if key in known:
            known[key] = cast("Json", redacted_table({"": known[key]})[""])
    return _text(known)


def _line(line: TrialLine) -> dict[str, object]:
    return {
        "folder": line.folder,
        "block": line.block,
        "treatment": line.treatment,
        "seed": line.seed,
        "verdict": line.verdict,
        "reasons": line.reasons,
    }


def _check(check: Check) -> dict[str, object]:
    return {
        "code": check.code,
        "name": check.name,
        "holds": check.holds,
        "severity": check.severity,
        "evidence": check.evidence,
    }


def _metric(workload: str, metric: Metric) -> dict[str, object]:
    return {
        "workload": workload,
        "name": metric.name,
        "value": metric.value,
        "unit": metric.unit,
        "better": metric.better,
        "definition": metric.definition,
    }


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
    return json.dumps(_plain(value), allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def _plain(value: object) -> object:
    """Return what JSON can say; a float that is not a number becomes ``None``."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_plain(item) for item in value]
    raise TypeError(f"{type(value).__name__} in a record: JSON has no such type")
