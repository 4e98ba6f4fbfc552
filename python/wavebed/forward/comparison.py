"""Comparison of devices: the two tables of the study, with intervals and ranks that intervals support.

A device is above another only where its whole interval is: where intervals overlap, the test does not tell the two
apart, and both share a range of ranks. With fewer than six repeats there is no interval, and no order.
Unlike `wavebed.compare` it pairs no trials: each device is tested alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from wavebed.output import csv_rows
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wavebed.config.data import Json
    from wavebed.forward.parts import OverloadFinding
    from wavebed.forward.result import DeviceResult
    from wavebed.forward.search import GoalFinding
    from wavebed.stats.intervals import Interval

Measure: TypeAlias = Literal["throughput", "overload", "loss_free"]
MEASURES: dict[Measure, str] = {
    "throughput": "throughput test",
    "overload": "small-packet test",
    "loss_free": "loss-free rate of small packets",
}
"""The study's two tests, and the rate without loss that it does not have."""


@dataclass(frozen=True, slots=True)
class Value:
    """One figure of one device; frames per second.

    Parameters
    ----------
    pps, low, high : float or None
        Estimate and interval: of the median over the repeats, or the bounds of a search. ``None`` where refused, not
        measured, or (`low`, `high`) with too few repeats.
    l1_mbps, payload_mbps : float or None
        The estimate on the wire, and as UDP payload.
    cpu_busy_max : float or None
        The device's busiest core, 0 to 1.
    why : str
        Why there is no figure; empty where there is one.
    """

    pps: float | None = None
    low: float | None = None
    high: float | None = None
    l1_mbps: float | None = None
    payload_mbps: float | None = None
    cpu_busy_max: float | None = None
    why: str = "not measured"

    def in_payload(self, pps: float | None) -> float | None:
        """Return a rate near this one as Mbit/s of payload."""
        if pps is None or not self.pps or self.payload_mbps is None:
            return None
        return pps * self.payload_mbps / self.pps


@dataclass(frozen=True, slots=True)
class Rank:
    """A place among the devices that have a figure; 1 is the highest rate.

    Parameters
    ----------
    by_estimate : int
        As the study ranks: by the figures alone.
    best, worst : int
        Between which places the intervals leave it.
    """

    by_estimate: int
    best: int
    worst: int


@dataclass(frozen=True, slots=True)
class Device:
    """A device with its figures and ranks, by measure; one without a figure has no rank.

    Parameters
    ----------
    moved : int or None
        Ranks gained from the throughput test to the small-packet test, by the figures alone; negative where lost.
        ``None`` without both.
    clear : bool or None
        Whether the intervals show that it moved: the two ranges of ranks do not overlap.
    """

    name: str
    kind: str
    result: DeviceResult
    values: Mapping[Measure, Value]
    ranks: Mapping[Measure, Rank]
    moved: int | None
    clear: bool | None


@dataclass(frozen=True, slots=True)
class DeviceComparison:
    """Devices in the order in which they were named.

    Parameters
    ----------
    small_bytes, large_bytes : tuple of int
        Frame sizes of the small-packet test and of the throughput test, one for each that occurs.
    """

    devices: tuple[Device, ...]
    small_bytes: tuple[int, ...]
    large_bytes: tuple[int, ...]

    def told_apart(self, measure: Measure) -> tuple[int, int]:
        """Return how many pairs of devices a measure tells apart, and how many pairs there are."""
        found = [device.values[measure] for device in self.devices if device.values[measure].pps is not None]
        pairs = [(a, b) for place, a in enumerate(found) for b in found[place + 1 :]]
        return sum(_above(a, b) or _above(b, a) for a, b in pairs), len(pairs)

    @property
    def notes(self) -> tuple[str, ...]:
        """Differences that keep the figures from being compared, a line each."""
        return tuple(_notes(self))


def compare(results: Sequence[DeviceResult]) -> DeviceComparison:
    """Set devices beside each other; two of one name are told apart by a number."""
    values = [_values(result) for result in results]
    ranks: dict[Measure, list[Rank | None]] = {name: _ranks([each[name] for each in values]) for name in MEASURES}
    devices = []
    for place, (result, name) in enumerate(zip(results, _names(results), strict=True)):
        mine = {measure: rank for measure, all_ranks in ranks.items() if (rank := all_ranks[place]) is not None}
        devices.append(Device(name, result.kind, result, values[place], mine, *_change(mine)))
    return DeviceComparison(tuple(devices), _tested(results, "overload"), _tested(results, "throughput"))


