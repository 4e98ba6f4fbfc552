"""Campaigns run, are killed, go on, repeat invalid trials, stop when decided, and are compared; simulated trials."""

from __future__ import annotations

import io
import json
import random
import shutil
from typing import TYPE_CHECKING

import pytest

from wavebed.campaign.read import read_campaign
from wavebed.campaign.results import read_campaign_results
from wavebed.campaign.run import resume_campaign, run_campaign
from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.result.model import Check, TrialRecord, WorkloadRecord
from wavebed.run.progress import Live
from wavebed.store.journal import RunResumed, TrialStored, read_journal
from wavebed.store.load import load_run
from wavebed.store.records import read_run
from wavebed.workload.model import Metric, Outcome, TimeSpan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.campaign.read import Campaign
    from wavebed.result.model import Verdict
    from wavebed.run.design import Slot
    from wavebed.run.resolve import Resolved


_SCENARIO = '[path]\nrate = "1mbit"\n[[workload]]\nkind = "command"\nrun = ["true"]\n'
_CAMPAIGN = """
title = "two delays"
scenario = "s.toml"
[campaign]
blocks = {blocks}
seed = 5
[[factor]]
name = "delay"
key = "path.delay"
values = ["5ms", "20ms"]
[[factor]]
name = "rate"
key = "path.up-rate"
values = ["1mbit", "2mbit"]
[[exclude]]
delay = "20ms"
rate = "2mbit"
[[primary]]
workload = "command"
metric = "time"
margin = "5%"
{more}
"""


class KilledError(BaseException):
    """As SIGKILL: nothing is handled."""


