"""The shipped campaigns, and the one of the guide, can be planned."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

from wavebed.campaign.plan import plan_campaign, plan_text
from wavebed.campaign.read import campaign_file, read_campaign

SHIPPED = sorted(Path(str(resources.files("wavebed"))).glob("scenarios/campaigns/*.toml"))
GUIDE = Path(__file__).parents[2] / "docs/guides/campaigns.md"


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_a_shipped_campaign_is_read_by_its_name_and_has_a_question(file: Path) -> None:
    campaign = read_campaign(campaign_file(file.stem))
    assert campaign.file == file
    assert campaign.comparisons
    assert campaign.primaries
    assert campaign.plan.title in plan_text(plan_campaign(campaign, None))


def test_the_demo_can_decide_and_covers_realisations_of_a_scene() -> None:
    campaign = read_campaign(campaign_file("demo"))
    assert campaign.plan.trials >= 6
    assert campaign.replicate == "channel"
    assert len(campaign.primaries) == 1
    assert plan_campaign(campaign, None).total_s < 170


def test_the_campaign_of_the_guide_has_the_cells_that_its_exclusion_leaves(tmp_path: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    whole, exclude = blocks[0], next(block for block in blocks if block.startswith("[[exclude]]"))
    file = tmp_path / "buffers.toml"
    file.write_text(whole + exclude, encoding="utf-8")
    campaign = read_campaign(file)
    assert [cell.name for cell in campaign.cells] == ["cubic-256kib", "cubic-20mib", "bbr-20mib"]
    assert [(pair.baseline, pair.cell) for pair in campaign.comparisons] == [("cubic-20mib", "bbr-20mib")]
