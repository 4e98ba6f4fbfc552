"""``wavebed site info``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from wavebed.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_info_counts_by_kind_and_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WAVEBED_CACHE", str(tmp_path))
    assert main(["site", "info", "google", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["objects"], said["bytes"], said["notes"]) == (10, 1_100_000, [])
    for rows in (said["by_kind"], said["by_origin"]):
        assert sum(row["objects"] for row in rows) == 10
        assert sum(row["bytes"] for row in rows) == 1_100_000
    assert said["folder"].startswith(str(tmp_path))
    assert main(["site", "info", "google"]) == 0
    assert "together" in capsys.readouterr().out


def test_a_site_that_does_not_exist_ends_with_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["site", "info", "nowhere"]) == 2
    assert capsys.readouterr().err.startswith("wavebed: nowhere: no such file or site: write a file, or one of ")
