"""Settings of a forwarding test: sizes, goals, durations, repeats."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from wavebed.forward.arithmetic import RFC2544_SIZES_BYTES, Headers
from wavebed.forward.imix import SIMPLE_IMIX
from wavebed.forward.plain import Value

__all__ = [
    "FULL_GOALS",
    "PARTS",
    "QUICK_GOALS",
    "ForwardSettings",
    "GoalName",
    "GoalSettings",
    "Part",
]

GoalName: TypeAlias = Literal["rfc2544", "ndr", "pdr"]
Part: TypeAlias = Literal["search", "overload", "loss-rate", "latency", "burst", "imix"]

PARTS: tuple[Part, ...] = ("overload", "search", "imix", "loss-rate", "latency", "burst")
"""In the order in which they run: latency needs the rate that the search finds."""


class GoalSettings(Value, frozen=True):
    """A goal of the search, with the attributes of MLRsearch.

    Parameters
    ----------
    name : str
        ``rfc2544`` (throughput: not one frame lost in one long trial), ``ndr`` (no frame lost, in most of many short
        trials) or ``pdr`` (at most half a percent lost, in most of them).
    loss_ratio : float
        The fraction of frames that a good trial may lose.
    exceed_ratio : float
        The fraction of trial time that bad trials may take at a rate that is still accepted.
    relative_width : float
        The search ends when the bounds are this close, relative to the upper one.
    initial_trial_s, final_trial_s : float
        Shortest and longest trials, seconds.
    duration_sum_s : float
        Trial time that decides on a rate, seconds.
    preceding_targets : int
        Coarser and shorter searches before the final one.
    """

    name: GoalName
    loss_ratio: float
    exceed_ratio: float
    relative_width: float
    initial_trial_s: float
    final_trial_s: float
    duration_sum_s: float
    preceding_targets: int


WIDTH = 0.005
"""Half a percent, as CSIT has it: the rate is known to better than one percent."""

FULL_GOALS = (
    GoalSettings("rfc2544", 0.0, 0.0, WIDTH, 1.0, 60.0, 60.0, 2),
    GoalSettings("ndr", 0.0, 0.5, WIDTH, 1.0, 1.0, 21.0, 2),
    GoalSettings("pdr", 0.005, 0.5, WIDTH, 1.0, 1.0, 21.0, 2),
)
"""RFC 2544, section 24 (trials of 60 s), and the goals of FD.io CSIT."""

QUICK_GOALS = (
    GoalSettings("rfc2544", 0.0, 0.0, WIDTH, 0.25, 2.0, 2.0, 1),
    GoalSettings("ndr", 0.0, 0.5, WIDTH, 0.25, 0.25, 1.25, 1),
    GoalSettings("pdr", 0.005, 0.5, WIDTH, 0.25, 0.25, 1.25, 1),
)
"""The same goals in trials of 2 s and 0.25 s: for a first look. A device's buffer hides more overload in them."""


class ForwardSettings(Value, frozen=True):
    """The test of one device. The defaults are the full test; `quick` is the short one.

    Parameters
    ----------
    parts : tuple of str
        Of `PARTS`.
    sizes_bytes : tuple of int
        Frame sizes with FCS; the smallest is the study's 64 B test, the largest its throughput test.
    mixes : mapping of str to tuple of int
        Rows of sizes that are searched under a name, as ``{"IMIX": (…)}``.
    headers : Headers
        IPv4 or IPv6, tag, PPPoE.
    link_mbps : float or None
        Speed of the link at L1 in Mbit/s. ``None``: the speed that the ports say; where they say nothing
        (veth), only the tester's ceiling limits the load.
    goals : tuple of GoalSettings
        All searched at once.
    warm_up_s : float
        Traffic before anything is measured, seconds: neighbours, flow tables, clocks of processors.
    overload_trial_s : float
        Length of one overload trial, seconds.
    overload_repeats : int
        At least 6 for a 95 % interval of a median.
    ladder_trial_s, ladder_step : float
        RFC 2544, section 26.3: a step of 10 % or less.
    ladder_sizes_bytes : tuple of int or None
        ``None``: the smallest and the largest.
    latency_trial_s, latency_shares : float, tuple of float
        Fractions of the found loss-free rate (NDR).
    latency_sizes_bytes : tuple of int or None
        ``None``: the smallest and the largest.
    latency_repeats : int
        RFC 2544, section 26.2, asks for 20 trials of 120 s; the percentiles of every frame tell more, sooner.
    burst_repeats : int
        RFC 2544, section 26.4, asks for 50.
    burst_longest_s : float
        The longest burst tried, seconds at line rate (RFC 2544: at least 2).
    burst_sizes_bytes : tuple of int or None
        ``None``: the smallest.
    seed : int
        Of all random processes.
    """

    parts: tuple[Part, ...] = PARTS
    sizes_bytes: tuple[int, ...] = RFC2544_SIZES_BYTES
    mixes: dict[str, tuple[int, ...]] = msgspec.field(default_factory=lambda: {"IMIX": SIMPLE_IMIX})
    headers: Headers = msgspec.field(default_factory=Headers)
    link_mbps: float | None = None
    goals: tuple[GoalSettings, ...] = FULL_GOALS
    warm_up_s: float = 2.0
    overload_trial_s: float = 10.0
    overload_repeats: int = 6
    loss_rate_trial_s: float = 10.0
    loss_rate_step: float = 0.1
    loss_rate_sizes_bytes: tuple[int, ...] | None = None
    latency_trial_s: float = 10.0
    latency_fractions: tuple[float, ...] = (0.1, 0.5, 0.9, 1.0)
    latency_sizes_bytes: tuple[int, ...] | None = None
    latency_repeats: int = 1
    burst_repeats: int = 50
    burst_longest_s: float = 2.0
    burst_sizes_bytes: tuple[int, ...] | None = None
    seed: int = 1

    def quick(self) -> ForwardSettings:
        """Return the same test with short trials and few repeats."""
        return replace(
            self,
            goals=QUICK_GOALS,
            warm_up_s=1.0,
            overload_trial_s=1.0,
            loss_rate_trial_s=1.0,
            latency_trial_s=1.0,
            burst_repeats=3,
            burst_longest_s=0.5,
        )

    @property
    def ends_bytes(self) -> tuple[int, ...]:
        """The smallest and the largest size."""
        return tuple(sorted({min(self.sizes_bytes), max(self.sizes_bytes)}))
