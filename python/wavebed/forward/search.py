"""The search for rates without loss: MLRsearch over trials of the tester, within the time that was planned.

Pages and tables import the findings from here without the package MLRsearch, so it is imported by the functions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from wavebed.forward.frames import Rates, genome
from wavebed.forward.model import Ceiling, PlainValue, Refusal
from wavebed.forward.settings import GoalSettings
from wavebed.forward.trials import DISTURBED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from MLRsearch import Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal
    from MLRsearch.target_spec import TargetSpec
    from MLRsearch.trimmed_stat import TrimmedStat

    from wavebed.forward.model import ForwardTrial
    from wavebed.forward.settings import GoalName
    from wavebed.forward.trials import LoadLimit, TrialLog

GoalOutcome: TypeAlias = Literal["found", "line_rate", "at_least", "below", "refused"]


class Bound(PlainValue, frozen=True):
    """A load that the search decided on.

    Parameters
    ----------
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


class GoalFinding(PlainValue, frozen=True):
    """The result of the search for one goal at one size.

    Parameters
    ----------
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


class SizeFinding(PlainValue, frozen=True):
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
    in_order : bool or None
        Whether the rate without loss is not above the one with a little (NDR ≤ PDR); ``None`` if either was not
        found.
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


LOAD_RANGE = 1e4
"""Highest over lowest load: 149 pps of gigabit's 1.49 Mpps is less than any router forwards."""
FEWEST_FRAMES = 10
"""The lowest load still sends this many in the shortest trial."""

REPEATS, REPEATED_LONGEST = 20, 3
"""Trials in which the tester was disturbed are repeated this many times in one search; the longest only three times."""
LOWERINGS = 6
"""The highest load is lowered this many times, where the tester does not reach it with this device."""
TRIES = 2
"""A load must fail so often before it is lowered: another program may cause one failure."""
LOWERED = 0.85


@dataclass(slots=True)
class SearchBudget:
    """The time a search may take; `wavebed.forward.plan` computes it from the goals.

    Parameters
    ----------
    traffic_s : dict of float to float
        Seconds of traffic that trials of each duration may take together.
    repeated_s : float
        Seconds of traffic of trials that are made again since the tester was disturbed.
    at_most_s : float
        The whole search, with repeated trials and the time of trials beside their traffic.
    overhead_s : float
        The time of a trial beside its traffic.
    """

    traffic_s: dict[float, float]
    repeated_s: float
    at_most_s: float
    overhead_s: float


class _RefusedError(Exception):
    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


class _ExhaustedError(Exception):
    """The trials of a duration, or all together, took the time they had."""

    def __init__(self, duration_s: float | None) -> None:
        super().__init__("no time left")
        self.duration_s = duration_s


@dataclass
class _Measurer:
    """Answers MLRsearch by trials, and by those already made when the search is taken up again."""

    log: TrialLog
    name: str
    limit: LoadLimit
    budget: SearchBudget
    took_s: float = 0.0
    spent_s: dict[float, float] = field(default_factory=dict)
    made: list[int] = field(default_factory=list)
    counted: list[tuple[float, float, int]] = field(default_factory=list)
    repeats: int = 0
    repeated_s: float = 0.0
    _again: dict[tuple[float, float], list[int]] = field(default_factory=dict)

    def rewind(self) -> None:
        """Answer from the trials made so far, in their order, before new ones are made."""
        self._again = {}
        for duration_s, load_pps, place in self.counted:
            self._again.setdefault((duration_s, load_pps), []).append(place)

    def at(self, load_pps: float) -> list[ForwardTrial]:
        """Return the trials that count at a load."""
        return [self.log.trials[place] for _, load, place in self.counted if load == load_pps]

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        """Answer as `MLRsearch.AbstractMeasurer` is asked."""
        from MLRsearch import MeasurementResult

        earlier = self._again.get((intended_duration, intended_load))
        trial = self.log.trials[earlier.pop(0)] if earlier else self._new(intended_duration, intended_load)
        # Times are the intended ones: sums of durations stay whole, and the rest of a trial's time is no traffic. The
        # tester refuses a sender that needed longer.
        return MeasurementResult(intended_duration, intended_load, offered_count=trial.sent, loss_count=trial.lost)

    def lower(self, duration_s: float) -> None:
        """Make the first trial at the highest load; where the tester does not reach that, lower it."""
        for _ in range(LOWERINGS):
            for _ in range(TRIES):
                trial = self._once(duration_s, self.limit.max_load.pps)
                if not trial.refusals:
                    return
                self._check(trial)
            self.limit = self.limit.lowered(_reached(trial))

    def _new(self, duration_s: float, load_pps: float) -> ForwardTrial:
        while True:
            trial = self._once(duration_s, load_pps)
            if not trial.refusals:
                return trial
            self._check(trial)
            self.repeats += 1
            self.repeated_s += duration_s
            if self.repeats > REPEATS or self.repeated_s > self.budget.repeated_s:
                raise _RefusedError(trial.refusals[0])
            self.spent_s[duration_s] -= duration_s

    def _once(self, duration_s: float, load_pps: float) -> ForwardTrial:
        spent = self.spent_s.get(duration_s, 0.0) + duration_s
        # A millisecond: durations carry rounding errors, and differ by more.
        if spent > self.budget.traffic_s.get(duration_s, 0.0) + 1e-3:
            raise _ExhaustedError(duration_s)
        if self.took_s + duration_s + self.budget.overhead_s > self.budget.at_most_s + 1e-3:
            raise _ExhaustedError(None)
        self.spent_s[duration_s] = spent
        place = self.log.make(f"search {self.name}", self.limit.sizes_bytes, load_pps, duration_s)
        trial = self.log.trials[place]
        self.took_s += self.log.wall_s[place]
        self.made.append(place)
        if not trial.refusals:
            self.counted.append((duration_s, load_pps, place))
        return trial

    @staticmethod
    def _check(trial: ForwardTrial) -> None:
        serious = [one for one in trial.refusals if one.code not in DISTURBED]
        if serious:
            raise _RefusedError(serious[0])


