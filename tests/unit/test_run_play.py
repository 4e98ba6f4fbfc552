"""Workloads in time: their order, their limits, and what becomes of a fault; in virtual time."""

from __future__ import annotations

import subprocess
import threading
from typing import TYPE_CHECKING, ClassVar, cast

import pytest
from tests.memory_lab import MemoryLab

from wavebed.errors import WavebedError
from wavebed.run.play import (
    LOOK_EVERY_S,
    OPEN_S,
    STOP_GRACE_S,
    HungError,
    RunningWorkload,
    open_all,
    outcomes,
    perform,
    settle,
)
from wavebed.workload.model import Common, Event, Metric, NoOptions, Outcome, Series, Session, TimeSpan, Workload

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.lab.protocol import Clock
    from wavebed.workload.model import Schedule, TrialContext


class Wait(Session):
    def __init__(self, workload: Waiter, clock: Clock) -> None:
        self.workload = workload
        self.clock = clock
        self.asked = threading.Event()

    def run(self) -> None:
        if self.workload.fault == "fails":
            raise WavebedError("the server went away")
        if self.workload.fault == "breaks":
            raise ZeroDivisionError("a bug")
        self.clock.wait(self.asked, self.workload.lasts_s)
        self.clock.sleep(self.workload.slow_to_stop_s)
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


class Waiter(Workload[NoOptions]):
    kind: ClassVar[str] = "wait"
    summary: ClassVar[str] = "Waits."

    def __init__(self, name: str, lasts_s: float, **how: object) -> None:
        common = Common(
            kind="wait",
            name=name,
            start_s=cast("float", how.get("start_s", 0.0)),
            after=cast("str | None", how.get("after")),
            limit_s=cast("float", how.get("limit_s", 60.0)),
            server=cast("str", how.get("server", "server")),
            client="client",
        )
        super().__init__(common, NoOptions())
        self.lasts_s = lasts_s
        self.fault = how.get("fault")
        self.is_endless = bool(how.get("endless"))
        self.last_s = cast("float", how.get("tail_s", 0.0))
        self.opens_s = cast("float", how.get("opens_s", 0.0))
        self.slow_to_stop_s = cast("float", how.get("slow_to_stop_s", 0.0))

    @property
    def endless(self) -> bool:
        return self.is_endless

    @property
    def tail_s(self) -> float:
        return self.last_s

    def expected_s(self) -> float:
        return self.lasts_s

    def open(self, context: TrialContext) -> Wait:
        context.clock.sleep(self.opens_s)
        if self.fault == "does not open":
            raise WavebedError("no such browser")
        if self.fault == "breaks on opening":
            raise KeyError("port")
        if self.fault == "its helper hangs":
            raise subprocess.TimeoutExpired(["ip", "address"], 10.0)
        return Wait(self, context.clock)


class Trial:
    """Workloads that were opened in a laboratory whose time has begun."""

    def __init__(self, folder: Path, *workloads: Waiter) -> None:
        self.lab = MemoryLab({})
        self.running = open_all(workloads, self.lab, folder, 1)
        self.opened_s = self.lab.clock.monotonic_s()
        self.lab.begin()

    def perform(self) -> dict[str, RunningWorkload]:
        perform(self.running, self.lab, lambda: None)
        return {one.workload.name: one for one in self.running}

    def now_s(self) -> float:
        return self.lab.clock.now_s()

    def spans(self) -> dict[str, tuple[float, float]]:
        spans = {one.workload.name: one.span for one in self.running}
        return {name: (span.start_s, span.end_s) for name, span in spans.items() if span is not None}


def near(*times_s: float) -> object:
    return pytest.approx(times_s, abs=1e-6)


def test_each_starts_at_its_moment_and_one_with_after_when_the_other_has_ended(tmp_path: Path) -> None:
    trial = Trial(tmp_path, Waiter("b", 3, after="a", start_s=0.5), Waiter("a", 20, start_s=10.0), Waiter("c", 5))
    trial.perform()
    assert trial.spans() == {"a": near(10, 30), "b": near(30.5, 33.5), "c": near(0, 5)}


def test_moments_count_from_time_zero_however_late_they_are_looked_at(tmp_path: Path) -> None:
    trial = Trial(tmp_path, Waiter("past", 1, start_s=2.0), Waiter("to come", 1, start_s=10.0))
    trial.lab.clock.sleep(3.0)
    trial.perform()
    assert trial.spans() == {"past": near(3, 4), "to come": near(10, 11)}


