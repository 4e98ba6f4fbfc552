"""Writing a forwarding test: its record is replaced whole after each part, so that the parts that have ended are kept.

Parts are not stored one by one: doubts and refusals of the record depend on several of them.
"""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import msgspec
import pyarrow.parquet as pq
from msgspec.structs import replace

from wavebed.beneath import make_folder, remove_tree
from wavebed.forward.findings import SCHEMA
from wavebed.forward.pcapng import capture
from wavebed.forward.record import KIND, RAW_FOLDER, SAMPLE_FILE, SERIES_FOLDER, tables_of
from wavebed.forward.verdicts import verdict_of
from wavebed.output import replace_file, replacing
from wavebed.result.names import RUN_FILE
from wavebed.secret import redacted_json
from wavebed.store.disk import explained, make_new, sync

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.forward.model import Sample, Trial
    from wavebed.forward.record import ForwardRecord

__all__ = ["KEPT", "rewrite_forward", "write_forward"]

KEPT = "the parts that had ended can be read"
"""The end of an error of the disk."""


def write_forward(folder: Path, record: ForwardRecord, raw: Mapping[str, bytes] | None = None) -> None:
    """Make the folder of a test and write its record.

    Parameters
    ----------
    raw : mapping of str to bytes, optional
        Outputs of other tools, by the names of their files; they are compressed.

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
            make_folder(folder / SERIES_FOLDER)
            make_folder(folder / RAW_FOLDER)
            _write(folder, record, raw or {})
    except BaseException:
        for made in (folder,) if new else folder.iterdir():
            remove_tree(made)
        raise


def rewrite_forward(folder: Path, record: ForwardRecord, raw: Mapping[str, bytes] | None = None) -> None:
    """Replace the record of a test that goes on by a later one, which has all that the earlier one has.

    Raises
    ------
    WavebedError
        If it cannot be written; the earlier record can be read.
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
    for name, table in tables_of(trials).items():
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
        "command_line": list(record.command_line),
        "versions": dict(record.versions),
        "verdict": verdict_of(record.result),
        "result": replace(record.result, trials=()).to_plain(),
    }
    text = json.dumps(told, allow_nan=False, ensure_ascii=False)
    return msgspec.json.format(redacted_json(text.encode()), indent=1).decode() + "\n"


def shown_samples(trials: Sequence[Trial]) -> list[Sample]:
    """Return the frames for the capture: of the first trial of each sizes that counts, and the first that does not."""
    chosen: dict[tuple[object, ...], Sequence[Sample]] = {}
    for trial in trials:
        if trial.counters is not None and trial.counters.sample:
            chosen.setdefault((trial.sizes_bytes, trial.verdict), trial.counters.sample)
    return sorted((sample for samples in chosen.values() for sample in samples), key=lambda sample: sample.time_ns)
