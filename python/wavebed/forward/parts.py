"""The other parts of the test: overload, frame loss rate, latency, bursts. Each finding is beside its measurement."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2, sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Literal, TypeAlias

from wavebed.forward.frames import Rates
from wavebed.forward.model import PlainValue, Refusal
from wavebed.forward.trials import DISTURBED, ENDING, distinct
from wavebed.stats.intervals import Interval, median_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wavebed.forward.frames import Headers
    from wavebed.forward.model import ForwardTrial
    from wavebed.forward.search import SizeFinding
    from wavebed.forward.trials import LoadLimit, TrialLog

OverloadName: TypeAlias = Literal["throughput", "overload"]


class OverloadFinding(PlainValue, frozen=True):
    """The rate that is forwarded under overload: the study's two tests. It is not a loss-free rate.

    Parameters
    ----------
    name : str
        ``throughput`` (the largest size) or ``overload`` (the smallest).
    asked : Rates or None
        Line rate; ``None``: as fast as the tester goes, since that is less, or no link speed is known.
    sent_pps, received_pps : Interval
        Median over the repeats and its interval; the estimate is ``None`` if no repeat counts.
    loss_ratio : Interval
        Median and interval over the repeats.
    cpu_busy_max : Interval
        The device's busiest core (0 to 1), where it is known.
    refusals : tuple of Refusal
        The refusals of repeats, each kind once. If every repeat was refused, there is no number.
    trials : tuple of int
        Places in `DeviceResult.trials`, refused ones too.
    """

    name: OverloadName
    sizes_bytes: tuple[int, ...]
    asked: Rates | None
    sent_pps: Interval
    received_pps: Interval
    sent: Rates | None
    received: Rates | None
    loss_ratio: Interval
    cpu_busy_max: Interval
    refusals: tuple[Refusal, ...] = ()
    trials: tuple[int, ...] = ()


def overload(log: TrialLog, name: OverloadName, limit: LoadLimit, duration_s: float, repeats: int) -> OverloadFinding:
    """Offer line rate, or all that the tester can send where that is less or the link's speed is not known.

    Parameters
    ----------
    name : str
        ``throughput`` at the largest size, ``overload`` at the smallest.
    """
    asked = limit.line_rate if limit.limited_by == "line_rate" else None
    places = []
    for _ in range(repeats):
        places.append(log.make(name, limit.sizes_bytes, asked.pps if asked else None, duration_s))
        if any(one.code in ENDING for one in log.trials[places[-1]].refusals):
            break
    headers = limit.headers
    return overload_finding(name, limit.sizes_bytes, asked, headers, {place: log.trials[place] for place in places})


def overload_finding(
    name: OverloadName,
    sizes_bytes: tuple[int, ...],
    asked: Rates | None,
    headers: Headers,
    trials: Mapping[int, ForwardTrial],
) -> OverloadFinding:
    """Return the medians over the trials that count.

    Parameters
    ----------
    asked : Rates or None
        The rate that was offered; ``None``: all that the tester can send.
    trials : mapping of int to ForwardTrial
        By their places in the record.
    """
    counted = [one for one in trials.values() if not one.refusals]
    sent = median_interval([one.sent_pps for one in counted])
    received = median_interval([one.received_pps for one in counted])

    def rates(interval: Interval) -> Rates | None:
        return None if interval.estimate is None else Rates.of_pps(interval.estimate, sizes_bytes, headers)

    return OverloadFinding(
        name=name,
        sizes_bytes=sizes_bytes,
        asked=asked,
        sent_pps=sent,
        received_pps=received,
        sent=rates(sent),
        received=rates(received),
        loss_ratio=median_interval([one.loss_ratio for one in counted]),
        cpu_busy_max=median_interval([one.cpu["busy_max"] for one in counted if "busy_max" in one.cpu]),
        refusals=distinct([refusal for one in trials.values() for refusal in one.refusals]),
        trials=tuple(trials),
    )


class LossRateStep(PlainValue, frozen=True):
    """One step of the frame loss rate test.

    Parameters
    ----------
    fraction : float
        Of the highest load, 0 to 1.
    loss_ratio : float or None
        ``None`` if the trial was refused.
    """

    fraction: float
    offered: Rates
    received_pps: float | None
    loss_ratio: float | None
    trial: int
    refusal: Refusal | None = None


class LossRateFinding(PlainValue, frozen=True):
    """Frame loss by load (RFC 2544, section 26.3).

    Parameters
    ----------
    maximum : Rates
        100 %: line rate, or the most that the tester can offer.
    steps : tuple of LossRateStep
        From the highest load down.
    clean : bool
        Whether it ended with two trials in a row without loss.
    """

    name: str
    sizes_bytes: tuple[int, ...]
    maximum: Rates
    limited_by: Literal["line_rate", "tester"]
    steps: tuple[LossRateStep, ...]
    clean: bool


CLEAN_TRIALS = 2
"""The test ends after this many trials in a row without loss."""


def fractions(step: float) -> tuple[float, ...]:
    """Return the fractions of the highest load: 1, 1 - step, ... above 0."""
    count = int(1 / step + 1e-9)
    return tuple(round(1 - step * i, 9) for i in range(count + 1) if 1 - step * i > step / 2)


def measure_loss_rate(log: TrialLog, name: str, limit: LoadLimit, duration_s: float, step: float) -> LossRateFinding:
    """Measure the loss at 100 %, 90 %, 80 % … of the highest load until two trials in a row lose nothing.

    A trial in which the tester was disturbed is a step without a number; any other refusal ends the test.
    """
    steps: list[LossRateStep] = []
    clean = 0
    for fraction in fractions(step):
        offered = limit.rates(fraction * limit.max_load.pps)
        place = log.make(f"loss-rate {name}", limit.sizes_bytes, offered.pps, duration_s)
        trial = log.trials[place]
        if trial.refusals:
            steps.append(LossRateStep(fraction, offered, None, None, place, trial.refusals[0]))
            clean = 0
            if any(one.code not in DISTURBED for one in trial.refusals):
                break
            continue
        steps.append(LossRateStep(fraction, offered, trial.received_pps, trial.loss_ratio, place))
        clean = 0 if trial.lost else clean + 1
        if clean == CLEAN_TRIALS:
            break
    return LossRateFinding(
        name, limit.sizes_bytes, limit.max_load, limit.limited_by, tuple(steps), clean == CLEAN_TRIALS
    )


class LatencyFinding(PlainValue, frozen=True):
    """Delays of all test frames under a part of the found rate; seconds.

    Parameters
    ----------
    fraction : float
        Of `base`, 0 to 1.
    base : str
        The goal whose rate it is a fraction of: ``ndr``.
    typical_s : float or None
        The median (RFC 8219, typical latency).
    worst_s : float or None
        The 99.9th percentile (RFC 8219, worst case latency); ``None`` with fewer than 500 frames.
    min_s, mean_s, p50_s, p90_s, p99_s, p999_s, max_s : float or None
        ``None`` where there were too few frames, or clocks that cannot be compared.
    counts : tuple of (float, float, int)
        The histogram: from, below, how many.
    """

    name: str
    fraction: float
    base: str
    offered: Rates
    frames: int
    loss_ratio: float | None
    typical_s: float | None
    worst_s: float | None
    min_s: float | None
    mean_s: float | None
    p50_s: float | None
    p90_s: float | None
    p99_s: float | None
    p999_s: float | None
    max_s: float | None
    counts: tuple[tuple[float, float, int], ...]
    trial: int
    refusal: Refusal | None = None


FEWEST_FRAMES = 500
"""RFC 8219, section 7.2: this many frames are needed."""


_DELAYS = ("min_s", "mean_s", "p50_s", "p90_s", "p99_s", "p999_s", "max_s")


BASES = ("ndr", "rfc2544")
"""The goals whose rate loads are fractions of; the first that was found."""


def base_rate(size: SizeFinding) -> tuple[str, float] | None:
    """Return the goal and the rate (pps) that delays are measured under; ``None`` if the search found none.

    Where the tester could prove no more (``at_least``), it is the highest load that passed.
    """
    for name in BASES:
        goal = size.goal(name)
        if goal and goal.lower and goal.outcome in ("found", "line_rate", "at_least"):
            return name, goal.lower.offered.pps
    return None


def measure_latency(
    log: TrialLog, size: SizeFinding, rates: Sequence[tuple[float, Rates]], base: str, duration_s: float
) -> list[LatencyFinding]:
    """Measure delays under each of `rates`, given as fraction of the base and rate."""
    findings = []
    for fraction, offered in rates:
        place = log.make(f"latency {size.name}", size.sizes_bytes, offered.pps, duration_s)
        findings.append(_latency_finding(size.name, fraction, base, offered, place, log.trials[place]))
    return findings


def _latency_finding(
    name: str, fraction: float, base: str, offered: Rates, place: int, trial: ForwardTrial
) -> LatencyFinding:
    latency = trial.counters.latency if trial.counters and not trial.refusals else None
    enough = latency is not None and latency.count >= FEWEST_FRAMES
    return LatencyFinding(
        name=name,
        fraction=fraction,
        base=base,
        offered=offered,
        frames=latency.count if latency else 0,
        loss_ratio=None if trial.refusals else trial.loss_ratio,
        typical_s=latency.p50_s if latency else None,
        worst_s=latency.p999_s if latency and enough else None,
        **{name: getattr(latency, name, None) for name in _DELAYS},
        counts=latency.counts if latency else (),
        trial=place,
        refusal=trial.refusals[0] if trial.refusals else None,
    )


class BurstFinding(PlainValue, frozen=True):
    """The longest burst without loss (RFC 2544, section 26.4; RFC 9004).

    Parameters
    ----------
    offered : Rates
        The rate of the burst: line rate, or the most that the tester can offer.
    lengths_frames : tuple of int
        The longest burst without loss that each repeat found.
    mean_frames, deviation_frames : float or None
        Average of the repeats, and their standard deviation (``None`` for one repeat).
    unlimited : bool
        Whether bursts of `longest_frames` passed in every repeat: the device shows no buffer, as it forwards the
        offered rate. Buffer figures are ``None`` then.
    forwarding_pps : float or None
        The rate that the device forwards under this load for long.
    implied_buffer_s : float or None
        Average burst over its rate (RFC 9004).
    corrected_buffer_s : float or None
        The same without the frames forwarded meanwhile: implied · (1 - forwarded rate / offered rate).
    corrected_buffer_frames : float or None
        Frames the buffer holds: corrected time at the offered rate.
    """

    name: str
    sizes_bytes: tuple[int, ...]
    offered: Rates
    limited_by: Literal["line_rate", "tester"]
    longest_frames: int
    lengths_frames: tuple[int, ...]
    mean_frames: float | None
    deviation_frames: float | None
    unlimited: bool
    forwarding_pps: float | None
    implied_buffer_s: float | None
    corrected_buffer_s: float | None
    corrected_buffer_frames: float | None
    refusal: Refusal | None = None
    trials: tuple[int, ...] = ()


RESOLUTION = 0.01
"""A burst is known to one percent, or to the frame."""


BRACKET = 1.15
"""A repeat looks this far around the last one first."""


DISTURBED_REPEATS = 20
"""Trials in which the tester was disturbed are repeated this many times in all."""


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
        """Send a burst of this many frames, and say whether all arrived."""
        while True:
            place = self.send(frames)
            trial = self.trials.trials[place]
            if not trial.refusals:
                return trial.lost == 0
            if self.repeats == DISTURBED_REPEATS or any(one.code not in DISTURBED for one in trial.refusals):
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

    The rate at which the buffer empties meanwhile is taken from the longest burst: it overloads the device all the
    time.

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
    return _burst_finding(bursts, longest, lengths, unlimited=unlimited, arrived_pps=arrived, refusal=refusal)


def _emptying_pps(arrived_pps: float, offered_pps: float, burst: float, longest: int) -> float:
    """Return the rate F at which the buffer empties, from the frames that arrived of the longest burst.

    The buffer still held burst · (1 - F / offered) frames when that burst of L frames ended, and they arrived too, in
    the time L / offered. Solved for F.
    """
    held = burst / longest
    return (arrived_pps - held * offered_pps) / (1 - held) if held < 1 else arrived_pps


def _burst_finding(
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
