"""Every notebook has the outputs of a run, and programs that compile; `test_play.py` runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import nbformat
import pytest
from tests.docs.notebooks import FOLDER, kinds_of_outputs
from tests.docs.reader import check_program

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.ipynb")), ids=lambda file: file.stem)
def test_a_notebook_has_the_outputs_of_a_run_and_programs_that_compile(file: Path) -> None:
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert any(kinds_of_outputs(notebook))
    for cell in cells:
        check_program(cell.source, f"{file.name}, cell {cell.execution_count}")
