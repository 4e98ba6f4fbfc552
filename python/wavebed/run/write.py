"""Write results atomically: a trial's folder and `run.json` are renamed into place.

`run.json` is written when a run begins and when it ends. Between the two, the folders of the trials are the list of
trials, so storing a trial takes the same time however many there are.
"""

from __future__ import annotations

import gzip
import os
import shutil
from typing import TYPE_CHECKING

from wavebed.beneath import make_folder, open_beneath, remove, remove_tree, rename
from wavebed.errors import WavebedError
from wavebed.output import replace_file
from wavebed.result.names import RUN_FILE, SCENARIO_FILE, SPEC_FILE, TRIAL_FILE, TRIALS_FOLDER
from wavebed.secret import redacted_toml
from wavebed.store.disk import KEPT, explained, keep_partial, make_new, sync
from wavebed.store.records import run_json, spec_json, trial_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wavebed.result.model import RunRecord, TrialRecord
    from wavebed.run.design import Keep

__all__ = ["compress_raw", "open_run", "write_head", "write_run", "write_trial"]

_PICTURES_AND_FILMS = (".gif", ".jpeg", ".jpg", ".m4s", ".mkv", ".mp4", ".png", ".webm", ".webp")
COMPRESSED = frozenset((*_PICTURES_AND_FILMS, ".br", ".bz2", ".gz", ".parquet", ".woff2", ".xz", ".zip", ".zst"))
"""Compressed formats; these files are not compressed again."""
_GZIP_LEVEL = 6
_UNKEPT: dict[Keep, tuple[str, ...]] = {"all": (), "series": ("raw",), "metrics": ("raw", "series")}


def open_run(run_dir: Path, record: RunRecord, scenario: str, texts: Mapping[str, str] | None = None) -> None:
    """Make the folder of a run with its first ``run.json``, its scenario file if there is one, and other files by name.

    Raises
    ------
    UserError
        If the folder is not empty, or cannot be made.
    WavebedError
        If the disk is full.
    """
    make_new(run_dir)
    write_head(run_dir, record, scenario, texts or {})


def write_head(run_dir: Path, record: RunRecord, scenario: str, texts: Mapping[str, str]) -> None:
    """Write all that is in the folder of a run before its trials; ``run.json`` is first, so that a kill can be resumed.

    Raises
    ------
    WavebedError
        If it cannot be written.
    """
    write_run(run_dir, record)
    with explained(run_dir, KEPT):
        make_folder(run_dir / TRIALS_FOLDER)
        if scenario:
            _replace(run_dir / SCENARIO_FILE, redacted_toml(scenario))
        for name, text in texts.items():
            _replace(run_dir / name, redacted_toml(text))


def write_run(run_dir: Path, record: RunRecord) -> None:
    """Replace ``run.json``.

    Raises
    ------
    WavebedError
        If it cannot be written; the previous file is unchanged.
    """
    with explained(run_dir, KEPT):
        _replace(run_dir / RUN_FILE, run_json(record))


def write_trial(run_dir: Path, partial: Path, record: TrialRecord, keep: Keep = "all", *, durable: bool = True) -> Path:
    """Compress a trial's raw outputs, write ``trial.json``, rename the folder and return it.

    Parameters
    ----------
    keep : str
        What is kept beside ``trial.json`` and ``spec.json``: ``all``, ``series`` or ``metrics`` (neither).
    durable : bool
        Whether to wait until it is on the disk.

    Raises
    ------
    WavebedError
        If it cannot be written, as on a full disk; `partial` is removed.
    """
    try:
        with explained(run_dir, KEPT):
            for name in _UNKEPT[keep]:
                remove_tree(partial / name)
            if keep == "all":
                compress_raw(partial / "raw")
            if record.resolved:
                replace_file(partial / SPEC_FILE, spec_json(record.resolved).encode())
            replace_file(partial / TRIAL_FILE, trial_json(record).encode())
            if durable:
                return keep_partial(partial, record.folder)
            whole = partial.parent / record.folder
            rename(partial, whole)
            return whole
    except WavebedError:
        remove_tree(partial)
        raise


def compress_raw(folder: Path) -> None:
    """Compress every file in `folder` with gzip, except compressed formats; remove sockets and links."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            remove(path)
        elif path.is_file() and path.suffix.lower() not in COMPRESSED:
            _compress(path)


def _compress(path: Path) -> None:
    small = path.with_name(path.name + ".gz")
    with (
        os.fdopen(open_beneath(path, os.O_RDONLY), "rb") as source,
        os.fdopen(open_beneath(small, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as target,
        gzip.GzipFile(path.name, "wb", _GZIP_LEVEL, target, mtime=0) as packed,
    ):
        shutil.copyfileobj(source, packed, 1 << 18)
    remove(path)


def _replace(file: Path, text: str) -> None:
    """Replace the file atomically and wait until it is on the disk."""
    replace_file(file, text.encode())
    sync(file.parent)
