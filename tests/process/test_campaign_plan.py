"""The plan of a campaign: cells, order, time, disk, and the blocks that its questions need, also with a pilot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.unit.campaign_example import example, run_until_killed, simulated

from wavebed.campaign.pilot import read_pilot
from wavebed.campaign.plan import plan_campaign, plan_json, plan_text
from wavebed.campaign.read import read_campaign
from wavebed.campaign.results import read_campaign_results
from wavebed.campaign.text import answers_text
from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.result.load import load_run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVEBED_LOCK", str(tmp_path / "lock"))


def changed(folder: Path, before: str, after: str) -> Path:
    file = folder / "c.toml"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))
    return file


def test_a_plan_has_the_cells_the_seeds_and_the_order_that_run(tmp_path: Path) -> None:
    campaign = example(tmp_path, blocks=4)
    plan = plan_campaign(campaign, None)
    text = plan_text(plan)
    assert text.startswith("c: 3 cells in 4 blocks, 12 trials, about ")
    assert "seeds 5 to 8, one for each block; blocks differ in the seed alone" in text
    assert "command time (margin 5%), delay against 5ms, 2 comparisons" in text
    assert "not known without --pilot" in text
    assert run_until_killed(campaign, tmp_path / "run", 10**9, simulated())
    assert list(plan.first) == list(load_run(tmp_path / "run").trials["treatment"][:3])


def test_a_pilot_gives_durations_sizes_and_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = example(tmp_path, blocks=6)
    assert run_until_killed(campaign, tmp_path / "pilot", 10**9, simulated())
    assert main(["campaign", "plan", str(tmp_path / "c.toml"), "--pilot", str(tmp_path / "pilot"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["expected_s"] == pytest.approx(0.1 * 18)
    files = [path.stat().st_size for path in (tmp_path / "pilot/trials").rglob("*") if path.is_file()]
    assert told["disk_bytes"] == pytest.approx(sum(files), rel=0.01)
    assert [(each["baseline"], each["cell"]) for each in told["questions"]] == [("5ms", "20ms"), ("5ms", "40ms")]
    assert all(each["blocks_needed"] >= 2 for each in told["questions"])
    assert told["blocks_needed"] == max(each["blocks_needed"] for each in told["questions"])


def test_a_plan_without_decided_metrics_says_so(tmp_path: Path) -> None:
    example(tmp_path)
    text = (tmp_path / "c.toml").read_text()
    (tmp_path / "c.toml").write_text(text[: text.index("[[primary]]")])
    told = plan_text(plan_campaign(read_campaign(tmp_path / "c.toml"), None))
    assert told.endswith("no primary metrics: everything is exploratory; add [[primary]] to decide")


def test_a_margin_in_another_unit_than_its_metric_is_refused(tmp_path: Path) -> None:
    assert run_until_killed(example(tmp_path), tmp_path / "pilot", 10**9, simulated())
    campaign = read_campaign(changed(tmp_path, '"5%"', '"5 s"'))
    with pytest.raises(UserError, match="primary: the margin of command time is in s, the metric in ms: write the"):
        plan_campaign(campaign, read_pilot(tmp_path / "pilot"))


def test_a_pilot_that_did_not_measure_the_metric_is_told(tmp_path: Path) -> None:
    assert run_until_killed(example(tmp_path), tmp_path / "pilot", 10**9, simulated())
    campaign = read_campaign(changed(tmp_path, '"time"', '"tmie"'))
    plan = plan_campaign(campaign, read_pilot(tmp_path / "pilot"))
    assert "the pilot did not measure command tmie in these cells" in plan_text(plan)
    assert plan_json(plan)["blocks_needed"] is None


def test_a_pilot_without_a_block_that_ended_is_refused(tmp_path: Path) -> None:
    assert not run_until_killed(example(tmp_path), tmp_path / "pilot", 40, simulated())
    with pytest.raises(UserError, match="pilot: no block has ended: a pilot needs some"):
        read_pilot(tmp_path / "pilot")


def test_a_metric_that_no_trial_measures_is_never_decided_and_is_told(tmp_path: Path) -> None:
    example(tmp_path, blocks=8)
    file = changed(tmp_path, '"time"', '"tmie"')
    file.write_text(file.read_text() + '[stop]\nwhen = "decided"\nleast-blocks = 1\n')
    assert run_until_killed(read_campaign(file), tmp_path / "run", 10**9, simulated())
    results = read_campaign_results(tmp_path / "run")
    assert (len(results.ended), results.campaign.stopped) == (8, "")
    assert "command tmie: no trial measured it" in answers_text(tmp_path / "run")
