"""The time that a forwarding test takes, before it begins and while it runs.

The search's bound follows from MLRsearch's rules. A load is decided by the trials of one target: at most its duration
sum, in whole trials. The first target of a goal starts from anywhere in the range of loads: it doubles its steps until
it has passed the rate (log2 of range over width), and halves them until it is as close as its width (as many again);
goals of one loss ratio share that, since its trials are single ones and decide for all of them.
Each later target starts from an interval of twice its width: one load in the middle, one on the side that is left, one
more where a bound does not hold; and where that happens it looks around, in doubled steps and back in halves: `LOOKS`
times, or `LONG_LOOKS` times where its trials are longer than those before, from which a device's buffer may have hidden
an overload. A search gets no more than that: its goal then ends without a number (`unsteady`), and the search in
time.

Rehearsal gives the expected time of a search (`wavebed.forward.estimate`): the same search on simulated devices, some
steady, some not; the trials before it show which of them are like the machine. Other parts have a known number of
trials. Measured constants are beside their traffic: `CALIBRATE_S` at the first use of a size, `LEARN_S` at each change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec
from MLRsearch.load_rounding import LoadRounding
from MLRsearch.target_scaling import TargetScaling

from wavebed.forward.estimate import NOMINAL_PPS, UNKNOWN, Evidence, Rehearsal, expected, left, rehearse
from wavebed.forward.parts import fractions, most_steps
from wavebed.forward.search import LOWERINGS, REPEATED_LONGEST, REPEATS, TRIES, SearchBudget, configured
from wavebed.forward.trials import OVERHEAD_S
from wavebed.store.journal import PlannedPart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.forward.parts import OverloadName
    from wavebed.forward.settings import ForwardSettings, GoalSettings
    from wavebed.forward.trials import LoadLimits, TrialLog

LOOKS = 1
LONG_LOOKS = 4
"""Steps of 1, 2, 4, 8 and 16 widths: 15 % of overload hidden."""
FIRST_LOADS = 3
LATER_LOADS = 3
INITIAL_TRIALS = 2 + LOWERINGS * TRIES
"""At the highest load, at the rate forwarded then, and beside it."""

CARE = 1.5
"""The time of a trial beside its traffic may grow to this multiple of the measured one before a part's time is up."""
BURST_STEPS = 7
"""Bursts of a repeat: two or three around the last length, and halvings down to one percent."""
BURST_FRACTION = 0.05
"""Length of an average burst of the search, of the longest."""

WARM_UP_TRIALS = 4
CALIBRATE_S, LEARN_S = 0.6, 0.36
"""The tester's own rate is measured at a new size; a device learns all flows anew when the size changes."""
PREPARE_S = 1.6
"""Ports, the device and the ways to send are looked at."""
IPERF3_BESIDE_S = 2.0
"""Of a run of iperf3, beside its traffic."""

LOSSY_RATIO, FULL_LOAD, ABOVE = 0.05, 0.98, 1.2
"""A trial that loses more shows the device's capacity; one that receives so much of a load, that it is above that."""

NO_CAPACITIES: Mapping[str, float | None] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """The plan of one search.

    Parameters
    ----------
    goals : tuple of GoalSettings
        What is searched for.
    traffic_s : dict of float to float
        Seconds of traffic at most, by duration of the trials.
    """

    goals: tuple[GoalSettings, ...]
    traffic_s: dict[float, float]

    @property
    def rehearsals(self) -> tuple[Rehearsal, ...]:
        """Searches for the same goals on simulated devices; the first call takes a second or two."""
        return _rehearsed(self.goals)

    @property
    def most_trials(self) -> int:
        """The highest number of trials, repeated ones included."""
        return sum(round(total / each) for each, total in self.traffic_s.items()) + REPEATS

    def budget(self, overhead_s: float) -> SearchBudget:
        """Return the time the search has, if a trial takes `overhead_s` beside its traffic."""
        repeated = max(REPEATED_LONGEST * max(self.traffic_s), REPEATS * min(self.traffic_s))
        at_most = sum(self.traffic_s.values()) + repeated + self.most_trials * CARE * overhead_s
        return SearchBudget(self.traffic_s, repeated, at_most, overhead_s)

    def part(self, name: str, overhead_s: float, evidence: Evidence, capacity: float | None = None) -> PlannedPart:
        """Return the search as a part of the plan."""
        expected_s = expected(self.rehearsals, evidence, overhead_s, capacity)
        return PlannedPart(f"search {name}", expected_s, self.budget(overhead_s).at_most_s, "search")


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
    return SearchPlan(goals, traffic)


