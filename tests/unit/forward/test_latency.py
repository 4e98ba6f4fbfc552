"""Percentiles of delays from the buckets of a port."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.forward.answers import BUCKETS, bucket_bounds_ns, latency_of


def bucket(value: int) -> int:
    """The rule of crates/wavebed-forward/src/histogram.rs, in its own words."""
    if value < 128:
        return value
    exponent = value.bit_length() - 1
    if exponent >= 36:
        return BUCKETS - 1
    return (exponent - 6) * 64 + (value >> (exponent - 6))


@given(st.integers(0, (1 << 36) - 1))
def test_a_value_lies_within_the_bounds_of_its_bucket(value: int) -> None:
    start, end = bucket_bounds_ns(bucket(value))
    assert start <= value < end
    assert end - start <= max(1, value // 64)


def test_buckets_follow_each_other_without_a_gap() -> None:
    bounds = [bucket_bounds_ns(index) for index in range(BUCKETS)]
    assert bounds[0][0] == 0
    assert bounds[-1][1] == 1 << 36
    assert all(left[1] == right[0] for left, right in itertools.pairwise(bounds))


def test_there_is_no_bucket_beyond_the_last() -> None:
    with pytest.raises(ValueError, match="bucket 1984"):
        bucket_bounds_ns(BUCKETS)


def counted(values: list[int]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for value in values:
        counts[bucket(value)] = counts.get(bucket(value), 0) + 1
    return counts


@given(st.lists(st.integers(0, 1 << 34), min_size=1, max_size=300))
def test_percentiles_and_mean_are_those_of_the_values_within_a_buckets_width(values: list[int]) -> None:
    latency = latency_of(counted(values), min(values), max(values))
    assert latency is not None
    ranked = sorted(values)
    for got, fraction in ((latency.p50_s, 50), (latency.p90_s, 90)):
        exact = ranked[max(0, -(-len(ranked) * fraction // 100) - 1)]
        assert got * 1e9 == pytest.approx(exact, rel=1 / 64, abs=1)
    assert latency.mean_s * 1e9 == pytest.approx(sum(values) / len(values), rel=1 / 64, abs=1)
    assert latency.min_s == min(values) / 1e9
    assert latency.max_s == max(values) / 1e9
    assert latency.min_s <= latency.p50_s <= latency.p90_s <= latency.max_s
    assert sum(count for _, _, count in latency.counts) == latency.count == len(values)


@pytest.mark.parametrize(("number", "p99", "p999"), [(99, False, False), (100, True, False), (1000, True, True)])
def test_a_percentile_needs_a_value_above_it(number: int, p99: bool, p999: bool) -> None:
    latency = latency_of({50: number}, 50, 50)
    assert latency is not None
    assert (latency.p99_s is not None, latency.p999_s is not None) == (p99, p999)


def test_nothing_counted_is_no_delay() -> None:
    assert latency_of({}, 0, 0) is None
    assert latency_of({3: 0}, 0, 0) is None


def test_a_percentile_never_lies_outside_what_was_seen() -> None:
    latency = latency_of({bucket(1_000_000): 10}, 1_000_000, 1_000_001)
    assert latency is not None
    assert 0.001 <= latency.p50_s <= 0.001000001
    assert latency.p90_s <= latency.max_s


def test_the_last_bucket_reaches_to_the_greatest_value() -> None:
    latency = latency_of({BUCKETS - 1: 1}, 90_000_000_000, 90_000_000_000)
    assert latency is not None
    assert latency.counts[0][1] > 90.0
