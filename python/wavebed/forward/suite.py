"""The whole test of one device: its parts in their order, and the findings so far after each.

`wavebed.forward.plan` has the times of the parts, `wavebed.forward.parts` and `wavebed.forward.search` make them, and
`wavebed.forward.result` judges what they found.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from wavebed.forward import plan as planning
from wavebed.forward.parts import base_rate, find_bursts, measure_latency, measure_loss_rate, overload
from wavebed.forward.result import DeviceResult, PartTime, doubts_of, part_verdict
from wavebed.forward.search import search_size
from wavebed.forward.trials import DISTURBED, ENDING, LoadLimits, TrialLog, distinct
from wavebed.store.journal import CheckFailed, LoadMeasured, PlannedTrials, StepBegun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wavebed.forward.model import Binding, ForwardTrial, FrameSpec, PortInfo, Refusal
    from wavebed.forward.parts import BurstFinding, LatencyFinding, LossRateFinding, OverloadFinding, OverloadName
    from wavebed.forward.search import SizeFinding
    from wavebed.forward.settings import ForwardSettings
    from wavebed.forward.trials import TrialMaker
    from wavebed.store.journal import Event, PlannedPart

WARM_UP_FRACTION = 0.1
"""Fraction of the highest load: it fills a device's tables, and most devices lose nothing."""
MADE_UP_SPEED = frozenset({"veth", "tun", "dummy", "bridge"})
"""Drivers of interfaces that have no speed, whatever they say."""


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