def _tested(results: Sequence[DeviceResult], name: str) -> tuple[int, ...]:
    return tuple(sorted({one.sizes_bytes[0] for result in results for one in result.overload if one.name == name}))


def _names(results: Sequence[DeviceResult]) -> list[str]:
    names = [result.device for result in results]
    return [
        f"{name} ({names[: place + 1].count(name)})" if names.count(name) > 1 else name
        for place, name in enumerate(names)
    ]


def _values(result: DeviceResult) -> dict[Measure, Value]:
    tests = {one.name: one for one in result.overload}
    throughput, overload = tests.get("throughput"), tests.get("overload")
    plain = [size for size in result.sizes if len(size.sizes_bytes) == 1]
    smallest = min(plain, key=lambda size: size.sizes_bytes, default=None)
    return {
        "throughput": Value() if throughput is None else _of_test(throughput),
        "overload": Value() if overload is None else _of_test(overload),
        "loss_free": Value() if smallest is None else _of_search(smallest.goal("ndr")),
    }


def _of_test(test: OverloadFinding) -> Value:
    if test.received is None:
        return Value(why=f"refused: {test.refusals[0].reason}" if test.refusals else "not measured")
    rate, interval = test.received, test.received_pps
    return Value(rate.pps, interval.low, interval.high, rate.l1_mbps, rate.payload_mbps, test.cpu_busy_max.estimate, "")


def _of_search(goal: GoalFinding | None) -> Value:
    if goal is None:
        return Value()
    if goal.rate is None:
        if goal.refusal is not None:
            return Value(why=f"refused: {goal.refusal.reason}")
        below = "" if goal.upper is None else f"loses frames even at {goal.upper.offered.pps:.0f} frames per second"
        return Value(why=below or "not found")
    rate = goal.rate
    high = rate.pps if goal.upper is None else goal.upper.offered.pps
    return Value(rate.pps, rate.pps, high, rate.l1_mbps, rate.payload_mbps, None, "")


def _above(a: Value, b: Value) -> bool:
    """Say whether all of `a` is above all of `b`."""
    return a.low is not None and b.high is not None and a.low > b.high


def _ranks(values: Sequence[Value]) -> list[Rank | None]:
    found = [value for value in values if value.pps is not None]

    def rank(value: Value) -> Rank | None:
        if value.pps is None:
            return None
        estimates = [other.pps for other in found if other.pps is not None]
        return Rank(
            by_estimate=1 + sum(other > value.pps for other in estimates),
            best=1 + sum(_above(other, value) for other in found),
            worst=len(found) - sum(_above(value, other) for other in found),
        )

    return [rank(value) for value in values]


def _change(ranks: Mapping[Measure, Rank]) -> tuple[int | None, bool | None]:
    """Return how many ranks were gained, and whether the intervals show it."""
    if "throughput" not in ranks or "overload" not in ranks:
        return None, None
    before, after = ranks["throughput"], ranks["overload"]
    return before.by_estimate - after.by_estimate, after.worst < before.best or after.best > before.worst


def _notes(comparison: DeviceComparison) -> Iterator[str]:
    for device in comparison.devices:
        ended = [one.reason for one in device.result.refusals if one.code == "interrupted"]
        yield from (f"{device.name}: {reason}" for reason in ended)
    results = [device.result for device in comparison.devices]
    links = {result.link_mbps for result in results}
    if len(links) > 1:
        told = ", ".join("not known" if link is None else f"{link:g} Mbit/s" for link in sorted(links, key=str))
        yield f"the links differ ({told}): rates are not of one line rate"
    for sizes, what in ((comparison.small_bytes, "small-packet"), (comparison.large_bytes, "throughput")):
        if len(sizes) > 1:
            told = ", ".join(map(str, sizes))
            yield f"the frame sizes of the {what} test differ ({told} B): frames per second do not compare"
    if len({result.settings.headers for result in results}) > 1:
        yield "the headers of the frames differ (IPv4 or IPv6, VLAN, PPPoE)"
    counts = {one.received_pps.count for result in results for one in result.overload if one.received is not None}
    if any(_has_no_interval(one.received_pps) for result in results for one in result.overload):
        fewest = min(counts)
        yield f"a test has {fewest} repeats: an interval of the median needs 6, and without it no order is shown"


