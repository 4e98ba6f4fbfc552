"""The end of a laboratory's process, as the command that started it sees it."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import pytest

from wavebed.lab.errors import LaboratoryGoneError
from wavebed.lab.limits import LIMITS
from wavebed.path.core import Core

if TYPE_CHECKING:
    from pathlib import Path


REFUSES = """#!{python}
import os, sys, time
os.close(int(sys.argv[4]))
time.sleep(0.3)
sys.exit(2)
"""


def connect_until_refused(core: Core) -> None:
    while True:
        with core.connect():
            time.sleep(0.01)


def test_one_that_closed_its_channel_keeps_its_exit_status(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "core"
    program.write_text(REFUSES.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setattr("wavebed.path.core.find_core", lambda: str(program))
    file = os.open(os.devnull, os.O_RDONLY)
    try:
        core = Core("slow to end", file, [file], LIMITS)
    finally:
        os.close(file)
    with pytest.raises(LaboratoryGoneError, match="has ended"):
        connect_until_refused(core)
    assert core.wait(60) == 2
    core.end(1)
