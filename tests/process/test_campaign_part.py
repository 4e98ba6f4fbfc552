"""A part of a campaign: the cells of some levels, and the baselines beside them; trials are simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.campaign_example import live, simulated
from tests.unit.test_campaign_part import FACTOR, names, part  # noqa: F401

from wavebed.campaign.run import run_campaign
from wavebed.cli.campaign import _of_folder
from wavebed.result.read import read_run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_folder_of_a_part_goes_on_with_that_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavebed.run.runner.run_trial", simulated())
    campaign = part(tmp_path, {"delay": ["40ms"], "rate": ["1mbit"]})
    folder = tmp_path / "out"
    run_campaign(campaign, folder, [], live())
    record = read_run(folder).campaign
    assert record is not None
    assert record.only == {"delay": ["40ms"], "rate": ["1mbit"]}
    assert record.factors == {"delay": ["5ms", "40ms"], "rate": ["1mbit"]}
    assert names(_of_folder(folder)) == ["5ms-1mbit", "40ms-1mbit"]
