"""``wavebed compare --baseline``: regressions beyond the margin, of plain runs, campaigns and forwarding tests."""

from __future__ import annotations

import io
import json
import shutil
from typing import TYPE_CHECKING

from tests.process.test_campaign_run import _CAMPAIGN as CAMPAIGN
from tests.process.test_campaign_run import _SCENARIO as SCENARIO
from tests.process.test_campaign_run import Simulated

from wavebed.campaign.read import read_campaign
from wavebed.campaign.run import run_campaign
from wavebed.cli import main
from wavebed.run.progress import Live

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_campaigns_are_compared_cell_by_cell_with_the_margins_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WAVEBED_LOCK", str(tmp_path / "lock"))
    Simulated(monkeypatch)
    live = Live("wavebed campaign", io.StringIO())
    for name, seed in (("old", 5), ("again", 5), ("new", 50)):
        (tmp_path / "s.toml").write_text(SCENARIO)
        file = tmp_path / "c.toml"
        file.write_text(CAMPAIGN.format(blocks=8, more="").replace("seed = 5", f"seed = {seed}\nkeep = 'metrics'"))
        run_campaign(read_campaign(file), tmp_path / name, [], live)
        shutil.rmtree(tmp_path / name / "trials")
    command = ["compare", "--json", "--baseline", str(tmp_path / "old")]
    assert main([*command, str(tmp_path / "again")]) == 0
    again = json.loads(capsys.readouterr().out)
    assert [each["verdict"] for each in again["answers"]] == ["equal"] * 3
    assert "again is a replica of old: every seed has the same value of every compared metric" in again["notes"]
    assert main([*command, str(tmp_path / "new")]) == 0
    new = json.loads(capsys.readouterr().out)
    assert [(each["treatment"], each["verdict"], each["margin"]) for each in new["answers"]] == [
        ("5ms-1mbit", "equivalent", "5%"),
        ("5ms-2mbit", "equivalent", "5%"),
        ("20ms-1mbit", "equivalent", "5%"),
    ]
    assert main([*command, str(tmp_path / "new"), "--margin", "command.time=0.01%", "--undecided", "fail"]) == 1
