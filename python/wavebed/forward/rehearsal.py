"""Searches on simulated devices, by which the time of a real search is expected before and while it runs.

A device and its tester are steady, disturbed or hindered. On a machine with processors of its own, rates differ by a
percent from trial to trial, and a search takes few trials. On a machine that shares its processors, programs pause for
milliseconds: trials of one load disagree, and the search looks around at all loads. Where processors are busy, the
tester keeps no pace, and the search ends when its repeats are used up. The pauses are drawn so that rehearsed searches
take about as many trials as measured ones (docs/development/forwarding-times.md).
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from msgspec.structs import replace

from wavebed.forward.arithmetic import Headers
from wavebed.forward.model import Ceiling, Refusal, blank_trial
from wavebed.forward.search import search_size
from wavebed.forward.trials import LOAD_FRACTION, TrialLog, load_limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.forward.evidence import Evidence, State
    from wavebed.forward.model import Trial
    from wavebed.forward.search import SearchBudget
    from wavebed.forward.settings import GoalSettings

__all__ = ["NOMINAL_PPS", "Rehearsal", "expected", "left", "rehearse"]

REHEARSALS: dict[State, int] = {"steady": 24, "disturbed": 32, "hindered": 4}
MEASURED: dict[State, float] = {"steady": 1.0, "disturbed": 1.2, "hindered": 1.0}
"""Mean time of measured searches over that of rehearsed ones."""

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
"""An idle device keeps so many frames of a pause: the queue of a Linux processor (net.core.netdev_max_backlog)."""

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
        """Return the seconds of the search, or of so many of its first trials."""
        count = self.trials if trials is None else trials
        return MEASURED[self.state] * (self.traffic_s[count - 1] + count * overhead_s) if count else 0.0


class _Device:
    """A simulated tester with a device: frames above its capacity are lost, and those of pauses beyond its queue."""

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
    ) -> Trial:
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
    """Return the seconds that a search which has made so many trials still takes: as those that went like it.

    Parameters
    ----------
    traffic_s : float
        Its traffic so far.
    trials, refused : int
        Its trials so far, and those of them that were refused.
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
