"""The whole test of one device: every part in its order, and the record of the findings."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from wavebed.experiment.events import CheckFailed, LoadMeasured, Part, RunPlanned, StepBegun, TrialBegun, TrialStored
from wavebed.forward import plan as planning
from wavebed.forward.burst import find_bursts
from wavebed.forward.findings import DeviceResult, PartTime
from wavebed.forward.load_latency import base_rate, measure_latency
from wavebed.forward.loss_rate import measure_loss_rate
from wavebed.forward.overload import overload
from wavebed.forward.search import search_size
from wavebed.forward.trials import DISTURBED, ENDING, OVERHEAD_S, Tester, TrialLog, distinct, load_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wavebed.experiment.events import Event
    from wavebed.forward.arithmetic import Rates
    from wavebed.forward.findings import (
        BurstFinding,
        LatencyFinding,
        LossRateFinding,
        OverloadFinding,
        SizeFinding,
    )
    from wavebed.forward.model import Binding, FrameSpec, PortInfo, Refusal, Trial
    from wavebed.forward.plan import Plan, Span
    from wavebed.forward.settings import ForwardSettings
    from wavebed.forward.trials import LoadLimit
    from wavebed.result.model import Verdict

__all__ = ["About", "link_speed_mbps", "run_suite"]

WARM_UP_TRIALS = 4
WARM_UP_SHARE = 0.1
"""Of the highest load: enough to fill a device's tables, too little for most to lose anything."""
MADE_UP_SPEED = frozenset({"veth", "tun", "dummy", "bridge"})
"""Drivers of interfaces that have no speed, whatever they say."""
HIDDEN_SHARE = 0.005
"""Overload that a buffer hides from a goal's trials is worth a doubt from here on: the width of the search."""


@dataclass(frozen=True, slots=True)
class About:
    """What the record says of the device and of the tester; see `DeviceResult`."""

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
    """Return the speed of the link: as asked, or what both ports say; ``None`` for interfaces that have none."""
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
    link_mbps: float | None
    overhead_s: float = OVERHEAD_S
    plan: Plan = field(default_factory=lambda: planning.Plan(()))
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
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    began_s: float = 0.0
    keep: Callable[[DeviceResult], None] = lambda _: None

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
            )
        )
        for one in trial.refusals:
            self.emit(CheckFailed(trial=self.part, code=one.code, severity="invalid", evidence=one.reason))

    def ended(self) -> bool:
        """Return whether a trial showed that no further one can count."""
        return any(one.code in ENDING for one in self.refusals)

    def warm_up(self) -> None:
        """Send some traffic before anything is measured, learn what a trial costs, and plan."""
        self.part = "warm-up"
        self.emit(StepBegun(step=self.part, left_s=self.settings.warm_up_s))
        smallest = (min(self.settings.sizes_bytes),)
        pps = WARM_UP_SHARE * self.limit(smallest).max_load.pps
        for _ in range(WARM_UP_TRIALS):
            duration_s = self.settings.warm_up_s / WARM_UP_TRIALS
            place = self.log.make("warm-up", smallest, pps, duration_s)
            # Whatever else speaks against a trial is found again by those that are judged.
            self.refusals += [one for one in self.log.trials[place].refusals if one.code in ENDING]
            if self.refusals:
                break
        self.overhead_s = self.log.overhead_s
        self.plan = planning.plan(self.settings, self.overhead_s)
        if not self.refusals:
            parts = tuple(Part(one.name, one.span.expected_s, one.span.at_most_s) for one in self.plan.items)
            span = self.plan.span
            self.emit(RunPlanned(trials=len(parts), expected_s=span.expected_s, at_most_s=span.at_most_s, parts=parts))

    def run_part(self, name: str, make: Callable[[Span], None]) -> None:
        """Run one part, if the test has not ended, and keep its time."""
        if self.ended():
            return
        self.part = name
        span = self.plan.of(name)
        number = len(self.times) + 1
        left_s = self.plan.rest(tuple(self.times)).expected_s
        self.emit(TrialBegun(trial=name, number=number, trials=len(self.plan.items), left_s=left_s))
        began_s, before = self.log.clock(), len(self.log.trials)
        make(span)
        made = self.log.trials[before:]
        took_s = self.log.clock() - began_s
        self.times[name] = PartTime(name, span.expected_s, span.at_most_s, took_s, len(made))
        self.refusals += [one for trial in made for one in trial.refusals if one.code not in DISTURBED]
        self.keep(self.result())
        verdict, reasons = _verdict(made)
        self.emit(TrialStored(trial=name, number=number, verdict=verdict, wall_s=took_s, reasons=reasons))

    def result(self) -> DeviceResult:
        """Return what has been found so far."""
        about = self.about
        planned = [PartTime(item.name, item.span.expected_s, item.span.at_most_s) for item in self.plan.items]
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
            plan=tuple(self.times.get(one.name, one) for one in planned),
            machine=about.machine,
        )