def _has_no_interval(interval: Interval) -> bool:
    return interval.estimate is not None and interval.low is None


def comparison_json(comparison: DeviceComparison) -> dict[str, Json]:
    """Return the tables as one object; the unit is in each key."""
    devices: list[Json] = []
    for device in comparison.devices:
        told: dict[str, Json] = {
            "device": device.name,
            "kind": device.kind,
            "ranks_gained": device.moved,
            "ranks_gained_clear": device.clear,
        }
        for measure in MEASURES:
            told[measure] = {**_value_json(device.values[measure]), **_rank_json(device.ranks.get(measure))}
        devices.append(told)
    apart: dict[str, Json] = {}
    for measure in MEASURES:
        clear, pairs = comparison.told_apart(measure)
        apart[measure] = {"pairs_told_apart": clear, "pairs": pairs}
    return {
        "small_frame_bytes": list(comparison.small_bytes),
        "large_frame_bytes": list(comparison.large_bytes),
        "devices": devices,
        "told_apart": apart,
        "notes": list(comparison.notes),
    }


def _value_json(value: Value) -> dict[str, Json]:
    return {
        "pps": value.pps,
        "low_pps": value.low,
        "high_pps": value.high,
        "l1_mbps": value.l1_mbps,
        "payload_mbps": value.payload_mbps,
        "cpu_busy_max": value.cpu_busy_max,
        "why_none": value.why or None,
    }


def _rank_json(rank: Rank | None) -> dict[str, Json]:
    return {
        "rank_by_estimate": None if rank is None else rank.by_estimate,
        "rank_best": None if rank is None else rank.best,
        "rank_worst": None if rank is None else rank.worst,
    }


def comparison_csv(comparison: DeviceComparison) -> str:
    """Return a row for every device and measure; unknown values are empty."""
    first = {
        "device": "",
        "kind": "",
        "measure": "",
        **_value_json(Value()),
        **_rank_json(None),
        "ranks_gained": None,
        "ranks_gained_clear": None,
    }
    rows: list[Sequence[object]] = [list(first)]
    for device in comparison.devices:
        for measure in MEASURES:
            told = {**_value_json(device.values[measure]), **_rank_json(device.ranks.get(measure))}
            head = {"device": device.name, "kind": device.kind, "measure": measure}
            moved = {"ranks_gained": device.moved, "ranks_gained_clear": device.clear}
            row = {**head, **told, **moved}
            rows.append([row.get(name) for name in first])
    return csv_rows(rows)


def comparison_text(comparison: DeviceComparison) -> str:
    """Return the study's two tables, and the pairs of devices that they tell apart."""
    small, large = sizes_tested(comparison.small_bytes), sizes_tested(comparison.large_bytes)
    parts = [
        f"Table 1. Rate and processor under overload: {large} and {small}",
        table_text(_first_table(comparison.devices)),
        "",
        "Table 2. Ranks by the figures alone, in brackets the range of ranks by the 95 % intervals",
        table_text(_second_table(comparison.devices)),
        "A change is tied where the ranges of both ranks overlap: the intervals do not show it.",
        "",
        *(_apart(comparison, measure) for measure in MEASURES if comparison.told_apart(measure)[1]),
        *(why for device in comparison.devices for why in _whys(device)),
        *(f"note: {note}" for note in comparison.notes),
    ]
    return "\n".join(parts)


def sizes_tested(sizes: Sequence[int]) -> str:
    """Return the frame sizes of a test."""
    return f"frames of {' or '.join(map(str, sizes))} B" if sizes else "not tested"


