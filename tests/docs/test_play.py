"""Blocks and notebooks of the documentation work when they run: those that the options of a run choose."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from tests.docs.notebooks import kinds_of_outputs, run_notebook
from tests.docs.player import Player
from tests.docs.units import lines_needed
from tests.on_time import left_open

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.docs.draw import PlayedPage

pytestmark = pytest.mark.timeout(3600)


def test_blocks_of_a_page_work(
    played: PlayedPage, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    player = Player(played.page, tmp_path, lines_needed(played.page, played.lines), slow=played.slow)
    player.play()
    assert player.ran
    for late in player.late:
        record_property("late", late)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_notebook_runs_from_its_top(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    for name in ("PATH", "PYTHONPATH"):  # `run_notebook` changes them
        monkeypatch.setenv(name, os.environ.get(name, ""))
    try:
        ran = run_notebook(notebook, tmp_path)
    except CellExecutionError:
        if late := left_open(tmp_path):  # a block without a trial
            record_property("late", f"{notebook.name}: {late}")
            return
        raise
    assert kinds_of_outputs(ran) == kinds_of_outputs(nbformat.read(notebook, as_version=4))