class Simulated:
    """Trials whose only metric is a function of cell and seed.

    Parameters
    ----------
    verdict : callable
        The verdict of an attempt at a trial.
    kill_after : int or None
        Kill the process after this many trials.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, verdict: Callable[[Slot], Verdict] = lambda _: "valid") -> None:
        self._verdict = verdict
        self.kill_at: int | None = None
        self.ran: list[tuple[str, int]] = []
        monkeypatch.setattr("wavebed.run.runner.run_trial", self._trial)
        monkeypatch.setattr("wavebed.run.runner.check_programs", lambda _: None)

    def _trial(
        self, slot: Slot, _resolved: Resolved, partial: Path, _look: object, of_machine: Callable[[], Sequence[Check]]
    ) -> TrialRecord:
        if self.kill_at is not None and len(self.ran) >= self.kill_at:
            raise KilledError
        self.ran.append((slot.folder, slot.seed))
        (partial / "raw" / "out.txt").write_text("raw")
        noise = random.Random(f"{slot.seed}").gauss(0, 1)
        value = (100 if slot.treatment.name.startswith("5ms") else 130) + noise + 0.1 * (slot.seed % 3)
        outcome = Outcome(metrics=[Metric("time", value, "ms", "lower")])
        workload = WorkloadRecord("command", "command", TimeSpan(0, 1, False), outcome)
        verdict = self._verdict(slot)
        reasons = [] if verdict == "valid" else ["not so"]
        return TrialRecord(
            slot.folder,
            slot.block,
            slot.treatment.name,
            slot.seed,
            "",
            0.1,
            verdict,
            reasons,
            list(of_machine()),
            [workload],
            attempt=slot.attempt,
        )


@pytest.fixture(autouse=True)
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVEBED_LOCK", str(tmp_path / "lock"))


def _campaign(folder: Path, blocks: int = 4, more: str = "") -> Campaign:
    (folder / "s.toml").write_text(_SCENARIO)
    (folder / "c.toml").write_text(_CAMPAIGN.format(blocks=blocks, more=more))
    return read_campaign(folder / "c.toml")


def _live() -> Live:
    return Live("wavebed campaign", io.StringIO())


def test_a_block_has_every_cell_once_with_one_seed_in_random_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Simulated(monkeypatch)
    run_campaign(_campaign(tmp_path, 8), tmp_path / "run", [], _live())
    trials = load_run(tmp_path / "run").trials
    orders = set()
    for block, rows in trials.groupby("block"):
        assert set(rows["treatment"]) == {"5ms-1mbit", "5ms-2mbit", "20ms-1mbit"}
        assert set(rows["seed"]) == {4 + int(str(block))}
        orders.add(tuple(rows["treatment"]))
    assert len(orders) > 1


def test_a_trial_that_was_renamed_but_not_listed_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = _campaign(tmp_path)
    simulated = Simulated(monkeypatch)
    simulated.kill_at = 5
    with pytest.raises(KilledError):
        run_campaign(campaign, tmp_path / "run", [], _live())
    journal = tmp_path / "run/journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    last = max(index for index, line in enumerate(lines) if b'"trial-stored"' in line)
    journal.write_bytes(b"".join(lines[:last]) + lines[last][:20])
    simulated.kill_at = None
    resume_campaign(campaign, tmp_path / "run", [], _live())
    assert len(simulated.ran) == len(set(simulated.ran)) == 12
    stored = [event.trial for event in read_journal(tmp_path / "run") if isinstance(event, TrialStored)]
    assert len(stored) == len(set(stored)) == 12


def test_a_whole_trial_that_has_not_its_name_yet_is_not_taken_for_a_stored_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = _campaign(tmp_path)
    simulated = Simulated(monkeypatch)
    simulated.kill_at = 2
    with pytest.raises(KilledError):
        run_campaign(campaign, tmp_path / "run", [], _live())
    trials = tmp_path / "run/trials"
    whole = min(trials.iterdir())
    shutil.copytree(whole, trials / f".{whole.name.replace('0001', '0003')}.0a1b2c3d.partial")
    assert len(read_run(tmp_path / "run").trials) == 2
    simulated.kill_at = None
    resume_campaign(campaign, tmp_path / "run", [], _live())
    assert len(list(trials.iterdir())) == 12


def test_invalid_trials_are_repeated_in_their_block_with_their_seed_up_to_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verdict(slot: Slot) -> Verdict:
        if slot.block == 2 and slot.treatment.name == "20ms-1mbit":
            return "invalid"
        return "invalid" if slot.block == 3 and slot.attempt == 1 else "valid"

    simulated = Simulated(monkeypatch, verdict)
    run_campaign(_campaign(tmp_path), tmp_path / "run", [], _live())
    run = json.loads((tmp_path / "run/run.json").read_text())
    attempts: dict[tuple[int, str], list[tuple[str, int]]] = {}
    for line in run["trials"]:
        attempts.setdefault((line["block"], line["treatment"]), []).append((line["verdict"], line["seed"]))
    assert attempts[(2, "20ms-1mbit")] == [("invalid", 6)] * 3
    assert attempts[(3, "5ms-1mbit")] == [("invalid", 7), ("valid", 7)]
    assert len(attempts[(1, "5ms-1mbit")]) == 1
    blocks = [int(seed) for _, seed in simulated.ran]
    assert blocks == sorted(blocks)
    results = read_campaign_results(tmp_path / "run")
    assert results.exclusions.excluded == (("5ms-1mbit", 0, 4), ("5ms-2mbit", 0, 4), ("20ms-1mbit", 1, 4))


def test_a_changed_file_stops_a_resume_unless_it_is_accepted_as_a_new_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = _campaign(tmp_path)
    simulated = Simulated(monkeypatch)
    simulated.kill_at = 7
    with pytest.raises(KilledError):
        run_campaign(campaign, tmp_path / "run", [], _live())
    simulated.kill_at = None
    (tmp_path / "s.toml").write_text(_SCENARIO + "# changed\n")
    campaign = read_campaign(tmp_path / "c.toml")
    with pytest.raises(UserError, match=r"run: .*s\.toml has other content: its blocks would differ: .*accept-changes"):
        resume_campaign(campaign, tmp_path / "run", [], _live())
    resume_campaign(campaign, tmp_path / "run", [], _live(), accept=True)
    results = read_campaign_results(tmp_path / "run")
    assert [len(group.changed) for group in results.campaign.groups] == [0, 1]
    frame = results.metrics.to_pandas()
    assert {block: set(rows["group"]) for block, rows in frame.groupby("block")} == {1: {1}, 2: {1}, 3: {2}, 4: {2}}
    assert [line.block for line in results.run.aside] == [3]
    assert (tmp_path / "run/aside/1" / results.run.aside[0].folder / "trial.json").exists()
    assert len(results.run.trials) == 12
    resumed = [event for event in read_journal(tmp_path / "run") if isinstance(event, RunResumed)]
    assert len(resumed) == 1


def test_files_that_moved_unchanged_are_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    simulated = Simulated(monkeypatch)
    simulated.kill_at = 7
    for folder in (first, second):
        folder.mkdir()
    with pytest.raises(KilledError):
        run_campaign(_campaign(first), tmp_path / "run", [], _live())
    simulated.kill_at = None
    campaign = _campaign(second)
    (second / "s.toml").write_text(_SCENARIO + "# changed\n")
    with pytest.raises(UserError, match=r"run: .*second/s\.toml is new, and 1 more: its blocks would differ"):
        resume_campaign(campaign, tmp_path / "run", [], _live())
    resume_campaign(_campaign(second), tmp_path / "run", [], _live())
    results = read_campaign_results(tmp_path / "run")
    assert len(results.campaign.groups) == 1
    assert results.complete


def test_a_decided_campaign_stops_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = Simulated(monkeypatch)
    campaign = _campaign(tmp_path, 60, '[stop]\nwhen = "decided"\nleast-blocks = 3')
    run_campaign(campaign, tmp_path / "run", [], _live())
    results = read_campaign_results(tmp_path / "run")
    assert results.campaign.stopped == "every primary metric is decided"
    assert results.complete
    assert 3 <= len(results.ended) < 30
    assert len(simulated.ran) == 3 * len(results.ended)
    (answer,) = results.answers
    assert answer.finding.verdict == "worse"
    assert answer.finding.low is not None
    assert 1.2 < answer.finding.low < 1.31


@pytest.mark.parametrize(("keep", "left"), [("all", {"raw", "series"}), ("series", {"series"}), ("metrics", set())])
def test_what_is_kept_of_a_trial(keep: str, left: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch)
    campaign = _campaign(tmp_path, 1)
    (tmp_path / "c.toml").write_text(campaign.text.replace("blocks = 1", f'blocks = 1\nkeep = "{keep}"'))
    run_campaign(read_campaign(tmp_path / "c.toml"), tmp_path / "run", [], _live())
    (trial, *_) = (tmp_path / "run/trials").iterdir()
    assert {path.name for path in trial.iterdir() if path.is_dir()} == left
    assert (trial / "trial.json").exists()


def test_a_campaign_that_has_ended_has_nothing_left_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = _campaign(tmp_path)
    simulated = Simulated(monkeypatch)
    run_campaign(campaign, tmp_path / "run", [], _live())
    resume_campaign(campaign, tmp_path / "run", [], _live())
    assert len(simulated.ran) == 12
    assert len(read_campaign_results(tmp_path / "run").ended) == 4


def test_other_cells_or_another_seed_are_another_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Simulated(monkeypatch)
    run_campaign(_campaign(tmp_path), tmp_path / "run", [], _live())
    other = tmp_path / "other.toml"
    text = (tmp_path / "c.toml").read_text()
    other.write_text(text.replace('"20ms"]', '"30ms"]').replace('"20ms"', '"30ms"'))
    with pytest.raises(UserError, match=r"has other cells than .*other\.toml: run it into a new folder"):
        resume_campaign(read_campaign(other), tmp_path / "run", [], _live())
    other.write_text(text.replace("seed = 5", "seed = 6"))
    with pytest.raises(UserError, match="began with seed 5, not 6"):
        resume_campaign(read_campaign(other), tmp_path / "run", [], _live())


def test_campaigns_are_compared_cell_by_cell_with_the_margins_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Simulated(monkeypatch)
    for name, seed in (("old", 5), ("again", 5), ("new", 50)):
        (tmp_path / "s.toml").write_text(_SCENARIO)
        file = tmp_path / "c.toml"
        file.write_text(_CAMPAIGN.format(blocks=8, more="").replace("seed = 5", f"seed = {seed}\nkeep = 'metrics'"))
        run_campaign(read_campaign(file), tmp_path / name, [], _live())
        shutil.rmtree(tmp_path / name / "trials")
    command = ["compare", "--json", "--baseline", str(tmp_path / "old")]
    assert main([*command, str(tmp_path / "again")]) == 0
    again = json.loads(capsys.readouterr().out)
    assert [each["verdict"] for each in again["answers"]] == ["equal"] * 3
    assert "again is a replica of old: every seed has the same value of every compared metric" in again["notes"]
    assert main([*command, str(tmp_path / "new")]) == 0
    new = json.loads(capsys.readouterr().out)
    assert [(each["treatment"], each["verdict"], each["margin"]) for each in new["answers"]] == [
        ("5ms-1mbit", "equivalent", "5%"),
        ("5ms-2mbit", "equivalent", "5%"),
        ("20ms-1mbit", "equivalent", "5%"),
    ]
    assert main([*command, str(tmp_path / "new"), "--margin", "command.time=0.01%", "--undecided", "fail"]) == 1