def _first_table(devices: Sequence[Device]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        ("device", "kind", "Mbit/s payload", "Mbit/s L1", "busiest core", "Mpps", "busiest core", "Mpps loss-free")
    ]
    for device in devices:
        large, small, free = (device.values[measure] for measure in MEASURES)
        rows.append(
            (
                device.name, device.kind, _payload(large), _digits(large.l1_mbps), _busy(large),
                _millions(small), _busy(small), _millions(free),
            )
        )  # fmt: skip
    return rows


def _second_table(devices: Sequence[Device]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        ("device", "Mbit/s payload", "95 %", "rank", "Mpps", "95 %", "rank", "change", "Mpps loss-free", "rank")
    ]
    for device in devices:
        large, small, free = (device.values[measure] for measure in MEASURES)
        rows.append(
            (
                device.name,
                _payload(large),
                interval_text(large.in_payload(large.low), large.in_payload(large.high)),
                rank_text(device.ranks.get("throughput")),
                _millions(small),
                interval_text(_in_millions(small.low), _in_millions(small.high)),
                rank_text(device.ranks.get("overload")),
                _moved(device),
                _millions(free),
                rank_text(device.ranks.get("loss_free")),
            )
        )
    return rows


def rank_text(rank: Rank | None) -> str:
    """Return a rank by the figures, and in brackets the range that intervals leave where it is one."""
    if rank is None:
        return "–"
    return f"{rank.by_estimate}" if rank.best == rank.worst else f"{rank.by_estimate} [{rank.best}-{rank.worst}]"


def moved_text(device: Device) -> str:
    """Return by how many ranks a device moved from the throughput test to the small-packet test."""
    if device.moved is None:
        return "–"
    return "=" if device.moved == 0 else f"{'↑' if device.moved > 0 else '↓'} {abs(device.moved)}"


def _moved(device: Device) -> str:
    return moved_text(device) if device.clear or not device.moved else f"{moved_text(device)}, tied"


def interval_text(low: float | None, high: float | None) -> str:
    """Return an interval with four significant digits."""
    return "–" if low is None or high is None else f"{low:.4g} to {high:.4g}"


def _apart(comparison: DeviceComparison, measure: Measure) -> str:
    clear, pairs = comparison.told_apart(measure)
    return f"The {MEASURES[measure]} tells {clear} of {pairs} pairs of devices apart."


def _whys(device: Device) -> list[str]:
    return [
        f"{device.name}: no figure for the {MEASURES[measure]}: {value.why}"
        for measure, value in device.values.items()
        if value.why and value.why != "not measured"
    ]


def _millions(value: Value) -> str:
    return _none(value) if value.pps is None else f"{value.pps / 1e6:.4g}"


def _payload(value: Value) -> str:
    return _none(value) if value.pps is None else _digits(value.payload_mbps)


def _none(value: Value) -> str:
    return "refused" if value.why.startswith("refused") else "–"


def _in_millions(pps: float | None) -> float | None:
    return None if pps is None else pps / 1e6


def _digits(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _busy(value: Value) -> str:
    return "–" if value.cpu_busy_max is None else f"{100 * value.cpu_busy_max:.0f} %"


class ForwardValue(Struct, forbid_unknown_fields=True):
    """A measure of a device; `cpu_busy_max` is a fraction, 0 to 1."""

    pps: float | None
    low_pps: float | None
    high_pps: float | None
    l1_mbps: float | None
    payload_mbps: float | None
    cpu_busy_max: float | None
    why_none: str | None
    rank_by_estimate: int | None
    rank_best: int | None
    rank_worst: int | None


class DeviceOutput(Struct, forbid_unknown_fields=True):
    """A device; ranks gained are from the throughput test to the small-packet test."""

    device: str
    kind: str
    ranks_gained: int | None
    ranks_gained_clear: bool | None
    throughput: ForwardValue
    overload: ForwardValue
    loss_free: ForwardValue


class ToldApart(Struct, forbid_unknown_fields=True):
    """Pairs of devices."""

    pairs_told_apart: int
    pairs: int


class ForwardCompareOutput(Struct, forbid_unknown_fields=True):
    """Devices of forwarding tests."""

    small_frame_bytes: list[int]
    large_frame_bytes: list[int]
    devices: list[DeviceOutput]
    told_apart: dict[str, ToldApart]
    notes: list[str]
