"""Merge the qlog files that QUIC programs of a trial have written into one, on the clock of the trial.

Format: draft-ietf-quic-qlog-main-schema, current (``file_schema``) and 0.3 (``qlog_version``). JSON text sequences
have one trace per file, so the merged file is one JSON object with a trace for each source. Events stay as they are;
only their times change. wavebed makes no qlog events of its own.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias, cast

from wavebed import __version__
from wavebed.errors import UserError
from wavebed.foreign import MAX_BYTES, open_foreign
from wavebed.output import write_output

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.export.trial import ExportedTrial


SUFFIX = ".qlog"
_ENDINGS = (".qlog", ".sqlog", ".qlog.gz", ".sqlog.gz")
_RECORD = b"\x1e"
"""Begins a record of a JSON text sequence (RFC 7464)."""
_REMEDY = "remove it, or export another trial"
_NEW = {"file_schema": "urn:ietf:params:qlog:file:contained", "serialization_format": "application/qlog+json"}
_DAY_MS = 86_400_000
"""Times further from the trial are not of its clock: a reference may be any number, such as an uptime."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Object: TypeAlias = dict[str, "Json"]


@dataclass
class Merged:
    """The result: its traces, and the sources whose times could not be moved to the clock of the trial."""

    traces: int
    events: int
    unmoved: list[str]


@dataclass
class _Trace:
    """A trace, and the version of qlog it is in (``None``: current)."""

    source: str
    version: str | None
    head: _Object
    events: list[_Object]


def qlog_files(raw: Path) -> list[Path]:
    """Return the qlog files among the raw outputs of a trial."""
    return sorted(file for file in raw.rglob("*") if file.name.endswith(_ENDINGS) and file.is_file())


