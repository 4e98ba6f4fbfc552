"""What trials show of the machine and the device: steady, disturbed or hindered (see `wavebed.forward.rehearsal`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Literal, TypeAlias

from wavebed.forward.trials import DISTURBED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wavebed.forward.model import Trial

__all__ = ["UNKNOWN", "Evidence", "State"]

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
"""A search of which more trials were refused was hindered."""
_SEARCH_TRIALS = 2
"""A search counts as so many trials: the load of a machine comes and goes."""
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
        Trials at a given rate whose frames left on time, and those of which many left late.
    """

    clean: float = 0
    disturbed: float = 0
    on_time: float = 0
    late: float = 0

    @classmethod
    def of(cls, trials: Iterable[Trial]) -> Evidence:
        """Return the evidence of trials; of those of a search, whether most of them were refused."""
        like: dict[tuple[str, float | None, float], list[Trial]] = {}
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


def _has_paused(trial: Trial) -> bool:
    refused = any(one.code in DISTURBED for one in trial.refusals)
    return refused or (trial.send is not None and trial.send.late_max_ns > _LATEST_NS)


def _is_late(trial: Trial) -> bool:
    if trial.send is None or not trial.send.batches:
        return any(one.code == "late" for one in trial.refusals)
    return trial.send.late_batches > _LATE_BATCHES * trial.send.batches