def _reached(trial: ForwardTrial) -> float:
    """Return the fraction of its load that the tester can be asked for, after a trial that it did not manage."""
    fraction = trial.sent_pps / trial.offered_pps if trial.offered_pps else 0.0
    return 0.97 * fraction if 0.1 < fraction < LOWERED else LOWERED


def configured(goals: Sequence[GoalSettings], max_pps: float) -> tuple[Config, dict[SearchGoal, GoalSettings]]:
    """Return MLRsearch's configuration, and our goal for each of its goals.

    The warm-up is the suite's, and time is kept by the measurer, so both are off here.
    """
    from MLRsearch import Config, SearchGoal

    known = {
        SearchGoal(
            loss_ratio=goal.loss_ratio,
            exceed_ratio=goal.exceed_ratio,
            relative_width=goal.relative_width,
            initial_trial_duration=goal.initial_trial_s,
            final_trial_duration=goal.final_trial_s,
            duration_sum=goal.duration_sum_s,
            preceding_targets=goal.preceding_targets,
            fail_fast=False,
        ): goal
        for goal in goals
    }
    config = Config()
    config.goals = list(known)
    shortest = min(goal.initial_trial_s for goal in goals)
    config.min_load = max(max_pps / LOAD_RANGE, min(FEWEST_FRAMES / shortest, max_pps / 2))
    config.max_load = max_pps
    config.warmup_duration = 0.0
    config.search_duration_max = 1e9
    return config, known


def search_size(
    log: TrialLog, name: str, limit: LoadLimit, goals: Sequence[GoalSettings], budget: SearchBudget
) -> SizeFinding:
    """Search the rates of all goals at one size, or of one mix, together.

    A refused trial ends the search: every goal gets its refusal and no number. When the trials that only some goals
    need have taken their time, those goals end without a number, and the others are searched on with the trials made
    so far.

    Parameters
    ----------
    name : str
        ``"64"``, or the name of the mix.
    """
    measurer = _Measurer(log, name, limit, budget)
    try:
        measurer.lower(max(goal.initial_trial_s for goal in goals))
        found = _search_all(goals, measurer)
    except _RefusedError as error:
        # Loads that were decided before the refusal are no more certain: nothing is found.
        found = [GoalFinding(goal, "refused", refusal=error.refusal) for goal in goals]
    except _ExhaustedError:
        found = [GoalFinding(goal, "refused", refusal=_unsteady(goal, None, None, measurer)) for goal in goals]
    return _finding(name, found, measurer)


def _search_all(goals: Sequence[GoalSettings], measurer: _Measurer) -> list[GoalFinding]:
    """Search, and take the search up again without the goals that ran out of time."""
    found: dict[GoalName, GoalFinding] = {}
    left = list(goals)
    while left:
        readings, stuck = _search(left, measurer)
        done = {one.goal.name: one for one in readings if one.outcome != "refused" or one.goal.name in stuck}
        found.update(done)
        left = [goal for goal in left if goal.name not in done]
    return [found[goal.name] for goal in goals]


