"""A reproduction that is killed, again and again, and resumed: its order, seeds and tables are as undisturbed."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.forked import forked
from tests.outputs import checked
from tests.unit.forward.result_example import port
from tests.unit.forward.simulated import SimulatedTester

from wavebed.cli import main
from wavebed.errors import UserError, WavebedError
from wavebed.experiment.inputs import changes
from wavebed.forward.comparison import compare
from wavebed.forward.suite import About, run_suite
from wavebed.reproduce import small_packets
from wavebed.reproduce.small_packets import Reproduction, read_begun, repeat
from wavebed.reproduce.small_packets_write import tables_json, write_reproduction
from wavebed.store import folder as run_folder
from wavebed.store.journal import RunResumed, TrialBegun, TrialStored, read_journal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from wavebed.forward.result import DeviceResult
    from wavebed.forward.settings import ForwardSpec
    from wavebed.store.journal import Event

CAPACITY_PPS = {"bridge": 9e5, "xdp": 1.2e6}
ROUNDS = 3
INPUTS = {"kernel": "6.17", "wavebed": "0.1.0"}


class Silent:
    def note(self, text: str) -> None:
        pass

    def step(self, text: str, left_s: float) -> None:
        pass

    go_on = step


@pytest.fixture(autouse=True)
def _simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every device is simulated: the real test of it in virtual time."""

    @contextmanager
    def set_up(spec: ForwardSpec):
        yield spec.name

    def measure(
        spec: ForwardSpec, setup: str, emit: Callable[[Event], None], raw: dict[str, bytes]
    ) -> tuple[DeviceResult, bool]:
        last = "search" in spec.settings.parts
        tester = SimulatedTester(CAPACITY_PPS[setup], noise=0.01, seed=len(spec.settings.parts))
        about = About(spec.name, spec.name, port("a"), port("b"), "tx_ring", "xdp_native")
        if last:
            raw["iperf3-overload.json"] = b"{}"
        return run_suite(tester, spec.settings, about, emit, tester.clock), False

    monkeypatch.setattr(small_packets, "set_up", set_up)
    monkeypatch.setattr(small_packets, "measure", measure)
    inputs_are(monkeypatch, INPUTS)


def inputs_are(monkeypatch: pytest.MonkeyPatch, inputs: dict[str, str]) -> None:
    monkeypatch.setattr(small_packets, "inputs_now", lambda *_, **__: dict(inputs))


def reproduced(folder: Path, *, resume: bool = False, accept: bool = False) -> Reproduction:
    return repeat(
        quick=True,
        seed=4,
        progress=Silent(),
        folder=folder,
        kinds=tuple(CAPACITY_PPS),
        rounds=ROUNDS,
        resume=resume,
        accept_changes=accept,
    )


def written(folder: Path, *, resume: bool = False, accept: bool = False) -> Reproduction:
    made = reproduced(folder, resume=resume, accept=accept)
    write_reproduction(folder, made, compare(made.results), 4, ["wavebed"])
    return made


def tables(made: Reproduction) -> str:
    told = {**tables_json(compare(made.results), made), "seed": 4, "folder": "out", "report": "out/report.html"}
    return json.dumps(checked("reproduce-small-packets", told))


def stored(folder: Path) -> list[str]:
    return [event.trial for event in read_journal(folder) if isinstance(event, TrialStored)]


def trials(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "trials").iterdir())


