"""The report of 10 000 cells in 10 blocks with 30 metrics keeps its limits of time, memory and size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benches.campaign_report import measure, wanted
from tests.made_up_campaigns import write_campaign_folder

if TYPE_CHECKING:
    from pathlib import Path


def test_ten_thousand_cells_are_read_and_reported_within_a_minute(tmp_path: Path) -> None:
    found = measure(write_campaign_folder(tmp_path / "run", wanted(10_000, 10, "comparison")))
    assert found["wall_s"] <= 60
    assert found["peak_mib"] <= 2048
    assert found["page_bytes"] <= 5_000_000
