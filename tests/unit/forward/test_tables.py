"""Devices beside each other: ranks that intervals support, what is refused, text, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from tests.unit.forward.example import HEADERS, device

from wavebed.forward.comparison import Rank, compare, comparison_csv, comparison_json, comparison_text
from wavebed.forward.frames import Rates
from wavebed.stats.intervals import Interval

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

    from wavebed.forward.comparison import Measure
    from wavebed.forward.result import DeviceResult


def with_rates(
    name: str, throughput: tuple[float, float], overload: tuple[float, float] | None = None, count: int = 6
) -> DeviceResult:
    """Make a device whose two tests have these intervals (pps), their middle being the estimate."""
    result = device(name, 600_000.0)
    tests = []
    for test, ends in zip(result.overload, (throughput, overload or throughput), strict=True):
        middle = sum(ends) / 2
        interval = Interval(middle, *ends, 0.97, count) if count >= 6 else Interval(middle, None, None, None, count)
        received = Rates.of_pps(middle, test.sizes_bytes, HEADERS)
        tests.append(replace(test, received_pps=interval, received=received))
    return replace(result, overload=tuple(tests))


def ranks(results: list[DeviceResult], measure: Measure = "overload") -> list[tuple[int, int, int]]:
    found = [each.ranks[measure] for each in compare(results).devices]
    return [(rank.by_estimate, rank.best, rank.worst) for rank in found]


def test_devices_whose_intervals_do_not_overlap_have_a_rank_each() -> None:
    results = [with_rates("a", (10, 12)), with_rates("b", (30, 31)), with_rates("c", (20, 21))]
    assert ranks(results) == [(3, 3, 3), (1, 1, 1), (2, 2, 2)]


def test_devices_whose_intervals_overlap_fraction_their_ranks() -> None:
    results = [with_rates("a", (10, 21)), with_rates("b", (30, 31)), with_rates("c", (20, 25))]
    assert ranks(results) == [(3, 2, 3), (1, 1, 1), (2, 2, 3)]


def test_intervals_that_touch_overlap() -> None:
    assert ranks([with_rates("a", (10, 20)), with_rates("b", (20, 30))]) == [(2, 1, 2), (1, 1, 2)]


def test_a_tie_need_not_pass_from_neighbour_to_neighbour() -> None:
    results = [with_rates("a", (10, 20)), with_rates("b", (18, 30)), with_rates("c", (28, 40))]
    assert ranks(results) == [(3, 2, 3), (2, 1, 3), (1, 1, 2)]


def test_without_an_interval_there_is_no_order() -> None:
    comparison = compare([with_rates("a", (10, 12), count=3), with_rates("b", (30, 31)), with_rates("c", (20, 21))])
    assert [(each.ranks["overload"].best, each.ranks["overload"].worst) for each in comparison.devices] == [
        (1, 3),
        (1, 2),
        (2, 3),
    ]
    assert comparison.notes == (
        "a test has 3 repeats: an interval of the median needs 6, and without it no order is shown",
    )


def test_a_change_of_rank_is_clear_where_the_ranges_do_not_overlap() -> None:
    clear = compare([with_rates("a", (30, 31), (10, 11)), with_rates("b", (20, 21), (40, 41))])
    assert [(each.moved, each.clear) for each in clear.devices] == [(-1, True), (1, True)]
    tied = compare([with_rates("a", (20, 31), (10, 11)), with_rates("b", (20, 21), (40, 41))])
    assert [(each.moved, each.clear) for each in tied.devices] == [(-1, False), (1, False)]


def test_a_refused_figure_has_no_rank_and_takes_none() -> None:
    comparison = compare([device("a", 600_000.0), device("b", 900_000.0, refused=True), device("c", 300_000.0)])
    a, b, c = comparison.devices
    assert "overload" not in b.ranks
    assert (b.moved, b.clear, b.values["overload"].pps) == (None, None, None)
    assert b.values["overload"].why.startswith("refused: 1200 frames of 2818 B")
    assert (a.ranks["overload"], c.ranks["overload"]) == (Rank(1, 1, 1), Rank(2, 2, 2))


def test_a_device_that_the_tester_limits_has_no_loss_free_rank() -> None:
    comparison = compare([device("a", 600_000.0), device("b", 1_000_000.0, ceiling_pps=333_333.0)])
    assert "loss_free" not in comparison.devices[1].ranks
    assert "the tester sends" in comparison.devices[1].values["loss_free"].why


def test_a_loss_free_rate_has_the_bounds_of_its_search() -> None:
    value = compare([device("a", 600_000.0)]).devices[0].values["loss_free"]
    assert (value.pps, value.low, value.high) == pytest.approx((598_800.0, 598_800.0, 601_200.0))


def test_throughput_does_not_tell_devices_apart_that_small_packets_do() -> None:
    comparison = compare([device(name, rate) for name, rate in (("a", 3e5), ("b", 6e5), ("c", 9e5))])
    assert comparison.told_apart("throughput") == (0, 3)
    assert comparison.told_apart("overload") == (3, 3)


def test_devices_of_one_name_are_told_apart() -> None:
    assert [each.name for each in compare([device("a", 3e5), device("a", 6e5)]).devices] == ["a (1)", "a (2)"]


def test_what_cannot_be_compared_is_said() -> None:
    other = device("b", 6e5)
    other = replace(other, link_mbps=2500.0, settings=replace(other.settings, headers=replace(HEADERS, ipv6=True)))
    assert compare([device("a", 6e5), other]).notes == (
        "the links differ (1000 Mbit/s, 2500 Mbit/s): rates are not of one line rate",
        "the headers of the frames differ (IPv4 or IPv6, VLAN, PPPoE)",
    )


def test_the_text(snapshot: SnapshotAssertion) -> None:
    results = [device("bridge", 1.2e6, kind="bridge"), device("nat", 3.2e5, kind="nat", cpu_known=False)]
    assert comparison_text(compare([*results, device("relay", 5e5, kind="relay", refused=True)])) == snapshot


def test_json_and_csv_have_the_same_figures() -> None:
    comparison = compare([device("a", 3e5), device("b", 6e5, refused=True)])
    told = json.loads(json.dumps(comparison_json(comparison), allow_nan=False))
    rows = list(csv.DictReader(io.StringIO(comparison_csv(comparison))))
    assert [(row["device"], row["measure"]) for row in rows] == [
        (name, measure) for name in ("a", "b") for measure in ("throughput", "overload", "loss_free")
    ]
    assert float(rows[1]["pps"]) == told["devices"][0]["overload"]["pps"] == pytest.approx(3e5)
    assert rows[1]["rank_by_estimate"] == "1"
    assert (rows[4]["pps"], told["devices"][1]["overload"]["pps"]) == ("", None)
    assert told["told_apart"]["loss_free"] == {"pairs_told_apart": 1, "pairs": 1}
