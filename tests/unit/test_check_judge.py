"""Checks: how requirements are read, judged over the seeds, and how late packets may have been."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from xml.etree import ElementTree as ET

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.check.judge import COMPLETES, check_names, decide, total
from wavebed.check.perform import CheckedCommand, command_plan
from wavebed.check.requirement import (
    Requirement,
    check_known,
    fails_whatever,
    holds,
    in_unit,
    parse_requirement,
    statistic_of,
)
from wavebed.check.result import CheckResult
from wavebed.check.trials import JudgedTrial, last_attempts, most_lateness_s, seen
from wavebed.config.problems import Problem
from wavebed.errors import UserError
from wavebed.lab.tools import Computing, ProgramTime
from wavebed.report.build import decision_section
from wavebed.result.model import Check, TrialRecord, WorkloadRecord
from wavebed.result.tables import SCHEMAS
from wavebed.run.scenario import read_plan
from wavebed.spec.types import ConstantDelay, DelayStage, DistributionDelay, Hop, Host, Leg, Network, OffCoalesce
from wavebed.workload import KINDS, read_workload
from wavebed.workload.model import Metric, Outcome, TimeSpan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.check.judge import Decision
    from wavebed.config.data import Json
    from wavebed.result.model import Verdict
    from wavebed.spec.types import Delay
    from wavebed.workload.model import Better, Status


REQUIRED = parse_requirement("load time p90 < 2 s")


def measured(seed: int, value: float | None, unit: str = "ms") -> JudgedTrial:
    metrics = {("command", "load time"): Metric("load time", value, unit)}
    return JudgedTrial(f"{seed:04d}-x", "as-described", seed, "measured", (), metrics)


def failed(seed: int) -> JudgedTrial:
    return JudgedTrial(f"{seed:04d}-x", "as-described", seed, "failed", ["command: curl ended with 7: refused"])


def late(seed: int) -> JudgedTrial:
    return JudgedTrial(f"{seed:04d}-x", "as-described", seed, "inconclusive", ["processors not saturated: all busy"])


def decision(trials: Sequence[JudgedTrial], seeds: int, text: str = "load time p90 < 2 s") -> Decision:
    return decide([parse_requirement(text)], trials, seeds)[1]


def test_all_seeds_within_the_bound_pass() -> None:
    found = decide([REQUIRED], [measured(seed, 1000.0 + seed) for seed in range(5)], 5)
    assert [each.outcome for each in found] == ["pass", "pass"]
    assert found[1].value == pytest.approx(1003.6)
    assert (found[1].bound, found[1].unit, found[1].reasons) == (2000.0, "ms", [])
    assert total(found) == "pass"


def test_a_late_machine_never_lets_a_requirement_pass() -> None:
    found = decide([REQUIRED], [*(measured(seed, 1.0) for seed in range(4)), late(4)], 5)
    assert [each.outcome for each in found] == ["inconclusive", "inconclusive"]
    assert found[1].reasons == ["seed 4: processors not saturated: all busy"]
    assert total(found) == "inconclusive"


def test_a_late_machine_hides_no_failure_that_is_certain() -> None:
    certain = decision([*(measured(seed, 9000.0) for seed in range(4)), late(4)], 5)
    assert certain.outcome == "fail"
    assert certain.reasons == ["seed 0: 9000 ms", "seed 1: 9000 ms", "seed 2: 9000 ms", "and 1 more"]
    assert decision([measured(0, 9000.0), *map(late, range(1, 5))], 5, "load time p50 < 2 s").outcome == "inconclusive"


def test_a_command_that_fails_fails_the_check() -> None:
    found = decide([REQUIRED], [*(measured(seed, 1.0) for seed in range(4)), failed(4)], 5)
    assert [each.outcome for each in found] == ["fail", "fail"]
    assert found[0].reasons == ["seed 4: command: curl ended with 7: refused"]
    assert found[1].measured_text == "failed"
    assert total(found) == "fail"


def test_a_failed_seed_may_lie_outside_a_percentile() -> None:
    found = decide([parse_requirement("load time p50 < 2 s")], [measured(0, 1.0), measured(1, 2.0), failed(2)], 3)
    assert [each.outcome for each in found] == ["fail", "pass"]


def test_what_was_not_measured_is_inconclusive() -> None:
    found = decision([measured(0, 1.0), measured(1, None)], 2)
    assert (found.outcome, found.reasons) == ("inconclusive", ["seed 1: not measured"])


def test_seeds_that_did_not_run_are_inconclusive() -> None:
    found = decide([REQUIRED], [measured(0, 1.0)], 3)
    assert found[0].reasons == found[1].reasons == ["2 of 3 seeds did not run"]


def test_no_seed_at_all_decides_nothing() -> None:
    assert total(decide([REQUIRED], [late(0)], 1)) == "inconclusive"


def test_a_percentile_has_an_interval_where_there_are_enough_seeds() -> None:
    few = decision([measured(seed, 1.0) for seed in range(5)], 5, "load time p50 < 2 s")
    assert few.spread is not None
    assert (few.spread.level, few.spread.needed) == (None, 6)
    many = decision([measured(seed, float(seed)) for seed in range(20)], 20, "load time p50 < 2 s")
    assert many.spread is not None
    assert many.spread.level is not None
    assert many.spread.level >= 0.95
    assert "≤ p50 ≤" in many.measured_text


def test_a_metric_that_no_trial_has_is_a_mistake_of_the_requirement() -> None:
    with pytest.raises(Problem, match=r"load tme: no metric of the results: did you mean 'command.load time'"):
        check_names([parse_requirement("load tme p90 < 2 s")], [measured(0, 1.0)])
    with pytest.raises(Problem, match=r"load time: 2 has no unit: write it in ms"):
        check_names([parse_requirement("load time p90 < 2")], [measured(0, 1.0)])
    check_names([parse_requirement("load tme p90 < 2 s")], [late(0), failed(1)])  # nothing is known yet


def trial(
    status: Status = "ok",
    checks: Sequence[Check] = (),
    *,
    kind: str = "command",
    began: bool = True,
    verdict: Verdict = "valid",
    reasons: Sequence[str] = (),
    doubts: Sequence[str] = (),
    lasted_s: float = 1.0,
) -> TrialRecord:
    span = TimeSpan(0.0, lasted_s, is_load=True) if began else None
    outcome = Outcome(status, "it broke" if status != "ok" else "", [Metric("wall time", 1.0, "s")], doubts=doubts)
    workload = WorkloadRecord(kind, kind, span, outcome)
    return TrialRecord("0001-x", 1, "x", 1, "", 1.0, verdict, reasons, checks, [workload])


LATE = Check("engine on time", False, "suspect", "late by 9 ms", "late")
PARTIAL = Check("every workload is complete", False, "suspect", "stopped", "partial")


def test_a_trial_says_what_it_measured() -> None:
    found = seen(trial(checks=[Check("engine on time", True, "suspect", "", "late")]))
    assert found.state == "measured"
    assert found.metrics["command", "wall time"].value == 1.0


def test_a_late_trial_says_nothing_even_if_the_command_failed() -> None:
    found = seen(trial("failed", [LATE], verdict="failed", reasons=["command: it broke"]))
    assert (found.state, found.reasons) == ("inconclusive", ["engine on time: late by 9 ms"])


SILENT = Check("packets crossed the path", False, "suspect", "no packet entered the links", "traffic")
BUSY = Check("processors not saturated", False, "suspect", "all busy", "processors")


def test_a_trial_in_which_no_packet_crossed_the_path_is_no_evidence() -> None:
    found = seen(trial(checks=[SILENT], verdict="suspect"))
    assert (found.state, found.reasons, found.is_late) == ("inconclusive", ["no packet entered the links"], False)
    for text in ("wall time p50 < 9 s", "wall time p50 < 0.1 s"):
        completes, required = decide([parse_requirement(text)], [found], 1)
        assert (completes.outcome, required.outcome, required.value) == ("inconclusive", "inconclusive", 1.0)
        assert required.open_seeds == {1}


def test_a_command_that_failed_and_sent_nothing_has_failed() -> None:
    assert seen(trial("failed", [SILENT], verdict="failed")).state == "failed"


def slow(
    value: float, name: str = "wall time", unit: str = "s", kind: str = "command", *more: WorkloadRecord
) -> JudgedTrial:
    better: Better = "higher" if name == "goodput" else "lower"
    outcome = Outcome(metrics=[Metric(name, value, unit, better)])
    workload = WorkloadRecord(kind, kind, TimeSpan(0.0, 1.0, is_load=True), outcome)
    return seen(replace(trial(checks=[BUSY], verdict="suspect"), workloads=[workload, *more]))


@pytest.mark.parametrize(
    ("found", "text", "outcome"),
    [
        (slow(1.0), "wall time p50 < 2 s", "pass"),
        (slow(3.0), "wall time p50 < 2 s", "inconclusive"),
        (slow(3.0), "wall time p50 > 2 s", "inconclusive"),
        (slow(9.0, "goodput", "Mbit/s", "download"), "goodput p50 > 2 Mbit/s", "pass"),
        (slow(9.0, "goodput", "Mbit/s", "download"), "goodput p50 < 20 Mbit/s", "inconclusive"),
        (slow(9.0, "rtt p50", "ms"), "rtt p50 p50 < 20 ms", "inconclusive"),
        (slow(9.0, "goodput", "Mbit/s", "bulk"), "goodput p50 > 2 Mbit/s", "inconclusive"),
    ],
)
def test_a_slow_machine_leaves_a_fixed_amount_of_work_that_was_fast_enough(
    found: JudgedTrial, text: str, outcome: str
) -> None:
    required = decide([parse_requirement(text)], [found], 1)[1]
    assert (required.outcome, required.value) == (outcome, next(iter(found.metrics.values())).value)


def test_beside_another_workload_a_slow_machine_may_help() -> None:
    other = WorkloadRecord("load", "bulk", TimeSpan(0.0, 1.0, is_load=True), Outcome())
    found = slow(1.0, "wall time", "s", "command", other)
    assert decide([parse_requirement("wall time p50 < 2 s")], [found], 1)[1].outcome == "inconclusive"


def test_a_slow_seed_and_one_in_time_pass_together() -> None:
    in_time = JudgedTrial(
        "0002-x", "x", 2, "measured", (), {("command", "wall time"): Metric("wall time", 1.5, "s", "lower")}
    )
    decisions = decide([parse_requirement("wall time max < 2 s")], [slow(1.0), in_time], 2)
    assert [each.outcome for each in decisions] == ["pass", "pass"]
    assert (decisions[1].value, decisions[1].open_seeds) == (1.5, {1})


def virtual(
    value: float,
    computed_s: float | None,
    *,
    unit: str = "s",
    better: Better = "lower",
    kind: str = "command",
) -> JudgedTrial:
    """Return a trial of 1 s in virtual time, whose programs computed for a while on the host."""
    metric = Metric("figure", value, unit, better)
    workload = WorkloadRecord(kind, kind, TimeSpan(0.0, 1.0, is_load=True), Outcome(metrics=[metric]))
    resolved: dict[str, Json] = {
        "lab": {"kind": "namespaces", "time": "virtual"},
        "workloads": [{"name": kind, "limit_ns": 4 * 10**9}],
    }
    record = replace(trial(), workloads=[workload], resolved=resolved)
    if computed_s is None:
        return seen(record, (), None, None)
    told = f"{round(computed_s * 1e9):020}"
    return seen(record, (), None, Computing(told, (ProgramTime(kind, "client", f"{0:020}", told),)))


@pytest.mark.parametrize(
    ("found", "text", "outcome"),
    [
        (virtual(0.2, 0.5), "figure every < 1 s", "pass"),
        (virtual(0.2, 3.0), "figure every < 1 s", "inconclusive"),
        (virtual(0.2, None), "figure every < 1 s", "pass"),
        (virtual(2.0, 3.0), "figure every < 1 s", "fail"),
        (virtual(0.2, 3.0), "figure every > 1 s", "inconclusive"),
        (virtual(9.0, 1.0, unit="Mbit/s", better="higher"), "figure every > 5 Mbit/s", "inconclusive"),
        (virtual(9.0, 0.5, unit="Mbit/s", better="higher"), "figure every > 5 Mbit/s", "pass"),
        (virtual(4.0, 9.0, unit="Mbit/s", better="higher"), "figure every > 5 Mbit/s", "fail"),
        (virtual(20.0, 1.0, unit="%"), "figure every < 60 %", "inconclusive"),
        (virtual(20.0, 0.1, unit="%"), "figure every < 60 %", "pass"),
        (virtual(70.0, 9.0, unit="%"), "figure every < 60 %", "fail"),
        (virtual(4.0, 1.0, unit="", better="neither"), "figure every < 5", "inconclusive"),
        (virtual(4.0, 1.0, unit="", better="neither"), "figure every = 4", "pass"),
        (virtual(20.0, 1.0, unit="ms", kind="latency"), "figure every < 21 ms", "pass"),
    ],
)
def test_a_pass_that_the_time_of_computing_could_overturn_is_inconclusive(
    found: JudgedTrial, text: str, outcome: str
) -> None:
    decided = decide([parse_requirement(text)], [found], 1)[1]
    assert (decided.outcome, decided.value) == (outcome, next(iter(found.metrics.values())).value)


def test_the_reason_names_the_value_that_is_possible_and_the_remedy() -> None:
    decided = decide([parse_requirement("figure every < 1 s")], [virtual(0.2, 3.0)], 1)[1]
    (told,) = decided.reasons
    assert told == (
        "seed 1: 0.200 s may be 3.20 s: its programs computed for 3.00 s, which virtual time leaves out: decide with"
        " --processor host or --real-time"
    )


def test_a_command_that_would_pass_its_limit_may_not_complete() -> None:
    assert decide([], [virtual(0.2, 2.9)], 1)[0].outcome == "pass"
    (completes,) = decide([], [virtual(0.2, 3.5)], 1)
    assert completes.outcome == "inconclusive"
    assert completes.reasons[0].startswith(
        "seed 1: command may pass its limit of 4 s: its programs computed for 3.50 s"
    )


@pytest.mark.parametrize(("value", "outcome"), [(9.0, "inconclusive"), (11.0, "pass")])
def test_rates_of_the_path_are_lower_and_its_times_are_not(value: float, outcome: str) -> None:
    rate = replace(virtual(1.0, 1.0), metrics={("path", "delivered down"): Metric("delivered down", value, "Mbit/s")})
    assert decide([parse_requirement("path.delivered down every > 5 Mbit/s")], [rate], 1)[1].outcome == outcome
    rtt = replace(virtual(1.0, 1.0), metrics={("path", "tcp rtt p50"): Metric("tcp rtt p50", value, "ms")})
    assert decide([parse_requirement("path.tcp rtt p50 every < 12 ms")], [rtt], 1)[1].outcome == "pass"


def test_the_result_says_what_computing_took_or_that_nobody_counted_it(tmp_path: Path) -> None:
    def result(*found: JudgedTrial) -> CheckResult:
        return CheckResult("x", [1], decide([], found, len(found)), found, tmp_path)

    assert result(virtual(0.2, 0.5)).computing_text == (
        "computing: takes no time in virtual time; every decision allows for the 0.500 s that it took at most"
    )
    unknown = result(virtual(0.2, 0.5), virtual(0.2, None))
    assert "this guest kernel does not count it" in unknown.computing_text
    assert "decide with --real-time" in unknown.text()
    assert result(measured(1, 1.0)).computing_text == ""


def moments(total_ms: float, lasted_s: float = 1.0, status: Status = "ok", *more: Check) -> JudgedTrial:
    gaps = Check("engine kept running", False, "suspect", "stood still", "gaps")
    record = trial(status, [gaps, *more], verdict="suspect", lasted_s=lasted_s)
    return seen(replace(record, engine={"loops": [{"gaps": {"total_ns": round(total_ms * 1e6)}}]}))


def test_an_engine_that_stood_still_for_moments_leaves_times_to_be_judged() -> None:
    assert (moments(9).state, moments(9).delayed_s, moments(9).lasted_s) == ("measured", 0.009, 1.0)
    assert moments(11).state == "inconclusive"  # more than a hundredth of a second
    assert moments(9, 1.0, "failed").state == "inconclusive"
    assert moments(9, 1.0, "ok", LATE).state == "inconclusive"


def a_little_late(
    most_s: float | None, *more: Check, severity: Literal["invalid", "suspect"] = "suspect"
) -> JudgedTrial:
    check = Check("engine on time", False, severity, "late", "late")
    return seen(trial("ok", [check, *more], verdict="suspect"), (), most_s)


def test_a_trial_whose_packets_were_a_little_late_is_judged_with_what_that_may_have_added() -> None:
    gaps = Check("engine kept running", False, "suspect", "stood still", "gaps")
    few = Check("few late packets", False, "suspect", "9 of 1000", "late-packets")
    for each in (a_little_late(0.04), a_little_late(0.04, gaps, few)):
        assert (each.state, each.delayed_s, each.lasted_s) == ("measured", 0.04, 1.0)
    assert a_little_late(0.11).state == "inconclusive"  # more than a tenth of a second
    assert a_little_late(None).state == "inconclusive"  # it is not known how much
    assert a_little_late(0.04, severity="invalid").state == "inconclusive"
    busy = Check("processors not saturated", False, "suspect", "all busy", "processors")
    assert a_little_late(0.04, busy).state == "inconclusive"


@pytest.mark.parametrize(
    ("value", "unit", "outcome"),
    [(1985.0, "ms", "pass"), (1995.0, "ms", "inconclusive"), (2005.0, "ms", "inconclusive"), (2015.0, "ms", "fail")],
)
def test_a_time_near_the_bound_decides_nothing_if_the_engine_was_late(value: float, unit: str, outcome: str) -> None:
    late_ = replace(measured(1, value, unit), delayed_s=0.01, reasons=["engine kept running: stood still"])
    found = decision([late_], 1, "load time max < 2 s")
    assert found.outcome == outcome
    if outcome == "inconclusive":
        assert found.reasons == ["seed 1: the engine was late, worth up to 10 ms: the bound is nearer"]


@pytest.mark.parametrize(
    ("value", "outcome"), [(10.2, "pass"), (10.05, "inconclusive"), (9.95, "inconclusive"), (9.8, "fail")]
)
def test_a_rate_may_be_wrong_by_the_part_of_the_time_by_which_the_engine_was_late(value: float, outcome: str) -> None:
    late_ = replace(measured(1, value, "Mbit/s"), delayed_s=0.02, lasted_s=2.0, reasons=["stood still"])
    found = decision([late_], 1, "load time max > 10 mbit")
    assert found.outcome == outcome
    if outcome == "inconclusive":
        assert "worth up to 0." in found.reasons[0]


@pytest.mark.parametrize(
    ("value", "unit", "bound", "outcome"),
    [
        (5.0, "%", "< 20 %", "pass"),
        (5.0, "%", "< 5.5 %", "inconclusive"),  # the moments are 1 % of the trial
        (30.0, "%", "< 20 %", "inconclusive"),
        (95.0, "%", "> 90 %", "pass"),
        (1.1, "", "< 1.6", "pass"),
        (1.9, "", "< 1.6", "inconclusive"),
        (0.0, "", "= 0", "pass"),
        (3.0, "", "= 0", "inconclusive"),
    ],
)
def test_what_counts_events_passes_but_never_fails_if_the_engine_was_late(
    value: float, unit: str, bound: str, outcome: str
) -> None:
    late_ = replace(measured(1, value, unit), delayed_s=0.02, lasted_s=2.0, reasons=["stood still"])
    found = decision([late_], 1, f"load time every {bound}" if bound[0] == "=" else f"load time mean {bound}")
    assert found.outcome == outcome
    if outcome == "inconclusive" and value > 20:
        assert found.reasons == ["seed 1: the engine was late, which may have caused some of 30 %"]


def test_seeds_that_say_nothing_have_at_best_none_of_what_is_counted() -> None:
    trials = [measured(1, 6.0, "%"), measured(2, 6.5, "%"), late(3)]
    assert decision(trials, 3, "load time mean < 4 %").outcome == "fail"
    assert decision(trials, 3, "load time mean < 5 %").outcome == "inconclusive"
    plain = [measured(1, 6.0, ""), late(2)]
    assert decision(plain, 2, "load time mean < 2").outcome == "inconclusive"  # it may be negative
    changes = [measured(1, 9.0, "%"), measured(2, -1.0, "%"), late(3)]
    assert decision(changes, 3, "load time mean < 2 %").outcome == "inconclusive"


def test_a_command_that_failed_on_a_machine_in_time_has_failed() -> None:
    found = seen(trial("failed", verdict="failed", reasons=["command: it broke"]))
    assert (found.state, found.reasons) == ("failed", ["command: it broke"])


def test_a_workload_that_was_stopped_at_its_limit_was_measured() -> None:
    assert seen(trial("partial", [PARTIAL], verdict="suspect")).state == "measured"


def test_a_laboratory_that_broke_says_nothing() -> None:
    found = seen(trial("failed", verdict="failed", reasons=["the laboratory was killed", "command: it broke"]))
    assert (found.state, found.reasons) == ("inconclusive", ["the laboratory was killed"])


def test_a_browser_that_does_not_start_says_nothing_but_a_server_of_the_user_does() -> None:
    browser = trial("failed", kind="web", began=False, verdict="failed", reasons=["web: it broke"])
    command = trial("failed", kind="command", began=False, verdict="failed", reasons=["command: it broke"])
    assert [seen(browser).state, seen(command).state] == ["inconclusive", "failed"]


def test_a_workload_in_doubt_says_nothing() -> None:
    assert seen(trial(doubts=["frames were dropped by the processor"], verdict="suspect")).state == "inconclusive"


def test_of_several_attempts_the_last_that_says_something_counts() -> None:
    assert last_attempts([late(1), measured(1, 5.0), measured(2, 6.0)]) == [measured(1, 5.0), measured(2, 6.0)]
    assert last_attempts([measured(1, 5.0), late(1)]) == [measured(1, 5.0)]
    assert last_attempts([late(1), late(1)]) == [late(1)]


@pytest.fixture
def result() -> CheckResult:
    texts = ["load time p90 < 2 s", "load time every < 1 s", "load time max < 9 s"]
    trials = [measured(0, 1500.0), measured(1, 1600.0), late(2)]
    decisions = decide([parse_requirement(text) for text in texts], trials, 3)
    return CheckResult("curl <x> | y", range(3), decisions, trials, Path("runs/a"), Path("runs/a/report.html"))


def test_the_exit_status_is_one_for_a_failure_and_three_for_what_is_open(result: CheckResult) -> None:
    assert (result.outcome, result.exit_status) == ("fail", 1)
    open_ = CheckResult("", range(3), result.decisions[:2], result.trials, Path("a"))
    assert (open_.outcome, open_.exit_status) == ("inconclusive", 3)
    passed = CheckResult("", range(1), decide([REQUIRED], [measured(0, 1.0)], 1), [], Path("a"))
    assert (passed.outcome, passed.exit_status) == ("pass", 0)


def test_junit_has_a_case_for_each_requirement_and_skips_what_is_inconclusive(result: CheckResult) -> None:
    suite = ET.fromstring(result.junit())
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped", "errors")} == {
        "tests": "4",
        "failures": "1",
        "skipped": "3",
        "errors": "0",
    }
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert list(cases) == [COMPLETES, "load time p90 < 2 s", "load time every < 1 s", "load time max < 9 s"]
    failure = cases["load time every < 1 s"].find("failure")
    assert failure is not None
    assert failure.get("message") == "1600 ms: seed 0: 1500 ms"
    skipped = cases["load time p90 < 2 s"].find("skipped")
    assert skipped is not None
    assert str(skipped.get("message")).startswith("inconclusive: seed 2: processors not saturated")
    properties = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert properties["wavebed.report"] == "runs/a/report.html"


def test_that_the_engine_was_late_is_said_though_it_changes_no_decision(result: CheckResult) -> None:
    assert (result.timing, result.timing_text) == ("good", "timing: good")
    trials = [replace(measured(seed, 1500.0), delayed_s=0.01 * seed, lasted_s=2.0) for seed in range(3)]
    late_ = replace(result, trials=trials)
    line = "reduced (answers may be off by ± 20 ms or 1 %): every decision allows for it"
    assert f"timing    {line}" in late_.text().splitlines()
    assert f"\n\ntiming: {line}\n" in late_.markdown()
    assert [trial["delayed_s"] for trial in late_.json()["trials"]] == [0.0, 0.01, 0.02]  # type: ignore[index, union-attr, call-overload]
    late_ = replace(result, trials=[replace(late(0), is_late=True), *trials[1:]])
    assert late_.timing == "unusable"
    assert "unusable with 1 of 3 seeds: the machine was late, and their values decide nothing" in late_.text()
    slow = replace(late(0), is_late=True, slowed=frozenset({("command", "wall time")}))
    assert replace(result, trials=[slow]).timing == "reduced"


def test_markdown_is_a_table_in_which_nothing_of_the_title_is_markup(result: CheckResult) -> None:
    text = result.markdown()
    assert "**wavebed check: fail: 1 fail, 3 inconclusive of 4 requirements**" in text
    assert r"curl \<x\> \| y, seeds 0 to 2" in text
    cells = (r"load time every \< 1 s", "❌ fail", "1600 ms", "2 of 3", "0: 1500 ms, 1: 1600 ms")
    assert f"| {' | '.join(cells)} | seed 0: 1500 ms<br>seed 1: 1600 ms |" in text


def test_json_has_values_in_the_unit_beside_them(result: CheckResult) -> None:
    told = json.loads(json.dumps(result.json(), allow_nan=False))
    assert told["outcome"] == "fail"
    every = told["requirements"][2]
    assert told["timing"] == "good"
    assert (every["value"], every["bound"], every["unit"]) == (1600.0, 1000.0, "ms")
    assert every["values"] == [
        {"seed": 0, "value": 1500.0, "decides": True},
        {"seed": 1, "value": 1600.0, "decides": True},
    ]
    assert [each["state"] for each in told["trials"]] == ["measured", "measured", "inconclusive"]


def test_text_says_each_reason_once(result: CheckResult) -> None:
    text = result.text()
    assert text.count("seed 2: processors not saturated") == 1
    assert "load time every < 1 s: seed 1: 1600 ms" in text
    words = ["question", "answer", "effect", "timing", "report"]
    last = text.splitlines()[-5:]
    assert [line.split()[0] for line in last] == words
    assert last[1] == "answer    fail: 1 fail, 3 inconclusive of 4 requirements"
    assert last[2] == "effect    load time every < 1 s: measured 1600 ms, 60 % above the bound"
    assert last[4] == "report    runs/a/report.html"


@pytest.mark.parametrize(
    ("texts", "values", "effect"),
    [
        (["power every >= -110 dBm"], [-115.0], "power every >= -110 dBm: measured −115 dBm, 4.55 % below the bound"),
        (["power every >= -110 dBm"], [None], "no required metric was measured"),
        ([], [-115.0], "nothing was required of a metric"),
    ],
)
def test_the_effect_is_the_distance_from_the_bound(
    tmp_path: Path, texts: list[str], values: list[float | None], effect: str
) -> None:
    metrics = [{("a", "power"): Metric("power", value, "dBm")} for value in values]
    trials = [replace(measured(seed, 1.0), metrics=each) for seed, each in enumerate(metrics)]
    decisions = decide([parse_requirement(text) for text in texts], trials, len(trials))
    assert CheckResult("x", [0], decisions, trials, tmp_path).effect == effect


def test_the_report_begins_with_the_decision(result: CheckResult, tmp_path: Path) -> None:
    assert decision_section(tmp_path) == ""
    (tmp_path / "check.json").write_text(json.dumps(result.json()))
    page = decision_section(tmp_path)
    assert "0 of 4 requirements hold" in page
    assert "<td>1600 ms</td>" in page
    assert "0: 1500, 1: 1600</td>" in page
    assert "seed 2: processors not saturated: all busy" in page
    (tmp_path / "check.json").write_text("{}")
    with pytest.raises(UserError, match="run the check again"):
        decision_section(tmp_path)


METRICS = {
    ("web", "speed index"): Metric("speed index", 1200.0, "ms"),
    ("web", "page weight"): Metric("page weight", 2.0, "MB"),
    ("path", "queueing delay p95 down"): Metric("queueing delay p95 down", 20.0, "ms"),
    ("a", "goodput"): Metric("goodput", 20.0, "Mbit/s"),
    ("b", "goodput"): Metric("goodput", 20.0, "Mbit/s"),
}


def required(statistic: str, comparison: str = "<", value: str = "10 ms") -> Requirement:
    return parse_requirement(f"x {statistic} {comparison} {value}")


def test_a_requirement_is_a_metric_a_statistic_a_comparison_and_a_value() -> None:
    found = parse_requirement(" web.speed index p90<2500 ms ")
    assert (found.name, found.statistic, found.comparison) == ("web.speed index", "p90", "<")
    assert (found.value, found.unit, found.percentile) == (2500.0, "ms", 90)


def test_a_metric_may_have_a_percentile_in_its_name() -> None:
    found = parse_requirement("path.queueing delay p95 down max <= 0.1 s")
    assert (found.name, found.statistic, found.comparison) == ("path.queueing delay p95 down", "max", "<=")
    assert found.key(METRICS) == ("path", "queueing delay p95 down")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "'' is not a requirement: write WORKLOAD.METRIC STATISTIC < VALUE UNIT, as in"),
        ("web.speed index < 2500 ms", "'index' is no statistic: did you mean 'web.speed index p90 < 2500 ms'?"),
        ("web.speed index 90% < 2500 ms", "'90%' is no statistic: did you mean 'web.speed index p90 < 2500 ms'?"),
        ("web.speed index median at most 2 s", "did you mean 'web.speed index p50 <= 2 s'?"),
        ("web.speed index p90 2500 ms", "is not a requirement: write"),
        ("web.speed index p100 < 2500 ms", "'p100' is no statistic: did you mean 'web.speed index max < 2500 ms'?"),
        ('workload."phone.call".loss < 2 %', "did you mean 'phone.call.loss p90 < 2 %'?"),
        ("web.speed index p90 < fast", "is not a requirement"),
        ("status mean = 0", "only every value can be equal to one: write every ="),
    ],
)
def test_a_wrong_requirement_is_answered_with_the_right_form(text: str, line: str) -> None:
    with pytest.raises(Problem) as caught:
        parse_requirement(text)
    assert line in str(caught.value)


def test_the_workload_can_be_left_out_where_one_has_the_metric() -> None:
    assert parse_requirement("speed index p90 < 1 s").key(METRICS) == ("web", "speed index")
    with pytest.raises(Problem, match=r"goodput: several workloads have it: write one of a.goodput, b.goodput"):
        parse_requirement("goodput p50 > 1 mbit").key(METRICS)


def test_an_unknown_metric_is_answered_with_near_ones() -> None:
    with pytest.raises(Problem, match=r"web.sped index: no metric of the results: did you mean 'web.speed index'"):
        parse_requirement("web.sped index p90 < 1 s").key(METRICS)


def test_a_command_runs_on_the_first_device_of_a_cell() -> None:
    plan = command_plan(CheckedCommand(argv=["sh"]), [], Path("cell"), {}, 1)
    (workload,) = plan.treatments[0].workloads
    assert (workload.name, workload.common.client_host) == ("near.command", "near")
    assert [(table["name"], table["device"]) for table in plan.tables] == [("near.command", "near")]


def plan_of(text: str, **options: object) -> None:
    """Check a requirement on a command before its first trial."""
    requirements = [parse_requirement(text)]
    path = {"rate": "1mbit", **options}
    check_known(requirements, command_plan(CheckedCommand(argv=["sh"]), requirements, None, path, 1))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "wal time p50 < 4 s",
            "did you mean 'command.wall time'? If the program of 'command' prints it, write command.wal time",
        ),
        ("wall time p50 < 4 Mbit/s", "wall time: 4 Mbit/s is in another unit: the metric is in s"),
        ("wall time p50 < 4", "wall time: 4 has no unit: write it in s, as in 4 s"),
        ("path.queueing dely p95 down max < 9 ms", "did you mean 'path.queueing delay p95 down'"),
        ("path.dropped down max < 9 ms", "path.dropped down: 9 ms is in another unit: the metric is in segments"),
    ],
)
def test_a_metric_that_cannot_exist_is_refused_before_the_first_trial(text: str, line: str) -> None:
    with pytest.raises(Problem) as caught:
        plan_of(text)
    assert line in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "load time p50 < 4 parsecs",
        "command.wal time p50 < 4 s",
        "exit status every = 2",
        "delivery time p50 < 4000 ms",
        "path.tcp rtt p95 max < 0.2 s",
        "fairness between flows down min > 0.9",
        "processor time per GB max < 9 s/GB",
    ],
)
def test_a_metric_that_may_exist_is_not_refused_before_the_first_trial(text: str) -> None:
    plan_of(text)


def test_the_metrics_of_workloads_of_a_scenario_are_known_before_the_first_trial(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(
        """
        [path]
        rate = "1mbit"
        [[workload]]
        kind = "bulk"
        direction = "both"
        settle = "1s"
        [[workload]]
        kind = "download"
        size = "1mb"
        marks = ["100kb"]
        """
    )
    plan = read_plan(file)
    right = ["bulk.goodput up p50 > 1 mbit", "goodput down after 1s p50 > 1 mbit", "goodput first 100kb min > 1 mbit"]
    check_known(list(map(parse_requirement, right)), plan)
    for wrong in ("bulk.goodput p50 > 1 mbit", "retransmits p50 < 1 segments", "wall time p50 < 1 s"):
        with pytest.raises(Problem, match="no metric of the results"):
            check_known([parse_requirement(wrong)], plan)


def test_every_kind_of_workload_names_its_metrics_without_values() -> None:
    needed: dict[str, dict[str, Json]] = {
        "command": {"run": ["true"], "parser": "iperf3"},
        "download": {"size": "1mb"},
        "latency": {"probe": "both", "rpm": True},
        "web": {"site": "google"},
    }
    for kind in KINDS:
        found = read_workload({"kind": kind, **needed.get(kind, {})}).known_metrics()
        assert found, kind
        assert len({metric.name for metric in found}) == len(found)
        measured = {metric.name for metric in found if metric.value}
        assert not measured, kind


@pytest.mark.parametrize(
    ("value", "unit", "wanted", "found"),
    [
        (2.5, "s", "ms", 2500.0),
        (1500, "us", "ms", 1.5),
        (10, "mbit", "Mbit/s", 10.0),
        (0.5, "Gbit/s", "Mbit/s", 500.0),
        (64, "kib", "bytes", 65536.0),
        (1500, "kB", "MB", 1.5),
        (3, "%", "%", 3.0),
        (2, "segments", "segments", 2.0),
        (0, "", "", 0.0),
    ],
)
def test_a_value_is_brought_into_the_unit_of_its_metric(value: float, unit: str, wanted: str, found: float) -> None:
    assert in_unit(value, unit, wanted) == pytest.approx(found)


@pytest.mark.parametrize(
    ("unit", "wanted", "line"),
    [
        ("", "ms", "5 has no unit: write it in ms, as in 5 ms"),
        ("mbit", "ms", "5 mbit is in another unit: the metric is in ms"),
        ("ms", "", "5 ms is in another unit: the metric is in plain numbers"),
        ("parsecs", "ms", "5 parsecs is in another unit"),
    ],
)
def test_a_missing_or_another_unit_is_refused(unit: str, wanted: str, line: str) -> None:
    with pytest.raises(Problem) as caught:
        in_unit(5, unit, wanted)
    assert str(caught.value).startswith(line)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.integers(1, 99))
def test_a_percentile_is_that_of_numpy(values: list[float], percentile: int) -> None:
    found = statistic_of(required(f"p{percentile}"), values)
    assert found == pytest.approx(float(np.percentile(values, percentile)), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize(
    ("statistic", "comparison", "values", "bound", "expected"),
    [
        ("mean", "<", [1.0, 2.0, 6.0], 3.5, True),
        ("mean", "<", [1.0, 2.0, 6.0], 3.0, False),
        ("min", ">", [1.0, 2.0], 1.0, False),
        ("min", ">=", [1.0, 2.0], 1.0, True),
        ("max", "<=", [1.0, 2.0], 2.0, True),
        ("every", "<", [1.0, 2.0, 9.0], 9.0, False),
        ("every", ">", [1.0, 2.0, 9.0], 0.5, True),
        ("every", "=", [0.0, 0.0], 0.0, True),
        ("every", "=", [0.0, 1.0], 0.0, False),
    ],
)
def test_each_statistic_is_compared_with_the_bound(
    statistic: str, comparison: str, values: list[float], bound: float, expected: bool
) -> None:
    assert holds(required(statistic, comparison, "0 ms"), values, bound) is expected


def test_a_failed_seed_is_the_worst_value_wherever_it_takes_part() -> None:
    upper, lower = required("p50"), required("p50", ">")
    assert statistic_of(upper, [1.0, 2.0, math.inf]) == 2.0
    assert statistic_of(upper, [1.0, math.inf]) == math.inf
    assert statistic_of(lower, [1.0, -math.inf]) == -math.inf
    assert statistic_of(required("mean"), [1.0, math.inf]) == math.inf


def test_a_failure_is_certain_only_if_no_missing_seed_could_save_it() -> None:
    assert fails_whatever(required("every"), [11.0], 4, 10.0)
    assert fails_whatever(required("p50"), [11.0, 12.0, 13.0], 2, 10.0)
    assert not fails_whatever(required("p50"), [11.0, 12.0], 3, 10.0)
    assert not fails_whatever(required("mean"), [1e9], 1, 10.0)
    assert not fails_whatever(required("min"), [11.0], 1, 10.0)
    assert fails_whatever(required("p90", ">"), [1.0] * 5, 0, 10.0)
    assert fails_whatever(required("p90"), [math.inf, math.inf], 3, 10.0)


@given(
    st.lists(st.floats(-100, 100), min_size=1, max_size=8),
    st.lists(st.floats(-100, 100), max_size=4),
    st.sampled_from(["p10", "p50", "p90", "mean", "min", "max", "every"]),
    st.sampled_from(["<", "<=", ">", ">="]),
    st.floats(-100, 100),
)
def test_what_fails_whatever_comes_fails_with_what_came(
    values: list[float], others: list[float], statistic: str, comparison: str, bound: float
) -> None:
    requirement = required(statistic, comparison)
    if fails_whatever(requirement, values, len(others), bound):
        assert not holds(requirement, [*values, *others], bound)


MS = 1_000_000
TRIAL = TrialRecord("0001-x", 1, "x", 1, "", 1.0, "suspect")


def hop(name: str, *delays: Delay) -> Hop:
    stages = tuple(DelayStage(each, reorder=False, limit_packets=None) for each in delays)
    return Hop(name, "wired", stages, stages)


def lateness(folder: Path, rows: Sequence[tuple[int, str, int, int]], *hops: Hop) -> float | None:
    """Return the most lateness with rows of time (ms), direction, segments and lateness (ns)."""
    (folder / "series").mkdir(exist_ok=True)
    columns = list(zip(*((ms, way, n, n, 1500 * n, ns, 0) for ms, way, n, ns in rows), strict=True))
    pq.write_table(pa.table(columns, schema=SCHEMAS["departures"]), folder / "series" / "departures.parquet")
    leg = Leg("server", "client", hops)
    network = Network(1500, False, OffCoalesce(), (Host("server"), Host("client")), (leg,))
    return most_lateness_s(replace(TRIAL, resolved={"network": msgspec.to_builtins(network)}), folder)


def test_of_a_round_trip_the_latest_packet_of_each_direction_counts(tmp_path: Path) -> None:
    rows = [
        (0, "server-client.down", 5, 300_000),
        (19, "server-client.down", 5, 700_000),
        (20, "server-client.down", 5, 100_000),
        (95, "server-client.down", 1, 2 * MS),
        (7, "server-client.up", 1, 50_000),
        (8, "server-client.up", 1, 40_000),
    ]
    found = lateness(tmp_path, rows, hop("core", ConstantDelay(4 * MS)), hop("air", ConstantDelay(6 * MS)))
    assert found == pytest.approx((700_000 + 100_000 + 2 * MS + 50_000) / 1e9)


def test_of_a_path_shorter_than_a_row_as_many_count_as_there_are_round_trips(tmp_path: Path) -> None:
    rows = [(0, "server-client.down", 50, 100_000), (1, "server-client.down", 2, 100_000)]
    assert lateness(tmp_path, rows, hop("lan", ConstantDelay(100_000))) == pytest.approx((6 + 2) * 100e-6)
    assert lateness(tmp_path, rows, hop("lan")) == pytest.approx((50 + 2) * 100e-6)


def test_a_delay_that_may_be_nothing_is_none(tmp_path: Path) -> None:
    rows = [(0, "server-client.down", 50, 100_000)]
    spread = DistributionDelay("normal", 10 * MS, 2 * MS)
    assert lateness(tmp_path, rows, hop("air", spread)) == pytest.approx(50 * 100e-6)


def test_without_path_table_or_packets_it_is_unknown(tmp_path: Path) -> None:
    assert most_lateness_s(TRIAL, tmp_path) is None
    assert most_lateness_s(replace(TRIAL, resolved={"network": {}}), tmp_path) is None
    assert lateness(tmp_path, [(0, "other.down", 1, 9)], hop("air", ConstantDelay(MS))) is None
