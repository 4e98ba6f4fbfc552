"""Campaigns: plan, part, progress, and what a kill or a full disk leaves; trials are simulated."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.samples_by_seed import sample
from tests.stress.campaign_steps import FULL, Whole
from tests.unit.campaign_example import example, live, run_until_killed, simulated
from tests.unit.test_campaign_part import FACTOR, names, part  # noqa: F401
from tests.unit.test_campaign_status import lock  # noqa: F401

from wavebed.campaign.plan import plan_campaign, plan_json, plan_text, read_pilot
from wavebed.campaign.read import campaign_file, read_campaign
from wavebed.campaign.results import read_campaign_results
from wavebed.campaign.run import resume_campaign, run_campaign
from wavebed.campaign.status import status_json, status_of
from wavebed.campaign.text import answers_text
from wavebed.cli import main
from wavebed.cli.campaign import _of_folder
from wavebed.errors import UserError, WavebedError
from wavebed.store.load import load_run
from wavebed.store.records import read_run

if TYPE_CHECKING:
    from wavebed.run.design import Slot


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


def test_the_folder_of_a_part_goes_on_with_that_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavebed.run.runner.run_trial", simulated())
    campaign = part(tmp_path, {"delay": ["40ms"], "rate": ["1mbit"]})
    folder = tmp_path / "out"
    run_campaign(campaign, folder, [], live())
    record = read_run(folder).campaign
    assert record is not None
    assert record.only == {"delay": ["40ms"], "rate": ["1mbit"]}
    assert record.factors == {"delay": ["5ms", "40ms"], "rate": ["1mbit"]}
    assert names(_of_folder(folder, trusted=False)) == ["5ms-1mbit", "40ms-1mbit"]


SHIPPED = sorted(Path(str(resources.files("wavebed"))).glob("scenarios/campaigns/*.toml"))


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_a_shipped_campaign_is_read_by_its_name_and_has_a_question(file: Path) -> None:
    campaign = read_campaign(campaign_file(file.stem))
    assert campaign.file == file
    assert campaign.comparisons
    assert campaign.primaries
    assert campaign.plan.title in plan_text(plan_campaign(campaign, None))


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


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Whole:
    monkeypatch.setenv("WAVEBED_LOCK", "")  # restores the variable, which Whole sets
    return Whole(tmp_path)


@pytest.mark.parametrize("error", [None, FULL], ids=["killed", "disk full"])
def test_a_campaign_that_is_disturbed_at_a_change_of_the_disk_ends_as_if_undisturbed(
    error: OSError | None, whole: Whole
) -> None:
    assert len(whole.steps()) > 100
    for step in sample(whole.steps(), 8):
        assert not (problem := whole.problem_at(step, error)), f"change {step}: {problem}"


def test_many_kills_one_after_another_change_nothing(whole: Whole) -> None:
    kills, difference = whole.killed_again_and_again(25, 6)
    assert kills > 5
    assert not difference
