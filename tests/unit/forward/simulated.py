"""A tester with a simulated device, in virtual time, for the parts that search and plan.

Unlike the fakes of the ports it draws random numbers (from a seed), so that noisy devices can be searched.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from wavebed.forward.model import Ceiling, ForwardLatency, ForwardTrial, FrameCounters, Refusal, SampledFrame
from wavebed.forward.trials import TrialLog

Capacity = Callable[[tuple[int, ...]], float]


@dataclass
class SimulatedTester:
    """What makes trials of a device that forwards `capacity` frames per second.

    Parameters
    ----------
    noise : float
        Standard deviation of the capacity from trial to trial, as a fraction of it.
    stray_per_s : float
        Frames lost at any load, per second, at random.
    collapse : float
        Fraction of its capacity that the device keeps under any overload.
    buffer_frames : int
        Frames above its capacity that it keeps.
    reach_pps : float
        What the sender reaches with this device; above it a trial is late.
    learn_s : float
        What a change of the size takes.
    pauses_per_s : float
        How often the device stands still for some milliseconds; 1000 frames of each such pause are kept.
    late : float
        Probability that a trial at the ceiling is late; at lower loads it is lower.
    refuse : callable
        Of the number of the trial and its load: why it is refused.
    """

    capacity: Capacity | float
    noise: float = 0.0
    stray_per_s: float = 0.0
    collapse: float = 1.0
    buffer_frames: int = 0
    ceiling_pps: float = 2_000_000.0
    reach_pps: float = float("inf")
    overhead_s: float = 0.3
    learn_s: float = 0.0
    pauses_per_s: float = 0.0
    late: float = 0.0
    refuse: Callable[[int, float], Refusal | None] = lambda _number, _pps: None
    seed: int = 1
    latency: ForwardLatency | None = None
    now_s: float = 0.0
    made: list[tuple[float | None, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.last: tuple[int, ...] = ()

    def clock(self) -> float:
        return self.now_s

    def log(self) -> TrialLog:
        return TrialLog(self, self.clock)

    def calibrate(self, sizes_bytes: Sequence[int]) -> Ceiling:
        self.now_s += 0.5
        return Ceiling(tuple(sizes_bytes), self.ceiling_pps, "tx_ring", "xdp_native")

    def trial(
        self, purpose: str, sizes_bytes: Sequence[int], offered_pps: float | None, duration_s: float, sample: int = 0
    ) -> ForwardTrial:
        sizes = tuple(sizes_bytes)
        pps = min(self.ceiling_pps if offered_pps is None else offered_pps, self.reach_pps)
        self.made.append((offered_pps, duration_s))
        self.now_s += duration_s + self.overhead_s + (self.learn_s if sizes != self.last else 0.0)
        self.last = sizes
        sent = max(1, round(pps * duration_s))
        lost = min(sent, self._lost(sizes, pps, sent, duration_s))
        refusal = self.refuse(len(self.made), pps)
        if refusal is None and offered_pps is not None and offered_pps > pps:
            refusal = Refusal("late", f"{pps:.0f} frames/s were sent instead of {offered_pps:.0f}")
        if self.late and offered_pps is not None and self.rng.random() < self.late * pps / self.ceiling_pps:
            refusal = Refusal("late", "the sender paused")
        kept = tuple(SampledFrame(0, sizes[0] - 4, bytes(sizes[0] - 4)) for _ in range(sample))
        return ForwardTrial(
            purpose=purpose,
            sizes_bytes=sizes,
            offered_pps=offered_pps,
            duration_s=duration_s,
            sent=sent,
            received=sent - lost,
            lost=lost,
            sent_pps=sent / duration_s,
            received_pps=(sent - lost) / duration_s,
            took_s=duration_s,
            tx=None,
            rx=None,
            send=None,
            counters=FrameCounters(
                sent - lost, 0, 0, 0, 0, 0, 0, {sizes[0]: sent - lost}, None, None, self.latency, 0, kept
            ),
            refusals=() if refusal is None else (refusal,),
            cpu={"busy_max": 0.5},
        )

    def _lost(self, sizes: tuple[int, ...], pps: float, sent: int, duration_s: float) -> int:
        capacity = self.capacity(sizes) if callable(self.capacity) else self.capacity
        if self.noise:
            capacity *= 1 + self.noise * self.rng.gauss(0, 1)
        if pps > capacity:
            capacity *= self.collapse
        lost = max(0, sent - round(capacity * duration_s) - self.buffer_frames)
        at_s = self.rng.expovariate(self.pauses_per_s) if self.pauses_per_s else duration_s
        while at_s < duration_s:
            lost += max(0, round(self.rng.lognormvariate(-6.0, 1.0) * pps) - 1000)
            at_s += self.rng.expovariate(self.pauses_per_s)
        if self.stray_per_s:
            lost += int(self.rng.random() < self.stray_per_s * duration_s)
        return lost