def test_one_whose_predecessor_is_not_in_the_trial_starts_at_its_own_time(tmp_path: Path) -> None:
    trial = Trial(tmp_path, Waiter("b", 3, after="omitted", start_s=2.0))
    trial.perform()
    assert trial.spans() == {"b": near(2, 5)}


def test_a_chain_runs_one_after_the_other_whatever_their_order_in_the_scenario(tmp_path: Path) -> None:
    trial = Trial(tmp_path, Waiter("c", 1, after="b"), Waiter("b", 1, after="a"), Waiter("a", 1))
    trial.perform()
    assert trial.spans() == {"a": near(0, 1), "b": near(1, 2), "c": near(2, 3)}


def test_all_are_opened_side_by_side_before_time_begins(tmp_path: Path) -> None:
    began_s = MemoryLab({}).clock.monotonic_s()
    trial = Trial(tmp_path, Waiter("a", 1, opens_s=40.0), Waiter("b", 1, opens_s=40.0))
    assert trial.opened_s - began_s == pytest.approx(40)
    trial.perform()
    assert trial.spans() == {"a": near(0, 1), "b": near(0, 1)}


def test_each_has_its_own_ports_addresses_and_folder(tmp_path: Path) -> None:
    first, second = (one.context for one in Trial(tmp_path, Waiter("a", 1), Waiter("b", 1)).running)
    assert (first.port, second.port) == (20_000, 20_020)
    assert (first.address, second.address) == ("198.19.1.", "198.19.2.")
    assert (first.folder, second.folder) == (tmp_path / "a", tmp_path / "b")


def test_what_is_endless_ends_when_all_others_have(tmp_path: Path) -> None:
    trial = Trial(tmp_path, Waiter("ping", 600, endless=True, limit_s=900.0), Waiter("load", 300, limit_s=900.0))
    running = trial.perform()
    assert trial.spans() == {"ping": near(0, 300), "load": near(0, 300)}
    assert not running["ping"].limited


def test_a_workload_is_stopped_at_its_limit(tmp_path: Path) -> None:
    trial = Trial(tmp_path, Waiter("long", 600, start_s=5.0, limit_s=30.0), Waiter("short", 3, limit_s=30.0))
    running = trial.perform()
    assert 35 <= trial.spans()["long"][1] <= 35 + LOOK_EVERY_S + 1e-6
    assert (running["long"].limited, running["short"].limited) == (True, False)


def test_the_limit_of_one_does_not_end_the_others(tmp_path: Path) -> None:
    trial = Trial(tmp_path, Waiter("long", 600, limit_s=5.0), Waiter("other", 50), Waiter("next", 1, after="long"))
    trial.perform()
    assert trial.spans()["other"] == near(0, 50)
    assert trial.spans()["next"][0] == pytest.approx(trial.spans()["long"][1])


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("fails", "the server went away"),
        ("breaks", "internal error of wavebed: ZeroDivisionError: a bug"),
        ("does not open", "no such browser"),
        ("breaks on opening", "internal error of wavebed: KeyError: 'port'"),
        ("its helper hangs", "ip did not end within 10 s"),
        ("garbage", "its output cannot be read: ValueError: no JSON"),
        ("uneven series", "its output cannot be read: ValueError: series rtt: 2 times, 1 values"),
        ("words for numbers", "its output cannot be read: ValueError: event stall: 'long' is not a number"),
    ],
)
def test_a_fault_in_one_leaves_the_others_alone(tmp_path: Path, fault: str, reason: str) -> None:
    trial = Trial(tmp_path, Waiter("bad", 10, fault=fault), Waiter("good", 10))
    bad, good = outcomes(list(trial.perform().values()))
    assert (bad.status, bad.reason) == ("failed", reason)
    assert good.status == "ok"
    assert trial.spans()["good"] == near(0, 10)


def test_one_that_does_not_open_in_time_fails_and_the_others_run(tmp_path: Path) -> None:
    trial = Trial(tmp_path, Waiter("slow", 10, opens_s=OPEN_S + 5), Waiter("good", 10))
    slow, good = outcomes(list(trial.perform().values()))
    assert (slow.status, slow.reason) == ("failed", f"did not open within {OPEN_S:g} s")
    assert good.status == "ok"
    assert trial.spans() == {"good": near(0, 10)}


