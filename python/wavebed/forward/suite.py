"""The whole test of one device: every part in its order, and the record of the findings."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import TYPE_CHECKING

from wavebed.forward import plan as planning
from wavebed.forward.estimate import UNKNOWN, Evidence, left
from wavebed.forward.frames import line_rate_pps
from wavebed.forward.parts import base_rate, find_bursts, measure_latency, measure_loss_rate, overload
from wavebed.forward.result import DeviceResult, PartTime
from wavebed.forward.search import search_size
from wavebed.forward.trials import DISTURBED, ENDING, OVERHEAD_S, Tester, TrialLog, distinct, load_limit
from wavebed.store.journal import CheckFailed, LoadMeasured, PlannedTrials, StepBegun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wavebed.forward.model import Binding, FrameSpec, PortInfo, Refusal, Trial
    from wavebed.forward.parts import BurstFinding, LatencyFinding, LossRateFinding, OverloadFinding, OverloadName
    from wavebed.forward.search import SizeFinding
    from wavebed.forward.settings import ForwardSettings
    from wavebed.forward.trials import LoadLimit
    from wavebed.result.model import Verdict
    from wavebed.store.journal import Event, Part

__all__ = ["About", "link_speed_mbps", "run_suite"]

WARM_UP_FRACTION = 0.1
"""Fraction of the highest load: it fills a device's tables, and most devices lose nothing."""
MADE_UP_SPEED = frozenset({"veth", "tun", "dummy", "bridge"})
"""Drivers of interfaces that have no speed, whatever they say."""
LOSSY_RATIO, FULL_LOAD, ABOVE = 0.05, 0.98, 1.2
"""A trial that loses more shows the device's capacity; one that receives so much of a load, that it is above that."""
HIDDEN_FRACTION = 0.005
"""Overload that a buffer hides from a goal's trials is worth a doubt from here on: the width of the search."""


@dataclass(frozen=True, slots=True)
class About:
    """The device and the tester, for the record; see `DeviceResult`."""

    device: str
    kind: str
    transmitter: PortInfo
    receiver: PortInfo
    sender: str
    receiver_kind: str
    frames: FrameSpec | None = None
    probed: tuple[Binding, ...] = ()
    machine: Mapping[str, object] = field(default_factory=dict)


def link_speed_mbps(settings: ForwardSettings, transmitter: PortInfo, receiver: PortInfo) -> float | None:
    """Return the speed of the link: as asked, or as both ports say; ``None`` for interfaces that have none."""
    if settings.link_mbps is not None:
        return settings.link_mbps
    speeds = [port.speed_mbps for port in (transmitter, receiver) if port.driver not in MADE_UP_SPEED]
    known = [speed for speed in speeds if speed]
    return float(min(known)) if len(known) == 2 else None


