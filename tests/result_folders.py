"""Folders of results that tests write without a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.result.names import RUN_FILE
from wavebed.store.disk import make_new
from wavebed.store.folder import head_files, write_head
from wavebed.store.records import run_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wavebed.result.model import RunRecord


def open_run(folder: Path, record: RunRecord, scenario: str, texts: Mapping[str, str] | None = None) -> None:
    """Make the folder of a run, with all that it has before its trials."""
    make_new(folder)
    write_head(folder, head_files(record, scenario, texts or {}))


def write_run(folder: Path, record: RunRecord) -> None:
    """Replace ``run.json``."""
    write_head(folder, {RUN_FILE: run_json(record)})
