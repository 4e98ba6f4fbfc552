"""Read /proc/stat, /proc/softirqs and /proc/net/softnet_stat, of this machine or as another sent them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wavebed.errors import WavebedError
from wavebed.forward.cpu.model import Reading, Ticks

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["parse_net_rx", "parse_softnet", "parse_stat", "reading"]

_CORE = re.compile(r"cpu(\d+)((?: +\d+){4,})\s*", re.ASCII)
_SOFTNET_CORE = 12
"""Column of softnet_stat with the processor's number, since Linux 5.10; before, lines were in order."""


def parse_stat(text: str) -> tuple[dict[int, Ticks], float | None]:
    """Read /proc/stat: ticks by processor, and when the machine started (seconds since 1970).

    The columns are user, nice, system, idle, iowait, irq, softirq, steal; guest time, which follows, is in user already
    (proc_stat(5)).

    Raises
    ------
    WavebedError
        If no processor is in it.
    """
    cores: dict[int, Ticks] = {}
    started: float | None = None
    for line in text.splitlines():
        if match := _CORE.fullmatch(line):
            columns = [int(column) for column in match.group(2).split()][:8]
            columns += [0] * (8 - len(columns))
            total = sum(columns)
            cores[int(match.group(1))] = Ticks(total - columns[3] - columns[4], columns[6], total, columns[7])
        elif line.startswith("btime ") and line[6:].strip().isdigit():
            started = float(line[6:])
    if not cores:
        raise WavebedError("/proc/stat has no line of a processor")
    return cores, started


def parse_net_rx(text: str) -> dict[int, int] | None:
    """Read the row NET_RX of /proc/softirqs: how often it ran, by processor; nothing if there is no such row."""
    lines = text.splitlines()
    if not lines:
        return None
    heads = lines[0].split()
    if not heads or not all(re.fullmatch(r"CPU\d+", head) for head in heads):
        return None
    for line in lines[1:]:
        name, _, rest = line.partition(":")
        counts = rest.split()
        if name.strip() == "NET_RX" and len(counts) == len(heads) and all(count.isdigit() for count in counts):
            return {int(head[3:]): int(count) for head, count in zip(heads, counts, strict=True)}
    return None


def parse_softnet(text: str) -> tuple[dict[int, int], dict[int, int]] | None:
    """Read /proc/net/softnet_stat: packets dropped and rounds squeezed, by processor; nothing if it is not that."""
    dropped: dict[int, int] = {}
    squeezed: dict[int, int] = {}
    for number, line in enumerate(text.splitlines()):
        try:
            columns = [int(column, 16) for column in line.split()]
        except ValueError:
            return None
        if len(columns) < 3:
            return None
        core = columns[_SOFTNET_CORE] if len(columns) > _SOFTNET_CORE else number
        dropped[core], squeezed[core] = columns[1], columns[2]
    return (dropped, squeezed) if dropped else None


def reading(at_s: float, stat: str, softirqs: str, softnet: str, only: Collection[int] | None = None) -> Reading:
    """Put the three files together.

    Parameters
    ----------
    only : collection of int, optional
        The processors that matter.

    Raises
    ------
    WavebedError
        If none of them is there.
    """
    cores, started = parse_stat(stat)
    if only is not None:
        missing = sorted(set(only) - cores.keys())
        if missing:
            raise WavebedError(f"/proc/stat has no processor {missing[0]}")
    counters = parse_softnet(softnet)
    return Reading(
        at_s,
        _of(cores, only),
        started_s=started,
        net_rx=_counts(parse_net_rx(softirqs), only),
        dropped=_counts(counters[0] if counters else None, only),
        squeezed=_counts(counters[1] if counters else None, only),
    )


def _of(cores: Mapping[int, Ticks], only: Collection[int] | None) -> dict[int, Ticks]:
    return {core: ticks for core, ticks in cores.items() if only is None or core in only}


def _counts(counts: Mapping[int, int] | None, only: Collection[int] | None) -> dict[int, int] | None:
    if counts is None:
        return None
    return {core: count for core, count in counts.items() if only is None or core in only}
