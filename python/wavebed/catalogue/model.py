"""The sets of the catalogue, as ``sets.toml`` has them."""

from __future__ import annotations

from functools import cache
from pathlib import Path, PurePath

from msgspec import Struct, convert, field

from wavebed.config.problems import one_of
from wavebed.config.units import parse_time
from wavebed.errors import UserError
from wavebed.foreign import read_toml
from wavebed.prepared import prepared

NOT_RECORDED = "not recorded"
"""Stands for what a source does not state."""


class Converter(Struct, frozen=True, forbid_unknown_fields=True):
    """Options of a reader of traces for some files of a set; ``sets.toml`` says what each key means."""

    files: tuple[str, ...]
    format: str | None = None
    columns: tuple[str, ...] = ()
    runs: bool = False
    split: str | None = None
    missing: dict[str, tuple[str, ...]] = field(default_factory=dict)
    only_with: str | None = None
    lone: str | None = None
    warns: str = ""
    left: str = ""

    def fits(self, name: str) -> bool:
        """Tell whether this converter reads the file of that name, which begins with ``/``."""
        return any(PurePath(name).match(pattern) for pattern in self.files)

    @property
    def split_ns(self) -> int | None:
        """The longest step inside a trace, nanoseconds."""
        return None if self.split is None else parse_time(self.split)

    def __str__(self) -> str:
        """Return the options as ``wavebed trace convert`` takes them."""
        words = [f"--format {self.format}"] if self.format else []
        words += [f"--columns {' '.join(map(_quoted, self.columns))}"] if self.columns else []
        words += [f"one column, called {self.lone}"] if self.lone else []
        words += ["each run"] if self.runs else []
        words += [f"parted at gaps above {self.split}"] if self.split else []
        words += [f"{cells} in {column} as missing" for column, cells in self._missing()]
        words += [f"rows with {self.only_with}"] if self.only_with else []
        return ", ".join(words)

    def _missing(self) -> list[tuple[str, str]]:
        return [(column, " and ".join(cells)) for column, cells in self.missing.items()]


class TraceSet(Struct, frozen=True, forbid_unknown_fields=True):
    """A set of public traces.

    Parameters
    ----------
    name, what, page, paper : str
        How it is called, what was measured, where it is described, who published it.
    licence : str, optional
        As the source states it.
    repository, commit : str, optional
        On GitHub; without them wavebed cannot fetch the set.
    trees, blobs : dict of str to str
        Hashes of git of the folders and files that are fetched.
    bytes : int, optional
        Size of these folders and files.
    how : str
        What the user does, where wavebed cannot fetch.
    """

    name: str
    what: str
    page: str
    paper: str
    convert: tuple[Converter, ...]
    licence: str | None = None
    repository: str | None = None
    commit: str | None = None
    trees: dict[str, str] = field(default_factory=dict)
    blobs: dict[str, str] = field(default_factory=dict)
    bytes: int | None = None
    how: str = ""
    skipped: str = ""

    @property
    def version(self) -> str:
        """The commit of the set."""
        return f"commit {self.commit}" if self.commit else NOT_RECORDED


def _quoted(word: str) -> str:
    import shlex

    return shlex.quote(word)


@cache
def trace_sets() -> dict[str, TraceSet]:
    """Return the sets by their names."""
    written = read_toml(Path(__file__).with_name("sets.toml"), "install wavebed again")["set"]
    found = convert(written, prepared(list[TraceSet]))
    return {each.name: each for each in found}


def set_named(name: str) -> TraceSet:
    """Return the set of that name.

    Raises
    ------
    UserError
        If there is none.
    """
    known = trace_sets()
    if name not in known:
        raise UserError(f"{name!r} is no set of the catalogue: {one_of(name, known)}")
    return known[name]