@cache
def _rehearsed(goals: tuple[GoalSettings, ...]) -> tuple[Rehearsal, ...]:
    return rehearse(goals, plan_search(goals).budget(OVERHEAD_S))


def plan(
    settings: ForwardSettings,
    overhead_s: float,
    evidence: Evidence = UNKNOWN,
    capacities: Mapping[str, float | None] = NO_CAPACITIES,
) -> tuple[PlannedPart, ...]:
    """Return the parts of a test with their times, in the order of `wavebed.forward.suite`.

    Parameters
    ----------
    overhead_s : float
        The time of a trial beside its traffic, seconds; measured in the warm-up.
    evidence : Evidence
        What the trials so far show of the machine and the device.
    capacities : mapping of str to float
        The fraction of the highest load that the device forwards under overload, by name of the search.
    """
    parts: list[tuple[tuple[int, ...], PlannedPart]] = []
    asked, (smallest, largest) = settings.parts, (min(settings.sizes_bytes), max(settings.sizes_bytes))
    if "overload" in asked:
        each = _trials("", settings.overload_repeats, settings.overload_trial_s, overhead_s, "overload")
        for test in overload_names(settings):
            size = largest if test == "throughput" else smallest
            parts.append(((size,), msgspec.structs.replace(each, trial=test)))
    for name, sizes in searched(settings).items():
        search = plan_search(settings.goals).part(name, overhead_s, evidence, capacities.get(name))
        parts.append((sizes, search))
    if "loss-rate" in asked:
        parts += [
            ((size,), _loss_rate(f"loss-rate {size}", settings, overhead_s, evidence))
            for size in loss_rate_sizes(settings)
        ]
    if "latency" in asked:
        count = len(settings.latency_fractions) * settings.latency_repeats
        parts += [
            ((size,), _trials(f"latency {size}", count, settings.latency_trial_s, overhead_s, "latency"))
            for size in latency_sizes(settings)
        ]
    if "burst" in asked:
        parts += [((size,), _burst(f"burst {size}", settings, overhead_s)) for size in burst_sizes(settings)]
    return _with_changes(parts, (smallest,))


def _with_changes(
    parts: Sequence[tuple[tuple[int, ...], PlannedPart]], warm: tuple[int, ...]
) -> tuple[PlannedPart, ...]:
    """Add the time that new and changed sizes take; `warm` is the size of the warm-up."""
    seen, last, timed = {warm}, warm, []
    for sizes, part in parts:
        more_s = (sizes not in seen) * CALIBRATE_S + (sizes != last) * LEARN_S
        most_s = None if part.at_most_s is None else part.at_most_s + CARE * more_s
        timed.append(msgspec.structs.replace(part, expected_s=part.expected_s + more_s, at_most_s=most_s))
        seen.add(sizes)
        last = sizes
    return tuple(timed)


def before_s(settings: ForwardSettings) -> float:
    """Return the expected seconds from the first look at the device to the end of the warm-up."""
    return PREPARE_S + CALIBRATE_S + LEARN_S + settings.warm_up_s + WARM_UP_TRIALS * OVERHEAD_S


