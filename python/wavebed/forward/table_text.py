"""The comparison of devices as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.forward.tables import MEASURES
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.forward.tables import Comparison, Device, Measure, Rank, Value

__all__ = ["comparison_text", "interval_text", "moved_text", "rank_text", "sizes_tested"]


def comparison_text(comparison: Comparison) -> str:
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


def _apart(comparison: Comparison, measure: Measure) -> str:
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
