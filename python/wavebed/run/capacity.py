"""The capacity and the radio state of each link: the steps of its pattern in the laboratory's time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wavebed.pattern import read_trace
from wavebed.pattern.model import STATES
from wavebed.spec.network import links
from wavebed.spec.types import (
    BottleneckStage,
    ConstantDelay,
    DelayStage,
    DistributionDelay,
    OpportunitiesRate,
    PacketsRate,
    PatternDelay,
    PatternRate,
    RadioStage,
    SampledRate,
    WifiStage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from wavebed.pattern.model import Pattern
    from wavebed.spec.types import Delay, Network, Rate

__all__ = ["Steps", "capacity_steps"]

OPPORTUNITY_WINDOW_NS = 100_000_000
"""Window over which delivery opportunities are summed to a rate."""
_NO_STATE = -1


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of one link: value i holds from `time_ns[i]` until the next step.

    Parameters
    ----------
    link : str
        ``HOP.down`` or ``HOP.up``.
    time_ns : int64 array
        Since time zero, ascending, the first 0.
    rate_bps : int64 array
        Bits of IP packets per second (with a radio: of transport blocks); -1 where no rate is set.
    state : int8 array
        Place in `wavebed.pattern.model.STATES`; -1 without states.
    period_ns : int or None
        Period of the repetition; ``None`` if the steps do not repeat.
    by_radio : bool
        Whether radio retransmissions and headers use part of the rate.
    overhead_bytes : int
        Bytes of a lower layer for each packet.
    delay_ns : int
        About the longest delay from the queue to the exit of the link; 0 if a pattern sets the delay.
    packets_per_s : int or None
        The UE's limit, which has a queue of its own in the same link; ``None`` without one.
    """

    link: str
    time_ns: NDArray[np.int64]
    rate_bps: NDArray[np.int64]
    state: NDArray[np.int8]
    period_ns: int | None = None
    by_radio: bool = False
    overhead_bytes: int = 0
    delay_ns: int = 0
    packets_per_s: int | None = None

    def until(self, end_ns: int) -> Steps:
        """Return the steps up to `end_ns` with all repetitions, without equal neighbours."""
        time_ns, rate_bps, state = self.time_ns, self.rate_bps, self.state
        if self.period_ns is not None:
            times = -(-end_ns // self.period_ns) or 1
            time_ns = (np.arange(times)[:, None] * self.period_ns + time_ns[None, :]).ravel()
            rate_bps, state = np.tile(rate_bps, times), np.tile(state, times)
        keep = np.ones(len(time_ns), dtype=bool)
        keep[1:] = (np.diff(rate_bps) != 0) | (np.diff(state) != 0)
        keep &= (time_ns < end_ns) | (time_ns == 0)
        return replace(self, time_ns=time_ns[keep], rate_bps=rate_bps[keep], state=state[keep], period_ns=None)

    def rows(self) -> Iterator[tuple[float, str, int | None, str | None]]:
        """Yield time (s), link, rate (bit/s or ``None``) and state (or ``None``)."""
        for time_ns, rate_bps, state in zip(self.time_ns, self.rate_bps, self.state, strict=True):
            yield (
                int(time_ns) / 1e9,
                self.link,
                None if rate_bps < 0 else int(rate_bps),
                None if state < 0 else STATES[int(state)],
            )

    def spans(self, end_s: float) -> Iterator[tuple[float, float, str]]:
        """Yield start, end (s) and name of each state."""
        if (self.state < 0).all():
            return
        changes = np.flatnonzero(np.diff(self.state, prepend=_NO_STATE - 1))
        starts = self.time_ns[changes] / 1e9
        for start_s, stop_s, code in zip(starts, [*starts[1:], end_s], self.state[changes], strict=True):
            yield float(start_s), float(stop_s), STATES[int(code)]


def capacity_steps(network: Network) -> list[Steps]:
    """Return the steps of every link with a rate; the pattern files of the network must be open."""
    found = []
    patterns: dict[str, Pattern] = {}
    for name, stages in links(network):
        rates = [stage for stage in stages if isinstance(stage, BottleneckStage | RadioStage | WifiStage)]
        limits = [stage.rate.packets_per_s for stage in rates if isinstance(stage.rate, PacketsRate)]
        # A UE that limits packets per second is before the radio of an uplink and has neither rate nor state.
        rated = next((stage for stage in rates if not isinstance(stage.rate, PacketsRate)), rates[0] if rates else None)
        if rated is not None:
            found.append(
                replace(
                    _steps(name, rated.rate, patterns),
                    by_radio=not isinstance(rated, BottleneckStage),
                    overhead_bytes=rated.overhead_bytes,
                    delay_ns=sum(_delay_ns(stage.delay) for stage in stages if isinstance(stage, DelayStage)),
                    packets_per_s=min(limits, default=None),
                )
            )
    return found


def _delay_ns(delay: Delay) -> int:
    match delay:
        case ConstantDelay():
            return delay.delay_ns
        case DistributionDelay():
            return delay.mean_ns + 3 * delay.spread_ns
        case PatternDelay():
            return 0


def _steps(link: str, rate: Rate, patterns: dict[str, Pattern]) -> Steps:
    file = getattr(rate, "file", None)
    if file is None:
        given = getattr(rate, "rate_bps", -1)
        return Steps(link, np.zeros(1, np.int64), np.array([given], np.int64), np.array([_NO_STATE], np.int8))
    assert isinstance(rate, PatternRate | OpportunitiesRate | SampledRate), "only these have a file"
    if file not in patterns:
        patterns[file] = read_trace(Path(file), "native")
    pattern = patterns[file]
    steps = _of_opportunities(link, pattern) if pattern.kind == "opportunities" else _of_steps(link, pattern)
    return _from(steps, rate.start_ns or 0, pattern.period, rate.end or "repeat")


def _of_steps(link: str, pattern: Pattern) -> Steps:
    count = len(pattern)
    rate = np.full(count, -1, np.int64) if pattern.rate_bps is None else pattern.rate_bps
    state = np.full(count, _NO_STATE, np.int8) if pattern.state is None else pattern.state.astype(np.int8)
    return Steps(link, pattern.index, rate, state)


def _of_opportunities(link: str, pattern: Pattern) -> Steps:
    count = -(-pattern.period // OPPORTUNITY_WINDOW_NS)
    sizes = np.zeros(count, np.int64)
    assert pattern.size_bytes is not None, "an opportunity has a size"
    np.add.at(sizes, np.minimum(pattern.index // OPPORTUNITY_WINDOW_NS, count - 1), pattern.size_bytes)
    starts_ns = np.arange(count) * OPPORTUNITY_WINDOW_NS
    # The last window ends with the pattern; a pattern may be as short as a millisecond.
    rate = sizes * 8 * 1_000_000_000 // np.minimum(OPPORTUNITY_WINDOW_NS, pattern.period - starts_ns)
    return Steps(link, starts_ns, rate, np.full(count, _NO_STATE, np.int8))


def _from(steps: Steps, start_ns: int, period_ns: int, end: str) -> Steps:
    """Return the steps from `start_ns` of the pattern on, and apply the rule for its end."""
    first = int(np.searchsorted(steps.time_ns, start_ns, side="right")) - 1
    time_ns = np.maximum(steps.time_ns - start_ns, 0)
    if end == "repeat":
        order = np.r_[first : len(time_ns), 0 : first + (start_ns > steps.time_ns[first])]
        turned = (steps.time_ns[order] - start_ns) % period_ns
        turned[0] = 0
        return replace(
            steps, time_ns=turned, rate_bps=steps.rate_bps[order], state=steps.state[order], period_ns=period_ns
        )
    rate, state = steps.rate_bps[first:], steps.state[first:]
    time_ns = time_ns[first:]
    if end == "stop":
        time_ns = np.append(time_ns, period_ns - start_ns)
        rate, state = np.append(rate, 0), np.append(state, state[-1])
    return replace(steps, time_ns=time_ns, rate_bps=rate, state=state)
