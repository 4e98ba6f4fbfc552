"""The parts of the demonstration with real tools, made short."""

from __future__ import annotations

from pathlib import Path

import pytest

from wavebed.demo import phases, run
from wavebed.demo.series import Capacity, read_capacity

ROOT = Path(__file__).resolve().parents[2]


def test_a_short_demonstration_ends_in_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "DOWNLOAD_BYTES", 10_000_000)
    monkeypatch.setattr(phases, "IDLE_S", 1.6)
    monkeypatch.setattr(phases, "BULK_S", 2)
    folder, outcome = run.run_demo(tmp_path / "demo", 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo"]
    download, cubic, bbr = outcome.rows
    capacity: Capacity = read_capacity(ROOT / "scenarios/patterns/kau-e5g-1.csv")
    for row in (download, cubic, bbr):
        assert 20 < row.goodput_mbps < max(capacity.rate_bps) / 1e6
        assert row.capacity_share is not None
        assert row.capacity_share < 1
        assert row.loaded_p50_ms is not None
        assert row.loaded_p50_ms >= 22
    assert download.idle_p50_ms == pytest.approx(22, abs=2)
    assert outcome.verdicts[0].holds, outcome.verdicts[0].evidence
    assert {"report.html", "run.json", "table.txt", "scenario.toml", "download", "cubic", "bbr"} == {
        path.name for path in folder.iterdir()
    }
