"""The verdict on a device, and every reason of a refusal once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wavebed.forward.findings import DeviceResult
    from wavebed.forward.model import Refusal
    from wavebed.result.model import Verdict

__all__ = ["refused_parts", "sizes_text", "verdict_of"]


def verdict_of(result: DeviceResult) -> Verdict:
    """Return ``valid`` if nothing was refused, ``suspect`` if some figures stand, else ``invalid``."""
    if not _has_figures(result):
        return "invalid"
    return "suspect" if refused_parts(result) else "valid"


def refused_parts(result: DeviceResult) -> dict[Refusal, list[str]]:
    """Return each reason with the parts of the test that it took.

    Trials of one part that were refused alike, with other numbers, are told once: the first of them.
    """
    first: dict[tuple[str, str], Refusal] = {}
    for refusal, part in _refusals(result):
        first.setdefault((refusal.code, part), refusal)
    parts: dict[Refusal, list[str]] = {}
    for (_, part), refusal in first.items():
        parts.setdefault(refusal, []).append(part)
    return parts


def sizes_text(name: str) -> str:
    """Return the name of a size or a mix, with the unit where it is a number."""
    return f"{name} B" if name.isdecimal() else name


def _refusals(result: DeviceResult) -> Iterator[tuple[Refusal, str]]:
    yield from ((refusal, "the test") for refusal in result.refusals)
    for overload in result.overload:
        yield from ((refusal, f"{overload.name} test") for refusal in overload.refusals)
    parts: list[tuple[str, str, Refusal | None]] = []
    parts += [("search", size.name, goal.refusal) for size in result.sizes for goal in size.goals]
    parts += [("latency", latency.name, latency.refusal) for latency in result.latency]
    parts += [
        ("frame loss rate", loss_rate.name, step.refusal) for loss_rate in result.loss_rates for step in loss_rate.steps
    ]
    parts += [("burst", burst.name, burst.refusal) for burst in result.bursts]
    for part, name, found in parts:
        if found is not None:
            yield found, f"{part} {sizes_text(name)}"


def _has_figures(result: DeviceResult) -> bool:
    return (
        any(goal.outcome not in ("refused", "at_least") for size in result.sizes for goal in size.goals)
        or any(overload.received is not None for overload in result.overload)
        or any(one.typical_s is not None for one in result.latency)
        or any(step.loss_ratio is not None for loss_rate in result.loss_rates for step in loss_rate.steps)
        or any(burst.mean_frames is not None for burst in result.bursts)
    )
