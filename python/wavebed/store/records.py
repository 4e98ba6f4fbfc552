"""The records of a folder of results, ``run.json`` and ``trial.json``, as JSON and back.

NaN and infinities become null (not measured).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import msgspec

from wavebed.beneath import guard
from wavebed.errors import UserError
from wavebed.foreign import is_file, is_there, read_json
from wavebed.formats import RESULTS, require_version
from wavebed.prepared import prepared
from wavebed.result.model import SCHEMA, Check, RunRecord, Text, TrialLine, TrialRecord, Verdict, WorkloadRecord
from wavebed.result.names import DEVICES_FOLDER, INCOMPLETE, RUN_FILE, SPEC_FILE, STORED, TRIAL_FILE
from wavebed.secret import redacted_json, redacted_table
from wavebed.workload.model import Better, Metric, Outcome, Status, TimeSpan

if TYPE_CHECKING:
    from wavebed.config.data import Json
else:
    Json = Any  # any JSON value, for msgspec

PATH_WORKLOAD = "path"
"""The workload name of metrics of the path and its flows."""


def run_json(record: RunRecord) -> str:
    """Return the text of ``run.json``."""
    return _text({"schema": SCHEMA, **msgspec.to_builtins(record)})


def metrics_of(record: TrialRecord) -> list[tuple[str, Sequence[Metric]]]:
    """Return the metrics of the path, of each workload, and of the devices and groups of a cell, by their names."""
    own = [(each.name, each.outcome.metrics) for each in record.workloads]
    return [(PATH_WORKLOAD, record.transport), *own, *record.devices.items()]


def trial_json(record: TrialRecord) -> str:
    """Return the text of ``trial.json``. Series and events are in the tables."""
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
            "metrics": [_metric(workload, metric) for workload, metrics in metrics_of(record) for metric in metrics],
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


Kind: TypeAlias = Literal["run", "forward", "reproduction"]
FORWARD: Literal["forward"] = "forward"
"""The key `kind` of a forwarding test's ``run.json``. A run of a scenario has no such key."""


def kind_of(folder: Path) -> Kind:
    """Return the kind of a folder of results.

    Raises
    ------
    UserError
        If it has no results, or its ``run.json`` cannot be read.
    """
    guard(folder)
    file = folder / RUN_FILE
    if not is_file(file):
        if is_there(folder) and (folder / DEVICES_FOLDER).is_dir():
            return "reproduction"
        raise UserError(f"{folder}: has no run.json: {other_results(folder, 'wavebed run or wavebed forward')}")
    data = read_json(file, INCOMPLETE)
    return FORWARD if isinstance(data, dict) and data.get("kind") == FORWARD else "run"


_RUNS = Path("runs")
"""Where commands put results without ``-o``."""
_MOST_FOLDERS = 1000


def other_results(folder: Path, command: str) -> str:
    """Return the end of a message about a folder without results: a folder of a similar name, or the newest one."""
    from wavebed.config.suggest import nearest  # few names are mistyped

    found: list[Path] = []
    for place in dict.fromkeys((folder.parent, _RUNS)):
        with suppress(OSError):
            found += [each for each in islice(place.iterdir(), _MOST_FOLDERS) if is_file(each / RUN_FILE)]
    near = nearest(str(folder), map(str, found)) or nearest(folder.name, [each.name for each in found])
    if near is not None:
        return f"did you mean {next(str(each) for each in found if near in (str(each), each.name))!r}?"
    newest = max(found, key=lambda each: (each / RUN_FILE).stat().st_mtime, default=None)
    return f"name a folder that {command} wrote" + ("" if newest is None else f", such as {newest}")


def read_run(folder: Path, *, trials: bool = True) -> RunRecord:
    """Read ``run.json`` of a folder of results; before the end of the run, add the stored trials.

    Parameters
    ----------
    trials : bool
        Whether the stored trials are wanted; reading them takes a millisecond each.

    Raises
    ------
    UserError
        If the folder has no run, or one of another schema.
    """
    guard(folder)
    file = folder / RUN_FILE
    if not is_file(file):
        raise UserError(f"{folder}: has no run.json: {other_results(folder, 'wavebed run')}")
    content = read_json(file, INCOMPLETE)
    if isinstance(content, dict) and content.get("kind") == FORWARD:
        raise UserError(f"{folder}: is of a forwarding test: use wavebed report, wavebed compare or wavebed.load")
    data = _checked(file, content)
    try:
        record = msgspec.convert(_renamed(_without_secrets(data)), prepared(RunRecord))
        for keys, items in ((("name", "kind"), record.workloads), (("name",), record.treatments)):
            for item in items:
                msgspec.convert([item[key] for key in keys], list[Text])
    except (KeyError, msgspec.ValidationError) as error:
        raise _damaged(file, error) from None
    if record.ended is None and trials:
        listed = {line.folder for line in record.trials}
        record.trials += [line for line in _kept(folder) if line.folder not in listed]
    return record


