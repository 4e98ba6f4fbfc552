"""Pattern files for the link engine, which reads the native format only.

A native file goes to the engine by its name. A file of another format is converted into a file in memory, which the
engine opens as ``/proc/self/fd/N``; a scene is realised into one. NumPy is imported only for these.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct

from wavebed._core import find_core
from wavebed.errors import UserError, WavebedError
from wavebed.foreign import open_foreign

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.channel.realisation import Realisation
    from wavebed.path.model import PatternFile, ScenePattern, TraceEnd
    from wavebed.pattern.model import Pattern


_FIRST_LINE = "# wavebed pattern 1"
_LONGEST_LINE = 1 << 16
_TRACE_OPTIONS = ("--columns", "--duration", "--format", "--run", "--window", "every=")
"""Options of ``wavebed trace`` that the readers' messages name."""
_COLUMNS = re.compile(r"--columns(?: (?:'[^']*'|[^\s;,]+=[^\s;,]+))+")
_MOST_HEADERS = 10_000
_DURATION = "duration_s"
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]+)?", re.ASCII)


class _Source(Struct, frozen=True):
    """A native pattern: the file that the engine opens, and its header."""

    path: str
    columns: tuple[str, ...]
    header: Mapping[str, str]
    origin: TraceOrigin


class TraceOrigin(Struct, frozen=True):
    """Where a pattern comes from: a file as it was named, or one direction of a scene or a map.

    Parameters
    ----------
    name : str
        The file, the scene, or the map.
    title, mode, direction : str
        Of a scene; of a map, whose mode is ``map``; of a low-orbit access (``low-orbit``); empty for a file.
    """

    name: str
    title: str = ""
    mode: str = ""
    direction: str = ""


class Traces:
    """The patterns of one laboratory, each read and converted once.

    The files in memory stay open as long as this object; `descriptors` must be inherited by the engine. `notes` says
    what the readers assumed, and what they left out.
    """

    def __init__(self) -> None:
        self._sources: dict[tuple[str, str | None], _Source] = {}
        self._peaks: dict[str, int] = {}
        self._realisations: dict[tuple[int, str, int, str | None], Realisation] = {}
        self._realised: dict[tuple[int, str, int, str, str | None], _Source] = {}
        self.descriptors: list[int] = []
        self.notes: list[str] = []

    def close(self) -> None:
        """Close the files in memory."""
        while self.descriptors:
            os.close(self.descriptors.pop())

    def forget_scenes(self) -> None:
        """Close the realised patterns, and forget them; files stay."""
        for source in self._realised.values():
            descriptor = int(source.path.rpartition("/")[2])
            self.descriptors.remove(descriptor)
            os.close(descriptor)
            self._peaks.pop(source.path, None)
        self._realised.clear()
        self._realisations.clear()

    def origin(self, engine_path: str) -> TraceOrigin:
        """Return where the pattern comes from that the engine opens under this name."""
        sources = [*self._sources.values(), *self._realised.values()]
        return next(source.origin for source in sources if source.path == engine_path)

    @property
    def realisations(self) -> list[Realisation]:
        """The realisations of the scenes."""
        return list(self._realisations.values())

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

    def duration_ns(self, pattern: PatternFile | ScenePattern) -> int | None:
        """Return how long a pattern lasts, nanoseconds; ``None`` for one over packets or of a study.

        Raises
        ------
        UserError
            If the file cannot be read or is of no known format.
        """
        from wavebed.path.model import ScenePattern

        if isinstance(pattern, ScenePattern):
            return None if pattern.mode == "study" else round(pattern.scene.duration_s * 10**9)
        written = self.header(pattern).get(_DURATION, "")
        if self.header(pattern).get("kind") == "packets":
            return None
        if _SECONDS.fullmatch(written):
            return round(float(written) * 10**9)
        return int(self._read(pattern.file, pattern.format).period)

    def engine_path(self, pattern: PatternFile) -> str:
        """Return the name under which the engine opens the pattern."""
        return self._source(pattern).path

    def realised_path(self, pattern: ScenePattern, seed: int) -> str:
        """Return the name under which the engine opens one direction of a scene, realised with a seed."""
        return self._realise(pattern, seed).path

    def pattern(self, pattern: PatternFile | ScenePattern, seed: int) -> Pattern:
        """Return the pattern in a file, or of one direction of a scene or a map, realised with a seed.

        Raises
        ------
        UserError
            If the file cannot be read or is of no known format.
        """
        from wavebed.path.model import ScenePattern

        if isinstance(pattern, ScenePattern):
            return self._made(pattern, seed)[0]
        return self._read(pattern.file, pattern.format)

    def add(self, pattern: Pattern, name: str, end: TraceEnd) -> PatternFile:
        """Take a pattern that was made here, and return it as a file of this name."""
        from wavebed.path.model import PatternFile

        file = Path(name)
        self._sources[(name, None)] = self._in_memory(pattern, file, TraceOrigin(name))
        return PatternFile(file, end=end)

    def peak_bps(self, pattern: PatternFile | ScenePattern, seed: int) -> int:
        """Return the highest rate of the pattern, bits per second; of opportunities, the most in any 100 ms.

        Raises
        ------
        UserError
            If a row breaks a rule of the format: the same line that the engine would print.
        """
        from wavebed.path.model import ScenePattern

        source = self._realise(pattern, seed) if isinstance(pattern, ScenePattern) else self._source(pattern)
        if source.path not in self._peaks:
            self._peaks[source.path] = _peak_bps(source.path, source.origin.name, self.descriptors)
        return self._peaks[source.path]

    def _source(self, pattern: PatternFile) -> _Source:
        key = (str(pattern.file), pattern.format)
        if key not in self._sources:
            self._sources[key] = self._open(pattern.file, pattern.format)
        return self._sources[key]

    def _open(self, file: Path, format_name: str | None) -> _Source:
        if format_name in (None, "native"):
            with io.TextIOWrapper(open_foreign(file, "name a trace file"), "utf-8", errors="replace") as stream:
                if stream.readline(_LONGEST_LINE).rstrip("\r\n") == _FIRST_LINE:
                    return _Source(str(file.absolute()), *_native_head(stream, file), TraceOrigin(str(file)))
        return self._convert(file, format_name)

    def _convert(self, file: Path, format_name: str | None) -> _Source:
        return self._in_memory(self._read(file, format_name), file, TraceOrigin(str(file)))

    def _read(self, file: Path, format_name: str | None) -> Pattern:
        from wavebed.pattern import read_trace

        notes: list[str] = []
        try:
            pattern = read_trace(file, format_name, notes=notes)
        except UserError as error:
            raise UserError(_with_command(str(error), file)) from None
        self.notes.extend(note.replace("(--duration", "(wavebed trace convert --duration") for note in notes)
        return pattern

    def _realise(self, pattern: ScenePattern, seed: int) -> _Source:
        key = (id(pattern.scene), pattern.mode, seed, pattern.direction, pattern.device)
        if key not in self._realised:
            made, origin = self._made(pattern, seed)
            name = origin.name if pattern.device is None else f"{origin.name}.{pattern.device}"
            name = f"{name}.study.csv" if pattern.mode == "study" else f"{name}.{pattern.direction}.csv"
            self._realised[key] = self._in_memory(made, Path(name), origin)
        return self._realised[key]

    def _made(self, pattern: ScenePattern, seed: int) -> tuple[Pattern, TraceOrigin]:
        from wavebed.channel import low_orbit, placemap, realise, to_pattern

        scene = pattern.scene
        if isinstance(scene, low_orbit.LowOrbit):
            origin = TraceOrigin(scene.name, scene.title, pattern.mode, pattern.direction)
            return low_orbit.to_pattern(scene, seed, pattern.direction), origin
        if isinstance(scene, placemap.PlaceMap):
            return placemap.to_pattern(scene, seed), TraceOrigin(scene.name, scene.title, "map", "down")
        assert pattern.mode in ("3gpp", "reference", "study"), "only a map and a low-orbit access have others"
        origin = TraceOrigin(scene.name, scene.title, pattern.mode, pattern.direction)
        if pattern.mode == "study":
            from wavebed.channel.reference import study_pattern

            return study_pattern(scene, seed), origin
        key = (id(scene), pattern.mode, seed, pattern.device)
        if key not in self._realisations:
            realisation = realise(scene, mode=pattern.mode, seed=seed, device=pattern.device)
            self._realisations[key] = realisation
            notes = [f"{scene.name}: {warning}" for warning in realisation.warnings]
            self.notes.extend(note for note in notes if note not in self.notes)
        cells = None if pattern.device is None else True
        return to_pattern(self._realisations[key], pattern.direction, cells=cells), origin

    def _in_memory(self, pattern: Pattern, file: Path, origin: TraceOrigin) -> _Source:
        from wavebed.pattern.formats.native import parts

        descriptor = os.memfd_create(file.name.encode("utf-8", "replace")[:200].decode("utf-8", "ignore"), 0)
        self.descriptors.append(descriptor)
        with open(descriptor, "w+", encoding="utf-8", newline="", closefd=False) as memory:
            memory.writelines(parts(pattern))
            memory.seek(0)
            memory.readline()
            return _Source(f"/proc/self/fd/{descriptor}", *_native_head(memory, file), origin)


