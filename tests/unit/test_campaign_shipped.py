"""The shipped campaigns, and the one of the guide, can be planned."""

from __future__ import annotations

import re
from pathlib import Path

from wavebed.campaign.plan import plan_campaign
from wavebed.campaign.read import campaign_file, read_campaign

GUIDE = Path(__file__).parents[2] / "docs/guides/campaigns.md"


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