def _kept(folder: Path) -> list[TrialLine]:
    """Return the stored trials in order."""
    lines = []
    for file in folder.glob(STORED):
        with suppress(UserError):  # the others stay readable
            lines.append(TrialLine.of(read_trial(file.parent)))
    return sorted(lines, key=lambda line: (len(line.folder.partition("-")[0]), line.folder))


def read_trial(folder: Path) -> TrialRecord:
    """Read ``trial.json`` of a trial's folder; series and events are in the tables.

    Raises
    ------
    UserError
        If it is missing, damaged, or of another schema.
    """
    guard(folder)
    file = folder / TRIAL_FILE
    data = _checked(file, read_json(file, INCOMPLETE))
    try:
        given = msgspec.convert(_renamed(data), prepared(_Trial))
        resolved = {"network": given.laboratory} if given.laboratory is not None else _resolved(folder)
    except msgspec.ValidationError as error:
        raise _damaged(file, error) from None
    metrics: dict[str, list[Metric]] = {}
    for each in given.metrics:
        metrics.setdefault(each.workload, []).append(
            Metric(each.name, each.value, each.unit, each.better, each.definition)
        )
    known = {PATH_WORKLOAD, *(each.name for each in given.workloads)}
    return TrialRecord(
        folder=given.folder,
        block=given.block,
        treatment=given.treatment,
        seed=given.seed,
        started=given.started,
        wall_s=given.wall_s or 0.0,
        verdict=given.verdict,
        reasons=given.reasons,
        checks=given.checks,
        workloads=[each.record(metrics.get(each.name, [])) for each in given.workloads],
        transport=metrics.get(PATH_WORKLOAD, []),
        engine=given.engine,
        resolved=resolved,
        attempt=given.attempt,
        devices={name: found for name, found in metrics.items() if name not in known},
    )


def read_trial_metrics(folder: Path) -> list[tuple[str, Metric]]:
    """Read workload and metric of each figure in ``trial.json``, and nothing else of the trial.

    Raises
    ------
    UserError
        If the file is missing, damaged, or of another schema.
    """
    guard(folder)
    file = folder / TRIAL_FILE
    try:
        given = msgspec.convert(_checked(file, read_json(file, INCOMPLETE)).get("metrics"), prepared(list[_Metric]))
    except msgspec.ValidationError as error:
        raise _damaged(file, error) from None
    return [(each.workload, Metric(each.name, each.value, each.unit, each.better, each.definition)) for each in given]


class _Metric(msgspec.Struct):
    workload: Text
    name: Text
    value: float | None
    unit: Text
    better: Better
    definition: Text


class _Workload(msgspec.Struct):
    name: Text
    kind: Text
    status: Status
    reason: Text
    start_s: float | None
    end_s: float | None
    is_load: bool | None
    doubts: list[Text]
    details: dict[str, Json]

    def record(self, metrics: Sequence[Metric]) -> WorkloadRecord:
        span = None
        if self.start_s is not None and self.end_s is not None:
            span = TimeSpan(self.start_s, self.end_s, bool(self.is_load))
        outcome = Outcome(self.status, self.reason, metrics, details=self.details, doubts=self.doubts)
        return WorkloadRecord(self.name, self.kind, span, outcome)


class _Trial(msgspec.Struct):
    """``trial.json``; older ones have the network as ``laboratory``."""

    folder: Text
    block: int
    treatment: Text
    seed: int
    started: Text
    wall_s: float | None
    verdict: Verdict
    reasons: list[Text]
    checks: list[Check]
    workloads: list[_Workload]
    metrics: list[_Metric]
    engine: dict[str, Json]
    attempt: int = 1
    laboratory: dict[str, Json] | None = None


def _resolved(folder: Path) -> Mapping[str, Json]:
    from wavebed.spec.part import plain
    from wavebed.spec.trial import load_spec

    file = folder / SPEC_FILE
    return plain(load_spec(file, INCOMPLETE)) if file.exists() else {}


def _without_secrets(data: dict[str, Json]) -> dict[str, Json]:
    """Return what the user wrote without secrets: records of earlier versions and of others may have some."""
    wrote = ("title", "source", "overrides", "command_line", "workloads", "treatments")
    return data | cast("dict[str, Json]", redacted_table({key: data[key] for key in wrote if key in data}))


def _renamed(data: dict[str, Json]) -> dict[str, Json]:
    """Replace the words of earlier versions in the record, its trials and its checks."""
    for key in ("trials", "checks"):
        tables = data.get(key)
        for table in tables if isinstance(tables, list) else ():
            if isinstance(table, dict):
                _renamed(table)
    for key in ("verdict", "severity"):
        if data.get(key) == "doubtful":
            data[key] = "suspect"
    return data


def _checked(file: Path, data: object) -> dict[str, Json]:
    if not isinstance(data, dict) or "schema" not in data:
        raise UserError(f"{file}: names no schema: it must be a file that wavebed run wrote")
    require_version(file, data["schema"], RESULTS, "schema")
    return cast("dict[str, Json]", data)


def _damaged(file: Path, error: Exception) -> UserError:
    what = f"has no {error}" if isinstance(error, KeyError) else f"is not as documented ({error})"
    return UserError(f"{file}: {what}: {INCOMPLETE}")
