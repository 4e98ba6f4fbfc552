"""Read records from the JSON of a folder of results."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, cast, get_args

from wavebed.errors import UserError
from wavebed.foreign import read_json
from wavebed.result.encode import PATH_WORKLOAD
from wavebed.result.model import SCHEMA, Check, RunRecord, TrialLine, TrialRecord, Verdict, WorkloadRecord
from wavebed.result.names import DEVICES_FOLDER, INCOMPLETE, RUN_FILE, SPEC_FILE, TRIAL_FILE, TRIALS_FOLDER
from wavebed.workload.model import Metric, Outcome, Span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.workload.model import Better, Status

__all__ = ["FORWARD", "Kind", "kind_of", "read_run", "read_trial"]

Kind: TypeAlias = Literal["run", "forward", "reproduction"]
FORWARD: Literal["forward"] = "forward"
"""The key `kind` of a forwarding test's ``run.json``. A run of a scenario has no such key."""
_MOST_CHARACTERS = 1 << 16
"""Longest text: a page repeats names many times."""
VERDICTS: tuple[str, ...] = get_args(Verdict)


def kind_of(folder: Path) -> Kind:
    """Return the kind of a folder of results.

    Raises
    ------
    UserError
        If it has no results, or its ``run.json`` cannot be read.
    """
    file = folder / RUN_FILE
    if not file.is_file():
        if (folder / DEVICES_FOLDER).is_dir():
            return "reproduction"
        raise UserError(f"{folder}: has no run.json: name a folder that wavebed run or wavebed forward wrote")
    data = read_json(file, INCOMPLETE)
    return FORWARD if isinstance(data, dict) and data.get("kind") == FORWARD else "run"


def read_run(folder: Path) -> RunRecord:
    """Read ``run.json`` of a folder of results; before the end of the run, add the stored trials.

    Raises
    ------
    UserError
        If the folder has no run, or one of another schema.
    """
    file = folder / RUN_FILE
    if not file.is_file():
        raise UserError(f"{folder}: has no run.json: name a folder that wavebed run wrote")
    data = _load(file)
    if data.get("kind") == FORWARD:
        raise UserError(f"{folder}: is of a forwarding test: use wavebed report, wavebed compare or wavebed.load")
    try:
        record = RunRecord(
            title=_one(str, data, "title"),
            source=_one(str, data, "source"),
            scenario=_one(str, data, "scenario"),
            overrides=_one(dict, data, "overrides"),
            command_line=_each(str, data, "command_line"),
            started=_one(str, data, "started"),
            seed=_one(int, data, "seed"),
            blocks=_one(int, data, "blocks"),
            versions=_one(dict, data, "versions"),
            machine=_one(dict, data, "machine"),
            workloads=[_named(item, "name", "kind") for item in _each(dict, data, "workloads")],
            treatments=[_named(item, "name") for item in _each(dict, data, "treatments")],
            trials=[_line(item) for item in _each(dict, data, "trials")],
            ended=None if data["ended"] is None else _one(str, data, "ended"),
        )
    except (KeyError, TypeError) as error:
        raise _damaged(file, error) from None
    if record.ended is None:
        listed = {line.folder for line in record.trials}
        record.trials += [line for line in _kept(folder) if line.folder not in listed]
    return record


def _kept(folder: Path) -> list[TrialLine]:
    """Return the stored trials in order."""
    lines = []
    for file in (folder / TRIALS_FOLDER).glob(f"*/{TRIAL_FILE}"):
        with suppress(UserError):  # the others stay readable
            trial = read_trial(file.parent)
            reasons = list(trial.reasons)
            lines.append(TrialLine(trial.folder, trial.block, trial.treatment, trial.seed, trial.verdict, reasons))
    return sorted(lines, key=lambda line: (len(line.folder.partition("-")[0]), line.folder))


def _named(data: dict[str, Json], *keys: str) -> dict[str, Json]:
    for key in keys:
        _one(str, data, key)
    return data


def _line(data: dict[str, Json]) -> TrialLine:
    return TrialLine(
        folder=_one(str, data, "folder"),
        block=_one(int, data, "block"),
        treatment=_one(str, data, "treatment"),
        seed=_one(int, data, "seed"),
        verdict=cast("Verdict", _word(VERDICTS, data, "verdict")),
        reasons=_each(str, data, "reasons"),
    )


