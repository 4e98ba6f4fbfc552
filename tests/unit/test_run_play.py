"""Workloads in time: their order, their limits, and what becomes of a fault; with workloads that only wait."""

from __future__ import annotations

import subprocess
import threading
import time
from typing import TYPE_CHECKING, ClassVar, cast

import pytest

from wavebed.errors import WavebedError
from wavebed.run import play
from wavebed.run.play import Act, HungError, open_all, outcomes, perform, settle
from wavebed.workload.keys import Common
from wavebed.workload.model import Clock, Event, Metric, Outcome, Series, Session, Workload

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.path.lab import Laboratory
    from wavebed.workload.model import Schedule, Stage


class Wait(Session):
    def __init__(self, workload: Waiter) -> None:
        self.workload = workload
        self.asked = threading.Event()

    def run(self) -> None:
        if self.workload.fault == "fails":
            raise WavebedError("the server went away")
        if self.workload.fault == "breaks":
            raise ZeroDivisionError("a bug")
        if self.workload.fault == "hangs":
            time.sleep(1.0)
        self.asked.wait(self.workload.lasts_s)
        if self.workload.fault == "breaks later":
            raise WavebedError("Bad file descriptor")

    def stop(self) -> None:
        self.asked.set()
        if self.workload.fault == "cannot stop":
            raise BrokenPipeError(32, "Broken pipe")

    def report(self, schedule: Schedule) -> Outcome:  # noqa: ARG002 - it ran alone
        if self.workload.fault == "garbage":
            raise ValueError("no JSON")
        if self.workload.fault == "uneven series":
            return Outcome(series=[Series("rtt", "ms", [0.0, 1.0], [40.0])])
        if self.workload.fault == "words for numbers":
            return Outcome(events=[Event("stall", 0.0, value=cast("float", "long"))])
        return Outcome(metrics=[Metric("asked", float(self.asked.is_set()), "")])


class Waiter(Workload):
    kind: ClassVar[str] = "wait"
    summary: ClassVar[str] = "Waits."
    keys = ()

    def __init__(self, name: str, lasts_s: float, **how: object) -> None:
        common = Common(
            name=name,
            start_s=cast("float", how.get("start_s", 0.0)),
            after=cast("str | None", how.get("after")),
            limit_s=cast("float", how.get("limit_s", 5.0)),
            server="server",
            client="client",
        )
        super().__init__(common, {})
        self.lasts_s = lasts_s
        self.fault = how.get("fault")
        self.is_endless = bool(how.get("endless"))

    @property
    def endless(self) -> bool:
        return self.is_endless

    def expected_s(self) -> float:
        return self.lasts_s

    def open(self, stage: Stage) -> Wait:  # noqa: ARG002 - it needs no laboratory
        if self.fault == "does not open":
            raise WavebedError("no such browser")
        if self.fault == "breaks on opening":
            raise KeyError("port")
        if self.fault == "its helper hangs":
            raise subprocess.TimeoutExpired(["ip", "address"], 10.0)
        if self.fault == "opens slowly":
            time.sleep(0.5)
        return Wait(self)


class NoLaboratory:
    server = client = edge = None


def acts_of(tmp_path: Path, *workloads: Waiter) -> list[Act]:
    clock = Clock()
    acts = open_all(workloads, cast("Laboratory", NoLaboratory()), clock, tmp_path, 1)
    clock.begin(time.monotonic_ns())
    return acts


def performed(tmp_path: Path, *workloads: Waiter) -> dict[str, Act]:
    acts = acts_of(tmp_path, *workloads)
    perform(acts, lambda: True, lambda: None)
    return {act.workload.name: act for act in acts}


def test_each_starts_at_its_moment_and_one_with_after_when_the_other_has_ended(tmp_path: Path) -> None:
    acts = performed(tmp_path, Waiter("b", 0.1, after="a", start_s=0.1), Waiter("a", 0.2, start_s=0.1))
    spans = {name: act.span for name, act in acts.items()}
    assert spans["a"] is not None
    assert spans["b"] is not None
    assert spans["a"].start_s == pytest.approx(0.1, abs=0.05)
    assert spans["b"].start_s == pytest.approx(spans["a"].end_s + 0.1, abs=0.05)


def test_what_is_endless_ends_when_all_others_have(tmp_path: Path) -> None:
    acts = performed(tmp_path, Waiter("ping", 60, endless=True), Waiter("load", 0.3))
    ping = acts["ping"].span
    assert ping is not None
    assert 0.25 < ping.end_s < 1.5
    assert not acts["ping"].limited


