"""Laboratories in which something hangs, or the engine is stopped for a while: each wait ends, and results say why."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.stress.freezes import check_marked

from wavebed.lab.protocol import LIMITS, LaboratoryGoneError, LaboratoryHungError
from wavebed.path.lab import Laboratory
from wavebed.path.laboratory import LabPlan, random_name
from wavebed.run.backend import in_namespaces
from wavebed.run.design import ordered
from wavebed.run.resolve import Resolver
from wavebed.run.scenario import read_plan
from wavebed.run.trial import run_trial

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wavebed.result.model import TrialRecord


QUICK = replace(LIMITS, answer_s=0.3, stop_s=1.5, interrupted_s=0.3, look_s=0.1)
PATIENT = replace(QUICK, answer_s=5.0, stop_s=10.0)
"""For a trial that must end by itself on a busy machine."""
WITHIN_S = 60.0
STOPPED = r'"iperf3" on server was stopped for ([\d.]+) s'
PATH = '[path]\nrate = "50mbit"\ndelay = "5ms"\n'
BULK = '[[workload]]\nkind = "bulk"\nduration = "2s"\n'


def family(lab: Laboratory) -> tuple[int, int, int]:
    """Return the numbers of the front process, of init and of the engine."""
    init = _children(lab.pid)[0]
    return lab.pid, init, _children(init)[0]


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_gone(pid: int) -> bool:
    end = time.monotonic() + WITHIN_S
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


@pytest.fixture
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Laboratory]:
    plan = read_plan(_scenario(tmp_path, PATH + BULK))
    with closing(Resolver(plan, None)) as resolver, resolver.resolved(ordered(plan.treatments, 1, 1)[0]) as resolved:
        made = Laboratory(
            resolved.network, LabPlan(name=random_name(), seed=1), limits=getattr(request, "param", QUICK)
        )
        yield made
        made.close()


def _scenario(folder: Path, text: str) -> Path:
    file = folder / "s.toml"
    file.write_text(text)
    return file


def trial(folder: Path, text: str, happens: dict[float, tuple[int, int]]) -> tuple[TrialRecord, float]:
    """Run a trial in which processes get signals, and return its record and how long it took.

    Parameters
    ----------
    happens : dict
        Seconds after the start of the workloads: which of front, init and engine, and the signal.
    """
    plan = read_plan(_scenario(folder, text))
    (slot,) = ordered(plan.treatments, 1, 1)
    raw = folder / "trial"
    (raw / "raw").mkdir(parents=True)
    began: list[float] = []
    left = dict(happens)

    def look(lab: Laboratory, _running: object) -> None:
        began.append(time.monotonic())
        for at_s in [at_s for at_s in left if time.monotonic() - began[0] > at_s]:
            index, number = left.pop(at_s)
            os.kill(family(lab)[index], number)

    start = time.monotonic()
    with closing(Resolver(plan, None)) as resolver, resolver.resolved(slot) as resolved:
        record = run_trial(slot, resolved, raw, look, limits=QUICK)
    return record, time.monotonic() - start


@pytest.mark.parametrize("index", [0, 1], ids=["front", "init"])
def test_a_laboratory_that_does_not_answer_is_killed_and_says_so(lab: Laboratory, index: int) -> None:
    pids = family(lab)
    os.kill(pids[index], signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(LaboratoryHungError, match=r"hangs: it did not answer 'show' within 0\.3 s"):
        lab.show()
    with pytest.raises(LaboratoryGoneError):
        lab.client.run(["true"])
    lab.close()
    assert time.monotonic() - began < WITHIN_S
    assert "hangs" in lab.problem
    assert lab.summary is None
    assert all(is_gone(pid) for pid in pids)


def test_the_stop_of_a_laboratory_that_hangs_has_a_limit(lab: Laboratory) -> None:
    pids = family(lab)
    os.kill(pids[2], signal.SIGSTOP)
    began = time.monotonic()
    lab.close()
    assert time.monotonic() - began < WITHIN_S
    assert "did not answer 'stop' within 1.5 s" in lab.problem
    assert all(is_gone(pid) for pid in pids)


@pytest.mark.parametrize("lab", [LIMITS], indirect=True, ids=["patient"])
def test_a_killed_laboratory_that_the_kernel_keeps_is_a_problem_and_not_an_error(lab: Laboratory) -> None:
    def stays(limit_s: float) -> int:
        raise subprocess.TimeoutExpired(["wavebed-core"], limit_s)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lab._core._process, "wait", stays)
        lab.close()
    assert lab.problem.endswith("was killed, and stays for 3 s")


@pytest.mark.parametrize("index", [1, 2], ids=["init", "engine"])
def test_a_laboratory_that_hangs_is_a_failed_trial_with_its_cause(tmp_path: Path, index: int) -> None:
    record, took_s = trial(tmp_path, PATH + BULK.replace("2s", "20s"), {0.3: (index, signal.SIGSTOP)})
    assert record.verdict == "failed"
    assert "hangs: it did not answer" in record.reasons[0]
    assert took_s < WITHIN_S


def test_a_run_goes_on_after_a_trial_that_hung(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wavebed.run import runner
    from wavebed.run.progress import Live

    monkeypatch.setattr(runner, "run_trial", partial(run_trial, limits=PATIENT, start=in_namespaces))
    stopped: list[int] = []

    class Stopping(Live):
        def look(self, lab: Laboratory, _running: object) -> None:  # type: ignore[override]
            if not stopped:
                stopped.append(family(lab)[1])
                os.kill(stopped[0], signal.SIGSTOP)

    plan = read_plan(_scenario(tmp_path, PATH + '[[workload]]\nkind = "download"\nsize = "200kb"\n'), trials=2)
    with (tmp_path / "said").open("w") as said:
        record = runner.run_plan(plan, tmp_path / "out", ["wavebed"], Stopping("wavebed run", said))
    hung, following = record.trials
    assert hung.verdict == "failed"
    assert following.verdict in ("valid", "suspect", "invalid")
    assert following.reasons != hung.reasons


def test_an_interrupted_laboratory_that_hangs_is_gone_at_once(lab: Laboratory) -> None:
    pids = family(lab)
    os.kill(pids[1], signal.SIGSTOP)
    began = time.monotonic()

    def interrupt() -> None:
        with lab:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert time.monotonic() - began < WITHIN_S
    assert all(is_gone(pid) for pid in pids)


def test_a_server_that_is_stopped_makes_its_trial_invalid(tmp_path: Path) -> None:
    plan = read_plan(_scenario(tmp_path, PATH + BULK))
    (slot,) = ordered(plan.treatments, 1, 1)
    (tmp_path / "trial/raw").mkdir(parents=True)
    at: list[tuple[float, int]] = []
    continued: list[float] = []

    def look(lab: Laboratory, _running: object) -> None:
        if not at:
            init = family(lab)[1]
            server = next(pid for pid in _children(init) if b"\0-s\0" in Path(f"/proc/{pid}/cmdline").read_bytes())
            at.append((time.monotonic(), server))
            os.kill(server, signal.SIGSTOP)
        elif at[0][1] and time.monotonic() - at[0][0] > 0.5:
            os.kill(at[0][1], signal.SIGCONT)
            continued.append(time.monotonic())
            at[0] = (at[0][0], 0)

    with closing(Resolver(plan, None)) as resolver, resolver.resolved(slot) as resolved:
        record = run_trial(slot, resolved, tmp_path / "trial", look)
    assert record.verdict == "invalid"
    (told,) = [found for reason in record.reasons if (found := re.search(STOPPED, reason))]
    assert 0.4 < float(told[1]) <= continued[0] - at[0][0] + 0.1, "the core looks for stops each 0.1 s"


@pytest.mark.parametrize(("way", "length_ms"), [("shell", 5), ("Python", 20), ("run", 60), ("Python", 200)])
def test_a_stopped_engine_is_reported_with_the_length_of_its_gap(way: str, length_ms: float) -> None:
    check_marked(way, length_ms)
