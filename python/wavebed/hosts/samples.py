"""The samples of two hosts as those of one laboratory: the flows of the workloads, the processors of both."""

from __future__ import annotations

import csv
import itertools
from typing import TYPE_CHECKING, NamedTuple

from wavebed.lab.ports import WORKLOAD_PORTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["BUSY", "Load", "load_of", "merge_samples"]

BUSY = 0.97
"""A host is saturated in an interval if all its processors together were busier."""
_LATE = 1.5
"""A sample is late if it comes after so many intervals."""


class Load(NamedTuple):
    """How busy a host was: intervals of the sampler, those in which it was saturated, and those that came late."""

    intervals: int
    saturated: int
    late: int


def load_of(folder: Path, every_ns: int) -> Load:
    """Return the load of a host from its ``cpu.csv``; without one there are no intervals."""
    busy: dict[int, list[float]] = {}
    file = folder / "cpu.csv"
    if file.exists():
        with file.open(newline="", encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                busy.setdefault(int(row["time_ns"]), []).append(float(row["busy"]))
    times = sorted(busy)
    late = sum(after - before > _LATE * every_ns for before, after in itertools.pairwise(times))
    saturated = sum(sum(each) / len(each) > BUSY for each in busy.values())
    return Load(len(times), saturated, late)


def merge_samples(folders: Mapping[str, Path], log: Path) -> None:
    """Write ``flows.csv`` and ``cpu.csv`` of a laboratory from those of its hosts; a missing one counts as empty.

    Parameters
    ----------
    folders : mapping
        The folder of each host's files, by its name.
    log : pathlib.Path
        Where the two files go. Processors are numbered on, in the order of the hosts.
    """
    _merge("flows.csv", folders, log, _flows)
    _merge("cpu.csv", folders, log, _processors)


def _merge(name: str, folders: Mapping[str, Path], log: Path, rows: _Rows) -> None:
    header: list[str] = []
    found: list[list[str]] = []
    first_core = 0
    for folder in folders.values():
        file = folder / name
        if not file.exists():
            continue
        with file.open(newline="", encoding="utf-8") as stream:
            reader = csv.reader(stream)
            first = next(reader, [])
            if not first:  # its sampler was killed before it wrote
                continue
            header = first
            kept, first_core = rows(header, reader, first_core)
            found += kept
    if header:
        found.sort(key=lambda row: int(row[0]))
        with (log / name).open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream, lineterminator="\n").writerows([header, *found])


def _flows(header: list[str], rows: Iterator[list[str]], first_core: int) -> tuple[list[list[str]], int]:
    local, remote = header.index("local"), header.index("remote")
    return [
        row for row in rows if _port(row[local]) in WORKLOAD_PORTS or _port(row[remote]) in WORKLOAD_PORTS
    ], first_core


def _processors(header: list[str], rows: Iterator[list[str]], first_core: int) -> tuple[list[list[str]], int]:
    core = header.index("core")
    kept = [[*row[:core], str(int(row[core]) + first_core), *row[core + 1 :]] for row in rows]
    return kept, 1 + max((int(row[core]) for row in kept), default=first_core - 1)


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


if TYPE_CHECKING:
    from typing import Protocol

    class _Rows(Protocol):
        def __call__(
            self, header: list[str], rows: Iterator[list[str]], first_core: int, /
        ) -> tuple[list[list[str]], int]: ...
