"""The findings of a forwarding test about one device, from which pages, tables and comparisons are made.

A number stands only where it was measured and nothing spoke against it. Where something did, there is a `Refusal` in
its place and the number is ``None``. Trials are kept once, in `DeviceResult.trials`; findings name them by their
place there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from wavebed.errors import UserError
from wavebed.formats import FORWARD
from wavebed.forward.arithmetic import Rates
from wavebed.forward.model import Binding, Ceiling, FrameSpec, PortInfo, Refusal, Trial
from wavebed.forward.plain import Value, from_plain, to_plain
from wavebed.forward.settings import ForwardSettings, GoalSettings
from wavebed.stats.intervals import Interval

if TYPE_CHECKING:
    from wavebed.config.data import Json

__all__ = [
    "SCHEMA",
    "Bound",
    "BurstFinding",
    "DeviceResult",
    "GoalFinding",
    "GoalOutcome",
    "LatencyFinding",
    "LossRateFinding",
    "LossRateStep",
    "OverloadFinding",
    "OverloadName",
    "PartTime",
    "SizeFinding",
]

SCHEMA = FORWARD.version
"""Version of the record and of its tables."""

OverloadName: TypeAlias = Literal["throughput", "overload"]
GoalOutcome: TypeAlias = Literal["found", "line_rate", "at_least", "below", "refused"]


class Bound(Value, frozen=True):
    """A load that the search decided on.

    Parameters
    ----------
    offered : Rates
        The load.
    trials : int
        How many trials were made at it, of any length.
    good_s, bad_s : float
        Seconds of trials long enough for the goal that kept within its loss ratio, and that did not.
    loss_ratio : float
        The loss that the load must be said to have: of its trials sorted by loss, the one at the goal's exceed ratio,
        missing time counted as lost (0 to 1).
    worst_loss_ratio : float
        Of the worst trial at this load, of any length.
    """

    offered: Rates
    trials: int
    good_s: float
    bad_s: float
    loss_ratio: float
    worst_loss_ratio: float


class GoalFinding(Value, frozen=True):
    """The result of the search for one goal at one size.

    Parameters
    ----------
    goal : GoalSettings
        The settings.
    outcome : str
        ``found``: `lower` is within the goal's width of `upper`. ``line_rate``: the link can carry no more, and
        nothing was lost beyond the goal. ``at_least``: the tester can send no more (`refusal` ``tester_limit``);
        the device forwards at least `lower`. ``below``: even the lowest load tried (`upper`) lost too much.
        ``refused``: something speaks against the numbers (`refusal`).
    lower : Bound or None
        The highest load that fulfils the goal below every load that does not.
    upper : Bound or None
        The lowest load that does not.
    conditional_throughput : Rates or None
        The rate forwarded at `lower`: its load less its loss (MLRsearch).
    refusal : Refusal or None
        Set with ``at_least`` and ``refused``.
    """

    goal: GoalSettings
    outcome: GoalOutcome
    lower: Bound | None = None
    upper: Bound | None = None
    conditional_throughput: Rates | None = None
    refusal: Refusal | None = None

    @property
    def rate(self) -> Rates | None:
        """The rate that may be reported as the device's: the load of `lower`, if it was found or is line rate."""
        return self.lower.offered if self.lower and self.outcome in ("found", "line_rate") else None

    @property
    def width(self) -> float | None:
        """The distance of the bounds, relative to the upper one."""
        if self.lower is None or self.upper is None:
            return None
        return 1 - self.lower.offered.pps / self.upper.offered.pps


