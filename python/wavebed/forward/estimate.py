"""What trials show of the machine and the device: steady, disturbed or hindered (see `wavebed.forward.plan`)."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec.structs import replace

from wavebed.forward.frames import Headers
from wavebed.forward.model import Ceiling, Refusal, blank_trial
from wavebed.forward.search import search_size
from wavebed.forward.trials import DISTURBED, LOAD_FRACTION, TrialLog, load_limit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wavebed.forward.model import ForwardTrial
    from wavebed.forward.search import SearchBudget
    from wavebed.forward.settings import GoalSettings

State: TypeAlias = Literal["steady", "disturbed", "hindered"]

PRIOR: dict[State, float] = {"steady": 0.5, "disturbed": 0.4, "hindered": 0.1}
"""Probabilities before the first trial."""
CLEAN: dict[State, float] = {"steady": 0.98, "disturbed": 0.35, "hindered": 0.35}
LATE: dict[State, float] = {"steady": 0.01, "disturbed": 0.1, "hindered": 0.5}
"""Probabilities that a trial before the searches loses nothing more than its like, and that many frames left late."""
_SPREAD = 0.04
"""A trial whose frames arrive at a rate that differs more from the highest of like trials shows a disturbance."""
_UNPACED_CLEAN = 0.5
"""Pauses of the device show less under overload: a trial as fast as it goes that shows none counts less."""
_LATEST_NS = 1_500_000
"""A frame that left later shows a pause of the tester. Steady ones: 0.1 to 0.6 ms; disturbed ones: 2 to 16 ms."""
_HINDERED = 0.8
"""A search was hindered if a larger part of its trials was refused."""
_SEARCH_TRIALS = 2
"""A search counts as this many trials: the load of a machine comes and goes."""
_LATE_BATCHES = 0.35
"""Fraction of late batches above which the tester's processor had too little time."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the trials before the searches show of the machine and the device.

    Parameters
    ----------
    clean, disturbed : float
        Trials that show no disturbance, and those that show one.
    on_time, late : float
        Trials at a given rate whose frames left on time, and trials with many late frames.
    """

    clean: float = 0
    disturbed: float = 0
    on_time: float = 0
    late: float = 0

    @classmethod
    def of(cls, trials: Iterable[ForwardTrial]) -> Evidence:
        """Return the evidence of trials; of the trials of a search, whether most of them were refused."""
        like: dict[tuple[str, float | None, float], list[ForwardTrial]] = {}
        searches: dict[str, list[bool]] = {}
        for trial in trials:
            if trial.purpose.startswith("search "):
                searches.setdefault(trial.purpose, []).append(bool(trial.refusals))
            else:
                like.setdefault((trial.purpose, trial.offered_pps, trial.duration_s), []).append(trial)
        found = {True: 0.0, False: 0.0}
        late = {True: 0, False: 0}
        for refused in searches.values():
            late[fmean(refused) > _HINDERED] += _SEARCH_TRIALS
        for (_, offered_pps, _), group in like.items():
            best = max(trial.received_pps for trial in group)
            varied = max(trial.loss_ratio for trial in group) > 2 * min(trial.loss_ratio for trial in group)
            for trial in group:
                loses = varied and trial.loss_ratio > 0
                disturbed = loses or trial.received_pps < (1 - _SPREAD) * best or _has_paused(trial)
                found[disturbed] += 1 if disturbed or offered_pps is not None else _UNPACED_CLEAN
                if offered_pps is not None:
                    late[_is_late(trial)] += 1
        return cls(found[False], found[True], late[False], late[True])

    def __add__(self, other: Evidence) -> Evidence:
        """Return both together; what is older counts half."""
        return Evidence(
            clean=self.clean / 2 + other.clean,
            disturbed=self.disturbed / 2 + other.disturbed,
            on_time=self.on_time / 2 + other.on_time,
            late=self.late / 2 + other.late,
        )

    def weights(self) -> dict[State, float]:
        """Return the probability of each state."""
        logarithms = {state: self._log_likelihood(state) + math.log(prior) for state, prior in PRIOR.items()}
        highest = max(logarithms.values())
        likely = {state: math.exp(one - highest) for state, one in logarithms.items()}
        total = sum(likely.values())
        return {state: one / total for state, one in likely.items()}

    def _log_likelihood(self, state: State) -> float:
        clean, late = CLEAN[state], LATE[state]
        return (
            self.clean * math.log(clean)
            + self.disturbed * math.log(1 - clean)
            + self.late * math.log(late)
            + self.on_time * math.log(1 - late)
        )


UNKNOWN = Evidence()
"""Before the first trial."""


def _has_paused(trial: ForwardTrial) -> bool:
    refused = any(one.code in DISTURBED for one in trial.refusals)
    return refused or (trial.send is not None and trial.send.late_max_ns > _LATEST_NS)


def _is_late(trial: ForwardTrial) -> bool:
    if trial.send is None or not trial.send.batches:
        return any(one.code == "late" for one in trial.refusals)
    return trial.send.late_batches > _LATE_BATCHES * trial.send.batches


REHEARSALS: dict[State, int] = {"steady": 24, "disturbed": 32, "hindered": 4}
MEASURED: dict[State, float] = {"steady": 1.0, "disturbed": 1.2, "hindered": 1.0}
"""Mean time of measured searches over the mean time of rehearsed ones."""

NOMINAL_PPS = 1e6
"""Any rate: the search works in ratios of loads."""
_NOISES = {"steady": (0.0, 0.002, 0.01), "disturbed": (0.02,), "hindered": (0.02,)}
"""Standard deviations of a device's capacity from trial to trial."""
_PAUSES_PER_S = (5.0, 30.0)
_SHORTEST_PAUSE_S = 0.0015
_LONGEST_PAUSE_S = 0.1
_PAUSE_SHAPE = 1.5
"""Exponent of the Pareto distribution of pauses."""
_ROOM_FRAMES = 1000
"""An idle device keeps this many frames of a pause: the queue of a Linux processor (net.core.netdev_max_backlog)."""