def _with_command(message: str, file: Path) -> str:
    """Return a reader's error; if it names an option of ``wavebed trace``, with the command that takes it."""
    if not any(option in message for option in _TRACE_OPTIONS):
        return message
    columns = _COLUMNS.search(message)
    command = shlex.join(("wavebed", "trace", "convert", str(file)))
    options = columns.group() if columns is not None else "OPTIONS"
    return f"{message}; convert the file first: {command} {options} -o {shlex.quote(f'{file}.pattern')}"


def _native_head(stream: TextIO, file: Path) -> tuple[tuple[str, ...], dict[str, str]]:
    header: dict[str, str] = {}
    while line := stream.readline(_LONGEST_LINE):
        if not line.startswith("#"):
            return tuple(line.rstrip("\r\n").split(",")), header
        if len(header) > _MOST_HEADERS:
            raise UserError(f"{file}: has more than {_MOST_HEADERS} header lines: remove some")
        key, _, value = line[1:].partition("=")
        header[key.strip()] = value.strip()
    raise UserError(f"{file}: the pattern has no rows: add a line of column names and at least one row")


def _peak_bps(path: str, name: str, descriptors: Sequence[int]) -> int:
    """Ask the engine's own reader, so that a pattern is checked by the same rules with and without a default limit."""
    import subprocess  # 5 ms of the start-up of `shell`, and rarely needed

    command = [find_core(), "peak", path]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, pass_fds=descriptors)
    said = done.stderr.decode("utf-8", "replace").strip().removeprefix("wavebed-core: ").replace(path, name)
    if done.returncode == UserError.exit_status:
        raise UserError(said)
    if done.returncode != 0:
        raise WavebedError(f"{name}: {Path(command[0]).name} ended with {done.returncode}: {said or 'it said nothing'}")
    return int(json.loads(done.stdout)["peak_bps"])
