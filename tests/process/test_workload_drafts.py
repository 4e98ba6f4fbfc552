"""What is made once is in the cache whole, or not at all."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.test_workload_drafts import _certificate, _download, _film

from wavebed.errors import MachineError
from wavebed.workload import drafts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.mark.parametrize("make", [_download, _film, _certificate])
def test_a_full_disk_is_said_in_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MachineError, match="cannot be made: no space left on device"):
        make(tmp_path)
    assert [file for file in tmp_path.rglob("*") if not file.is_dir()] == []


MAKER = """
import sys, time
from pathlib import Path
from wavebed.workload.drafts import drafted_folder
with drafted_folder(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("half")
    print("ready", flush=True)
    while True:  # A signal just before a sleep would wait for its end.
        time.sleep(0.05)
"""


@contextmanager
def making(parent: Path) -> Iterator[subprocess.Popen[str]]:
    """A program that makes something there, and does not come to an end."""
    command = [sys.executable, "-c", MAKER, str(parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as maker:
        try:
            assert maker.stdout is not None
            assert maker.stdout.readline() == "ready\n"
            yield maker
        finally:
            maker.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_leaves_nothing_in_the_cache(tmp_path: Path, number: signal.Signals) -> None:
    with making(tmp_path) as maker:
        maker.send_signal(number)
        maker.wait(60)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_program_left_goes_at_the_next_use_and_what_lives_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "_SURELY_LOCKED_S", 0.0)
    with making(tmp_path) as dead:
        dead.kill()
        dead.wait()
    (left,) = tmp_path.iterdir()
    with making(tmp_path):
        (lives,) = (each for each in tmp_path.iterdir() if each != left)
        with drafts.drafted_folder(tmp_path) as folder:
            assert set(tmp_path.iterdir()) == {lives, folder}