def run_suite(
    tester: TrialMaker,
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
    tester : TrialMaker
        Prepared, with the device between its ports.
    emit : callable
        Receives each event.
    clock : callable
        Seconds since whenever; another one in tests.
    sample : int
        Frames kept as they arrived, of the first trial of each size.
    keep : callable
        Receives the findings so far, before the first trial and after each part.
    """
    limits = LoadLimits(tester, link_speed_mbps(settings, about.transmitter, about.receiver), settings.headers)
    log = TrialLog(tester, clock, sample=sample)
    suite = _Suite(settings, about, log, limits, planning.Forecast(settings, log, limits), emit, keep)
    log.heard = suite.report_trial
    keep(suite.result())
    suite.warm_up()
    for name, measure in suite.parts():
        suite.run_part(name, measure)
    return suite.result()


@dataclass(slots=True)
class _Findings:
    sizes: list[SizeFinding] = field(default_factory=list)
    overload: list[OverloadFinding] = field(default_factory=list)
    latency: list[LatencyFinding] = field(default_factory=list)
    loss_rates: list[LossRateFinding] = field(default_factory=list)
    bursts: list[BurstFinding] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


class _Suite:
    """The test while it runs."""

    def __init__(
        self,
        settings: ForwardSettings,
        about: About,
        log: TrialLog,
        limits: LoadLimits,
        forecast: planning.Forecast,
        emit: Callable[[Event], None],
        keep: Callable[[DeviceResult], None],
    ) -> None:
        self.settings, self.about, self.log, self.limits, self.forecast = settings, about, log, limits, forecast
        self.emit, self.keep = emit, keep
        self.found = _Findings()
        self.planned: tuple[PlannedPart, ...] = ()
        self.journal: PlannedTrials | None = None
        """None until the warm-up has shown that trials can count."""
        self.times: dict[str, PartTime] = {}
        self.running = ""
        self.number = 0
        """Of the part that runs; 0 before the first."""
        self.before = 0
        """Trials made before this part."""
        self.began_s = log.clock()
        self.started = datetime.now(UTC).isoformat(timespec="seconds")

    # Running

    def warm_up(self) -> None:
        """Send some traffic before anything is measured, measure the time of a trial, and plan."""
        self.running = "warm-up"
        self.emit(StepBegun(step=self.running, left_s=planning.whole_s(self.settings) - planning.PREPARE_S))
        smallest = (min(self.settings.sizes_bytes),)
        pps = WARM_UP_FRACTION * self.limits.at(smallest).max_load.pps
        for _ in range(planning.WARM_UP_TRIALS):
            place = self.log.make("warm-up", smallest, pps, self.settings.warm_up_s / planning.WARM_UP_TRIALS)
            # Whatever else speaks against a trial is found again by those that are judged.
            self.found.refusals += [one for one in self.log.trials[place].refusals if one.code in ENDING]
            if self.found.refusals:
                break
        self.forecast.overhead_s = self.log.overhead_s
        self.forecast.learn()
        self.planned = self.forecast.parts()
        if not self.found.refusals:
            self.journal = PlannedTrials(self.emit, self.planned)

    def parts(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yield each part when those before it are over: the latency test needs the rate of the search."""
        settings = self.settings
        if "overload" in settings.parts:
            for test in planning.overload_names(settings):
                yield test, partial(self._overload, test)
        for name, sizes_bytes in planning.searched(settings).items():
            yield f"search {name}", partial(self._search, name, sizes_bytes)
        if "loss-rate" in settings.parts:
            for size in planning.loss_rate_sizes(settings):
                yield f"loss-rate {size}", partial(self._loss_rate, size)
        if "latency" in settings.parts:
            for size in planning.latency_sizes(settings):
                found = next((one for one in self.found.sizes if one.name == str(size)), None)
                base = base_rate(found) if found else None
                if found and base:
                    yield f"latency {size}", partial(self._latency, found, *base)
                elif self.journal is not None:
                    self.found.doubts.append(f"{size}: delays were not measured, since no loss-free rate was found")
        if "burst" in settings.parts:
            for size in planning.burst_sizes(settings):
                yield f"burst {size}", partial(self._bursts, size)

    def run_part(self, name: str, measure: Callable[[], None]) -> None:
        """Run one part, unless a trial showed that no further one can count, and keep its time."""
        if self.journal is None or any(one.code in ENDING for one in self.found.refusals):
            return
        self.running = name
        number, part = next((number, one) for number, one in enumerate(self.planned, 1) if one.trial == name)
        self.journal.begin(number)
        began_s, self.number, self.before = self.log.clock(), number, len(self.log.trials)
        measure()
        made = self.log.trials[self.before :]
        took_s = self.log.clock() - began_s
        self.times[name] = _part_time(part, took_s, len(made))
        self.found.refusals += [one for trial in made for one in trial.refusals if one.code not in DISTURBED]
        self.keep(self.result())
        verdict, reasons = part_verdict(made)
        self.journal.stored(number, verdict, took_s, reasons)
        self.forecast.learn()
        for later, expected in enumerate(self.forecast.parts(), 1):
            self.journal.expect(later, expected.expected_s)

    def _overload(self, name: OverloadName) -> None:
        sizes = self.settings.sizes_bytes
        limit = self.limits.at((max(sizes) if name == "throughput" else min(sizes),))
        repeats = self.settings.overload_repeats
        self.found.overload.append(overload(self.log, name, limit, self.settings.overload_trial_s, repeats))

    def _search(self, name: str, sizes_bytes: tuple[int, ...]) -> None:
        limit, goals = self.limits.at(sizes_bytes), self.settings.goals
        budget = planning.plan_search(goals).budget(self.forecast.overhead_s)
        found = search_size(self.log, name, limit, goals, budget)
        self.found.sizes.append(found)
        if found.max_load.pps < limit.max_load.pps:
            self.limits.found[sizes_bytes] = limit.lowered(found.max_load.pps / limit.max_load.pps)

    def _loss_rate(self, size: int) -> None:
        trial_s, step = self.settings.loss_rate_trial_s, self.settings.loss_rate_step
        self.found.loss_rates.append(measure_loss_rate(self.log, str(size), self.limits.at((size,)), trial_s, step))

    def _latency(self, size: SizeFinding, base: str, base_pps: float) -> None:
        limit = self.limits.at(size.sizes_bytes)
        rates = [(fraction, limit.rates(fraction * base_pps)) for fraction in self.settings.latency_fractions]
        rates *= self.settings.latency_repeats
        self.found.latency.extend(measure_latency(self.log, size, rates, base, self.settings.latency_trial_s))

    def _bursts(self, size: int) -> None:
        part = self.planned[self.number - 1]
        longest_s, repeats = self.settings.burst_longest_s, self.settings.burst_repeats
        at_most_s = (part.at_most_s or part.expected_s) - longest_s
        limit = self.limits.at((size,))
        self.found.bursts.append(find_bursts(self.log, str(size), limit, longest_s, repeats, at_most_s))

    # Telling

    def report_trial(self, trial: ForwardTrial) -> None:
        """Emit the events of a trial that is over, and of all that speaks against it."""
        self.emit(
            LoadMeasured(
                trial=self.running,
                offered_pps=trial.offered_pps,
                sent=trial.sent,
                lost=trial.lost,
                refused=bool(trial.refusals),
                left_s=self._left_s(),
            )
        )
        for one in trial.refusals:
            self.emit(CheckFailed(trial=self.running, code=one.code, severity="invalid", evidence=one.reason))

    def _left_s(self) -> float | None:
        if self.journal is None or not self.number:
            return None
        ratio = self.journal.ratio(self.number)
        left_s = self.forecast.part_left_s(self.planned[self.number - 1], self.before, ratio)
        return left_s + self.journal.after_s(self.number)

    def result(self) -> DeviceResult:
        """Return the findings so far."""
        about, found = self.about, self.found
        result = DeviceResult(
            device=about.device,
            kind=about.kind,
            started=self.started,
            took_s=self.log.clock() - self.began_s,
            settings=self.settings,
            frames=about.frames,
            link_mbps=self.limits.link_mbps,
            transmitter=about.transmitter,
            receiver=about.receiver,
            sender=about.sender,
            receiver_kind=about.receiver_kind,
            probed=about.probed,
            ceilings=tuple(limit.ceiling for limit in self.limits.found.values()),
            sizes=tuple(found.sizes),
            overload=tuple(found.overload),
            latency=tuple(found.latency),
            loss_rates=tuple(found.loss_rates),
            bursts=tuple(found.bursts),
            trials=tuple(self.log.trials),
            refusals=distinct(found.refusals),
            plan=tuple(self.times.get(one.trial, _part_time(one)) for one in self.planned),
            machine=about.machine,
        )
        return replace(result, doubts=(*found.doubts, *doubts_of(result)))


def _part_time(part: PlannedPart, took_s: float | None = None, trials: int = 0) -> PartTime:
    return PartTime(part.trial, part.expected_s, part.at_most_s or part.expected_s, took_s, trials)
