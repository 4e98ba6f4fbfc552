"""Blocks and notebooks of the documentation work when they run: those that the options of a run choose."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
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

    from tests.docs.draw import PlayedPage

pytestmark = pytest.mark.timeout(3600)


def test_the_documentation_works(
    played: PlayedPage | Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    for name in ("PATH", "PYTHONPATH"):  # `run_notebook` changes them
        monkeypatch.setenv(name, os.environ.get(name, ""))
    for late in play_notebook(played, tmp_path) if isinstance(played, Path) else play_page(played, tmp_path):
        record_property("late", late)


def play_page(played: PlayedPage, folder: Path) -> list[str]:
    """Play blocks of a page and return the commands whose trials were late."""
    player = Player(played.page, folder, lines_needed(played.page, played.lines), slow=played.slow)
    player.play()
    assert player.ran
    return player.late


def play_notebook(file: Path, folder: Path) -> list[str]:
    """Run a notebook and return why a block of trials had none, if the machine was late."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of the packages that run notebooks
            ran = run_notebook(file, folder)
    except CellExecutionError:
        if late := left_open(folder):
            return [f"{file.name}: {late}"]
        raise
    assert kinds_of_outputs(ran) == kinds_of_outputs(nbformat.read(file, as_version=4))
    return []
