"""Every notebook runs from its top, and has the outputs of a run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from tests.docs.notebooks import FOLDER, is_slow, run_notebook
from tests.on_time import left_open

if TYPE_CHECKING:
    from pathlib import Path

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
CASES = [pytest.param(file, id=file.stem, marks=[pytest.mark.slow] if is_slow(file) else []) for file in NOTEBOOKS]


@pytest.mark.path
@pytest.mark.parametrize("file", CASES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_notebook_runs_from_its_top(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PATH", "PYTHONPATH"):  # what `run_notebook` changes comes back
        monkeypatch.setenv(name, os.environ.get(name, ""))
    try:
        ran = run_notebook(file, tmp_path)
    except CellExecutionError:
        if late := left_open(tmp_path):  # a block without a trial
            pytest.skip(f"inconclusive: {late}")
        raise
    stored = nbformat.read(file, as_version=4)
    kinds = [[{each.output_type for each in cell.get("outputs", [])} for cell in one.cells] for one in (stored, ran)]
    assert kinds[0] == kinds[1]
    assert any(kinds[0])
