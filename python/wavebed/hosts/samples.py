"""The samples of two hosts as those of one laboratory: the flows of the workloads, the processors of both."""

from __future__ import annotations

import heapq
import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

from wavebed.lab.ports import WORKLOAD_PORTS
from wavebed.lab.sample_columns import CPU, FLOW_TEXTS, FLOWS
from wavebed.stranger import StrangerError, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["BUSY", "Load", "load_of", "merge_samples"]

BUSY = 0.97
"""A host is saturated in an interval if all its processors together were busier."""
_LATE = 1.5
"""A sample is late if it comes after so many intervals."""
_BUSY, _CORE = CPU.index("busy"), CPU.index("core")
_COOKIE, _LOCAL, _REMOTE = FLOWS.index("cookie"), FLOWS.index("local"), FLOWS.index("remote")
_NUMBER = "-?[0-9]{0,18}"
_TEXT = r"[\w.:*%\[\]@ -]{0,255}"
_SHARE = r"(?:[0-9]{1,3}(?:\.[0-9]{1,18})?)?"
_ADDRESS = r"[0-9A-Za-z.:*%\[\]-]{1,100}:[0-9]{1,5}"
_FIELDS = {
    "time_ns": "[0-9]{1,18}",
    "core": "[0-9]{1,5}",
    "busy": _SHARE,
    "softirq": _SHARE,
    "cookie": "[0-9]{0,20}",
    "delivery_app_limited": "(?:true|false)?",
    "local": _ADDRESS,
    "remote": _ADDRESS,
}
"""What a column may have; the others are whole numbers, or the texts of `FLOW_TEXTS`."""


class Load(NamedTuple):
    """How busy a host was: intervals of the sampler, those in which it was saturated, and those that came late."""

    intervals: int
    saturated: int
    late: int


def load_of(folder: Path, every_ns: int) -> Load:
    """Return the load of a host from its ``cpu.csv``; without one there are no intervals.

    Raises
    ------
    StrangerError
        If the file is not what a sampler writes.
    """
    intervals = saturated = late = 0
    before_ns: int | None = None
    for at_ns, rows in itertools.groupby(_rows(folder / "cpu.csv", CPU), _time):
        busy = [float(row[_BUSY] or 0) for row in rows]
        intervals += 1
        saturated += sum(busy) / len(busy) > BUSY
        late += before_ns is not None and at_ns - before_ns > _LATE * every_ns
        before_ns = at_ns
    return Load(intervals, saturated, late)


def merge_samples(folders: Mapping[str, Path], log: Path) -> None:
    """Write ``flows.csv`` and ``cpu.csv`` of a laboratory from those of its hosts; a missing one counts as empty.

    Parameters
    ----------
    folders : mapping
        The folder of each host's files, by its name.
    log : pathlib.Path
        Where the two files go. Processors are numbered on, in the order of the hosts.

    Raises
    ------
    StrangerError
        If a file is not what a sampler writes; what was written of it then is removed.
    """
    _merge(log / "flows.csv", FLOWS, [_flows(folder / "flows.csv") for folder in folders.values()])
    processors, first = [], 0
    for folder in folders.values():
        processors.append(_processors(folder / "cpu.csv", first))
        first += 1 + max((int(row[_CORE]) for row in _rows(folder / "cpu.csv", CPU)), default=-1)
    _merge(log / "cpu.csv", CPU, processors)


def _merge(file: Path, columns: Sequence[str], hosts: Sequence[Iterator[list[str]]]) -> None:
    merged = heapq.merge(*hosts, key=_time)
    try:
        first = next(merged, None)
        if first is None:  # no sampler wrote anything
            return
        with file.open("w", encoding="utf-8") as stream:
            stream.write(",".join(columns) + "\n")
            stream.writelines(",".join(row) + "\n" for row in itertools.chain([first], merged))
    except StrangerError:
        file.unlink(missing_ok=True)
        raise


def _rows(file: Path, columns: Sequence[str]) -> Iterator[list[str]]:
    """Yield the rows of a sampler's file, one at a time: it may be large, and its host may be anybody's."""
    if not file.exists():
        return
    fits = re.compile(",".join(_FIELDS.get(name, _TEXT if name in FLOW_TEXTS else _NUMBER) for name in columns))
    lines, latest_ns = lines_of(file), 0
    head = next(lines, "")
    if head and head != ",".join(columns):
        raise StrangerError(f"{file.name}: its columns are not those of a sampler")
    for number, line in enumerate(lines, 2):
        if not fits.fullmatch(line):
            raise StrangerError(f"{file.name}: line {number} is no sample")
        row = line.split(",")
        if _time(row) < latest_ns:
            raise StrangerError(f"{file.name}: line {number} is earlier than the line before")
        latest_ns = _time(row)
        yield row


def _flows(file: Path) -> Iterator[list[str]]:
    for row in _rows(file, FLOWS):
        if int(row[_COOKIE] or 0) >= 1 << 64:
            raise StrangerError(f"{file.name}: {row[_COOKIE]} is no cookie of a socket")
        if _port(row[_LOCAL]) in WORKLOAD_PORTS or _port(row[_REMOTE]) in WORKLOAD_PORTS:
            yield row


def _processors(file: Path, first: int) -> Iterator[list[str]]:
    for at_ns, core, *shares in _rows(file, CPU):
        yield [at_ns, str(int(core) + first), *shares]


def _time(row: Sequence[str]) -> int:
    return int(row[0])


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
