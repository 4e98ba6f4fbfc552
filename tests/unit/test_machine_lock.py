"""Two runs at once: each learns of the other."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from wavebed.experiment.machine_lock import VARIABLE, measuring

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "lock"))
    return tmp_path / "lock"


def test_a_run_alone_has_nothing_to_say(lock: Path) -> None:
    with measuring() as neighbours:
        assert neighbours.check().holds
    assert lock.read_bytes() == b""


def test_without_a_place_for_the_lock_nothing_is_known_and_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none" / "lock"))
    with measuring() as neighbours:
        assert neighbours.check().holds


def test_a_fifo_in_the_place_of_the_lock_does_not_hang(lock: Path) -> None:
    os.mkfifo(lock)
    with measuring() as neighbours:
        assert neighbours.check().holds
