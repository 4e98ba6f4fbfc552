"""``wavebed forward`` from the command line, on an emulated device."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from wavebed._core import find_core

if TYPE_CHECKING:
    from pathlib import Path

WITHIN_S = 60.0


def forward(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wavebed", "forward", *arguments, "-o", str(folder)],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


def test_without_the_rights_to_make_a_device_the_status_is_3_and_nothing_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-m", "wavebed", "forward", "-o", str(folder)],
        env={**os.environ, "WAVEBED_CORE": str(tmp_path / "nothing")},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 3
    assert "WAVEBED_CORE" in done.stderr
    assert not folder.exists()


def test_a_port_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    find_core()
    done = forward(tmp_path / "run", "--tx", "nothere0", "--rx", "nothere1")
    assert done.returncode in {2, 3}
    assert "nothere0" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "run").exists()
