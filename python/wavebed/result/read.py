"""Records from the JSON of a folder of results."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal, cast

from wavebed.errors import UserError
from wavebed.result.encode import PATH_WORKLOAD
from wavebed.result.model import SCHEMA, Check, RunRecord, TrialLine, TrialRecord, WorkloadRecord
from wavebed.result.names import RUN_FILE, TRIAL_FILE
from wavebed.workload.model import Metric, Outcome, Span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.result.model import Verdict
    from wavebed.workload.model import Better, Json, Status

__all__ = ["read_run", "read_trial"]


def read_run(folder: Path) -> RunRecord:
    """Read ``run.json`` of a folder of results.

    Raises
    ------
    UserError
        If the folder holds no run, or one of another schema.
    """
    file = folder / RUN_FILE
    if not file.is_file():
        raise UserError(f"{folder}: holds no run.json: name a folder that wavebed run wrote")
    data = _load(file)
    try:
        return RunRecord(
            title=cast("str", data["title"]),
            source=cast("str", data["source"]),
            scenario=cast("str", data["scenario"]),
            overrides=cast("dict[str, Json]", data["overrides"]),
            command_line=cast("list[str]", data["command_line"]),
            started=cast("str", data["started"]),
            seed=cast("int", data["seed"]),
            blocks=cast("int", data["blocks"]),
            versions=cast("dict[str, str]", data["versions"]),
            machine=cast("dict[str, str]", data["machine"]),
            workloads=cast("list[dict[str, Json]]", data["workloads"]),
            treatments=cast("list[dict[str, Json]]", data["treatments"]),
            trials=[_line(line) for line in cast("list[dict[str, Json]]", data["trials"])],
            ended=cast("str | None", data["ended"]),
        )
    except (KeyError, TypeError) as error:
        raise _damaged(file, error) from None


def _line(data: dict[str, Json]) -> TrialLine:
    return TrialLine(
        folder=cast("str", data["folder"]),
        block=cast("int", data["block"]),
        treatment=cast("str", data["treatment"]),
        seed=cast("int", data["seed"]),
        verdict=cast("Verdict", data["verdict"]),
        reasons=cast("list[str]", data["reasons"]),
    )


def read_trial(folder: Path) -> TrialRecord:
    """Read ``trial.json`` of a trial's folder; series and events are left to the tables.

    Raises
    ------
    UserError
        If it is not there, damaged, or of another schema.
    """
    file = folder / TRIAL_FILE
    data = _load(file)
    try:
        metrics: dict[str, list[Metric]] = {}
        for item in cast("list[dict[str, Json]]", data["metrics"]):
            metrics.setdefault(cast("str", item["workload"]), []).append(_metric(item))
        return TrialRecord(
            folder=cast("str", data["folder"]),
            block=cast("int", data["block"]),
            treatment=cast("str", data["treatment"]),
            seed=cast("int", data["seed"]),
            started=cast("str", data["started"]),
            wall_s=cast("float", data["wall_s"]),
            verdict=cast("Verdict", data["verdict"]),
            reasons=cast("list[str]", data["reasons"]),
            checks=[_check(check) for check in cast("list[dict[str, Json]]", data["checks"])],
            workloads=[_workload_record(item, metrics) for item in cast("list[dict[str, Json]]", data["workloads"])],
            transport=metrics.get(PATH_WORKLOAD, []),
            engine=cast("dict[str, Json]", data["engine"]),
            laboratory=cast("dict[str, Json]", data["laboratory"]),
        )
    except (KeyError, TypeError) as error:
        raise _damaged(file, error) from None


def _metric(data: dict[str, Json]) -> Metric:
    return Metric(
        name=cast("str", data["name"]),
        value=cast("float | None", data["value"]),
        unit=cast("str", data["unit"]),
        better=cast("Better", data["better"]),
        definition=cast("str", data["definition"]),
    )


def _check(data: dict[str, Json]) -> Check:
    return Check(
        name=cast("str", data["name"]),
        holds=cast("bool", data["holds"]),
        severity=cast('Literal["invalid", "doubtful"]', data["severity"]),
        evidence=cast("str", data["evidence"]),
    )


def _workload_record(data: dict[str, Json], metrics: Mapping[str, Sequence[Metric]]) -> WorkloadRecord:
    name = cast("str", data["name"])
    start_s, end_s = cast("float | None", data["start_s"]), cast("float | None", data["end_s"])
    return WorkloadRecord(
        name=name,
        kind=cast("str", data["kind"]),
        span=None if start_s is None or end_s is None else Span(start_s, end_s, cast("bool", data["is_load"])),
        outcome=Outcome(
            status=cast("Status", data["status"]),
            reason=cast("str", data["reason"]),
            metrics=metrics.get(name, []),
            details=cast("dict[str, Json]", data["details"]),
            doubts=cast("list[str]", data["doubts"]),
        ),
    )


def _load(file: Path) -> dict[str, Json]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{file}: {(error.strerror or 'cannot be read').lower()}: the results are not whole") from None
    except ValueError as error:
        raise UserError(f"{file}: is not JSON ({error}): the results are not whole") from None
    if not isinstance(data, dict) or "schema" not in data:
        raise UserError(f"{file}: names no schema: it must be a file that wavebed run wrote")
    if data["schema"] != SCHEMA:
        raise UserError(
            f"{file}: is of schema {data['schema']}; this wavebed reads schema {SCHEMA}: use the version that wrote it"
        )
    return cast("dict[str, Json]", data)


def _damaged(file: Path, error: Exception) -> UserError:
    what = f"has no {error}" if isinstance(error, KeyError) else f"is not as documented ({error})"
    return UserError(f"{file}: {what}: the results are not whole")