@dataclass(slots=True)
class _Suite:
    """The test while it runs."""

    settings: ForwardSettings
    about: About
    log: TrialLog
    emit: Callable[[Event], None]
    keep: Callable[[DeviceResult], None]
    link_mbps: float | None
    began_s: float
    overhead_s: float = OVERHEAD_S
    plan: tuple[Part, ...] = ()
    parts: PlannedTrials | None = None
    times: dict[str, PartTime] = field(default_factory=dict)
    limits: dict[tuple[int, ...], LoadLimit] = field(default_factory=dict)
    sizes: list[SizeFinding] = field(default_factory=list)
    overload: list[OverloadFinding] = field(default_factory=list)
    latency: list[LatencyFinding] = field(default_factory=list)
    loss_rates: list[LossRateFinding] = field(default_factory=list)
    bursts: list[BurstFinding] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    part: str = ""
    number: int = 0
    """Of the part that runs; 0 before the first."""
    before: int = 0
    """Trials made before this part."""
    evidence: Evidence = UNKNOWN
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def limit(self, sizes_bytes: tuple[int, ...]) -> LoadLimit:
        """Return the highest load at a size; the tester is calibrated for it the first time."""
        if sizes_bytes not in self.limits:
            ceiling = self.log.tester.calibrate(sizes_bytes)
            self.limits[sizes_bytes] = load_limit(self.link_mbps, ceiling, self.settings.headers)
        return self.limits[sizes_bytes]

    def heard(self, trial: Trial) -> None:
        """Tell of a trial that is over, and of all that speaks against it."""
        self.emit(
            LoadMeasured(
                trial=self.part,
                offered_pps=trial.offered_pps,
                sent=trial.sent,
                lost=trial.lost,
                refused=bool(trial.refusals),
                left_s=self.left_s(),
            )
        )
        for one in trial.refusals:
            self.emit(CheckFailed(trial=self.part, code=one.code, severity="invalid", evidence=one.reason))

    def left_s(self) -> float | None:
        """Return the seconds left: of the running part by its trials so far, of the others by those that have ended."""
        if self.parts is None or not self.number:
            return None
        made = self.log.trials[self.before :]
        if self.part.startswith("search "):
            traffic_s, refused = sum(one.duration_s for one in made), sum(bool(one.refusals) for one in made)
            rehearsals = planning.plan_search(self.settings.goals).rehearsals
            capacity = self.capacities().get(self.part.removeprefix("search "))
            left_s = self.parts.ratio(self.number) * left(
                rehearsals,
                self.evidence,
                self.overhead_s,
                capacity,
                traffic_s=traffic_s,
                trials=len(made),
                refused=refused,
            )
        else:
            spent_s = sum(self.log.wall_s[self.before :])
            left_s = max(self.plan[self.number - 1].expected_s - spent_s, 0.0)
        return left_s + self.parts.after_s(self.number)

    def look(self) -> None:
        """Expect the searches by what the trials so far show of the machine."""
        self.evidence = Evidence.of(self.log.trials)
        if self.parts is None:
            return
        for number, part in enumerate(self.planned(), 1):
            self.parts.expect(number, part.expected_s)

    def planned(self) -> tuple[Part, ...]:
        """Return the parts with their times by what is known now."""
        return planning.plan(self.settings, self.overhead_s, self.evidence, self.capacities())

    def capacities(self) -> dict[str, float | None]:
        """Return the fraction of the highest load that the device forwards, by search: as in trials that lost frames.

        Devices forward about as many frames of any size: those of other sizes stand in for missing ones.
        """
        made = [one for one in self.log.trials if one.received and not one.purpose.startswith("search ")]
        found: dict[str, float | None] = {}
        for name, sizes_bytes in planning.searched(self.settings).items():
            limit = self.limits.get(sizes_bytes)
            like = [one for one in made if one.sizes_bytes == sizes_bytes] or made
            lossy = [one.received_pps for one in like if one.loss_ratio > LOSSY_RATIO]
            top_pps = limit.max_load.pps if limit else self.line_rate_pps(sizes_bytes)
            if top_pps and max((one.received_pps for one in like), default=0.0) >= FULL_LOAD * top_pps:
                found[name] = ABOVE
            elif top_pps and lossy:
                found[name] = median(lossy) / top_pps
        return found

    def line_rate_pps(self, sizes_bytes: tuple[int, ...]) -> float | None:
        """Return the line rate of frames of these sizes, if the link's speed is known."""
        return None if self.link_mbps is None else line_rate_pps(self.link_mbps, sizes_bytes)

    def warm_up(self) -> None:
        """Send some traffic before anything is measured, measure the time of a trial, and plan."""
        self.part = "warm-up"
        self.emit(StepBegun(step=self.part, left_s=planning.whole_s(self.settings) - planning.PREPARE_S))
        smallest = (min(self.settings.sizes_bytes),)
        pps = WARM_UP_FRACTION * self.limit(smallest).max_load.pps
        for _ in range(planning.WARM_UP_TRIALS):
            duration_s = self.settings.warm_up_s / planning.WARM_UP_TRIALS
            place = self.log.make("warm-up", smallest, pps, duration_s)
            # Whatever else speaks against a trial is found again by those that are judged.
            self.refusals += [one for one in self.log.trials[place].refusals if one.code in ENDING]
            if self.refusals:
                break
        self.overhead_s = self.log.overhead_s
        self.look()
        self.plan = self.planned()
        if not self.refusals:
            self.parts = PlannedTrials(self.emit, self.plan)

    def run_part(self, name: str, make: Callable[..., None], *asked: object) -> None:
        """Run one part, unless a trial showed that no further one can count, and keep its time."""
        if self.parts is None or any(one.code in ENDING for one in self.refusals):
            return
        self.part = name
        number, part = next((number, one) for number, one in enumerate(self.plan, 1) if one.trial == name)
        self.parts.begin(number)
        began_s, self.number, self.before = self.log.clock(), number, len(self.log.trials)
        make(self, *asked)
        made = self.log.trials[self.before :]
        took_s = self.log.clock() - began_s
        self.times[name] = _part_time(part, took_s, len(made))
        self.refusals += [one for trial in made for one in trial.refusals if one.code not in DISTURBED]
        self.keep(self.result())
        verdict, reasons = _verdict(made)
        self.parts.stored(number, verdict, took_s, reasons)
        self.look()

    def result(self) -> DeviceResult:
        """Return the findings so far."""
        about = self.about
        return DeviceResult(
            device=about.device,
            kind=about.kind,
            started=self.started,
            took_s=self.log.clock() - self.began_s,
            settings=self.settings,
            frames=about.frames,
            link_mbps=self.link_mbps,
            transmitter=about.transmitter,
            receiver=about.receiver,
            sender=about.sender,
            receiver_kind=about.receiver_kind,
            probed=about.probed,
            ceilings=tuple(limit.ceiling for limit in self.limits.values()),
            sizes=tuple(self.sizes),
            overload=tuple(self.overload),
            latency=tuple(self.latency),
            loss_rates=tuple(self.loss_rates),
            bursts=tuple(self.bursts),
            trials=tuple(self.log.trials),
            refusals=distinct(self.refusals),
            doubts=(*self.doubts, *_doubts(self)),
            plan=tuple(self.times.get(one.trial, _part_time(one)) for one in self.plan),
            machine=about.machine,
        )


