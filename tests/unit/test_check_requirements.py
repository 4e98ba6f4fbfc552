"""Requirements of `wavebed check`: reading them, their units, and their statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.check.quantity import in_unit
from wavebed.check.requirement import Requirement, parse_requirement
from wavebed.check.statistic import fails_whatever, holds, statistic_of
from wavebed.config.problems import Problem
from wavebed.workload.model import Metric

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
        ("web.speed index < 2500 ms", "'index' is no statistic: write p50, p90, p95"),
        ("web.speed index p90 2500 ms", "is not a requirement: write"),
        ("web.speed index p100 < 2500 ms", "'p100' is no statistic"),
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