def whole_s(settings: ForwardSettings, evidence: Evidence = UNKNOWN) -> float:
    """Return the expected seconds of a whole test, before anything of it has run."""
    return before_s(settings) + sum(part.expected_s for part in plan(settings, OVERHEAD_S, evidence))


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


@dataclass(slots=True)
class Forecast:
    """The times of the parts by what the trials so far show."""

    settings: ForwardSettings
    log: TrialLog
    limits: LoadLimits
    overhead_s: float = OVERHEAD_S
    evidence: Evidence = UNKNOWN

    def learn(self) -> None:
        """Expect the searches by what the trials so far show of the machine."""
        self.evidence = Evidence.of(self.log.trials)

    def parts(self) -> tuple[PlannedPart, ...]:
        """Return the parts with their times by what is known now."""
        return plan(self.settings, self.overhead_s, self.evidence, self._capacities())

    def part_left_s(self, part: PlannedPart, before: int, ratio: float) -> float:
        """Return the seconds that a running part still takes.

        Parameters
        ----------
        before : int
            Trials made before this part.
        ratio : float
            Time that parts like it took, over the expected one.
        """
        made = self.log.trials[before:]
        if not part.trial.startswith("search "):
            return max(part.expected_s - sum(self.log.wall_s[before:]), 0.0)
        return ratio * left(
            plan_search(self.settings.goals).rehearsals,
            self.evidence,
            self.overhead_s,
            self._capacities().get(part.trial.removeprefix("search ")),
            traffic_s=sum(one.duration_s for one in made),
            trials=len(made),
            refused=sum(bool(one.refusals) for one in made),
        )

    def _capacities(self) -> dict[str, float | None]:
        """Return the fraction of the highest load that the device forwards, by search: as in trials that lost frames.

        Devices forward about as many frames of any size: results of other sizes stand in for missing ones.
        """
        made = [one for one in self.log.trials if one.received and not one.purpose.startswith("search ")]
        found: dict[str, float | None] = {}
        for name, sizes_bytes in searched(self.settings).items():
            like = [one for one in made if one.sizes_bytes == sizes_bytes] or made
            lossy = [one.received_pps for one in like if one.loss_ratio > LOSSY_RATIO]
            top_pps = self.limits.known_pps(sizes_bytes)
            if top_pps and max((one.received_pps for one in like), default=0.0) >= FULL_LOAD * top_pps:
                found[name] = ABOVE
            elif top_pps and lossy:
                found[name] = median(lossy) / top_pps
        return found


def _trials(name: str, count: int, trial_s: float, overhead_s: float, kind: str) -> PlannedPart:
    """Return a part of `count` trials."""
    return PlannedPart(name, count * (trial_s + overhead_s), count * (trial_s + _most_s(overhead_s)), kind)


def _most_s(overhead_s: float) -> float:
    return CARE * max(overhead_s, OVERHEAD_S)


def _loss_rate(name: str, settings: ForwardSettings, overhead_s: float, evidence: Evidence) -> PlannedPart:
    """Every step at most; half of them on a steady device, since the load at which it ends is not known."""
    steps = len(fractions(settings.loss_rate_step))
    trial_s = settings.loss_rate_trial_s
    made = max(steps * (1 - evidence.weights()["steady"] / 2), 1)
    return PlannedPart(name, made * (trial_s + overhead_s), steps * (trial_s + _most_s(overhead_s)), "loss-rate")


def _burst(name: str, settings: ForwardSettings, overhead_s: float) -> PlannedPart:
    """One long burst, a first search, and shorter ones around its result; twice the time at most."""
    longest = settings.burst_longest_s
    first = most_steps(round(NOMINAL_PPS * longest))
    # A halving of the logarithm: most bursts of a search are short beside the longest.
    trials = first + (settings.burst_repeats - 1) * BURST_STEPS
    expected_s = longest + trials * (overhead_s + BURST_FRACTION * longest)
    return PlannedPart(name, expected_s, 2 * expected_s + longest, "burst")
