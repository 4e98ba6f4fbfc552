"""Writing a forwarding test: its record is replaced after each part, so that the parts that have ended are kept."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from wavebed.experiment.disk import explained, make_new, sync
from wavebed.forward.findings import SCHEMA
from wavebed.forward.pcapng import capture
from wavebed.forward.record import (
    FRAME_COUNTERS,
    INTERFACE_COUNTERS,
    KIND,
    LATENCY,
    LATENCY_TABLE,
    RAW_FOLDER,
    SAMPLE_FILE,
    SCHEMAS,
    SENT,
    SERIES_FOLDER,
    SIZES_TABLE,
    TRIALS_TABLE,
)
from wavebed.forward.verdicts import verdict_of
from wavebed.output import replace_file, replacing
from wavebed.result.names import RUN_FILE
from wavebed.secret import redacted_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.forward.model import InterfaceCounters, Sample, Trial
    from wavebed.forward.record import ForwardRecord

__all__ = ["KEPT", "rewrite_forward", "write_forward"]

KEPT = "the parts that had ended can be read"
"""How an error of the disk ends."""


def write_forward(folder: Path, record: ForwardRecord, raw: Mapping[str, bytes] | None = None) -> None:
    """Make the folder of a test and write its record.

    Parameters
    ----------
    raw : mapping of str to bytes, optional
        What other tools printed, by the name of its file; it is compressed.

    Raises
    ------
    UserError
        If the folder holds something, or cannot be made.
    WavebedError
        If it cannot be written, as on a full disk; nothing is left behind.
    """
    new = not folder.exists()
    make_new(folder)
    try:
        with explained(folder, "nothing was kept"):
            (folder / SERIES_FOLDER).mkdir()
            (folder / RAW_FOLDER).mkdir()
            _write(folder, record, raw or {})
    except BaseException:
        for made in (folder,) if new else folder.iterdir():
            shutil.rmtree(made, ignore_errors=True)
        raise


def rewrite_forward(folder: Path, record: ForwardRecord, raw: Mapping[str, bytes] | None = None) -> None:
    """Replace the record of a test that goes on by a later one, which has all that the earlier one has.

    Raises
    ------
    WavebedError
        If it cannot be written; what was written before can be read.
    """
    with explained(folder, KEPT):
        _write(folder, record, raw or {})


def _write(folder: Path, record: ForwardRecord, raw: Mapping[str, bytes]) -> None:
    """Replace every file of the folder; `run.json` last, so that every trial it speaks of is in the tables."""
    for name, text in raw.items():
        replace_file(folder / RAW_FOLDER / f"{name}.gz", gzip.compress(text, mtime=0))
    trials = record.result.trials
    samples = shown_samples(trials)
    replace_file(folder / RAW_FOLDER / SAMPLE_FILE, capture(samples, record.result.receiver.interface))
    for name, table in tables(trials).items():
        with replacing(folder / SERIES_FOLDER / f"{name}.parquet") as stream:
            pq.write_table(table, stream, compression="zstd")
    replace_file(folder / RUN_FILE, run_json(record).encode())
    for place in (folder / SERIES_FOLDER, folder / RAW_FOLDER, folder):
        sync(place)


def run_json(record: ForwardRecord) -> str:
    """Return the text of ``run.json``: everything but the trials, which are tables."""
    told = {
        "kind": KIND,
        "schema": SCHEMA,
        "command_line": redacted_line(record.command_line),
        "versions": dict(record.versions),
        "verdict": verdict_of(record.result),
        "result": replace(record.result, trials=()).to_plain(),
    }
    return json.dumps(told, allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def shown_samples(trials: Sequence[Trial]) -> list[Sample]:
    """Return the frames for the capture: of the first trial of each sizes that counts, and the first that does not."""
    chosen: dict[tuple[object, ...], Sequence[Sample]] = {}
    for trial in trials:
        if trial.counters is not None and trial.counters.sample:
            chosen.setdefault((trial.sizes_bytes, trial.verdict), trial.counters.sample)
    return sorted((sample for samples in chosen.values() for sample in samples), key=lambda sample: sample.time_ns)


def tables(trials: Sequence[Trial]) -> dict[str, pa.Table]:
    """Return the tables of the trials."""
    sizes = [
        {"trial": place, "size_bytes": size, "frames": frames}
        for place, trial in enumerate(trials)
        if trial.counters is not None
        for size, frames in sorted(trial.counters.sizes.items())
    ]
    latency = [
        {"trial": place, "from_s": low, "below_s": high, "frames": frames}
        for place, trial in enumerate(trials)
        if trial.counters is not None and trial.counters.latency is not None
        for low, high, frames in trial.counters.latency.counts
    ]
    rows = {
        LATENCY_TABLE: latency,
        SIZES_TABLE: sizes,
        TRIALS_TABLE: [_row(place, trial) for place, trial in enumerate(trials)],
    }
    return {name: pa.Table.from_pylist(found, schema=SCHEMAS[name]) for name, found in rows.items()}


def _row(place: int, trial: Trial) -> dict[str, object]:
    """Return a row of the trials' table; what a trial has not is null."""
    latency = None if trial.counters is None else trial.counters.latency
    refusals = [{"code": one.code, "reason": one.reason, "remedy": one.remedy} for one in trial.refusals]
    return {
        "trial": place,
        "purpose": trial.purpose,
        "sizes_bytes": list(trial.sizes_bytes),
        "offered_pps": trial.offered_pps,
        "duration_s": trial.duration_s,
        "sent": trial.sent,
        "received": trial.received,
        "lost": trial.lost,
        "sent_pps": trial.sent_pps,
        "received_pps": trial.received_pps,
        "took_s": trial.took_s,
        "verdict": trial.verdict,
        "refusals": refusals,
        "cpu": list(trial.cpu.items()),
        **_columns("send", trial.send, SENT),
        **_columns("counters", trial.counters, FRAME_COUNTERS),
        **_columns("latency", latency, LATENCY),
        **_port("tx_port", trial.tx),
        **_port("rx_port", trial.rx),
    }


def _port(prefix: str, counters: InterfaceCounters | None) -> dict[str, object]:
    driver = None if counters is None else list(counters.driver.items())
    return {**_columns(prefix, counters, INTERFACE_COUNTERS), f"{prefix}_driver": driver}


def _columns(prefix: str, value: object | None, names: Mapping[str, pa.DataType]) -> dict[str, object]:
    return {f"{prefix}_{name}": None if value is None else getattr(value, name) for name in names}