def test_a_workload_is_stopped_at_its_limit(tmp_path: Path) -> None:
    acts = performed(tmp_path, Waiter("long", 60, limit_s=0.3))
    span = acts["long"].span
    assert span is not None
    assert 0.25 < span.end_s < 1.5
    assert acts["long"].limited


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("fails", "the server went away"),
        ("breaks", "a fault of wavebed: ZeroDivisionError: a bug"),
        ("does not open", "no such browser"),
        ("breaks on opening", "a fault of wavebed: KeyError: 'port'"),
        ("its helper hangs", "ip did not end within 10 s"),
        ("garbage", "its output cannot be read: ValueError: no JSON"),
        ("uneven series", "its output cannot be read: ValueError: series rtt: 2 times, 1 values"),
        ("words for numbers", "its output cannot be read: ValueError: event stall: 'long' is no number"),
    ],
)
def test_a_fault_in_one_leaves_the_others_alone(tmp_path: Path, fault: str, reason: str) -> None:
    acts = performed(tmp_path, Waiter("bad", 0.1, fault=fault), Waiter("good", 0.1))
    bad, good = outcomes(list(acts.values()))
    assert (bad.status, bad.reason) == ("failed", reason)
    assert good.status == "ok"


def test_one_that_does_not_open_in_time_fails_and_the_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(play, "OPEN_S", 0.1)
    acts = acts_of(tmp_path, Waiter("slow", 0.1, fault="opens slowly"), Waiter("good", 0.1))
    perform(acts, lambda: True, lambda: None)
    slow, good = outcomes(acts)
    assert (slow.status, slow.reason) == ("failed", "did not open within 0.1 s")
    assert good.status == "ok"


def test_one_that_waits_for_a_failed_one_still_runs(tmp_path: Path) -> None:
    acts = performed(tmp_path, Waiter("bad", 0.1, fault="does not open"), Waiter("next", 0.1, after="bad"))
    assert acts["next"].span is not None


def test_one_that_does_not_end_when_asked_ends_the_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "STOP_GRACE_S", 0.1)
    acts = acts_of(tmp_path, Waiter("stuck", 0.1, limit_s=0.1, fault="hangs"))
    with pytest.raises(HungError, match="stuck: did not end"):
        perform(acts, lambda: True, lambda: None)
    acts[0].over.wait(3)


def test_one_that_cannot_be_stopped_fails_alone(tmp_path: Path) -> None:
    acts = performed(tmp_path, Waiter("bad", 60, limit_s=0.1, fault="cannot stop"), Waiter("good", 0.6))
    bad, good = outcomes(list(acts.values()))
    assert (bad.status, bad.reason) == ("failed", "[Errno 32] Broken pipe")
    assert good.status == "ok"


def test_what_is_endless_never_begins_if_all_others_have_ended_before(tmp_path: Path) -> None:
    began = time.monotonic()
    acts = performed(tmp_path, Waiter("ping", 60, endless=True, start_s=30.0), Waiter("load", 0.1))
    assert time.monotonic() - began < 5
    assert acts["ping"].span is None
    assert outcomes([acts["ping"]])[0].reason == "all others had ended before its start"


def test_the_end_of_the_laboratory_ends_the_waiting(tmp_path: Path) -> None:
    acts = acts_of(tmp_path, Waiter("long", 5))
    began = time.monotonic()
    perform(acts, lambda: False, lambda: None)
    assert time.monotonic() - began < 4


def test_nothing_runs_any_more_when_reports_are_asked_for(tmp_path: Path) -> None:
    acts = acts_of(tmp_path, Waiter("long", 0.8), Waiter("later", 60, start_s=60.0), Waiter("done", 0.0))
    perform(acts, lambda: not acts[2].over.is_set(), lambda: None)
    settle(acts)
    long, later, done = outcomes(acts)
    assert acts[0].span is not None
    assert (long.status, long.reason) == ("failed", "the laboratory ended under it")
    assert (later.status, later.reason) == ("failed", "the laboratory ended under it")
    assert done.status == "ok"


def test_what_breaks_because_the_laboratory_ended_says_so(tmp_path: Path) -> None:
    acts = acts_of(tmp_path, Waiter("long", 0.5, fault="breaks later"))
    perform(acts, lambda: False, lambda: None)
    settle(acts)
    assert outcomes(acts)[0].reason == "the laboratory ended under it"
