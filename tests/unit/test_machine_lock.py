"""Two runs at once: each learns of the other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import wavebed
from wavebed.experiment import machine_lock
from wavebed.experiment.machine_lock import VARIABLE, measuring
from wavebed.lab import tools

if TYPE_CHECKING:
    from collections.abc import Callable


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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in the place of /run/lock, and name no file."""
    monkeypatch.delenv(VARIABLE)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tools, "FOLDER", tmp_path)
    return tmp_path


def test_each_user_has_a_file_that_nobody_else_can_open(folder: Path) -> None:
    with measuring():
        (made,) = folder.iterdir()
    assert made.name == f"wavebed-{os.geteuid()}.lock"
    assert made.stat().st_mode & 0o777 == 0o600


def test_a_file_that_others_could_open_is_closed_to_them(folder: Path) -> None:
    file = folder / f"wavebed-{os.geteuid()}.lock"
    file.touch(0o644)
    with measuring():
        assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda file: file.symlink_to("/dev/null")])
def test_what_is_no_file_is_no_lock(folder: Path, make: Callable[[Path], None]) -> None:
    make(folder / f"wavebed-{os.geteuid()}.lock")
    with measuring(alone=True) as neighbours:
        assert neighbours.check().holds


def test_many_holders_are_named_briefly(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_lock, "_holders", lambda *_: set(range(1, 10_000)))
    with measuring() as neighbours:
        assert len(neighbours.check().evidence) < 100


def test_nothing_else_waits_for_a_lock_that_others_could_hold() -> None:
    """The other locks are in folders of results, in the caches of this user, and of drafts: a new one needs a look."""
    package = Path(wavebed.__file__).parent
    found = {file.relative_to(package) for file in package.rglob("*.py") if "fcntl.flock(" in file.read_text("utf-8")}
    known = {
        "catalogue": ["sources"],
        "store": ["disk"],
        "experiment": ["machine_lock"],
        "mcp": ["scenarios"],
        "workload": ["drafts", "video_media"],
    }
    known["virtual"] = ["guest"]
    assert found == {Path(folder) / f"{name}.py" for folder, names in known.items() for name in names}
