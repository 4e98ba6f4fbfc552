"""Run a notebook from its top, in a folder of its own: ``python -m tests.docs.notebooks FILE…`` stores the outputs."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from tests.docs.blocks import ROOT

if TYPE_CHECKING:
    from nbformat import NotebookNode

__all__ = ["FOLDER", "is_slow", "kinds_of_outputs", "run_notebook"]

FOLDER = ROOT / "docs/notebooks"
LIMIT_S = 600


def is_slow(file: Path) -> bool:
    """Whether its metadata say that it takes ten seconds or more."""
    return bool(nbformat.read(file, as_version=4).metadata.get("wavebed", {}).get("slow"))


def run_notebook(file: Path, folder: Path) -> NotebookNode:
    """Return the notebook with new outputs.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a cell fails.
    """
    from nbclient import NotebookClient

    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    os.environ["PATH"] = f"{_programs(folder)}:{os.environ['PATH']}"
    notebook = nbformat.read(file, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=LIMIT_S,
        startup_timeout=LIMIT_S,
        iopub_timeout=LIMIT_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    return notebook


def kinds_of_outputs(notebook: NotebookNode) -> list[set[str]]:
    """Return the kinds of output of each cell: text, pictures."""
    return [{each.output_type for each in cell.get("outputs", [])} for cell in notebook.cells]


def _programs(folder: Path) -> Path:
    """Let ``wavebed`` be this package and this interpreter, whatever is installed."""
    place = folder / ".bin"
    place.mkdir()
    program = place / "wavebed"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m wavebed "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return place


if __name__ == "__main__":
    for given in map(Path, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as made:
            nbformat.write(run_notebook(given, Path(made)), given)
