"""A forwarding test from its specification to its folder: the real test between faked ports, in virtual time."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from msgspec.structs import replace
from tests.forked import forked
from tests.unit.forward_fakes import FakeDevice
from tests.unit.test_forward_run import (  # noqa: F401
    OPTIONS,
    Heard,
    _virtual,
    broken_off,
    ends_in,
    in_fake,
    setup_of,
    spec_of,
    stored_parts,
)

from wavebed.cli import main
from wavebed.experiment.events import TrialBegun
from wavebed.experiment.journal import read_journal
from wavebed.experiment.machine_lock import VARIABLE, measuring
from wavebed.forward.read import read_forward
from wavebed.forward.record import ForwardRecord
from wavebed.forward.run import measure
from wavebed.forward.tell import Teller
from wavebed.forward.verdicts import verdict_of
from wavebed.forward.write import write_forward

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_another_run_on_the_machine_is_a_doubt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "lock"))
    read, write = os.pipe()

    def hold() -> None:
        with measuring():
            os.write(write, b"held")
            signal.pause()

    other = forked(hold)
    os.close(write)
    assert os.read(read, 4) == b"held"
    os.close(read)
    result, _ = measure(spec_of(tests="overload"), setup_of(FakeDevice(capacity_pps=60_000)), Teller(Heard()), {})
    os.kill(other, signal.SIGKILL)
    os.waitpid(other, 0)
    assert result.doubts.count(f"another run measured at the same time (process {other})") == 1
    result, _ = measure(spec_of(tests="overload"), setup_of(FakeDevice(capacity_pps=60_000)), Teller(Heard()), {})
    assert not any("another run" in doubt for doubt in result.doubts)


# ---- addresses of real ports ----


# ---- what is kept of a test that does not reach its end ----


def test_a_killed_test_keeps_the_parts_that_had_ended_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    child = forked(lambda: broken_off(tmp_path, monkeypatch, "search 64", lambda: os.kill(os.getpid(), signal.SIGKILL)))
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["journal.jsonl", "raw", "run.json", "series"]
    result = read_forward(tmp_path / "run").result
    assert [one.name for one in result.overload] == ["throughput", "overload"]
    assert all(one.received is not None for one in result.overload)
    assert stored_parts(tmp_path / "run") == ["throughput", "overload"]
    last = read_journal(tmp_path / "run")[-1]
    assert isinstance(last, TrialBegun)
    assert last.trial == "search 64"
    assert verdict_of(result) == "suspect"
    said = "the test did not reach its end"
    assert main(["report", str(tmp_path / "run")]) == 0
    assert said in (tmp_path / "run/report.html").read_text()
    write_forward(tmp_path / "whole", ForwardRecord(replace(result, device="whole", refusals=())))
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "run"), str(tmp_path / "whole")]) == 0
    assert said in capsys.readouterr().out


def test_a_test_killed_before_its_first_part_ended_leaves_no_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = forked(
        lambda: broken_off(tmp_path, monkeypatch, "throughput", lambda: os.kill(os.getpid(), signal.SIGKILL))
    )
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    result = read_forward(tmp_path / "run").result
    assert (result.overload, verdict_of(result)) == ((), "invalid")