def _search(goals: Sequence[GoalSettings], measurer: _Measurer) -> tuple[list[GoalFinding], set[GoalName]]:
    """Search until all goals are reached or a time is up; return the findings, and the goals to give up."""
    from MLRsearch import MultipleLossRatioSearch

    config, known = configured(goals, measurer.limit.max_load.pps)
    search = MultipleLossRatioSearch(config)
    measurer.rewind()
    out_of: _ExhaustedError | None = None
    try:
        search.search(measurer, debug=_silent)
    except _ExhaustedError as error:
        out_of = error
    readings = {of: _reading(search, ours, of, measurer) for of, ours in known.items()}
    still_open = {of for of, reading in readings.items() if reading.outcome == "refused"}
    stuck = still_open
    if out_of is not None and out_of.duration_s is not None:
        # Those that need the trials for which no time is left; the others are searched on.
        stuck = {of for of in still_open if out_of.duration_s in _durations(search, of)} or still_open
    return list(readings.values()), {known[of].name for of in stuck}


def _silent(_text: str) -> None:
    """MLRsearch's own account of every step is not needed: the trials are kept."""


def _durations(search: MultipleLossRatioSearch, goal: SearchGoal) -> set[float]:
    """Return the durations of the trials that a goal's targets need."""
    target: TargetSpec | None = search.scaling.goal_to_final_target[goal]
    durations = set()
    while target:
        durations.add(target.trial_duration)
        target = target.preceding
    return durations


def _reading(search: MultipleLossRatioSearch, goal: GoalSettings, of: SearchGoal, measurer: _Measurer) -> GoalFinding:
    """Return the finding of a goal by the trials so far; ``refused`` where its bounds are not close enough yet."""
    target = search.scaling.goal_to_final_target[of]
    bounds = search.database.get_relevant_bounds(target)
    limit = measurer.limit
    lower = _bound(bounds.clo, measurer)
    upper = _bound(bounds.chi, measurer)
    forwarded = limit.rates(lower.offered.pps * (1 - lower.loss_ratio)) if lower else None
    if lower and upper is None and bounds.clo >= search.limit_handler.max_load:
        if limit.limited_by == "line_rate":
            return GoalFinding(goal, "line_rate", lower, None, forwarded)
        return GoalFinding(goal, "at_least", lower, None, forwarded, _tester_limit(limit))
    if upper and lower is None and bounds.chi <= search.limit_handler.min_load:
        return GoalFinding(goal, "below", None, upper)
    if lower and upper and bounds.chi - bounds.clo <= target.discrete_width:
        return GoalFinding(goal, "found", lower, upper, forwarded)
    return GoalFinding(goal, "refused", lower, upper, None, _unsteady(goal, lower, upper, measurer))


def _bound(stats: TrimmedStat | None, measurer: _Measurer) -> Bound | None:
    if stats is None:
        return None
    (stat,) = stats.target_to_stat.values()
    trials = measurer.at(float(stats))
    return Bound(
        offered=measurer.limit.rates(float(stats)),
        trials=len(trials),
        good_s=stat.good_long,
        bad_s=stat.bad_long,
        loss_ratio=stat.pessimistic_loss_ratio,
        worst_loss_ratio=max(trial.loss_ratio for trial in trials),
    )


def _tester_limit(limit: LoadLimit) -> Refusal:
    own, top = limit.ceiling.pps, limit.max_load.pps
    return Refusal(
        "tester_limit",
        f"the device forwards at least {top:,.0f} pps: the tester ({own:,.0f} pps by itself) can prove no more",
        "use a faster way to send, a faster machine, or more of its cores",
    )


def _unsteady(goal: GoalSettings, lower: Bound | None, upper: Bound | None, measurer: _Measurer) -> Refusal:
    time_s = f"{measurer.took_s:.0f} s"
    if lower and upper:
        seen = f"{lower.offered.pps:,.0f} pps passed, {upper.offered.pps:,.0f} pps failed, and between trials disagree"
    elif upper:
        seen = f"no load passed, down to {upper.offered.pps:,.0f} pps"
    else:
        seen = "trials of one load disagree"
    return Refusal(
        "unsteady",
        f"no rate was found for {goal.name} within {time_s}: {seen}",
        "leave the machines alone during the test; a device that loses frames at any load has no such rate",
    )


def _finding(name: str, goals: Sequence[GoalFinding], measurer: _Measurer) -> SizeFinding:
    limit = measurer.limit
    passed = {one.goal.name: one.lower for one in goals if one.outcome in ("found", "line_rate", "at_least")}
    ndr, pdr = passed.get("ndr"), passed.get("pdr")
    # Both are loads of one grid, so that no rounding is between them.
    in_order = ndr.offered.pps <= pdr.offered.pps if ndr and pdr else None
    return SizeFinding(
        name=name,
        sizes_bytes=limit.sizes_bytes,
        genome=genome(limit.sizes_bytes) if len(limit.sizes_bytes) > 1 else None,
        line_rate=limit.line_rate,
        max_load=limit.max_load,
        limited_by=limit.limited_by,
        ceiling=limit.ceiling,
        goals=tuple(goals),
        in_order=in_order,
        trials=tuple(measurer.made),
    )