def _part_time(part: Part, took_s: float | None = None, trials: int = 0) -> PartTime:
    return PartTime(part.trial, part.expected_s, part.at_most_s or part.expected_s, took_s, trials)


def _verdict(made: Sequence[Trial]) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict on a part for the journal: invalid if no trial of it counts, suspect if a refusal remains."""
    refusals = distinct([one for trial in made for one in trial.refusals if one.code not in DISTURBED])
    if made and all(trial.refusals for trial in made):
        return "invalid", tuple(one.reason for one in distinct([one for trial in made for one in trial.refusals]))
    return ("suspect" if refusals else "valid"), tuple(one.reason for one in refusals)


def run_suite(
    tester: Tester,
    settings: ForwardSettings,
    about: About,
    emit: Callable[[Event], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    sample: int = 16,
    keep: Callable[[DeviceResult], None] = lambda _: None,
) -> DeviceResult:
    """Put one device through all parts of the settings.

    Parameters
    ----------
    tester : Tester
        Prepared, with the device between its ports.
    emit : callable
        Told of each event.
    clock : callable
        Seconds since whenever; another one in tests.
    sample : int
        Frames kept as they arrived, of the first trial of each size.
    keep : callable
        Given the findings so far, before the first trial and after each part.
    """
    link = link_speed_mbps(settings, about.transmitter, about.receiver)
    suite = _Suite(settings, about, TrialLog(tester, clock, sample=sample), emit, keep, link, clock())
    suite.log.heard = suite.heard
    keep(suite.result())
    suite.warm_up()
    if "overload" in settings.parts:
        for test in planning.overload_names(settings):
            suite.run_part(test, _overload, test)
    for name, sizes_bytes in planning.searched(settings).items():
        suite.run_part(f"search {name}", _search, name, sizes_bytes)
    if "loss-rate" in settings.parts:
        for size in planning.loss_rate_sizes(settings):
            suite.run_part(f"loss-rate {size}", _loss_rate, size)
    if "latency" in settings.parts:
        for size in planning.latency_sizes(settings):
            _run_latency(suite, size)
    if "burst" in settings.parts:
        for size in planning.burst_sizes(settings):
            suite.run_part(f"burst {size}", _bursts, size)
    return suite.result()


def _overload(suite: _Suite, name: OverloadName) -> None:
    settings = suite.settings
    size = max(settings.sizes_bytes) if name == "throughput" else min(settings.sizes_bytes)
    trial_s, repeats = settings.overload_trial_s, settings.overload_repeats
    suite.overload.append(overload(suite.log, name, suite.limit((size,)), trial_s, repeats))


def _search(suite: _Suite, name: str, sizes_bytes: tuple[int, ...]) -> None:
    limit, goals = suite.limit(sizes_bytes), suite.settings.goals
    found = search_size(suite.log, name, limit, goals, planning.plan_search(goals).budget(suite.overhead_s))
    suite.sizes.append(found)
    if found.max_load.pps < limit.max_load.pps:
        suite.limits[sizes_bytes] = limit.lowered(found.max_load.pps / limit.max_load.pps)


def _loss_rate(suite: _Suite, size: int) -> None:
    trial_s, step = suite.settings.loss_rate_trial_s, suite.settings.loss_rate_step
    suite.loss_rates.append(measure_loss_rate(suite.log, str(size), suite.limit((size,)), trial_s, step))


def _run_latency(suite: _Suite, size: int) -> None:
    found = next((one for one in suite.sizes if one.name == str(size)), None)
    base = base_rate(found) if found else None
    if suite.parts is None:
        return
    if found is None or base is None:
        suite.doubts.append(f"{size}: delays were not measured, since no loss-free rate was found")
        return
    suite.run_part(f"latency {size}", _latency, found, *base)


def _latency(suite: _Suite, found: SizeFinding, base: str, base_pps: float) -> None:
    settings, limit = suite.settings, suite.limit(found.sizes_bytes)
    rates = [
        (fraction, limit.rates(fraction * base_pps)) for fraction in settings.latency_fractions
    ] * settings.latency_repeats
    suite.latency.extend(measure_latency(suite.log, found, rates, base, settings.latency_trial_s))


def _bursts(suite: _Suite, size: int) -> None:
    longest_s, repeats = suite.settings.burst_longest_s, suite.settings.burst_repeats
    at_most_s = next(one.at_most_s or one.expected_s for one in suite.plan if one.trial == suite.part) - longest_s
    suite.bursts.append(find_bursts(suite.log, str(size), suite.limit((size,)), longest_s, repeats, at_most_s))


def _doubts(suite: _Suite) -> list[str]:
    """Return the doubts about the findings."""
    doubts = [
        f"{size.name}: the rate without loss is above the one with half a percent of loss"
        for size in suite.sizes
        if size.in_order is False
    ]
    sizes = {size.name: size for size in suite.sizes}
    for burst in suite.bursts:
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
    if suite.latency and all(one.typical_s is None and one.refusal is None for one in suite.latency):
        doubts.append("delays are not known: the ports have no clock in common")
    return doubts