def _verdict(made: Sequence[Trial]) -> tuple[Verdict, tuple[str, ...]]:
    """Return what the journal says of a part: invalid if no trial of it counts, suspect if a refusal remains."""
    refusals = distinct([one for trial in made for one in trial.refusals if one.code not in DISTURBED])
    if made and all(trial.refusals for trial in made):
        return "invalid", tuple(one.reason for one in distinct([one for trial in made for one in trial.refusals]))
    return ("suspect" if refusals else "valid"), tuple(one.reason for one in refusals)


def run_suite(
    tester: Tester,
    settings: ForwardSettings,
    about: About,
    emit: Callable[[Event], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
    sample: int = 16,
    keep: Callable[[DeviceResult], None] | None = None,
) -> DeviceResult:
    """Put one device through all parts of the settings.

    Parameters
    ----------
    tester : Tester
        Prepared, with the device between its ports.
    emit : callable, optional
        Told of each event.
    clock : callable
        Seconds since whenever; another one in tests.
    sample : int
        Frames kept as they arrived, of the first trial of each size.
    keep : callable, optional
        Given what has been found so far, before the first trial and after each part.
    """
    link = link_speed_mbps(settings, about.transmitter, about.receiver)
    suite = _Suite(settings, about, TrialLog(tester, clock, sample=sample), emit or (lambda _: None), link)
    suite.began_s = clock()
    suite.log.heard = suite.heard
    suite.keep = keep or suite.keep
    suite.keep(suite.result())
    suite.warm_up()
    if not suite.refusals:
        _run_parts(suite)
    return suite.result()


def _run_parts(suite: _Suite) -> None:
    settings = suite.settings
    if "overload" in settings.parts:
        for name in planning.overload_names(settings):
            size = max(settings.sizes_bytes) if name == "throughput" else min(settings.sizes_bytes)

            def offer(_span: Span, name: planning.OverloadName = name, size: int = size) -> None:
                repeats = settings.overload_repeats
                finding = overload(suite.log, name, suite.limit((size,)), settings.overload_trial_s, repeats)
                suite.overload.append(finding)

            suite.run_part(name, offer)
    _run_searches(suite)
    if "loss-rate" in settings.parts:
        for size in planning.loss_rate_sizes(settings):

            def lower(_span: Span, size: int = size) -> None:
                limit, step = suite.limit((size,)), settings.loss_rate_step
                suite.loss_rates.append(
                    measure_loss_rate(suite.log, str(size), limit, settings.loss_rate_trial_s, step)
                )

            suite.run_part(f"loss-rate {size}", lower)
    if "latency" in settings.parts:
        _run_latency(suite)
    if "burst" in settings.parts:
        _run_bursts(suite)


def _run_searches(suite: _Suite) -> None:
    settings = suite.settings
    budget = planning.plan_search(settings.goals).budget(suite.overhead_s)
    for name, sizes_bytes in planning.searched(settings).items():

        def search(_span: Span, name: str = name, sizes_bytes: tuple[int, ...] = sizes_bytes) -> None:
            limit = suite.limit(sizes_bytes)
            found = search_size(suite.log, name, limit, settings.goals, budget)
            suite.sizes.append(found)
            if found.max_load.pps < limit.max_load.pps:
                suite.limits[sizes_bytes] = limit.lowered(found.max_load.pps / limit.max_load.pps)

        suite.run_part(f"search {name}", search)


def _run_latency(suite: _Suite) -> None:
    settings = suite.settings
    by_name = {size.name: size for size in suite.sizes}
    for size in planning.latency_sizes(settings):
        found = by_name.get(str(size))
        base = base_rate(found) if found else None
        if found is None or base is None:
            suite.doubts.append(f"{size}: delays were not measured, since no loss-free rate was found")
            continue
        name, pps = base
        limit = suite.limit((size,))
        rates = [(share, limit.rates(share * pps)) for share in settings.latency_shares] * settings.latency_repeats

        def measure(
            _span: Span, found: SizeFinding = found, rates: list[tuple[float, Rates]] = rates, name: str = name
        ) -> None:
            suite.latency.extend(measure_latency(suite.log, found, rates, name, settings.latency_trial_s))

        suite.run_part(f"latency {size}", measure)


def _run_bursts(suite: _Suite) -> None:
    settings = suite.settings
    for size in planning.burst_sizes(settings):

        def burst(span: Span, size: int = size) -> None:
            limit, repeats = suite.limit((size,)), settings.burst_repeats
            longest_s = settings.burst_longest_s
            finding = find_bursts(suite.log, str(size), limit, longest_s, repeats, span.at_most_s - longest_s)
            suite.bursts.append(finding)

        suite.run_part(f"burst {size}", burst)


def _doubts(suite: _Suite) -> list[str]:
    """Return what to keep in mind."""
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
            if hidden > HIDDEN_SHARE:
                doubts.append(
                    f"{burst.name}: the device's buffer of {held:,.0f} frames hides up to"
                    f" {hidden:.1%} of overload from the {goal.goal.final_trial_s:g} s trials of {goal.goal.name}"
                )
    if suite.latency and all(one.typical_s is None and one.refusal is None for one in suite.latency):
        doubts.append("delays are not known: the ports have no clock in common")
    return doubts
