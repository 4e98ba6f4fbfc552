"""What a run leaves of a trial that did not end: nothing of its own, and everything of others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.unit.test_run_write import opened, trial_record

from wavebed.errors import UserError
from wavebed.report.build import write_report
from wavebed.store.disk import claimed, guarded, held, new_partial, remove_leftovers
from wavebed.store.folder import write_trial

_KILLED = """
import os, signal, sys
from pathlib import Path
from wavebed.store.disk import new_partial
from wavebed.store.disk import guarded
folder = Path(sys.argv[1])
with guarded(folder, "killed"):
    new_partial(folder, "0001-cubic", "killed")
    guard = int(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text())
    print(guard, flush=True)
    os.kill(guard, signal.Signals[sys.argv[2]])
    os.kill(os.getpid(), signal.SIGKILL)
"""

_CLAIMS = """
import sys
from pathlib import Path
from wavebed.store.disk import claimed
print("claims", flush=True)
with claimed(Path(sys.argv[1])):
    print("claimed", flush=True)
"""


def kill_a_run(folder: Path, to_guard: str) -> int:
    """Kill a run after this signal to its guard, whose process is returned."""
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, folder, to_guard], stdout=subprocess.PIPE, check=False, timeout=60
    )
    assert done.returncode == -signal.SIGKILL
    return int(done.stdout)


def partials(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "trials").glob(".*"))


def test_the_guard_of_a_killed_run_leaves_the_trial_of_the_next_alone(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    guard = kill_a_run(folder, "SIGSTOP")
    mine = new_partial(folder, "0002-bbr", "resumed")
    os.kill(guard, signal.SIGCONT)
    end_s = time.monotonic() + 60
    while len(partials(folder)) > 1 and time.monotonic() < end_s:
        time.sleep(0.01)
    assert partials(folder) == [mine.name]


def test_a_run_that_ends_removes_its_partial_trials_only(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    with guarded(folder, "one"):
        new_partial(folder, "0001-cubic", "one")
        other = new_partial(folder, "0001-cubic", "other")
    assert partials(folder) == [other.name]


@pytest.mark.parametrize("cleaner", ["run", "report"])
def test_what_a_run_killed_with_its_guard_left_is_removed_by_the_next_command(tmp_path: Path, cleaner: str) -> None:
    folder = opened(tmp_path)
    write_trial(folder, new_partial(folder, "0000-cubic", "whole"), trial_record("0000-cubic"))
    kill_a_run(folder, "SIGKILL")
    assert partials(folder) == [".0001-cubic.killed.partial"]
    if cleaner == "run":
        with guarded(folder, "next"):
            assert partials(folder) == []
    else:
        write_report(folder)
        assert partials(folder) == []
    assert (folder / "trials" / "0000-cubic" / "trial.json").exists()


def test_a_partial_trial_whose_run_lives_is_no_leftover(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    with claimed(folder), guarded(folder, "lives"):
        partial = new_partial(folder, "0001-cubic", "lives")
        remove_leftovers(folder)
        assert partial.exists()
        with held(folder) as ours:
            assert not ours
    with held(folder) as ours:
        assert ours


def test_a_child_does_not_keep_the_folder_locked(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    with held(folder):
        child = subprocess.Popen(["sleep", "60"])
    try:
        with held(folder) as ours:
            assert ours
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()


def test_the_guard_has_no_program_that_could_be_killed_alone(tmp_path: Path) -> None:
    (tmp_path / "trials").mkdir()
    with guarded(tmp_path, "mark"):
        guards = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        assert [Path(f"/proc/{pid}/task/{pid}/children").read_text() for pid in guards] == [""] * len(guards)


def test_a_folder_is_claimed_once(tmp_path: Path) -> None:
    with claimed(tmp_path), pytest.raises(UserError, match="is in use by another process"), claimed(tmp_path):
        pass
    with claimed(tmp_path):
        pass


def test_one_that_looks_whether_a_folder_is_in_use_does_not_stop_the_next_run(tmp_path: Path) -> None:
    with held(tmp_path) as free:
        assert free
        looking = subprocess.Popen([sys.executable, "-c", _CLAIMS, tmp_path], stdout=subprocess.PIPE, text=True)
        assert looking.stdout is not None
        assert looking.stdout.readline() == "claims\n"
        time.sleep(1.5)  # longer than a run that ends is waited for
        with held(tmp_path) as free_too:
            assert free_too, "whoever waits for the folder does not have it"
    assert looking.communicate(timeout=60)[0] == "claimed\n"