_NEAR_DECADES, _LEAST_NEAR = 0.12, 1e-3
"""Devices count by a normal curve over the logarithm of their capacity, and never for nothing."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """One rehearsed search.

    Parameters
    ----------
    capacity : float
        Of the device, as a fraction of the highest load.
    traffic_s : tuple of float
        Seconds of traffic up to the end of each trial.
    refused : tuple of int
        Trials refused up to there.
    """

    state: State
    capacity: float
    traffic_s: tuple[float, ...]
    refused: tuple[int, ...]

    @property
    def trials(self) -> int:
        """Number of trials."""
        return len(self.traffic_s)

    def took_s(self, overhead_s: float, trials: int | None = None) -> float:
        """Return the seconds of the search, or of its first `trials` trials."""
        count = self.trials if trials is None else trials
        return MEASURED[self.state] * (self.traffic_s[count - 1] + count * overhead_s) if count else 0.0


class _Device:
    """A simulated tester with a device: frames above its capacity are lost, and frames of pauses beyond its queue."""

    def __init__(self, state: State, number: int, overhead_s: float) -> None:
        draw = random.Random(f"{state} {number}")  # noqa: S311 - a simulation
        steady = state == "steady"
        self.draw, self.overhead_s = draw, overhead_s
        # Within a decade and a half of the highest load, where devices worth a test are; one in eight exceeds it.
        lowest, highest = (-1.4, 0.2) if steady else (-1.0, -0.2)
        place = (number + 0.5) / REHEARSALS[state]
        self.capacity = 10 ** (lowest + place * (highest - lowest))
        self.capacity_pps = NOMINAL_PPS * self.capacity
        self.noise = _NOISES[state][number % len(_NOISES[state])]
        low, high = _PAUSES_PER_S
        self.pauses_per_s = 0.0 if steady else low * (high / low) ** draw.random()
        self.late = {"steady": 0.0, "disturbed": draw.random(), "hindered": 1.0}[state]
        """Probability that the tester does not keep the pace of the highest load; of a lower one it is lower."""
        self.hindered = state == "hindered"
        self.traffic_s: list[float] = []
        self.refused: list[int] = []

    def clock(self) -> float:
        """Return the seconds so far."""
        return (self.traffic_s[-1] if self.traffic_s else 0.0) + len(self.traffic_s) * self.overhead_s

    def calibrate(self, sizes_bytes: Sequence[int]) -> Ceiling:
        """Return a ceiling with which the highest load is the nominal one."""
        return Ceiling(tuple(sizes_bytes), NOMINAL_PPS / LOAD_FRACTION, "", "")

    def trial(
        self, purpose: str, sizes_bytes: Sequence[int], offered_pps: float | None, duration_s: float, sample: int = 0
    ) -> ForwardTrial:
        """Draw the outcome of a trial."""
        del sample
        pps = NOMINAL_PPS if offered_pps is None else offered_pps
        sent = int(pps * duration_s)
        capacity = self.capacity_pps * (1 + self.noise * self.draw.gauss(0, 1))
        lost = max(0, sent - int(capacity * duration_s)) + self._lost_in_pauses(pps, duration_s)
        late = self.hindered or self.draw.random() < self.late * pps / NOMINAL_PPS
        self.traffic_s.append((self.traffic_s[-1] if self.traffic_s else 0.0) + duration_s)
        self.refused.append((self.refused[-1] if self.refused else 0) + late)
        lost = min(lost, sent)
        return replace(
            blank_trial(purpose, tuple(sizes_bytes), offered_pps, duration_s),
            sent=sent,
            received=sent - lost,
            lost=lost,
            sent_pps=pps,
            refusals=(Refusal("late", "rehearsed"),) if late else (),
        )

    def _lost_in_pauses(self, pps: float, duration_s: float) -> int:
        if not self.pauses_per_s:
            return 0
        room = _ROOM_FRAMES * max(0.0, 1 - pps / self.capacity_pps)
        lost, at_s = 0, self.draw.expovariate(self.pauses_per_s)
        while at_s < duration_s:
            pause_s = min(_SHORTEST_PAUSE_S * self.draw.paretovariate(_PAUSE_SHAPE), _LONGEST_PAUSE_S)
            lost += max(0, int(pause_s * pps - room))
            at_s += self.draw.expovariate(self.pauses_per_s)
        return lost


def rehearse(goals: Sequence[GoalSettings], budget: SearchBudget) -> tuple[Rehearsal, ...]:
    """Return searches for these goals, within this budget, on devices of every state."""
    return tuple(
        _rehearse(goals, budget, state, number) for state, count in REHEARSALS.items() for number in range(count)
    )


def _rehearse(goals: Sequence[GoalSettings], budget: SearchBudget, state: State, number: int) -> Rehearsal:
    device = _Device(state, number, budget.overhead_s)
    limit = load_limit(None, device.calibrate((64,)), Headers())
    search_size(TrialLog(device, device.clock), "rehearsed", limit, goals, budget)
    return Rehearsal(state, device.capacity, tuple(device.traffic_s), tuple(device.refused))


def expected(
    rehearsals: Sequence[Rehearsal], evidence: Evidence, overhead_s: float, capacity: float | None = None
) -> float:
    """Return the seconds that a search is expected to take.

    Parameters
    ----------
    capacity : float or None
        The fraction of the highest load that the device forwards under overload; ``None``: not known.
    """
    weights = _weights(rehearsals, evidence, capacity)
    return sum(weight * one.took_s(overhead_s) for weight, one in zip(weights, rehearsals, strict=True))


def left(
    rehearsals: Sequence[Rehearsal],
    evidence: Evidence,
    overhead_s: float,
    capacity: float | None = None,
    *,
    traffic_s: float,
    trials: int,
    refused: int,
) -> float:
    """Return the seconds that a search still takes after this many trials: as the rehearsals that went like it.

    Parameters
    ----------
    traffic_s : float
        Its traffic so far.
    trials, refused : int
        Its trials so far, and how many of them were refused.
    """
    total = weighed_s = 0.0
    for likely, one in zip(_weights(rehearsals, evidence, capacity), rehearsals, strict=True):
        if one.trials <= trials:
            continue
        behind_s = one.traffic_s[trials - 1] if trials else 0.0
        apart = abs((one.refused[trials - 1] if trials else 0) - refused) / (1 + 0.1 * trials)
        apart += abs(behind_s - traffic_s) / (1 + 0.15 * traffic_s)
        weight = likely * math.exp(-apart)
        total += weight
        weighed_s += weight * (one.took_s(overhead_s) - one.took_s(overhead_s, trials))
    if total:
        return weighed_s / total
    # Longer than every rehearsed one: it ends soon.
    return overhead_s + median(one.traffic_s[-1] / one.trials for one in rehearsals)


def _weights(rehearsals: Sequence[Rehearsal], evidence: Evidence, capacity: float | None) -> list[float]:
    """Return the probability of each rehearsal; devices of about the same capacity are likelier.

    One that forwards the highest load in spite of pauses is as steady for the search, which ends at that load.
    """
    if capacity is not None and capacity >= 1:
        ended = [one.state == "steady" and one.capacity >= 1 for one in rehearsals]
        return [one / sum(ended) for one in ended]
    near = [1.0 if capacity is None else _near(one.capacity, capacity) for one in rehearsals]
    sums: dict[State, float] = dict.fromkeys(REHEARSALS, 0.0)
    for one, weight in zip(rehearsals, near, strict=True):
        sums[one.state] += weight
    states = evidence.weights()
    return [states[one.state] * weight / sums[one.state] for one, weight in zip(rehearsals, near, strict=True)]


def _near(rehearsed: float, capacity: float) -> float:
    return max(math.exp(-0.5 * (math.log10(rehearsed / capacity) / _NEAR_DECADES) ** 2), _LEAST_NEAR)
