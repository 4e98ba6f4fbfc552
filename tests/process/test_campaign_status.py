"""The progress of a campaign, read from its journal by another process."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from tests.unit.campaign_example import example, live, run_until_killed, simulated
from tests.unit.test_campaign_status import lock  # noqa: F401

from wavebed.campaign.run import resume_campaign, run_campaign
from wavebed.campaign.status import status_json, status_of
from wavebed.cli import main
from wavebed.errors import UserError, WavebedError

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.run.order import Slot


def test_an_interrupted_campaign_says_why_and_runs_again_after_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = example(tmp_path)

    def fails(slot: Slot) -> None:
        if slot.number == 4:
            raise WavebedError("no tunnel device")

    monkeypatch.setattr("wavebed.run.runner.run_trial", simulated(began=fails))
    with pytest.raises(WavebedError):
        run_campaign(campaign, tmp_path / "run", [], live())
    status = status_of(tmp_path / "run")
    assert (status.state, status.reason, len(status.stored), len(status.blocks)) == (
        "interrupted",
        "no tunnel device",
        3,
        1,
    )
    states = []
    monkeypatch.setattr(
        "wavebed.run.runner.run_trial", simulated(began=lambda _: states.append(status_of(tmp_path / "run")))
    )
    resume_campaign(campaign, tmp_path / "run", [], live())
    assert [(one.state, one.resumed, len(one.stored)) for one in states] == [
        ("running", 1, 3),
        ("running", 1, 4),
        ("running", 1, 5),
    ]
    assert status_json(status_of(tmp_path / "run"))["state"] == "ended"


def test_a_resumed_campaign_keeps_the_time_and_the_words_with_which_it_began(tmp_path: Path) -> None:
    campaign = example(tmp_path)
    assert not run_until_killed(campaign, tmp_path / "run", 60, simulated())
    file = tmp_path / "run/run.json"
    record = json.loads(file.read_text())
    record |= {"started": "2026-01-01T00:00:00+00:00", "command_line": ["wavebed", "first"]}
    file.write_text(json.dumps(record))
    assert run_until_killed(campaign, tmp_path / "run", 10**9, simulated())
    after = json.loads(file.read_text())
    assert [after[key] for key in ("started", "command_line")] == [record[key] for key in ("started", "command_line")]


def test_the_command_prints_text_or_an_object_in_each_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_until_killed(example(tmp_path), tmp_path / "run", 10**9, simulated())
    assert main(["campaign", "status", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().out == "c: ended\n6 of 6 trials (6 valid), 2 blocks ended, 0 repetitions\n"
    assert main(["campaign", "status", "--json", "--watch", str(tmp_path / "run")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["state"], told["stored"], told["left_s"], told["verdicts"]) == ("ended", 6, None, {"valid": 6})


def test_two_cannot_resume_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = example(tmp_path)
    refused = []

    def resumes_too(_: Slot) -> None:
        with pytest.raises(UserError) as caught:
            resume_campaign(campaign, tmp_path / "run", [], live())
        refused.append(str(caught.value))

    monkeypatch.setattr("wavebed.run.runner.run_trial", simulated(began=resumes_too))
    run_campaign(campaign, tmp_path / "run", [], live())
    assert refused == [f"{tmp_path}/run: is in use by another process: wavebed campaign status shows its progress"] * 6


def test_a_campaign_waits_for_whoever_measures_on_this_machine_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = example(tmp_path)
    began: list[float] = []
    monkeypatch.setattr("wavebed.run.runner.run_trial", simulated(began=lambda _: began.append(time.monotonic())))
    other = subprocess.Popen([sys.executable, "-c", _MEASURES], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"measures\n"
    running = threading.Thread(target=run_campaign, args=(campaign, tmp_path / "run", [], live()))
    running.start()
    waited = f"waiting for the end of another run on this machine (process {other.pid})"
    end_s = time.monotonic() + 60
    while not _step(tmp_path / "run") and time.monotonic() < end_s:
        time.sleep(0.02)
    assert _step(tmp_path / "run") == waited
    assert not began
    other.communicate(b"\n", timeout=60)
    running.join(60)
    assert status_of(tmp_path / "run").state == "ended"


_MEASURES = """
from wavebed.experiment.machine_lock import measuring
with measuring():
    print("measures", flush=True)
    input()
"""


def _step(folder: Path) -> str:
    try:
        step = status_of(folder).step
    except (UserError, FileNotFoundError):
        return ""
    return step if step.startswith("waiting") else ""
