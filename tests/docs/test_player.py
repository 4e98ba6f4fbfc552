"""The player fails for what is wrong in a page, and never because the machine was late."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.docs.blocks import blocks
from tests.docs.player import Player

if TYPE_CHECKING:
    from pathlib import Path

TRIAL = """mkdir -p {folder}/trials/1 && cp ../trial.json {folder}/trials/1 && exit 1
"""


def player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commands: str) -> Player:
    """Return the player of a page with these commands."""
    found = blocks("page.md", f"```sh\n{commands}```\n")
    monkeypatch.setattr("tests.docs.player.blocks", lambda _: found)
    (tmp_path / "folder").mkdir()
    return Player("page.md", tmp_path / "folder")


def write_trial(tmp_path: Path, code: str, verdict: str = "invalid") -> None:
    """Write the record of a trial of which this check failed."""
    check = {"code": code, "holds": False, "severity": "invalid", "evidence": f"evidence of {code}"}
    (tmp_path / "trial.json").write_text(json.dumps({"verdict": verdict, "checks": [check]}), encoding="utf-8")


def test_a_page_that_names_a_missing_file_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="status 2"):
        player(tmp_path, monkeypatch, "wavebed trace info no-such-file.txt\n").play()


def test_a_command_with_another_status_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match=r"page\.md:1: mkdir a && exit 1\nstatus 1"):
        player(tmp_path, monkeypatch, "mkdir a && exit 1\n").play()


def test_trials_that_are_late_are_noted_and_the_page_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_trial(tmp_path, "late")
    played = player(tmp_path, monkeypatch, TRIAL.format(folder="out") + "mkdir later\nmkdir out\n")
    played.play()
    assert [each.rpartition(": ")[2] for each in played.late] == ["evidence of late", "out has late trials"]
    assert (tmp_path / "folder/later").is_dir()


def test_a_late_trial_explains_no_other_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_trial(tmp_path, "late")
    with pytest.raises(AssertionError, match="mkdir other && exit 2"):
        player(tmp_path, monkeypatch, TRIAL.format(folder="out") + "mkdir other && exit 2\n").play()


@pytest.mark.parametrize(("code", "verdict"), [("missing-packets", "invalid"), ("late", "failed")])
def test_a_trial_that_fails_for_another_reason_fails_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, verdict: str
) -> None:
    write_trial(tmp_path, code, verdict)
    with pytest.raises(AssertionError, match="status 1"):
        player(tmp_path, monkeypatch, TRIAL.format(folder="out")).play()
