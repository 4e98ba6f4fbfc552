"""The log of trials, and the highest load that a part of the test may ask for."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec.structs import replace

from wavebed.forward.frames import Rates, line_rate_pps
from wavebed.forward.model import PlainValue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wavebed.forward.frames import Headers
    from wavebed.forward.model import Ceiling, ForwardTrial, Refusal

LOAD_FRACTION = 0.88
"""Of the tester's own rate. A trial above 90 % is refused, and its rate may be a little above the one asked for."""

DISTURBED = frozenset({"late", "tester_limit"})
"""Refusals that may speak against one trial only, since the tester was disturbed."""

ENDING = frozenset({"peer", "port_down", "offload", "super_packets", "interrupted"})
"""Refusals after which no further trial of any kind can count: the test ends."""

OVERHEAD_S = 0.3
"""Assumed for a trial beside its traffic until some were made: settling, late frames, reading of counters. Measured on
emulated devices: 0.25 to 0.33 s."""


class TrialMaker(Protocol):
    """Makes one trial, with all its checks."""

    def trial(
        self, purpose: str, sizes_bytes: Sequence[int], offered_pps: float | None, duration_s: float, sample: int = 0
    ) -> ForwardTrial:
        """Send frames of these sizes at a rate (``None``: as fast as it goes) for `duration_s`, and count."""
        ...

    def calibrate(self, sizes_bytes: Sequence[int]) -> Ceiling:
        """Return how fast the tester is by itself; measured once for each list of sizes."""
        ...


@dataclass(slots=True)
class TrialLog:
    """Makes trials and keeps them in order.

    Parameters
    ----------
    heard : callable, optional
        Told of each trial when it is over.
    wall_s : list of float
        How long each took with all that belongs to it.
    sample : int
        Frames kept as they arrived, of the first trial of each list of sizes that has any.
    """

    tester: TrialMaker
    clock: Callable[[], float] = time.monotonic
    heard: Callable[[ForwardTrial], None] | None = None
    trials: list[ForwardTrial] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    sample: int = 0
    _sampled: set[tuple[int, ...]] = field(default_factory=set)

    def make(self, purpose: str, sizes_bytes: Sequence[int], offered_pps: float | None, duration_s: float) -> int:
        """Make a trial and return its place."""
        sizes = tuple(sizes_bytes)
        sample = 0 if sizes in self._sampled else self.sample
        began_s = self.clock()
        trial = self.tester.trial(purpose, sizes, offered_pps, duration_s, sample)
        if trial.counters and trial.counters.sample:
            self._sampled.add(sizes)
        self.trials.append(trial)
        self.wall_s.append(self.clock() - began_s)
        if self.heard:
            self.heard(trial)
        return len(self.trials) - 1

    @property
    def overhead_s(self) -> float:
        """The time of a trial beside its traffic, seconds: the median so far, without what a new size takes."""
        made = zip(self.trials, self.wall_s, strict=True)
        over = [wall_s - trial.duration_s for trial, wall_s in made if not trial.refusals]
        return max(median(over), 0.0) if over else OVERHEAD_S


class LoadLimit(PlainValue, frozen=True):
    """The highest load at a size.

    Parameters
    ----------
    line_rate : Rates or None
        Line rate of the link, if its speed is known.
    max_load : Rates
        The lower of line rate and 88 % of the ceiling.
    limited_by : str
        Which of them.
    """

    sizes_bytes: tuple[int, ...]
    headers: Headers
    line_rate: Rates | None
    max_load: Rates
    limited_by: Literal["line_rate", "tester"]
    ceiling: Ceiling

    def lowered(self, fraction: float) -> LoadLimit:
        """Return the limit of a tester that reaches only this fraction of it."""
        return replace(self, max_load=self.rates(fraction * self.max_load.pps), limited_by="tester")

    def rates(self, pps: float) -> Rates:
        """Return a rate of such frames in all units."""
        return Rates.of_pps(pps, self.sizes_bytes, self.headers)


def load_limit(link_mbps: float | None, ceiling: Ceiling, headers: Headers) -> LoadLimit:
    """Return the highest load that may be asked for, and its limit."""
    sizes = ceiling.sizes_bytes
    tester = LOAD_FRACTION * ceiling.pps
    line = None if link_mbps is None else line_rate_pps(link_mbps, sizes)
    top, by = (line, "line_rate") if line is not None and line <= tester else (tester, "tester")
    return LoadLimit(
        sizes_bytes=sizes,
        headers=headers,
        line_rate=None if line is None else Rates.of_pps(line, sizes, headers),
        max_load=Rates.of_pps(top, sizes, headers),
        limited_by="line_rate" if by == "line_rate" else "tester",
        ceiling=ceiling,
    )


@dataclass(slots=True)
class LoadLimits:
    """The highest load at each size; the tester is calibrated for a size the first time."""

    tester: TrialMaker
    link_mbps: float | None
    headers: Headers
    found: dict[tuple[int, ...], LoadLimit] = field(default_factory=dict)

    def at(self, sizes_bytes: tuple[int, ...]) -> LoadLimit:
        """Return the highest load at a size."""
        if sizes_bytes not in self.found:
            self.found[sizes_bytes] = load_limit(self.link_mbps, self.tester.calibrate(sizes_bytes), self.headers)
        return self.found[sizes_bytes]

    def known_pps(self, sizes_bytes: tuple[int, ...]) -> float | None:
        """Return the highest load as far as it is known without calibration: at least the line rate, if that is."""
        if sizes_bytes in self.found:
            return self.found[sizes_bytes].max_load.pps
        return None if self.link_mbps is None else line_rate_pps(self.link_mbps, sizes_bytes)


def distinct(refusals: Sequence[Refusal]) -> tuple[Refusal, ...]:
    """Return one refusal of each code, the first."""
    return tuple({one.code: one for one in reversed(refusals)}.values())[::-1]
