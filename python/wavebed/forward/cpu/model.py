"""The load of the device's processor during a trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import msgspec

from wavebed.forward.plain import Value

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

__all__ = ["LIMIT_S", "CpuMeter", "CpuUse", "Reading", "Ticks", "between"]

SURE_S = 10.0
"""Most kernels charge a whole tick (4 to 10 ms) to whatever runs when it ends. Over 10 s a load is then within about
one part in a hundred; over less it is a hint."""

LIMIT_S = 5.0
"""Each reading is over by then, whatever the other side does: name service, connection and answer in all."""

_STEAL_FRACTION = 0.05
_JITTER_TICKS = 0.1
"""Idle and iowait may step back a little between two readings (proc_stat(5)); seconds."""


class Ticks(Value, frozen=True):
    """The time of a processor since it started, in any one unit.

    Parameters
    ----------
    busy, softirq, total : float
        `busy` is everything but idle and iowait, and holds `softirq`.
    stolen : float
        Part of `busy` that a hypervisor took.
    """

    busy: float
    softirq: float
    total: float
    stolen: float = 0.0


class Reading(Value, frozen=True):
    """The counters of a source at one moment.

    Parameters
    ----------
    at_s : float
        Its own clock, or ours where it has none.
    cores : mapping
        By number of the processor; `-1` stands for the sum over all of them.
    core_count : int, optional
        How many there are, where only the sum is known.
    started_s : float, optional
        When the machine started, on any clock that does not change while it runs.
    """

    at_s: float
    cores: Mapping[int, Ticks]
    core_count: int | None = None
    started_s: float | None = None
    net_rx: Mapping[int, int] | None = None
    dropped: Mapping[int, int] | None = None
    squeezed: Mapping[int, int] | None = None


class CpuUse(Value, frozen=True):
    """Fractions of time (0 to 1) that the device's processors were busy.

    Parameters
    ----------
    busy, softirq : mapping
        By number of the processor; empty where the source knows only the sum, or where nothing can be said.
    busy_mean, busy_max, softirq_max : float, optional
        Missing where the source does not tell.
    core_count : int, optional
        How many processors the mean is of.
    net_rx : int, optional
        How often the receive softirq ran.
    dropped, squeezed : int, optional
        Packets dropped because a processor's backlog was full, and rounds that ended for lack of time or budget.
    seconds : float
        How long it was looked at.
    doubts : tuple of str
        Doubts about the numbers, one line each.
    """

    source: str
    seconds: float
    busy: Mapping[int, float] = msgspec.field(default_factory=dict)
    softirq: Mapping[int, float] = msgspec.field(default_factory=dict)
    busy_mean: float | None = None
    busy_max: float | None = None
    softirq_max: float | None = None
    core_count: int | None = None
    net_rx: int | None = None
    dropped: int | None = None
    squeezed: int | None = None
    doubts: tuple[str, ...] = ()

    @property
    def short(self) -> bool:
        """Whether it was looked at for less time than a load to quote needs."""
        return self.seconds < SURE_S

    def for_trial(self) -> dict[str, float]:
        """Return the known values for `wavebed.forward.model.Trial.cpu`."""
        known = {"busy_max": self.busy_max, "busy_mean": self.busy_mean, "softirq_max": self.softirq_max}
        return {name: value for name, value in known.items() if value is not None}


class CpuMeter:
    """A meter that reads counters twice and tells the difference.

    Parameters
    ----------
    source : str
        As the user wrote it, without secrets.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._first: Reading | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self) -> Reading:
        """Read the counters now."""
        raise NotImplementedError

    def start(self) -> None:
        """Read the counters for the first time."""
        self._first = self.read()

    def stop(self) -> CpuUse:
        """Read them again, and tell the difference."""
        assert self._first is not None, "start() comes before stop()"
        return between(self.source, self._first, self.read())

    def close(self) -> None:
        """Release its resources."""


def between(source: str, first: Reading, last: Reading) -> CpuUse:
    """Return the load between two readings of one source."""
    seconds = last.at_s - first.at_s
    if _restarted(first, last):
        return CpuUse(
            source, max(0.0, seconds), doubts=("the device started anew in between: its counters say nothing",)
        )
    doubts = []
    if seconds < SURE_S:
        doubts.append(f"short: looked at for {seconds:.1f} s, a load to quote needs {SURE_S:.0f} s")
    used = {core: _used(first.cores[core], ticks) for core, ticks in last.cores.items() if core in first.cores}
    if used.keys() != first.cores.keys() | last.cores.keys():
        doubts.append("processors came or went in between: only those that stayed are counted")
    used = {core: ticks for core, ticks in used.items() if ticks.total > 0}
    if not used:
        doubts.append("its counters did not move: nothing is known")
    for core, ticks in used.items():
        if ticks.stolen > _STEAL_FRACTION * ticks.total:
            whose = "its processors" if core < 0 else f"processor {core}"
            doubts.append(f"a hypervisor took {ticks.stolen / ticks.total:.0%} of {whose}: it counts as busy")
    busy = {core: ticks.busy / ticks.total for core, ticks in used.items()}
    softirq = {core: ticks.softirq / ticks.total for core, ticks in used.items()}
    whole = -1 in used
    if whole and last.core_count != 1:
        doubts.append("it tells one sum over all processors: the busiest is not known")
    one_core = whole and last.core_count == 1
    return CpuUse(
        source,
        seconds,
        {} if whole else busy,
        {} if whole else softirq,
        busy_mean=sum(busy.values()) / len(busy) if busy else None,
        busy_max=max(busy.values()) if busy and (not whole or one_core) else None,
        softirq_max=max(softirq.values()) if softirq and (not whole or one_core) else None,
        core_count=last.core_count if whole else len(busy) or None,
        net_rx=_more(first.net_rx, last.net_rx),
        dropped=_more(first.dropped, last.dropped),
        squeezed=_more(first.squeezed, last.squeezed),
        doubts=tuple(doubts),
    )


def _restarted(first: Reading, last: Reading) -> bool:
    if last.at_s < first.at_s:
        return True
    if first.started_s is not None and last.started_s is not None and abs(last.started_s - first.started_s) > 1:
        return True
    return any(core in first.cores and ticks.total < first.cores[core].total for core, ticks in last.cores.items())


def _used(first: Ticks, last: Ticks) -> Ticks:
    total = last.total - first.total
    # Each part lies within the whole, though idle may step back.
    busy = min(max(0.0, last.busy - first.busy), total)
    return Ticks(busy, min(max(0.0, last.softirq - first.softirq), busy), total, max(0.0, last.stolen - first.stolen))


def _more(first: Mapping[int, int] | None, last: Mapping[int, int] | None) -> int | None:
    """Return how much a 32-bit counter of the processors that stayed has grown."""
    if first is None or last is None:
        return None
    return sum((count - first[core]) % 2**32 for core, count in last.items() if core in first)
