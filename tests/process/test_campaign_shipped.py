"""The shipped campaigns, and the one of the guide, can be planned."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from wavebed.campaign.plan import plan_campaign, plan_text
from wavebed.campaign.read import campaign_file, read_campaign

SHIPPED = sorted(Path(str(resources.files("wavebed"))).glob("scenarios/campaigns/*.toml"))


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_a_shipped_campaign_is_read_by_its_name_and_has_a_question(file: Path) -> None:
    campaign = read_campaign(campaign_file(file.stem))
    assert campaign.file == file
    assert campaign.comparisons
    assert campaign.primaries
    assert campaign.plan.title in plan_text(plan_campaign(campaign, None))
