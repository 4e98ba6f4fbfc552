"""Another user holds locks of the machine: root measures without a wait, and the trial says that somebody measured."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wavebed.experiment.machine_lock import VARIABLE, measuring
from wavebed.lab import tools

if TYPE_CHECKING:
    from collections.abc import Iterator

STRANGER = 65534
_HOLDS = """
import fcntl, os, sys
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
try:
    lock = os.open(sys.argv[2], os.O_RDONLY | os.O_CREAT, 0o666)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("holds", flush=True)
except OSError:
    print("refused", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder in the place of /run/lock, in which everybody can make files."""
    if os.geteuid() != 0:
        pytest.fail("this test takes the part of another user: run it as root")
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o1777)
        monkeypatch.delenv(VARIABLE)
        monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
        monkeypatch.setattr(tools, "FOLDER", Path(made))
        yield Path(made)


@contextmanager
def stranger_with(file: Path, answer: str = "holds") -> Iterator[int]:
    words = [sys.executable, "-c", _HOLDS, str(STRANGER), str(file)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{answer}\n"
        yield process.pid
        process.communicate("", timeout=60)


def waiting(processes: str) -> None:
    pytest.fail(f"waits for process {processes}")


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("name", ["wavebed.lock", "wavebed-0.lock"])
def test_a_lock_that_another_user_made_and_holds_stops_nobody(folder: Path, name: str, alone: bool) -> None:
    with stranger_with(folder / name), measuring(waiting, alone=alone) as neighbours:
        assert neighbours.check().holds
        with stranger_with(folder / "wavebed-0.lock", "refused"):
            pass


@pytest.mark.parametrize("alone", [False, True])
def test_a_run_of_another_user_is_seen_and_not_waited_for(folder: Path, alone: bool) -> None:
    with stranger_with(folder / f"wavebed-{STRANGER}.lock") as pid, measuring(waiting, alone=alone) as neighbours:
        check = neighbours.check()
        assert (check.holds, check.severity) == (False, "suspect")
        assert check.evidence == f"another run measured at the same time (process {pid})"


def test_a_file_under_the_name_of_a_third_user_is_no_run(folder: Path) -> None:
    with stranger_with(folder / "wavebed-1000.lock"), measuring(waiting) as neighbours:
        assert neighbours.check().holds
