"""The findings about one device, from which pages, tables and comparisons are made, and the verdict on them.

A number stands only where it was measured and nothing spoke against it. Where something did, there is a `Refusal` in
its place and the number is ``None``. Trials are kept once, in `DeviceResult.trials`; findings name them by their
place there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from wavebed.errors import UserError
from wavebed.formats import FORWARD
from wavebed.forward.model import (
    Binding,
    Ceiling,
    ForwardTrial,
    FrameSpec,
    PlainValue,
    PortInfo,
    Refusal,
    from_plain,
    to_plain,
)
from wavebed.forward.parts import BurstFinding, LatencyFinding, LossRateFinding, OverloadFinding
from wavebed.forward.search import SizeFinding
from wavebed.forward.settings import ForwardSettings
from wavebed.forward.trials import DISTURBED, distinct
from wavebed.result.model import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wavebed.config.data import Json

SCHEMA = FORWARD.version
"""Version of the record and of its tables."""
HIDDEN_FRACTION = 0.005
"""Overload that a buffer hides from a goal's trials is worth a doubt from here on: the width of the search."""


class PartTime(PlainValue, frozen=True):
    """Planned and actual time of a part; seconds.

    Parameters
    ----------
    expected_s, at_most_s : float
        Planned before it began.
    took_s : float or None
        ``None`` if it did not run.
    """

    name: str
    expected_s: float
    at_most_s: float
    took_s: float | None = None
    trials: int = 0


class DeviceResult(PlainValue, frozen=True):
    """All findings of a forwarding test about one device.

    Parameters
    ----------
    device : str
        Its name, as the user gave it.
    kind : str
        Its kind: ``bridge``, ``routing``, ``nat``, ``xdp``, ``relay``, … for an emulated one, or
        ``external``.
    started : str
        ISO 8601 with zone.
    took_s : float
        Of the whole test.
    frames : FrameSpec or None
        Addresses, ports and flows of the test frames; each trial has its own sizes.
    link_mbps : float or None
        Speed of the link at L1 that line rates are computed from.
    transmitter, receiver : PortInfo
        The ports, with their offload settings.
    probed : tuple of Binding
        Every way to send that was tried, with the reason where it does not work.
    ceilings : tuple of Ceiling
        How fast the tester is by itself.
    sizes : tuple of SizeFinding
        Loss-free searches, mixes last.
    trials : tuple of ForwardTrial
        Every trial in order, refused ones too.
    refusals : tuple of Refusal
        The refusals that ended the test, or a part of it, before its time.
    machine : mapping
        The machine of the tester: words for a record, as ``{"kernel": "6.18"}``.
    beside : mapping
        The findings of other tools on the same device, by their name, as they report them.
    """

    device: str
    kind: str
    started: str
    took_s: float
    settings: ForwardSettings
    frames: FrameSpec | None
    link_mbps: float | None
    transmitter: PortInfo
    receiver: PortInfo
    sender: str
    receiver_kind: str
    probed: tuple[Binding, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    sizes: tuple[SizeFinding, ...] = ()
    overload: tuple[OverloadFinding, ...] = ()
    latency: tuple[LatencyFinding, ...] = ()
    loss_rates: tuple[LossRateFinding, ...] = ()
    bursts: tuple[BurstFinding, ...] = ()
    trials: tuple[ForwardTrial, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    doubts: tuple[str, ...] = ()
    plan: tuple[PartTime, ...] = ()
    machine: Mapping[str, object] = msgspec.field(default_factory=dict)
    beside: Mapping[str, object] = msgspec.field(default_factory=dict)

    def to_plain(self) -> dict[str, Json]:
        """Return the record as JSON can write it, with its version.

        Sampled frames (written as a capture) and the histograms of single trials are left out; the histograms of
        `latency` are kept.
        """
        slim = replace(self, trials=tuple(_slim(trial) for trial in self.trials))
        return {"version": SCHEMA, **to_plain(slim)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Json]) -> DeviceResult:
        """Return the record that `to_plain` wrote.

        Raises
        ------
        UserError
            If it is of another version, or not such a record.
        """
        version = plain.get("version")
        if version not in FORWARD.reads:
            raise UserError(f"version: {version!r} is not {SCHEMA}: read it with the wavebed that wrote it")
        record: Json = {key: value for key, value in plain.items() if key != "version"}
        return from_plain(cls, record if version == SCHEMA else _of_now(record))


def _slim(trial: ForwardTrial) -> ForwardTrial:
    counters = trial.counters
    if counters is None:
        return trial
    latency = replace(counters.latency, counts=()) if counters.latency else None
    return replace(trial, counters=replace(counters, latency=latency, sample=()))


_EARLIER = {
    "ladders": "loss_rates",
    "ladder_trial_s": "loss_rate_trial_s",
    "ladder_step": "loss_rate_step",
    "ladder_sizes_bytes": "loss_rate_sizes_bytes",
    "latency_shares": "latency_fractions",
    "share": "fraction",
}
"""Keys of schema 1, and their names now; the frame loss rate test was the part ``ladder``."""


_NAMED_BY_OTHERS = ("machine", "beside", "mixes")


def _of_now(value: Json) -> Json:
    """Return a record of an earlier schema with the names of this one."""
    if isinstance(value, list):
        return [_of_now(one) for one in value]
    if not isinstance(value, dict):
        return value
    now = {_EARLIER.get(key, key): one if key in _NAMED_BY_OTHERS else _of_now(one) for key, one in value.items()}
    if isinstance(parts := now.get("parts"), list):
        now["parts"] = ["loss-rate" if part == "ladder" else part for part in parts]
    return now


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


def part_verdict(trials: Sequence[ForwardTrial]) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict on a part and its reasons: invalid if no trial counts, suspect if a refusal remains."""
    serious = distinct([one for trial in trials for one in trial.refusals if one.code not in DISTURBED])
    if trials and all(trial.refusals for trial in trials):
        return "invalid", tuple(one.reason for one in distinct([one for trial in trials for one in trial.refusals]))
    return ("suspect" if serious else "valid"), tuple(one.reason for one in serious)


def doubts_of(result: DeviceResult) -> list[str]:
    """Return the doubts that follow from the findings."""
    doubts = [
        f"{size.name}: the rate without loss is above the one with half a percent of loss"
        for size in result.sizes
        if size.in_order is False
    ]
    sizes = {size.name: size for size in result.sizes}
    for burst in result.bursts:
        held = burst.corrected_buffer_frames
        if burst.name not in sizes or held is None:
            continue
        for goal in sizes[burst.name].goals:
            if goal.rate is None:
                continue
            hidden = held / (goal.rate.pps * goal.goal.final_trial_s)
            if hidden > HIDDEN_FRACTION:
                doubts.append(
                    f"{burst.name}: the device's buffer of {held:,.0f} frames hides up to"
                    f" {hidden:.1%} of overload from the {goal.goal.final_trial_s:g} s trials of {goal.goal.name}"
                )
    if result.latency and all(one.typical_s is None and one.refusal is None for one in result.latency):
        doubts.append("delays are not known: the ports have no clock in common")
    return doubts


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


class ForwardResult(DeviceResult, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The findings about a device, with the version of their record."""

    version: int


class ForwardOutput(Struct, forbid_unknown_fields=True):
    """A forwarding test; `report` is null if it could not be written."""

    verdict: Verdict
    folder: str
    report: str | None
    result: ForwardResult