def read_trial(folder: Path) -> TrialRecord:
    """Read ``trial.json`` of a trial's folder; series and events are in the tables.

    Raises
    ------
    UserError
        If it is missing, damaged, or of another schema.
    """
    file = folder / TRIAL_FILE
    data = _load(file)
    try:
        metrics: dict[str, list[Metric]] = {}
        for item in _each(dict, data, "metrics"):
            metrics.setdefault(_one(str, item, "workload"), []).append(_metric(item))
        return TrialRecord(
            folder=_one(str, data, "folder"),
            block=_one(int, data, "block"),
            treatment=_one(str, data, "treatment"),
            seed=_one(int, data, "seed"),
            started=_one(str, data, "started"),
            wall_s=_number(data, "wall_s") or 0.0,
            verdict=cast("Verdict", _word(VERDICTS, data, "verdict")),
            reasons=_each(str, data, "reasons"),
            checks=[_check(item) for item in _each(dict, data, "checks")],
            workloads=[_workload_record(item, metrics) for item in _each(dict, data, "workloads")],
            transport=metrics.get(PATH_WORKLOAD, []),
            engine=_one(dict, data, "engine"),
            resolved=_resolved(folder, data),
        )
    except (KeyError, TypeError) as error:
        raise _damaged(file, error) from None


def _resolved(folder: Path, data: dict[str, Json]) -> Mapping[str, Json]:
    """Return the specification; older ``trial.json`` have only the network, as ``laboratory``."""
    if "laboratory" in data:
        return {"network": _one(dict, data, "laboratory")}
    from wavebed.spec.link import plain
    from wavebed.spec.trial import load_spec

    file = folder / SPEC_FILE
    if not file.exists():
        return {}
    return plain(load_spec(file, INCOMPLETE))


def _metric(data: dict[str, Json]) -> Metric:
    return Metric(
        name=_one(str, data, "name"),
        value=_number(data, "value"),
        unit=_one(str, data, "unit"),
        better=cast("Better", _one(str, data, "better")),
        definition=_one(str, data, "definition"),
    )


def _check(data: dict[str, Json]) -> Check:
    return Check(
        name=_one(str, data, "name"),
        holds=_one(bool, data, "holds"),
        severity=cast('Literal["invalid", "suspect"]', _word(("invalid", "suspect"), data, "severity")),
        evidence=_one(str, data, "evidence"),
        code=_one(str, data, "code") if "code" in data else "",
    )


def _workload_record(data: dict[str, Json], metrics: Mapping[str, Sequence[Metric]]) -> WorkloadRecord:
    name = _one(str, data, "name")
    start_s, end_s = _number(data, "start_s"), _number(data, "end_s")
    span = None if start_s is None or end_s is None else Span(start_s, end_s, _one(bool, data, "is_load"))
    return WorkloadRecord(
        name=name,
        kind=_one(str, data, "kind"),
        span=span,
        outcome=Outcome(
            status=cast("Status", _one(str, data, "status")),
            reason=_one(str, data, "reason"),
            metrics=metrics.get(name, []),
            details=_one(dict, data, "details"),
            doubts=_each(str, data, "doubts"),
        ),
    )


_T = TypeVar("_T")


def _one(kind: type[_T], data: Mapping[str, Json], key: str) -> _T:
    value = data[key]
    if not isinstance(value, kind):
        raise TypeError(f"{key} is a {type(value).__name__}")
    if isinstance(value, str) and len(value) > _MOST_CHARACTERS:
        raise TypeError(f"{key} has more than {_MOST_CHARACTERS} characters")
    return value


def _each(kind: type[_T], data: Mapping[str, Json], key: str) -> list[_T]:
    values: list[object] = _one(list, data, key)
    for value in values:
        if not isinstance(value, kind):
            raise TypeError(f"there is a {type(value).__name__} in {key}")
    return cast("list[_T]", values)


def _number(data: Mapping[str, Json], key: str) -> float | None:
    value = data[key]
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise TypeError(f"{key} is a {type(value).__name__}")


_EARLIER_WORDS = {"doubtful": "suspect"}
"""Words of earlier versions, and the present ones."""


def _word(words: Sequence[str], data: Mapping[str, Json], key: str) -> str:
    value = _one(str, data, key)
    value = _EARLIER_WORDS.get(value, value)
    if value not in words:
        raise TypeError(f"{key} is {value!r}")
    return value


def _load(file: Path) -> dict[str, Json]:
    data = read_json(file, INCOMPLETE)
    if not isinstance(data, dict) or "schema" not in data:
        raise UserError(f"{file}: names no schema: it must be a file that wavebed run wrote")
    if data["schema"] != SCHEMA:
        raise UserError(
            f"{file}: is of schema {data['schema']}; this wavebed reads schema {SCHEMA}: use the version that wrote it"
        )
    return cast("dict[str, Json]", data)


def _damaged(file: Path, error: Exception) -> UserError:
    what = f"has no {error}" if isinstance(error, KeyError) else f"is not as documented ({error})"
    return UserError(f"{file}: {what}: {INCOMPLETE}")
