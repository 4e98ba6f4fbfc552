"""The time that a forwarding test takes, known before it begins.

The search's bound follows from MLRsearch's rules. A load is decided by the trials of one target: at most its duration
sum, in whole trials. The first target of a goal starts from anywhere in the range of loads: it doubles its steps until
it has passed the rate (log2 of range over width), and halves them until it is as close as its width (as many again);
goals of one loss ratio share that, since its trials are single ones and decide for all of them.
Each later target starts from an interval of twice its width: one load in the middle, one on the side that is left, one
more where a bound does not hold; and where that happens it looks around, in doubled steps and back in halves: `LOOKS`
times, or `LONG_LOOKS` times where its trials are longer than those before, from which a device's buffer may have hidden
an overload. A search gets no more than that: its goal then ends without a number (`unsteady`), and the search in
time.

Rehearsal gives the expected time of a search: the same search runs on simulated devices, some sharp, some noisy.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import TYPE_CHECKING

import msgspec
from MLRsearch import MeasurementResult, MultipleLossRatioSearch
from MLRsearch.load_rounding import LoadRounding
from MLRsearch.target_scaling import TargetScaling

from wavebed.experiment.events import Part
from wavebed.forward.burst import most_steps
from wavebed.forward.loss_rate import fractions
from wavebed.forward.search import LOWERINGS, REPEATED_LONGEST, REPEATS, TRIES, SearchBudget, configured

if TYPE_CHECKING:
    from wavebed.forward.findings import OverloadName
    from wavebed.forward.settings import ForwardSettings, GoalSettings

__all__ = [
    "SearchPlan",
    "burst_sizes",
    "latency_sizes",
    "loss_rate_sizes",
    "overload_names",
    "plan",
    "plan_search",
    "said",
    "searched",
]

LOOKS = 1
LONG_LOOKS = 4
"""Steps of 1, 2, 4, 8 and 16 widths: 15 % of overload hidden."""
FIRST_LOADS = 3
LATER_LOADS = 3
INITIAL_TRIALS = 2 + LOWERINGS * TRIES
"""At the highest load, at the rate forwarded then, and beside it."""

CARE = 1.5
"""The time of a trial beside its traffic may grow to so many times the measured one before a part runs out of time."""
BURST_STEPS = 7
"""Bursts of a repeat: two or three around the last length, and halvings down to one percent."""
BURST_FRACTION = 0.05
"""Length of an average burst of the search, of the longest."""

REHEARSALS = 24
NOISES = (0.0, 0.002, 0.01)
"""Standard deviations of a simulated device's capacity from trial to trial."""
NOMINAL_PPS = 1e6
"""Any rate: the search works in ratios of loads."""


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """The plan of one search.

    Parameters
    ----------
    expected_s, expected_trials : float
        Seconds of traffic and number of trials, by rehearsal.
    traffic_s : dict of float to float
        Seconds of traffic at most, by duration of the trials.
    """

    expected_s: float
    expected_trials: float
    traffic_s: dict[float, float]

    @property
    def most_trials(self) -> int:
        """The highest number of trials, repeated ones included."""
        return sum(round(total / each) for each, total in self.traffic_s.items()) + REPEATS

    def budget(self, overhead_s: float) -> SearchBudget:
        """Return the time the search has, if a trial takes `overhead_s` beside its traffic."""
        repeated = max(REPEATED_LONGEST * max(self.traffic_s), REPEATS * min(self.traffic_s))
        at_most = sum(self.traffic_s.values()) + repeated + self.most_trials * CARE * overhead_s
        return SearchBudget(self.traffic_s, repeated, at_most, overhead_s)

    def part(self, name: str, overhead_s: float) -> Part:
        """Return the search as a part of the plan."""
        expected_s = self.expected_s + self.expected_trials * overhead_s
        return Part(f"search {name}", expected_s, self.budget(overhead_s).at_most_s)


@cache
def plan_search(goals: tuple[GoalSettings, ...]) -> SearchPlan:
    """Return how long the search for these goals takes."""
    config, known = configured(goals, NOMINAL_PPS)
    rounding = LoadRounding(config.min_load, config.max_load, [goal.relative_width for goal in goals])
    scaling = TargetScaling(goals=config.goals, rounding=rounding)
    traffic: dict[float, float] = {}
    seen = set()
    for goal in known:
        target = scaling.goal_to_final_target[goal]
        while target:
            before = target.preceding
            looks = LONG_LOOKS if before and before.trial_duration < target.trial_duration else LOOKS
            loads = LATER_LOADS + 2 * looks
            if not target.preceding:
                steps = math.ceil(math.log2(rounding.max_int_load / int(target.discrete_width)))
                loads = FIRST_LOADS + 2 * steps
                like = (target.loss_ratio, target.trial_duration, target.duration_sum, int(target.discrete_width))
                loads = 0 if like in seen else loads
                seen.add(like)
            trials = loads * math.ceil(target.duration_sum / target.trial_duration - 1e-9)
            traffic[target.trial_duration] = traffic.get(target.trial_duration, 0.0) + trials * target.trial_duration
            target = target.preceding
    first = max(goal.initial_trial_s for goal in goals)
    traffic[first] = traffic.get(first, 0.0) + INITIAL_TRIALS * first
    made = [_rehearse(goals, number) for number in range(REHEARSALS)]
    return SearchPlan(fmean(seconds for seconds, _ in made), fmean(trials for _, trials in made), traffic)


