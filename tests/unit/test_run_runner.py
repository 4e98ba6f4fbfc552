"""A run as a whole, as far as it needs no laboratory."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from wavebed.errors import WavebedError
from wavebed.run.progress import Live
from wavebed.run.runner import run_plan
from wavebed.run.scenario import read_plan
from wavebed.workload.model import Workload

if TYPE_CHECKING:
    from pathlib import Path


def test_content_that_cannot_be_made_ends_the_run_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(workload: Workload, cache: Path) -> None:
        raise OSError(28, "No space left on device", str(cache / workload.name))

    monkeypatch.setattr(Workload, "prepare", full)
    monkeypatch.setattr("wavebed.run.runner._check_programs", lambda _: None)
    scenario = tmp_path / "s.toml"
    scenario.write_text('[path]\nrate = "1mbit"\n[[workload]]\nkind = "command"\nrun = ["true"]\n')
    with pytest.raises(WavebedError, match=r"^command: .*command: no space left on device: ") as told:
        run_plan(read_plan(scenario), tmp_path / "run", [], Live("wavebed run", io.StringIO()))
    assert "\n" not in str(told.value)