def test_one_that_waits_for_a_failed_one_still_runs(tmp_path: Path) -> None:
    trial = Trial(tmp_path, Waiter("bad", 10, fault="does not open"), Waiter("next", 10, after="bad", start_s=1.0))
    trial.perform()
    assert trial.spans() == {"next": near(1, 11)}


@pytest.mark.parametrize("tail_s", [0.0, 30.0])
def test_one_that_does_not_end_when_asked_ends_the_trial_after_its_grace_and_tail(
    tmp_path: Path, tail_s: float
) -> None:
    trial = Trial(tmp_path, Waiter("stuck", 600, limit_s=20.0, tail_s=tail_s, slow_to_stop_s=600.0))
    with pytest.raises(HungError, match="stuck: did not end within 10 s of being asked to"):
        trial.perform()
    least_s = 20 + STOP_GRACE_S + tail_s
    assert least_s <= trial.now_s() <= least_s + 3 * LOOK_EVERY_S


def test_one_that_ends_within_its_tail_is_waited_for(tmp_path: Path) -> None:
    trial = Trial(tmp_path, Waiter("voice", 600, endless=True, tail_s=30.0, slow_to_stop_s=30.0), Waiter("load", 5))
    trial.perform()
    assert trial.spans()["voice"] == near(0, 35)


def test_one_that_cannot_be_stopped_fails_alone(tmp_path: Path) -> None:
    trial = Trial(tmp_path, Waiter("bad", 600, limit_s=1.0, fault="cannot stop"), Waiter("good", 6))
    bad, good = outcomes(list(trial.perform().values()))
    assert (bad.status, bad.reason) == ("failed", "[Errno 32] Broken pipe")
    assert good.status == "ok"


def test_what_is_endless_never_begins_if_all_others_have_ended_before(tmp_path: Path) -> None:
    trial = Trial(tmp_path, Waiter("ping", 600, endless=True, start_s=30.0), Waiter("load", 1))
    running = trial.perform()
    assert trial.now_s() == pytest.approx(1)
    assert running["ping"].span is None
    assert outcomes([running["ping"]])[0].reason == "all others had ended before its start"


def test_the_schedule_tells_each_when_the_others_ran(tmp_path: Path) -> None:
    trial = Trial(tmp_path, Waiter("a", 3), Waiter("bad", 3, fault="does not open"))
    seen: list[Schedule] = []
    session = trial.running[0].session
    assert session is not None
    trial.perform()
    session.report = lambda schedule: seen.append(schedule) or Outcome()  # type: ignore[func-returns-value, method-assign]
    outcomes(trial.running)
    assert seen == [{"a": TimeSpan(0.0, 3.0, is_load=True)}]


def test_the_end_of_the_laboratory_ends_the_waiting(tmp_path: Path) -> None:
    trial = Trial(tmp_path, Waiter("long", 50))
    trial.lab.clock.at(3.0, trial.lab.close)
    trial.perform()
    assert 3 <= trial.now_s() <= 3 + LOOK_EVERY_S


def test_nothing_runs_any_more_when_reports_are_asked_for(tmp_path: Path) -> None:
    trial = Trial(tmp_path, Waiter("long", 8), Waiter("later", 60, start_s=60.0), Waiter("done", 1))
    trial.lab.clock.at(2.0, trial.lab.close)
    trial.perform()
    settle(trial.running, trial.lab.clock)
    assert trial.now_s() == pytest.approx(8)
    long, later, done = outcomes(trial.running)
    assert trial.spans() == {"long": near(0, 8), "done": near(0, 1)}
    assert (long.status, long.reason) == ("failed", "the laboratory ended before it")
    assert (later.status, later.reason) == ("failed", "the laboratory ended before it")
    assert done.status == "ok"


def test_one_that_goes_on_without_a_laboratory_is_not_waited_for_ever(tmp_path: Path) -> None:
    trial = Trial(tmp_path, Waiter("stuck", 600), Waiter("other", 600))
    trial.lab.clock.at(2.0, trial.lab.close)
    trial.perform()
    ended_s = trial.now_s()
    settle(trial.running, trial.lab.clock)
    assert trial.now_s() - ended_s == pytest.approx(STOP_GRACE_S)


def test_what_breaks_because_the_laboratory_ended_says_so(tmp_path: Path) -> None:
    trial = Trial(tmp_path, Waiter("long", 5, fault="breaks later"))
    trial.lab.clock.at(1.0, trial.lab.close)
    trial.perform()
    settle(trial.running, trial.lab.clock)
    assert outcomes(trial.running)[0].reason == "the laboratory ended before it"