def ended_at(folder: Path, trial: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin a reproduction and kill it in the test with this number."""

    def killed() -> None:
        real = small_packets.measure
        made: list[str] = []

        def measure(spec: ForwardSpec, *more: object) -> object:
            made.append(spec.name)
            if len(made) == trial:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(spec, *more)  # type: ignore[arg-type]

        monkeypatch.setattr(small_packets, "measure", measure)
        reproduced(folder)

    assert os.waitpid(forked(killed), 0)[1] == signal.SIGKILL


def test_killed_at_random_moments_and_resumed_it_ends_as_undisturbed(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole")
    draw = random.Random(3)
    folder, kills, over = tmp_path / "killed", 0, False
    while not over:
        child = forked(lambda: (written(folder, resume=True), os._exit(0)))
        if kills < 25:
            time.sleep(draw.uniform(0.0, 0.3))
            os.kill(child, signal.SIGKILL)
            kills += 1
        status = os.waitpid(child, 0)[1]
        assert status in {0, signal.SIGKILL}
        over = status == 0 and kills == 25
    made = reproduced(folder, resume=True)
    assert made.blocks == whole.blocks
    assert tables(made) == tables(whole)
    assert made.raw == whole.raw
    names = [f"{number:04d}-{kind}" for number, kind in enumerate((kind for one in whole.blocks for kind in one), 1)]
    assert stored(folder) == names
    assert trials(folder) == names
    assert (folder / "tables.json").read_bytes() == (tmp_path / "whole/tables.json").read_bytes()
    assert (folder / "tables.csv").read_bytes() == (tmp_path / "whole/tables.csv").read_bytes()
    samples = [root / "devices/xdp/raw/sample.pcapng" for root in (folder, tmp_path / "whole")]
    assert samples[0].read_bytes() == samples[1].read_bytes()
    assert [len(result.trials) for result in made.results] == [len(result.trials) for result in whole.results]


def test_only_the_test_that_was_killed_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended_at(tmp_path / "run", 4, monkeypatch)
    assert len(stored(tmp_path / "run")) == 3
    reproduced(tmp_path / "run", resume=True)
    begun = [event.number for event in read_journal(tmp_path / "run") if isinstance(event, TrialBegun)]
    assert begun == [1, 2, 3, 4, 4, 5, 6]
    assert stored(tmp_path / "run") == trials(tmp_path / "run")


def test_what_a_kill_left_unfinished_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended_at(tmp_path / "run", 2, monkeypatch)
    # As where the guard was killed too, with the sandbox.
    (tmp_path / "run/trials/.0002-xdp.01234567.partial/series").mkdir(parents=True)
    reproduced(tmp_path / "run", resume=True)
    assert len(list((tmp_path / "run/trials").iterdir())) == 6


def test_a_trial_whose_line_was_lost_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended_at(tmp_path / "run", 4, monkeypatch)
    journal = tmp_path / "run/journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(line for line in lines if '"number":3' not in line or "stored" not in line)[:-5])
    assert len(stored(tmp_path / "run")) == 2
    reproduced(tmp_path / "run", resume=True)
    assert stored(tmp_path / "run") == trials(tmp_path / "run")
    begun = [event.number for event in read_journal(tmp_path / "run") if isinstance(event, TrialBegun)]
    assert begun.count(3) == 1


def test_a_full_disk_ends_it_in_one_line_and_the_resume_makes_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = reproduced(tmp_path / "whole")
    real, kept = run_folder.keep_partial, []

    def keep_partial(partial: Path, name: str) -> Path:
        if len(kept) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        kept.append(name)
        return real(partial, name)

    monkeypatch.setattr(run_folder, "keep_partial", keep_partial)
    with pytest.raises(WavebedError, match="no space left on device: the trials that had ended can be read"):
        reproduced(tmp_path / "run")
    assert trials(tmp_path / "run") == kept
    monkeypatch.setattr(run_folder, "keep_partial", real)
    assert tables(reproduced(tmp_path / "run", resume=True)) == tables(whole)


def test_a_trial_that_is_gone_is_made_again(tmp_path: Path) -> None:
    whole = reproduced(tmp_path / "run")
    (tmp_path / "run/trials" / trials(tmp_path / "run")[2] / "run.json").unlink()
    assert tables(reproduced(tmp_path / "run", resume=True)) == tables(whole)


def test_a_changed_kernel_stops_the_resume_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended_at(tmp_path / "run", 4, monkeypatch)
    before = (tmp_path / "run/journal.jsonl").read_bytes()
    inputs_are(monkeypatch, INPUTS | {"kernel": "6.18"})
    with pytest.raises(UserError) as error:
        reproduced(tmp_path / "run", resume=True)
    assert str(error.value) == (
        f"{tmp_path / 'run'}: kernel is 6.18, was 6.17: restore it, or accept with --accept-changes"
    )
    assert (tmp_path / "run/journal.jsonl").read_bytes() == before


def test_with_accepted_changes_the_open_round_begins_again_and_the_tables_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_at(tmp_path / "run", 4, monkeypatch)
    third = stored(tmp_path / "run")[2]
    inputs_are(monkeypatch, INPUTS | {"kernel": "6.18"})
    made = reproduced(tmp_path / "run", resume=True, accept=True)
    assert (tmp_path / "run/aside/1" / third / "run.json").exists()
    begun = [event.number for event in read_journal(tmp_path / "run") if isinstance(event, TrialBegun)]
    assert begun == [1, 2, 3, 4, 3, 4, 5, 6]
    line = "kernel is 6.18, was 6.17"
    assert [event.changed for event in read_journal(tmp_path / "run") if isinstance(event, RunResumed)] == [(line,)]
    assert all(f"rounds were made with other inputs: {line}" in result.doubts for result in made.results)
    assert read_begun(tmp_path / "run").inputs["kernel"] == "6.18"
    # What is set aside stays there, and the next resume needs no further consent.
    again = reproduced(tmp_path / "run", resume=True)
    assert tables(again) == tables(made)
    assert stored(tmp_path / "run").count(third) == 2


def test_a_resume_killed_while_it_sets_aside_ends_that_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_at(tmp_path / "run", 4, monkeypatch)
    third = stored(tmp_path / "run")[2]
    inputs_are(monkeypatch, INPUTS | {"kernel": "6.18"})

    def killed() -> None:
        monkeypatch.setattr(run_folder.RunFolder, "_set_aside", lambda _: os.kill(os.getpid(), signal.SIGKILL))
        reproduced(tmp_path / "run", resume=True, accept=True)

    assert os.waitpid(forked(killed), 0)[1] == signal.SIGKILL
    assert third in trials(tmp_path / "run")
    reproduced(tmp_path / "run", resume=True, accept=True)
    assert (tmp_path / "run/aside/1" / third / "run.json").exists()
    assert len(trials(tmp_path / "run")) == 6


def test_a_reproduction_killed_before_its_folder_of_trials_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed() -> None:
        monkeypatch.setattr(run_folder, "make_folder", lambda _: os.kill(os.getpid(), signal.SIGKILL))
        reproduced(tmp_path / "run")

    assert os.waitpid(forked(killed), 0)[1] == signal.SIGKILL
    assert not (tmp_path / "run/trials").exists()
    reproduced(tmp_path / "run", resume=True)
    assert len(trials(tmp_path / "run")) == 6


def test_a_round_whose_tests_are_stored_stays_with_accepted_changes_whether_its_end_is_written_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_at(tmp_path / "run", 4, monkeypatch)
    journal = tmp_path / "run/journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    assert any("block-ended" in line for line in lines)
    journal.write_text("".join(line for line in lines if "block-ended" not in line))
    inputs_are(monkeypatch, INPUTS | {"kernel": "6.18"})
    reproduced(tmp_path / "run", resume=True, accept=True)
    begun = [event.number for event in read_journal(tmp_path / "run") if isinstance(event, TrialBegun)]
    assert begun == [1, 2, 3, 4, 3, 4, 5, 6]


def test_another_order_cannot_be_resumed(tmp_path: Path) -> None:
    reproduced(tmp_path / "run")
    with pytest.raises(UserError, match="something else was asked for there"):
        repeat(quick=True, seed=5, progress=Silent(), folder=tmp_path / "run", resume=True)


def test_changes_name_what_came_and_what_went() -> None:
    assert changes({"a": "1", "b": "2"}, {"b": "2", "c": "3"}) == ("a is missing, was 1", "c is 3, was missing")


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("x")
    for resume in (True, False):
        with pytest.raises(UserError):
            reproduced(tmp_path, resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["note"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--resume"], "--resume: name the folder to go on in with -o DIR"),
        (["--accept-changes"], "--accept-changes: goes with --resume"),
        (["--resume", "-o", "nowhere"], "nowhere: does not exist: leave --resume out"),
        (["--resume", "-o", "."], ".: holds no reproduction that can be resumed: leave --resume out"),
        (["--resume", "-o", "run", "--seed", "5"], "--seed: run was begun with 4: write that, or leave --seed out"),
    ],
)
def test_a_mistake_is_answered_with_one_line(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    reproduced(tmp_path / "run")
    assert main(["reproduce", "small-packets", *arguments]) == 2
    assert capsys.readouterr().err == f"wavebed: {said}\n"