def export_qlog(trial: ExportedTrial, file: Path) -> Merged:
    """Write the qlog files of a trial as one.

    Raises
    ------
    UserError
        If the trial has none, one is damaged, or they are in different versions of qlog.
    """
    raw = trial.path / "raw"
    traces = [trace for source in qlog_files(raw) for trace in _read(source, str(source.relative_to(raw)))]
    if not traces:
        raise UserError(_without(trial))
    versions = {trace.version: trace.source for trace in traces}
    if len(versions) > 1:
        found = ", ".join(f"{source} in {version or 'the current one'}" for version, source in versions.items())
        raise UserError(
            f"{raw}: the qlog files are in different versions ({found}): let all programs write one version"
        )
    zero_ns = trial.record.engine.get("zero_unix_ns")
    unmoved = [trace.source for trace in traces if not (isinstance(zero_ns, int) and _move(trace, zero_ns))]
    title = f"{trial.run.record.title} {trial.record.treatment}, trial {trial.record.folder}"
    version = traces[0].version
    head = {"qlog_version": version, "qlog_format": "JSON"} if version else _NEW
    document = {
        **head,
        "title": title,
        "description": f"merged by wavebed {__version__}",
        "traces": [{**trace.head, "events": trace.events} for trace in traces],
    }
    write_output(file, json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n")
    return Merged(len(traces), sum(len(trace.events) for trace in traces), unmoved)


def _without(trial: ExportedTrial) -> str:
    """Return the error for a trial without qlog files."""
    need = "run a QUIC program that writes them into its working folder as a workload of kind command (QLOGDIR=.)"
    networks = cast("Sequence[Mapping[str, Json]]", trial.record.resolved.get("workloads") or ())
    protocols = [cast("Mapping[str, Json]", each.get("options") or {}).get("protocol") for each in networks]
    if "h3" in protocols:
        return f"{trial.path}: the workload web ran QUIC, but Chromium and Caddy wrote no qlog: {need}"
    return f"{trial.path}: no workload has written a qlog file (raw/…/*.qlog, *.sqlog): {need}"


def _read(file: Path, source: str) -> Iterator[_Trace]:
    """Yield the traces of a file: one JSON object, or a sequence of JSON texts."""
    data = _content(file)
    try:
        if data.lstrip()[:1] == _RECORD:
            yield _of_sequence([record for record in data.split(_RECORD) if record.strip()], source)
            return
        lines = [line for line in data.splitlines() if line.strip()]
        if len(lines) > 1 and _is_object(lines[0]) and _is_object(lines[1]):
            yield _of_sequence(lines, source)
            return
        document = _object(json.loads(data))
        version = _version(document)
        for trace in cast("list[Json]", document.get("traces") or ()):
            head = _object(trace)
            if "events" in head:  # others say why a trace is missing
                events = [_object(event) for event in cast("list[Json]", head.pop("events"))]
                yield _Trace(source, version, head, events)
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{file}: is no qlog file ({error}): {_REMEDY}") from None


def _content(file: Path) -> bytes:
    with open_foreign(file, _REMEDY, follow=False) as stream:
        if file.suffix != ".gz":
            return stream.read()
        try:
            with gzip.open(cast("io.BufferedReader", stream)) as text:
                data = text.read(MAX_BYTES + 1)
        except (OSError, EOFError) as error:
            raise UserError(f"{file}: cannot be unpacked ({error}): {_REMEDY}") from None
    if len(data) > MAX_BYTES:
        raise UserError(f"{file}: is larger than {MAX_BYTES >> 20} MiB: {_REMEDY}")
    return data


def _of_sequence(records: Sequence[bytes], source: str) -> _Trace:
    """Return the trace of a sequence: the first record is the head, each other one an event."""
    head = _object(json.loads(records[0]))
    events = []
    for number, record in enumerate(records[1:], 2):
        try:
            events.append(_object(json.loads(record)))
        except ValueError:
            if number < len(records):
                raise
            # A program that was ended leaves its last record incomplete (RFC 7464, section 2.3).
    return _Trace(source, _version(head), _object(head.get("trace") or {}), events)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _object(value: Json) -> _Object:
    if not isinstance(value, dict):
        raise TypeError("a value is not an object")
    return dict(value)


def _version(head: Mapping[str, Json]) -> str | None:
    if "file_schema" in head:
        return None
    version = head.get("qlog_version")
    if not isinstance(version, str):
        raise TypeError("neither file_schema nor qlog_version")
    return version


def _move(trace: _Trace, zero_ns: int) -> bool:
    """Make times relative to time zero of the trial, in milliseconds; False if their reference is not known."""
    common = _object(trace.head.get("common_fields") or {})
    since_ms = _relative(trace, common)
    reference_ms = _reference_ms(trace.version, common)
    zero_ms = zero_ns / 1e6
    if since_ms is None or reference_ms is None:
        return False
    if since_ms and abs(reference_ms + since_ms[0] - zero_ms) > _DAY_MS:
        return False
    for event, at_ms in zip(trace.events, since_ms, strict=True):
        event["time"] = round(reference_ms - zero_ms + at_ms, 6)
        event.pop("time_format", None)
    zero = _EPOCH + timedelta(microseconds=zero_ns // 1000)
    if trace.version is None:
        epoch = zero.isoformat(timespec="microseconds").replace("+00:00", "Z")
        changed: _Object = {
            "time_format": "relative_to_epoch",
            "reference_time": {"clock_type": "system", "epoch": epoch},
        }
    else:
        changed = {"time_format": "relative", "reference_time": zero_ms}
    trace.head["common_fields"] = {**common, **changed}
    return True


def _relative(trace: _Trace, common: Mapping[str, Json]) -> list[float] | None:
    """Return the time of each event since the reference, milliseconds; ``None`` if a time or a format is unknown."""
    usual = common.get("time_format") or ("absolute" if trace.version else "relative_to_epoch")
    found: list[float] = []
    for event in trace.events:
        at_ms, form = event.get("time"), event.get("time_format") or usual
        if not isinstance(at_ms, int | float):
            return None
        if form in ("delta", "relative_to_previous_event"):
            found.append(at_ms + (found[-1] if found else 0.0))
        elif form in ("absolute", "relative", "relative_to_epoch"):
            found.append(float(at_ms))
        else:
            return None
    return found


def _reference_ms(version: str | None, common: Mapping[str, Json]) -> float | None:
    """Return the reference of the times, milliseconds since 1970; ``None`` if it is not known."""
    reference = common.get("reference_time")
    if version is not None:
        if common.get("time_format", "absolute") != "relative":
            return 0.0  # the first time is since 1970
        return float(reference) if isinstance(reference, int | float) else None
    if reference is None:
        return 0.0
    if not isinstance(reference, dict):
        return None
    is_system = reference.get("clock_type", "system") == "system"
    text = reference.get("epoch", "1970-01-01T00:00:00.000Z") if is_system else reference.get("wall_clock_time")
    try:
        return (datetime.fromisoformat(str(text)) - _EPOCH) / timedelta(milliseconds=1)
    except (TypeError, ValueError):  # no time, or one without a time zone
        return None