class SizeFinding(Value, frozen=True):
    """The loss-free search at one frame size, or of one mix.

    Parameters
    ----------
    name : str
        ``"64"`` or the name of the mix.
    sizes_bytes : tuple of int
        One size, or the row of the mix; with FCS.
    genome : str or None
        The mix as RFC 6985 writes it.
    line_rate : Rates or None
        Line rate of the link; ``None`` where its speed is not known.
    max_load : Rates
        The highest load tried: line rate, or the most that the tester can offer and count (below 90 % of its ceiling).
    limited_by : str
        Which of them: ``line_rate`` or ``tester``.
    ceiling : Ceiling
        How fast the tester is at this size.
    goals : tuple of GoalFinding
        In the order of the settings.
    in_order : bool or None
        Whether the rate without loss is not above the one with a little (NDR ≤ PDR); ``None`` if either was not
        found.
    trials : tuple of int
        Places in `DeviceResult.trials`.
    """

    name: str
    sizes_bytes: tuple[int, ...]
    genome: str | None
    line_rate: Rates | None
    max_load: Rates
    limited_by: Literal["line_rate", "tester"]
    ceiling: Ceiling
    goals: tuple[GoalFinding, ...]
    in_order: bool | None
    trials: tuple[int, ...] = ()

    def goal(self, name: str) -> GoalFinding | None:
        """Return the finding for the goal of this name, if it was asked."""
        return next((one for one in self.goals if one.goal.name == name), None)


class OverloadFinding(Value, frozen=True):
    """The rate that is forwarded under overload: the study's two tests. It is not a loss-free rate.

    Parameters
    ----------
    name : str
        ``throughput`` (the largest size) or ``overload`` (the smallest).
    sizes_bytes : tuple of int
        With FCS.
    asked : Rates or None
        Line rate; ``None``: as fast as the tester goes, since that is less, or no link speed is known.
    sent_pps, received_pps : Interval
        Median over the repeats and its interval; the estimate is ``None`` if no repeat counts.
    sent, received : Rates or None
        The medians in all units.
    loss_ratio : Interval
        Median and interval over the repeats.
    cpu_busy_max : Interval
        The device's busiest core (0 to 1), where it is known.
    refusals : tuple of Refusal
        The refusals of repeats, each kind once. If every repeat was refused, there is no number.
    trials : tuple of int
        Places in `DeviceResult.trials`, refused ones too.
    """

    name: OverloadName
    sizes_bytes: tuple[int, ...]
    asked: Rates | None
    sent_pps: Interval
    received_pps: Interval
    sent: Rates | None
    received: Rates | None
    loss_ratio: Interval
    cpu_busy_max: Interval
    refusals: tuple[Refusal, ...] = ()
    trials: tuple[int, ...] = ()


class LatencyFinding(Value, frozen=True):
    """Delays of all test frames under a part of the found rate; seconds.

    Parameters
    ----------
    name : str
        The size's name.
    fraction : float
        Of `base`, 0 to 1.
    base : str
        The goal whose rate it is a fraction of: ``ndr``.
    offered : Rates
        The load.
    frames : int
        Frames with a delay.
    loss_ratio : float
        Of the trial.
    typical_s : float or None
        The median (RFC 8219, typical latency).
    worst_s : float or None
        The 99.9th percentile (RFC 8219, worst case latency); ``None`` with fewer than 500 frames.
    min_s, mean_s, p50_s, p90_s, p99_s, p999_s, max_s : float or None
        ``None`` where there were too few frames, or clocks that cannot be compared.
    counts : tuple of (float, float, int)
        The histogram: from, below, how many.
    trial : int
        Place in `DeviceResult.trials`.
    refusal : Refusal or None
        Why there are no numbers.
    """

    name: str
    fraction: float
    base: str
    offered: Rates
    frames: int
    loss_ratio: float | None
    typical_s: float | None
    worst_s: float | None
    min_s: float | None
    mean_s: float | None
    p50_s: float | None
    p90_s: float | None
    p99_s: float | None
    p999_s: float | None
    max_s: float | None
    counts: tuple[tuple[float, float, int], ...]
    trial: int
    refusal: Refusal | None = None


class LossRateStep(Value, frozen=True):
    """One step of the frame loss rate test.

    Parameters
    ----------
    fraction : float
        Of the highest load, 0 to 1.
    loss_ratio : float or None
        ``None`` if the trial was refused.
    """

    fraction: float
    offered: Rates
    received_pps: float | None
    loss_ratio: float | None
    trial: int
    refusal: Refusal | None = None


