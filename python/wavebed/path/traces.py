"""Pattern files on their way to the link engine, which reads the native format only.

A native file goes to the engine by its name. A file of another format is converted into a file in memory, which the
engine opens as ``/proc/self/fd/N``; a scene is realised into one. NumPy is imported only for these.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path as FilePath

    from wavebed.channel.realisation import Realisation
    from wavebed.path.model import PatternFile, ScenePattern
    from wavebed.pattern.model import Pattern

__all__ = ["Traces"]

_FIRST_LINE = "# wavebed pattern 1"
_PEAK_WINDOW_S = 0.1


@dataclass(frozen=True, slots=True)
class _Source:
    """A native pattern: what the engine opens, and what its header says."""

    path: str
    columns: tuple[str, ...]
    header: Mapping[str, str]


class Traces:
    """The patterns of one laboratory, each read and converted once.

    The files in memory stay open as long as this object; `descriptors` must be inherited by the engine. `notes` says
    what the readers assumed, and what they left out.
    """

    def __init__(self) -> None:
        self._sources: dict[tuple[str, str | None], _Source] = {}
        self._realisations: dict[tuple[int, str, int], Realisation] = {}
        self._realised: dict[tuple[int, str, int, str], _Source] = {}
        self.descriptors: list[int] = []
        self.notes: list[str] = []

    def close(self) -> None:
        """Close the files in memory."""
        while self.descriptors:
            os.close(self.descriptors.pop())

    def columns(self, pattern: PatternFile) -> frozenset[str]:
        """Return the names of the pattern's columns.

        Raises
        ------
        UserError
            If the file cannot be read or is of no known format.
        """
        return frozenset(self._source(pattern).columns)

    def header(self, pattern: PatternFile) -> Mapping[str, str]:
        """Return the pattern's header lines by key."""
        return self._source(pattern).header

    def engine_path(self, pattern: PatternFile) -> str:
        """Return the name under which the engine opens the pattern."""
        return self._source(pattern).path

    def realised_path(self, pattern: ScenePattern, seed: int) -> str:
        """Return the name under which the engine opens one direction of a scene, realised with a seed."""
        return self._realise(pattern, seed).path

    def peak_bps(self, pattern: PatternFile | ScenePattern, seed: int) -> int:
        """Return the highest rate of the pattern, bits per second; of opportunities, the most in any 100 ms."""
        from wavebed.path.model import ScenePattern

        source = self._realise(pattern, seed) if isinstance(pattern, ScenePattern) else self._source(pattern)
        with open(source.path, encoding="utf-8") as file:  # noqa: PTH123 - a pathlib.Path would gain nothing here
            rows = _rows(file, source.columns)
            if "rate_bps" in source.columns:
                return max((int(row["rate_bps"]) for row in rows), default=0)
            windows: dict[int, int] = {}
            for row in rows:
                window = int(float(row["time_s"]) / _PEAK_WINDOW_S)
                windows[window] = windows.get(window, 0) + int(row["bytes"])
        return int(max(windows.values(), default=0) * 8 / _PEAK_WINDOW_S)

    def _source(self, pattern: PatternFile) -> _Source:
        key = (str(pattern.file), pattern.format)
        if key not in self._sources:
            self._sources[key] = self._open(pattern.file, pattern.format)
        return self._sources[key]

    def _open(self, file: FilePath, format_name: str | None) -> _Source:
        try:
            with file.open(encoding="utf-8", errors="replace") as stream:
                if format_name in (None, "native") and stream.readline().rstrip("\r\n") == _FIRST_LINE:
                    return _Source(str(file.absolute()), *_native_head(stream, file))
        except OSError as error:
            raise UserError(f"{file}: {(error.strerror or 'cannot be read').lower()}: name a readable file") from None
        return self._convert(file, format_name)

    def _convert(self, file: FilePath, format_name: str | None) -> _Source:
        from wavebed.pattern import read_trace

        return self._in_memory(read_trace(file, format_name, notes=self.notes), file)

    def _realise(self, pattern: ScenePattern, seed: int) -> _Source:
        from pathlib import Path as FilePath

        from wavebed.channel import realise, to_pattern

        realisation_key = (id(pattern.scene), pattern.mode, seed)
        if realisation_key not in self._realisations:
            realisation = realise(pattern.scene, mode=pattern.mode, seed=seed)
            self._realisations[realisation_key] = realisation
            self.notes.extend(f"{pattern.scene.name}: {warning}" for warning in realisation.warnings)
        key = (*realisation_key, pattern.direction)
        if key not in self._realised:
            name = FilePath(f"{pattern.scene.name}.{pattern.direction}.csv")
            made = to_pattern(self._realisations[realisation_key], pattern.direction)
            self._realised[key] = self._in_memory(made, name)
        return self._realised[key]

    def _in_memory(self, pattern: Pattern, file: FilePath) -> _Source:
        from wavebed.pattern import to_native

        data = to_native(pattern).encode()
        descriptor = os.memfd_create(file.name[:200], 0)
        self.descriptors.append(descriptor)
        with open(descriptor, "wb", closefd=False) as memory:
            memory.write(data)
        lines = iter(data.decode().splitlines())
        next(lines)
        return _Source(f"/proc/self/fd/{descriptor}", *_native_head(lines, file))


def _native_head(lines: Iterator[str], file: FilePath) -> tuple[tuple[str, ...], dict[str, str]]:
    header: dict[str, str] = {}
    for line in lines:
        if not line.startswith("#"):
            return tuple(line.rstrip("\r\n").split(",")), header
        key, _, value = line[1:].partition("=")
        header[key.strip()] = value.strip()
    raise UserError(f"{file}: the pattern has no rows: add a line of column names and at least one row")


def _rows(lines: Iterator[str], columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
    for line in lines:
        if line.startswith(("#", columns[0])):
            continue
        values = line.rstrip("\r\n").split(",")
        if len(values) == len(columns):
            yield dict(zip(columns, values, strict=True))
