"""Decisions of `wavebed check`: pass, fail and inconclusive, and how they are written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from xml.etree import ElementTree as ET

import pytest

from wavebed.check.judge import COMPLETES, check_names, decide, total
from wavebed.check.requirement import parse_requirement
from wavebed.check.result import CheckResult
from wavebed.check.trials import Seen, last_attempts, seen
from wavebed.config.problems import Problem
from wavebed.result.model import Check, TrialRecord, WorkloadRecord
from wavebed.workload.model import Metric, Outcome, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.check.judge import Decision
    from wavebed.result.model import Verdict
    from wavebed.workload.model import Status

REQUIRED = parse_requirement("load time p90 < 2 s")


def measured(seed: int, value: float | None, unit: str = "ms") -> Seen:
    metrics = {("command", "load time"): Metric("load time", value, unit)}
    return Seen(f"{seed:04d}-x", "as-described", seed, "measured", (), metrics)


def failed(seed: int) -> Seen:
    return Seen(f"{seed:04d}-x", "as-described", seed, "failed", ["command: curl ended with 7: refused"])


def late(seed: int) -> Seen:
    return Seen(f"{seed:04d}-x", "as-described", seed, "inconclusive", ["processors not saturated: all busy"])


def decision(trials: Sequence[Seen], seeds: int, text: str = "load time p90 < 2 s") -> Decision:
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
    span = Span(0.0, lasted_s, is_load=True) if began else None
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


def moments(total_ms: float, lasted_s: float = 1.0, status: Status = "ok", *more: Check) -> Seen:
    gaps = Check("engine kept running", False, "suspect", "stood still", "gaps")
    record = trial(status, [gaps, *more], verdict="suspect", lasted_s=lasted_s)
    return seen(replace(record, engine={"loops": [{"gaps": {"total_ns": round(total_ms * 1e6)}}]}))


def test_an_engine_that_stood_still_for_moments_leaves_times_to_be_judged() -> None:
    assert (moments(9).state, moments(9).delayed_s, moments(9).lasted_s) == ("measured", 0.009, 1.0)
    assert moments(11).state == "inconclusive"  # more than a hundredth of a second
    assert moments(9, 1.0, "failed").state == "inconclusive"
    assert moments(9, 1.0, "ok", LATE).state == "inconclusive"


def a_little_late(most_s: float | None, *more: Check, severity: Literal["invalid", "suspect"] = "suspect") -> Seen:
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
    assert result.lateness == ""
    trials = [replace(measured(seed, 1500.0), delayed_s=0.01 * seed, lasted_s=2.0) for seed in range(3)]
    late_ = replace(result, trials=trials)
    line = "the engine was late in 2 of 3 trials, by 20 ms in all at most: every decision allows for it"
    assert line in late_.text().splitlines()
    assert f"\n\n{line}\n" in late_.markdown()
    assert [trial["delayed_s"] for trial in late_.json()["trials"]] == [0.0, 0.01, 0.02]  # type: ignore[index, union-attr, call-overload]


def test_markdown_is_a_table_in_which_nothing_of_the_title_is_markup(result: CheckResult) -> None:
    text = result.markdown()
    assert "**wavebed check: fail: 1 fail, 3 inconclusive of 4 requirements**" in text
    assert r"curl \<x\> \| y, seeds 0 to 2" in text
    assert r"| load time every \< 1 s | ❌ fail | 1600 ms | 2 of 3 | seed 0: 1500 ms<br>seed 1: 1600 ms |" in text


def test_json_has_values_in_the_unit_beside_them(result: CheckResult) -> None:
    told = json.loads(json.dumps(result.json(), allow_nan=False))
    assert told["outcome"] == "fail"
    every = told["requirements"][2]
    assert (every["value"], every["bound"], every["unit"]) == (1600.0, 1000.0, "ms")
    assert every["values"] == [{"seed": 0, "value": 1500.0}, {"seed": 1, "value": 1600.0}]
    assert [each["state"] for each in told["trials"]] == ["measured", "measured", "inconclusive"]


def test_text_says_each_reason_once(result: CheckResult) -> None:
    text = result.text()
    assert text.count("seed 2: processors not saturated") == 1
    assert "load time every < 1 s: seed 1: 1600 ms" in text
    assert text.splitlines()[-1] == "report: runs/a/report.html"