class LossRateFinding(Value, frozen=True):
    """Frame loss by load (RFC 2544, section 26.3).

    Parameters
    ----------
    maximum : Rates
        100 %: line rate, or the most that the tester can offer.
    limited_by : str
        Which of them.
    steps : tuple of LadderStep
        From the highest load down.
    clean : bool
        Whether it ended with two trials in a row without loss.
    """

    name: str
    sizes_bytes: tuple[int, ...]
    maximum: Rates
    limited_by: Literal["line_rate", "tester"]
    steps: tuple[LossRateStep, ...]
    clean: bool


class BurstFinding(Value, frozen=True):
    """The longest burst without loss (RFC 2544, section 26.4; RFC 9004).

    Parameters
    ----------
    offered : Rates
        The rate of the burst: line rate, or the most that the tester can offer.
    limited_by : str
        Which of them.
    longest_frames : int
        The longest burst that was tried.
    lengths_frames : tuple of int
        The longest burst without loss that each repeat found.
    mean_frames, deviation_frames : float or None
        Average of the repeats, and their standard deviation (``None`` for one repeat).
    unlimited : bool
        Whether bursts of `longest_frames` passed in every repeat: the device shows no buffer, as it forwards the
        offered rate. Buffer figures are ``None`` then.
    forwarding_pps : float or None
        The rate that the device forwards under this load for long.
    implied_buffer_s : float or None
        Average burst over its rate (RFC 9004).
    corrected_buffer_s : float or None
        The same without the frames forwarded meanwhile: implied · (1 - forwarded rate / offered rate).
    corrected_buffer_frames : float or None
        Frames the buffer holds: corrected time at the offered rate.
    trials : tuple of int
        Places in `DeviceResult.trials`.
    """

    name: str
    sizes_bytes: tuple[int, ...]
    offered: Rates
    limited_by: Literal["line_rate", "tester"]
    longest_frames: int
    lengths_frames: tuple[int, ...]
    mean_frames: float | None
    deviation_frames: float | None
    unlimited: bool
    forwarding_pps: float | None
    implied_buffer_s: float | None
    corrected_buffer_s: float | None
    corrected_buffer_frames: float | None
    refusal: Refusal | None = None
    trials: tuple[int, ...] = ()


class PartTime(Value, frozen=True):
    """Planned and actual time of a part; seconds.

    Parameters
    ----------
    name : str
        As ``search 64``.
    expected_s, at_most_s : float
        Planned before it began.
    took_s : float or None
        ``None`` if it did not run.
    trials : int
        Trials it made.
    """

    name: str
    expected_s: float
    at_most_s: float
    took_s: float | None = None
    trials: int = 0


class DeviceResult(Value, frozen=True):
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
    settings : ForwardSettings
        The settings.
    frames : FrameSpec or None
        Addresses, ports and flows of the test frames; sizes are those of each trial.
    link_mbps : float or None
        Speed of the link at L1 that line rates are computed from.
    transmitter, receiver : PortInfo
        The ports, with their offload settings.
    sender, receiver_kind : str
        The way to send and to receive that was used.
    probed : tuple of Binding
        Every way to send that was tried, with the reason where it does not work.
    ceilings : tuple of Ceiling
        How fast the tester is by itself.
    sizes : tuple of SizeFinding
        Loss-free searches, mixes last.
    overload, latency, loss_rates, bursts
        The other parts.
    trials : tuple of Trial
        Every trial in order, refused ones too.
    refusals : tuple of Refusal
        The refusals that ended the test, or a part of it, before its time.
    doubts : tuple of str
        Doubts about the numbers, a line each.
    plan : tuple of PartTime
        Planned against actual time.
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
    trials: tuple[Trial, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    doubts: tuple[str, ...] = ()
    plan: tuple[PartTime, ...] = ()
    machine: Mapping[str, object] = msgspec.field(default_factory=dict)
    beside: Mapping[str, object] = msgspec.field(default_factory=dict)

    def to_plain(self) -> dict[str, Json]:
        """Return the record as JSON can write it, with its version.

        Sampled frames (written as a capture) and the histograms of single trials are left out; those of
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


def _slim(trial: Trial) -> Trial:
    counters = trial.counters
    if counters is None:
        return trial
    latency = replace(counters.latency, counts=()) if counters.latency else None
    return replace(trial, counters=replace(counters, latency=latency, sample=()))
