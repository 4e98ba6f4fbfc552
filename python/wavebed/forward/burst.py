"""The longest burst that a device takes without loss (RFC 2544, section 26.4), and the buffer it shows (RFC 9004)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2, sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from wavebed.forward.findings import BurstFinding
from wavebed.forward.model import Refusal
from wavebed.forward.trials import DISTURBED

if TYPE_CHECKING:
    from collections.abc import Callable

    from wavebed.forward.trials import LoadLimit, TrialLog

__all__ = ["RESOLUTION", "find_bursts", "longest_passing", "most_steps"]

RESOLUTION = 0.01
"""A burst is known to one percent, or to the frame."""
BRACKET = 1.15
"""A repeat looks this far around the last one first."""
REPEATS = 20
"""Trials in which the tester was disturbed are repeated so many times in all."""


class _EndedError(Exception):
    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


class _NoTimeError(Exception):
    """The repeats took the time they had."""


@dataclass(slots=True)
class _Bursts:
    """Sends bursts and counts lost frames."""

    trials: TrialLog
    name: str
    limit: LoadLimit
    at_most_s: float
    took_s: float = 0.0
    places: list[int] | None = None
    repeats: int = 0

    def passes(self, frames: int) -> bool:
        """Send a burst of so many frames, and say whether all arrived."""
        while True:
            place = self.send(frames)
            trial = self.trials.trials[place]
            if not trial.refusals:
                return trial.lost == 0
            if self.repeats == REPEATS or any(one.code not in DISTURBED for one in trial.refusals):
                raise _EndedError(trial.refusals[0])
            self.repeats += 1

    def send(self, frames: int) -> int:
        if self.took_s >= self.at_most_s:
            raise _NoTimeError
        pps = self.limit.max_load.pps
        place = self.trials.make(f"burst {self.name}", self.limit.sizes_bytes, pps, frames / pps)
        self.took_s += self.trials.wall_s[place]
        self.places = [*(self.places or []), place]
        return place


def longest_passing(passes: Callable[[int], bool], failing: int, guess: int | None) -> int:
    """Return the longest length that passes, to one percent or to the one; 0 if none does.

    Parameters
    ----------
    failing : int
        A length that does not pass.
    guess : int or None
        Where to look first.
    """
    low, high = 0, failing
    if guess:
        low, high = _bracket(passes, failing, guess)
    while high - low > max(1, int(RESOLUTION * high)):
        middle = int(sqrt(max(low, 1) * high)) if high > 2 * max(low, 1) else (low + high) // 2
        middle = min(max(middle, low + 1), high - 1)
        if passes(middle):
            low = middle
        else:
            high = middle
    return low


def _bracket(passes: Callable[[int], bool], failing: int, guess: int) -> tuple[int, int]:
    """Return a length that passes (or 0) and one that does not, near the guess."""
    low, high = 0, failing
    factor = BRACKET
    at = max(1, int(guess / sqrt(BRACKET)))
    while low < at < high:
        if passes(at):
            low = at
            at = max(at + 1, int(at * factor))
        else:
            high = at
            at = min(at - 1, int(at / factor))
        if low and high < failing:
            break
        factor *= factor
    return low, high


def most_steps(longest: int) -> int:
    """Return how many bursts the first search needs: halvings of the range's logarithm, and of its last factor of 2."""
    if longest <= 2:
        return 2
    return ceil(log2(log2(longest))) + ceil(log2(1 / RESOLUTION)) + 1


def find_bursts(
    trials: TrialLog, name: str, limit: LoadLimit, longest_s: float, repeats: int, at_most_s: float
) -> BurstFinding:
    """Search the longest burst without loss, again and again, and compute the buffer from their mean.

    The rate at which the buffer empties meanwhile is that of the longest burst, in which the device is overloaded
    all the time.

    Parameters
    ----------
    longest_s : float
        The longest burst tried; where the device forwards that, no buffer shows (RFC 9004, section 4).
    at_most_s : float
        When this time is up, the mean is of the repeats made so far.
    """
    bursts = _Bursts(trials, name, limit, at_most_s)
    longest = max(2, round(limit.max_load.pps * longest_s))
    lengths: list[int] = []
    refusal: Refusal | None = None
    unlimited = False
    arrived: float | None = None
    try:
        unlimited = bursts.passes(longest)
        arrived = trials.trials[(bursts.places or [])[-1]].received_pps
        while not unlimited and len(lengths) < repeats:
            lengths.append(longest_passing(bursts.passes, longest, lengths[-1] if lengths else None))
    except _EndedError as error:
        refusal = error.refusal
        lengths = []
    except _NoTimeError:
        if not lengths:
            reason = f"no burst was found within {at_most_s:.0f} s"
            refusal = Refusal("unsteady", reason, "leave the device alone while it is tested")
    return _finding(bursts, longest, lengths, unlimited=unlimited, arrived_pps=arrived, refusal=refusal)


def _emptying_pps(arrived_pps: float, offered_pps: float, burst: float, longest: int) -> float:
    """Return the rate F at which the buffer empties, from the frames that arrived of the longest burst.

    The buffer still held burst · (1 - F / offered) frames when that burst of L frames ended, and they arrived too, in
    the time L / offered. Solved for F.
    """
    held = burst / longest
    return (arrived_pps - held * offered_pps) / (1 - held) if held < 1 else arrived_pps


def _finding(
    bursts: _Bursts,
    longest: int,
    lengths: list[int],
    *,
    unlimited: bool,
    arrived_pps: float | None,
    refusal: Refusal | None,
) -> BurstFinding:
    limit = bursts.limit
    offered = limit.max_load.pps
    mean = fmean(lengths) if lengths else None
    implied = mean / offered if mean is not None else None
    forwarding = corrected = None
    if arrived_pps is not None and refusal is None:
        forwarding = _emptying_pps(arrived_pps, offered, mean or 0.0, longest)
        corrected = implied * max(0.0, 1 - forwarding / offered) if implied is not None else None
    return BurstFinding(
        name=bursts.name,
        sizes_bytes=limit.sizes_bytes,
        offered=limit.max_load,
        limited_by=limit.limited_by,
        longest_frames=longest,
        lengths_frames=tuple(lengths),
        mean_frames=mean,
        deviation_frames=stdev(lengths) if len(lengths) > 1 else None,
        unlimited=unlimited and refusal is None,
        forwarding_pps=forwarding,
        implied_buffer_s=implied,
        corrected_buffer_s=corrected,
        corrected_buffer_frames=corrected * offered if corrected is not None else None,
        refusal=refusal,
        trials=tuple(bursts.places or ()),
    )
