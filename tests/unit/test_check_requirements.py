"""Requirements of a check, and how late packets may have been."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.check.lateness import most_lateness_s
from wavebed.check.quantity import in_unit
from wavebed.check.requirement import Requirement, parse_requirement
from wavebed.check.statistic import fails_whatever, holds, statistic_of
from wavebed.config.problems import Problem
from wavebed.result.model import TrialRecord
from wavebed.result.tables import SCHEMAS
from wavebed.spec.link import ConstantDelay, Delay, Distribution
from wavebed.spec.network import CoalesceOff, Hop, Host, Leg, Network
from wavebed.workload.model import Metric

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.spec.link import DelaySource


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


MS = 1_000_000
TRIAL = TrialRecord("0001-x", 1, "x", 1, "", 1.0, "suspect")


def hop(name: str, *delays: DelaySource) -> Hop:
    stages = tuple(Delay(each, reorder=False, limit_packets=None) for each in delays)
    return Hop(name, "wired", stages, stages)


def late(folder: Path, rows: Sequence[tuple[int, str, int, int]], *hops: Hop) -> float | None:
    """Return the most lateness with rows of time (ms), direction, segments and lateness (ns)."""
    (folder / "series").mkdir(exist_ok=True)
    columns = list(zip(*((ms, way, n, n, 1500 * n, ns, 0) for ms, way, n, ns in rows), strict=True))
    pq.write_table(pa.table(columns, schema=SCHEMAS["departures"]), folder / "series" / "departures.parquet")
    leg = Leg("server", "client", hops)
    network = Network(1500, False, CoalesceOff(), None, (Host("server"), Host("client")), (leg,))
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
    found = late(tmp_path, rows, hop("core", ConstantDelay(4 * MS)), hop("air", ConstantDelay(6 * MS)))
    assert found == pytest.approx((700_000 + 100_000 + 2 * MS + 50_000) / 1e9)


def test_of_a_path_shorter_than_a_row_as_many_count_as_there_are_round_trips(tmp_path: Path) -> None:
    rows = [(0, "server-client.down", 50, 100_000), (1, "server-client.down", 2, 100_000)]
    assert late(tmp_path, rows, hop("lan", ConstantDelay(100_000))) == pytest.approx((6 + 2) * 100e-6)
    assert late(tmp_path, rows, hop("lan")) == pytest.approx((50 + 2) * 100e-6)


def test_a_delay_that_may_be_nothing_is_none(tmp_path: Path) -> None:
    rows = [(0, "server-client.down", 50, 100_000)]
    spread = Distribution("normal", 10 * MS, 2 * MS)
    assert late(tmp_path, rows, hop("air", spread)) == pytest.approx(50 * 100e-6)


def test_without_path_table_or_packets_it_is_unknown(tmp_path: Path) -> None:
    assert most_lateness_s(TRIAL, tmp_path) is None
    assert most_lateness_s(replace(TRIAL, resolved={"network": {}}), tmp_path) is None
    assert late(tmp_path, [(0, "other.down", 1, 9)], hop("air", ConstantDelay(MS))) is None