class _Rehearsal:
    """A simulated device: it loses all frames above its capacity, which differs a little from trial to trial."""

    def __init__(self, number: int) -> None:
        self.draw = random.Random(number)  # noqa: S311 - a simulation
        # Within a decade and a half of the highest load, where devices worth a test are; one in eight exceeds it.
        self.capacity_pps = NOMINAL_PPS * 10 ** self.draw.uniform(-1.4, 0.2)
        self.noise = NOISES[number % len(NOISES)]
        self.seconds = 0.0
        self.trials = 0

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        self.seconds += intended_duration
        self.trials += 1
        capacity = self.capacity_pps * (1 + self.noise * self.draw.gauss(0, 1))
        sent = int(intended_load * intended_duration)
        lost = max(0, sent - int(capacity * intended_duration))
        return MeasurementResult(intended_duration, intended_load, offered_count=sent, loss_count=min(sent, lost))


def _rehearse(goals: tuple[GoalSettings, ...], number: int) -> tuple[float, int]:
    config, _ = configured(goals, NOMINAL_PPS)
    device = _Rehearsal(number)
    MultipleLossRatioSearch(config).search(device, debug=lambda _text: None)
    return device.seconds, device.trials


def plan(settings: ForwardSettings, overhead_s: float) -> tuple[Part, ...]:
    """Return the parts of a test with their times, in the order of `wavebed.forward.suite`.

    Parameters
    ----------
    overhead_s : float
        The time of a trial beside its traffic, seconds; measured in the warm-up.
    """
    asked, parts = settings.parts, []
    if "overload" in asked:
        each = _trials("", settings.overload_repeats, settings.overload_trial_s, overhead_s)
        parts += [msgspec.structs.replace(each, trial=name) for name in overload_names(settings)]
    parts += [plan_search(settings.goals).part(name, overhead_s) for name in searched(settings)]
    if "loss-rate" in asked:
        parts += [_loss_rate(f"loss-rate {size}", settings, overhead_s) for size in loss_rate_sizes(settings)]
    if "latency" in asked:
        trials = len(settings.latency_fractions) * settings.latency_repeats
        sizes = latency_sizes(settings)
        parts += [_trials(f"latency {size}", trials, settings.latency_trial_s, overhead_s) for size in sizes]
    if "burst" in asked:
        parts += [_burst(f"burst {size}", settings, overhead_s) for size in burst_sizes(settings)]
    return tuple(parts)


def overload_names(settings: ForwardSettings) -> tuple[OverloadName, ...]:
    """Return the study's tests that these sizes allow: with one size there is only the second."""
    return ("throughput", "overload") if len(settings.ends_bytes) > 1 else ("overload",)


def searched(settings: ForwardSettings) -> dict[str, tuple[int, ...]]:
    """Return the sizes to search, by name; without ``search`` only the sizes whose delays are measured."""
    sizes: tuple[int, ...] = ()
    if "search" in settings.parts:
        sizes = settings.sizes_bytes
    elif "latency" in settings.parts:
        sizes = latency_sizes(settings)
    named: dict[str, tuple[int, ...]] = {str(size): (size,) for size in sizes}
    return {**named, **settings.mixes} if "imix" in settings.parts else named


def loss_rate_sizes(settings: ForwardSettings) -> tuple[int, ...]:
    """Return the sizes of the frame loss rate test."""
    return settings.ends_bytes if settings.loss_rate_sizes_bytes is None else settings.loss_rate_sizes_bytes


def latency_sizes(settings: ForwardSettings) -> tuple[int, ...]:
    """Return the sizes whose delays are measured."""
    return settings.ends_bytes if settings.latency_sizes_bytes is None else settings.latency_sizes_bytes


def burst_sizes(settings: ForwardSettings) -> tuple[int, ...]:
    """Return the sizes of the bursts."""
    return (min(settings.sizes_bytes),) if settings.burst_sizes_bytes is None else settings.burst_sizes_bytes


def _trials(name: str, count: int, trial_s: float, overhead_s: float) -> Part:
    """Return a part of so many trials."""
    return Part(name, count * (trial_s + overhead_s), count * (trial_s + CARE * overhead_s))


def _loss_rate(name: str, settings: ForwardSettings, overhead_s: float) -> Part:
    """Every step at most; half of them are expected, since the load at which it ends is not known."""
    steps = len(fractions(settings.loss_rate_step))
    trial_s = settings.loss_rate_trial_s
    return Part(name, max(steps / 2, 1) * (trial_s + overhead_s), steps * (trial_s + CARE * overhead_s))


def _burst(name: str, settings: ForwardSettings, overhead_s: float) -> Part:
    """One long burst, a first search, and shorter ones around its result; twice the time at most."""
    longest = settings.burst_longest_s
    first = most_steps(round(NOMINAL_PPS * longest))
    # A halving of the logarithm: most bursts of a search are short beside the longest.
    trials = first + (settings.burst_repeats - 1) * BURST_STEPS
    expected = longest + trials * (overhead_s + BURST_FRACTION * longest)
    return Part(name, expected, 2 * expected + longest)


def said(seconds: float) -> str:
    """Write a time as people say it: ``45 s``, ``3 min 20 s``, ``1 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
