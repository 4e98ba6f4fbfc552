"""Measured walks: the rate of each second, and the rule that holds some of them out."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wavebed.errors import UserError
from wavebed.pattern.files import read_trace
from wavebed.pattern.resample import window_rates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.channel.placemap.levels import Floats

__all__ = ["DEFAULT_RULE", "RULES", "Lap", "Split", "find_files", "read_laps", "split"]

DEFAULT_RULE = "every:4"
RULES = "every:N, last:FRACTION, quarter:N, files:PATH or none"
SHORTEST_S = 60
LONGEST_S = 100_000
QUARTERS = 4
_NS_PER_S = 10**9


@dataclass(frozen=True, slots=True, eq=False)
class Lap:
    """One walk.

    Parameters
    ----------
    name : str
        Of its file.
    rates : float array
        Mean rate of each second, Mbit/s; NaN where the rule hides it.
    """

    name: str
    rates: Floats

    @property
    def known(self) -> Floats:
        """The rates that are not hidden."""
        return self.rates[~np.isnan(self.rates)]

    @property
    def parts(self) -> list[Floats]:
        """The rates as parts without a gap."""
        cuts = np.flatnonzero(np.diff(np.isnan(self.rates).astype(np.int8))) + 1
        return [part for part in np.split(self.rates, cuts) if not np.isnan(part[0])]


@dataclass(frozen=True, slots=True)
class Split:
    """The files to learn from, and those held out; no file has been read.

    Parameters
    ----------
    rule : str
        As it was given.
    fitted, held_out : tuple of pathlib.Path
        Files in the order of their names. By ``quarter:N`` both have all files.
    quarter : int or None
        The quarter of the lap time, from 1, that is hidden from learning; the judge sees nothing else.
    """

    rule: str
    fitted: tuple[Path, ...]
    held_out: tuple[Path, ...]
    quarter: int | None = None

    def fitted_laps(self, notes: list[str]) -> list[Lap]:
        """Read what may be learned from; see `read_laps`."""
        return [self._only(lap, quarter=False) for lap in read_laps(self.fitted, notes)]

    def held_out_laps(self, notes: list[str]) -> list[Lap]:
        """Read what the predictions are judged by; see `read_laps`."""
        return [self._only(lap, quarter=True) for lap in read_laps(self.held_out, notes)]

    def _only(self, lap: Lap, *, quarter: bool) -> Lap:
        if self.quarter is None:
            return lap
        place = np.arange(len(lap.rates)) * QUARTERS // len(lap.rates) + 1
        return replace(lap, rates=np.where((place == self.quarter) == quarter, lap.rates, np.nan))


def find_files(names: Sequence[Path]) -> list[Path]:
    """Return the files of walks, those of folders included, each once, in the natural order of their names.

    Raises
    ------
    UserError
        If one does not exist, or a folder has none.
    """
    found: dict[Path, None] = {}
    for name in names:
        inner = [name]
        if not name.exists():
            raise UserError(f"{name}: no such file or directory: name a trace, or a folder of traces")
        if name.is_dir():
            inner = [file for file in name.iterdir() if file.is_file() and not file.name.startswith(".")]
            if not inner:
                raise UserError(f"{name}: has no files: name a folder of traces")
        found.update(dict.fromkeys(inner))
    return sorted(found, key=_natural)


def _natural(file: Path) -> tuple[list[tuple[int, str]], str]:
    parts = [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]+)", file.name)]
    return parts, str(file)


def read_laps(files: Sequence[Path], notes: list[str]) -> list[Lap]:
    """Read walks in any format of traces.

    Files that are no trace of a rate, too short or too long are left out, and `notes` gets a line for each.

    Raises
    ------
    UserError
        If there are files, and none can be used: the line of the first.
    """
    laps, problems = [], []
    for file in files:
        try:
            laps.append(_lap(file))
        except UserError as error:
            problems.append(str(error))
    if problems and not laps:
        raise UserError(problems[0])
    notes.extend(f"{problem}: left out" for problem in problems)
    return laps


def _lap(file: Path) -> Lap:
    pattern = read_trace(file)
    if pattern.kind == "packets" or (pattern.rate_bps is None and pattern.size_bytes is None):
        raise UserError(f"{file}: has no rate over time: name traces of rates")
    seconds = pattern.duration_ns // _NS_PER_S
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise UserError(f"{file}: lasts {seconds} s: name walks of {SHORTEST_S} to {LONGEST_S} s")
    rates = window_rates(pattern, _NS_PER_S).rate_bps
    assert rates is not None, "windows have rates"
    return Lap(file.name, np.asarray(rates[:seconds] / 1e6, dtype=np.float64))


def split(files: Sequence[Path], rule: str) -> Split:
    """Divide walks by a rule, by their names only.

    Parameters
    ----------
    rule : str
        ``every:N``: each N-th file; ``last:F``: the last fraction F of the files; ``quarter:N``: the N-th quarter of
        the lap time, from all walks; ``files:PATH``: other files, a trace or a folder of traces; ``none``.

    Raises
    ------
    UserError
        If the rule is none, or leaves no walk on a side.
    """
    files = tuple(files)
    if rule == "none":
        return Split(rule, files, ())
    kind, _, value = rule.partition(":")
    if kind == "quarter" and re.fullmatch("[1-4]", value):
        return Split(rule, files, files, int(value))
    if kind == "files" and value:
        return _by_files(rule, files, Path(value))
    held = _held_out(kind, value, len(files))
    if held is None:
        raise UserError(f"--held-out {rule}: is no rule: write {RULES}, as every:4, last:0.25 or quarter:2")
    if not 0 < len(held) < len(files):
        what = "all walks" if held else "no walk"
        raise UserError(f"--held-out {rule}: holds out {what} of {len(files)}: write another rule, or name more walks")
    chosen = frozenset(held)
    return Split(
        rule,
        tuple(file for place, file in enumerate(files) if place not in chosen),
        tuple(files[place] for place in held),
    )


def _by_files(rule: str, files: tuple[Path, ...], path: Path) -> Split:
    try:
        held_out = tuple(find_files([path]))
    except UserError as error:
        raise UserError(f"--held-out {rule}: {error}") from None
    judging = {file.resolve() for file in held_out}
    fitted = tuple(file for file in files if file.resolve() not in judging)
    if not fitted:
        raise UserError(f"--held-out {rule}: holds out all walks: name other walks to learn from")
    return Split(rule, fitted, held_out)


def _held_out(kind: str, value: str, count: int) -> Sequence[int] | None:
    if kind == "every" and re.fullmatch(r"[1-9][0-9]{0,5}", value):
        return range(int(value) - 1, count, int(value))
    if kind == "last" and re.fullmatch(r"0?\.[0-9]{1,6}", value):
        return range(count - math.floor(float(value) * count + 0.5), count)
    return None
