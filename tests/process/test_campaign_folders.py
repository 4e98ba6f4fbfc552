"""Folders of campaigns that were damaged: what can be made again is, and the rest is refused in one line."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from tests.samples_by_seed import sample
from tests.unit.campaign_example import example, run_until_killed, simulated

from wavebed.cli import main
from wavebed.store.journal import TrialStored, read_journal
from wavebed.store.load import load_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Return a step at which a kill leaves the second block begun."""
    folder, step = tmp_path_factory.mktemp("killed"), 0
    campaign = example(folder)
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("WAVEBED_LOCK", str(folder / "lock"))
        while sum(isinstance(event, TrialStored) for event in read_journal(folder / "run")) < 4:
            step += 30
            shutil.rmtree(folder / "run", ignore_errors=True)
            assert not run_until_killed(campaign, folder / "run", step, simulated())
    return step


@pytest.fixture
def run(tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a campaign that was killed in its second block."""
    monkeypatch.setenv("WAVEBED_LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr("wavebed.run.runner.run_trial", simulated())
    assert not run_until_killed(example(tmp_path), tmp_path / "run", step, simulated())
    return tmp_path / "run"


def first(run: Path) -> Path:
    return next((run / "trials").glob("0001-*"))


def cut_run(run: Path) -> None:
    (run / "run.json").write_text((run / "run.json").read_text()[:100])


def other_run(run: Path) -> None:
    record = json.loads((run / "run.json").read_text())
    del record["campaign"]
    (run / "run.json").write_text(json.dumps(record))


def odd_run(run: Path) -> None:
    record = json.loads((run / "run.json").read_text())
    record["campaign"]["primaries"] = "all"
    (run / "run.json").write_text(json.dumps(record))


def damaged_line(run: Path) -> None:
    lines = (run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    lines[3] = b"{}\n"
    (run / "journal.jsonl").write_bytes(b"".join(lines))


def unplanned_trial(run: Path) -> None:
    trial = first(run)
    shutil.copytree(trial, run / "trials" / "0009-5ms")


def copied_trial(run: Path) -> None:
    trial = first(run)
    shutil.copytree(trial, run / "trials" / f"{trial.name}-copy")


def damaged_trial(run: Path) -> None:
    (first(run) / "trial.json").write_text("{")
    shutil.rmtree(run / "metrics")


def damaged_metrics(run: Path) -> None:
    (run / "metrics" / "block-00001.parquet").write_bytes(b"PAR1")


def deleted_file(run: Path) -> None:
    (run.parent / "c.toml").unlink()


def deleted_scenario(run: Path) -> None:
    (run.parent / "s.toml").unlink()


def fewer_cells(run: Path) -> None:
    file = run.parent / "c.toml"
    file.write_text(file.read_text().replace(', "40ms"', ""))


REFUSED: dict[Callable[[Path], None], str] = {
    cut_run: "run.json: is not JSON",
    other_run: "run: has no campaign: name a folder that wavebed campaign run wrote",
    odd_run: "run.json: is not as documented",
    damaged_line: "journal.jsonl: line 4 is not an event",
    unplanned_trial: "has trial 0009-5ms, which is not planned",
    copied_trial: "-copy, which is not planned",
    damaged_trial: "trial.json: is not JSON",
    damaged_metrics: "block-00001.parquet: cannot be read",
    deleted_file: "c.toml: is gone: the campaign in ",
    deleted_scenario: "s.toml: no such file or directory: name a scenario file",
    fewer_cells: "run: has other cells than",
}


@pytest.mark.parametrize("damage", REFUSED, ids=lambda damage: damage.__name__)
def test_a_damaged_folder_is_refused_in_one_line(
    damage: Callable[[Path], None], run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(run)
    status = main(["campaign", "run", "--resume", str(run)])
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("wavebed: ")]
    assert (status, len(said)) == (2, 1), said
    assert REFUSED[damage] in said[0]


def without_a_trial(run: Path) -> None:
    shutil.rmtree(first(run))


def without_a_record(run: Path) -> None:
    (first(run) / "trial.json").unlink()


def without_metrics(run: Path) -> None:
    shutil.rmtree(run / "metrics")


def without_a_journal(run: Path) -> None:
    (run / "journal.jsonl").unlink()


def with_leftovers(run: Path) -> None:
    (run / "trials" / ".0005-5ms.0123.partial").mkdir()
    (run / ".wavebed-0123").touch()
    (run / "metrics" / ".wavebed-0123").touch()


def without_texts(run: Path) -> None:
    for name in ("campaign.toml", "scenario.toml"):
        (run / name).unlink()


@pytest.mark.parametrize(
    "damage",
    sample([without_a_trial, without_a_record, without_metrics, without_a_journal, with_leftovers, without_texts], 2),
    ids=lambda damage: damage.__name__,
)
def test_what_can_be_made_again_is_made_again(damage: Callable[[Path], None], run: Path) -> None:
    damage(run)
    assert main(["campaign", "run", "--resume", str(run)]) == 0
    loaded = load_run(run)
    assert len(loaded.trials) == len(set(loaded.trials["folder"])) == 6
    assert {path.name for path in (run / "trials").iterdir()} == set(loaded.trials["folder"])
    left = {path.name for path in run.iterdir()}
    assert left >= {"campaign.toml", "journal.jsonl", "metrics.parquet", "report.html", "run.json", "scenario.toml"}
    assert not [name for name in left if name.startswith(".") or name == "metrics"]


def test_a_deleted_attempt_before_another_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVEBED_LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr("wavebed.run.runner.run_trial", simulated(lambda _: "valid"))
    campaign = example(tmp_path)
    assert run_until_killed(
        campaign, tmp_path / "run", 10**9, simulated(lambda slot: "valid" if slot.attempt == 3 else "invalid")
    )
    shutil.rmtree(first(tmp_path / "run"))
    assert main(["campaign", "run", "--resume", str(tmp_path / "run")]) == 0
    assert len(load_run(tmp_path / "run").trials) == 17


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plan", "nothing.toml"], "nothing.toml: no such file or directory: name a campaign file"),
        (["plan", "."], ".: is neither a file nor a shipped campaign: name a file, or one of those that"),
        (["plan", "c.toml", "--pilot", "nothing"], "nothing: has no run.json: name a folder that wavebed run wrote"),
        (["plan", "c.toml", "--pilot", "."], ".: has no run.json: name a folder that wavebed run wrote"),
        (["run", "c.toml", "-o", "."], ".: holds other files"),
        (["run", "c.toml", "-o", "c.toml"], "c.toml: file exists: name a new folder"),
        (["run", "c.toml", "--accept-changes"], "--accept-changes: belongs to --resume"),
        (["run", "--resume", "c.toml"], "c.toml: is a file: name the folder of a campaign"),
        (["run", "--resume", "nothing"], "nothing: has no run.json: name a folder that wavebed campaign run wrote"),
        (["run", "--resume", ".", "-o", "x"], "-o: a campaign goes on in its own folder: leave -o out"),
        (["run", "--resume", "."], ".: has no run.json: name a folder that wavebed campaign run wrote"),
        (["run", "of"], "of: is a folder: name a campaign file, or go on with its campaign with --resume"),
        (["status", "c.toml"], "c.toml: has no journal"),
    ],
)
def test_wrong_words_are_refused_in_one_line(
    words: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    example(tmp_path)
    (tmp_path / "of").mkdir()
    (tmp_path / "of/run.json").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["campaign", *words]) == 2
    lines = capsys.readouterr().err.splitlines()
    errors = [line for line in lines if line.startswith("wavebed: ")]
    assert len(errors) == 1
    assert errors[0].startswith(f"wavebed: {said}"), errors


def test_a_campaign_that_goes_on_keeps_its_time(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WAVEBED_TIME", "virtual")
    assert main(["campaign", "run", "--resume", "--virtual-time", str(run)]) == 2
    assert (
        f"--virtual-time: {run} began in the other time, and keeps it: leave the option out" in capsys.readouterr().err
    )
    assert main(["campaign", "run", "--resume", "--real-time", str(run)]) == 0
    assert json.loads((run / "run.json").read_text())["overrides"] == {}
