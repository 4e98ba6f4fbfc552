"""Convert the files of a set to patterns that say where they come from and what was done."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from wavebed.catalogue.model import NOT_RECORDED, Converter, TraceSet
from wavebed.errors import UserError
from wavebed.output import csv_rows, write_output
from wavebed.pattern import ReadOptions, to_native
from wavebed.pattern.formats import read_source
from wavebed.pattern.formats.base import GAP_STEPS, clock_ns
from wavebed.pattern.model import cut
from wavebed.pattern.source import TraceSource, plural
from wavebed.printable import message_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wavebed.catalogue.sources import Member
    from wavebed.pattern.model import Pattern

_SUFFIXES = {".csv", ".txt", ".log", ".json"}
_MOST_RUNS = 1000
_FEW_LINES = 3
"""A header and two rows."""
_HELD = "; the value of that line holds there"
_HINT = " (--duration says otherwise)"
_PLAIN = re.compile(r"[^A-Za-z0-9._()+=-]")


@dataclass(frozen=True)
class ConvertedTrace:
    """One trace that was made.

    Parameters
    ----------
    file : pathlib.Path
        Its place below the folder of the set.
    pattern : Pattern
        Its content.
    input : str
        The file of the set that it was made from.
    sha256 : str
        Hash of that file.
    notes : list of str
        What the conversion did.
    """

    file: Path
    pattern: Pattern
    input: str
    sha256: str
    notes: list[str]


@dataclass(frozen=True)
class Conversion:
    """What became of a set: the traces, the files without a converter, and those that could not be read."""

    made: list[ConvertedTrace]
    left: list[str]
    refused: list[str]


def convert(chosen: TraceSet, members: Iterable[Member], folder: Path, checked: str, only: str | None) -> Conversion:
    """Convert the files of a set into a new folder.

    Parameters
    ----------
    members : iterable of Member
        The files; each is loaded before the next is taken.
    folder : pathlib.Path
        The folder to make; it does not exist, or is empty.
    checked : str
        What is known of the input's hash, for the header of each pattern.
    only : str, optional
        Convert the files alone whose name matches, as ``*walking*``.

    Raises
    ------
    UserError
        If the folder is not new, or no file could be converted: the reason of the first.
    """
    done = Conversion([], [], [])
    with _new_folder(folder) as draft:
        for member in members:
            fitting = [each for each in chosen.convert if each.fits(member.name)]
            if only is not None:
                fitting = fitting if PurePosixPath(member.name).match(only) else []
            if not fitting:
                done.left.append(member.name)
                continue
            data = member.load()
            for converter in fitting:
                try:
                    made = list(_traces(chosen, converter, member.name, data, checked))
                except UserError as error:
                    if str(error) not in done.refused:
                        done.refused.append(str(error))
                    continue
                for each in made:
                    (draft / each.file).parent.mkdir(parents=True, exist_ok=True)
                    write_output(draft / each.file, to_native(each.pattern))
                done.made.extend(made)
        if not done.made:
            raise UserError(_nothing(chosen, done, only))
    return done


def _nothing(chosen: TraceSet, done: Conversion, only: str | None) -> str:
    if done.refused:
        return f"{done.refused[0]} (no file of {chosen.name} could be converted)"
    wanted = sorted({pattern for each in chosen.convert for pattern in each.files})
    among = f"{plural(len(done.left), 'file')} there" if done.left else "there is no file"
    beside = f" and --only {only}" if only else ""
    return f"{chosen.name}: {among}, none is named as {' or '.join(wanted)}{beside}: name the folder of the set"


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Yield a hidden folder that becomes `folder` at the end of the block; if it fails nothing is left."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: exists: name a new folder with -o")
    draft = folder.absolute().with_name(f".{folder.name}-{os.urandom(4).hex()}")
    try:
        draft.mkdir(parents=True)
        yield draft
        draft.rename(folder)
    except OSError as error:
        raise UserError(f"{folder}: {(error.strerror or str(error)).lower()}: name another folder with -o") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _traces(chosen: TraceSet, converter: Converter, name: str, data: bytes, checked: str) -> Iterator[ConvertedTrace]:
    """Yield the traces of one file by one converter."""
    digest = hashlib.sha256(data).hexdigest()
    shown = name.lstrip("/")
    for run, parts, notes, short in _runs_in_parts(converter, shown, data):
        for number, (part, said) in enumerate(parts, 1):
            ends = [f"run{run}"] if run is not None else []
            ends += [f"part{number}"] if len(parts) > 1 else []
            told = [*([converter.warns] if converter.warns else []), *notes, *said]
            told += [f"part {number} of {len(parts)}"] if len(parts) > 1 else []
            told += [f"{plural(short, 'part')} of one row left out"] if short else []
            header = {
                "title": chosen.what,
                "source": chosen.page,
                "set": chosen.name,
                "version": chosen.version,
                "licence": chosen.licence or NOT_RECORDED,
                "paper": chosen.paper,
                "input": shown,
                "input_sha256": digest,
                "input_check": checked,
                "conversion": str(converter),
                "did": "; ".join(told) or "nothing beside the conversion",
                "not_held": converter.left or "nothing",
                "wavebed": _version(),
            }
            kept = tuple(pair for pair in part.header if pair[0] not in header)
            lines = tuple((key, _line(value)) for key, value in header.items())
            yield ConvertedTrace(_output_name(shown, ends), replace(part, header=(*kept, *lines)), shown, digest, told)


def _runs_in_parts(
    converter: Converter, name: str, data: bytes
) -> Iterator[tuple[int | None, list[tuple[Pattern, list[str]]], list[str], int]]:
    """Yield for each run its parts with what made each, what was done for all, and how many parts were too short."""
    parts: list[tuple[Pattern, list[str]]] = []
    did: list[str] = []
    alone = 0
    data = _prepared(converter, name, data, did)
    for text, place in _series(converter, data):
        try:
            runs = list(_runs(converter, name, text))
        except UserError:
            if not place or text.count(b"\n") > _FEW_LINES:
                raise
            alone += 1  # too few rows between two steps back in time
            continue
        for run, pattern, notes in runs:
            inner, short = _parts(converter, pattern)
            alone += short
            said = [place] if place else []
            if len(inner) + short > 1:
                said += [note for note in notes if not note.endswith(_HELD)]
                said.append(f"parted at gaps above {converter.split}, where no value holds")
                made = [(each, [*said, *_gaps(each)]) for each in inner]
            else:
                made = [(each, [*said, *notes]) for each in inner]
            if converter.runs:
                yield run, made, did, short
            else:
                parts += made
    if not converter.runs:
        if not parts:
            raise UserError(f"{name}: has no two rows without a gap between them")
        yield None, parts, did, alone


def _gaps(part: Pattern) -> list[str]:
    """Say which gaps a part still has."""
    lengths = part.lengths()
    wide = lengths >= GAP_STEPS * int(np.median(lengths))
    count = int(wide.sum())
    longest = f", the longest {int(lengths.max()) / 1e9:g} s; the value before holds there"
    return [f"{plural(count, 'gap')} of at least {GAP_STEPS} usual steps{longest}"] if count else []


def _version() -> str:
    from wavebed import __version__

    return __version__


def _line(text: str) -> str:
    return " ".join(message_text(text).split())


def _output_name(name: str, ends: list[str]) -> Path:
    """Return the name of a trace: the input's without its suffix, in the same folders."""
    path = PurePosixPath(name)
    stem = path.stem if path.suffix.lower() in _SUFFIXES else path.name
    parts = [_PLAIN.sub("_", part).lstrip(".") or "_" for part in (*path.parent.parts, stem)]
    return Path(*parts[:-1], ".".join([parts[-1], *ends]) + ".csv")


def _runs(converter: Converter, name: str, data: bytes) -> Iterator[tuple[int | None, Pattern, list[str]]]:
    """Yield the patterns of a file, each with its run, if it holds several, and what the reader did."""
    runs: list[int | None] = list(_run_numbers(name, data)) if converter.runs else [None]
    for run in runs:
        with TraceSource(name, data) as source:
            options = ReadOptions(columns=converter.columns, run=run)
            pattern = read_source(source, converter.format, options)
            notes = [note.removeprefix(f"{name}: ").removesuffix(_HINT) for note in source.notes]
        yield run, pattern, notes


def _series(converter: Converter, data: bytes) -> Iterator[tuple[bytes, str]]:
    """Yield the rows of a table between steps back in time, each with what was done; other files whole."""
    column = next(
        (each[5:-6] for each in converter.columns if each.startswith("time=") and each.endswith(":clock")), ""
    )
    lines = data.decode("utf-8", "replace").splitlines(keepends=True)
    head = next(csv.reader(lines[:1]), [])
    if converter.split is None or column not in head:
        yield data, ""
        return
    place = head.index(column)
    times = [_clock(row[place]) if len(row) > place else None for row in csv.reader(lines[1:])]
    if len(times) != len(lines) - 1:  # a value over several lines
        yield data, ""
        return
    known = [(row, time) for row, time in enumerate(times, 1) if time is not None]
    back = [row for (_, before), (row, time) in pairwise(known) if time < before]
    if not back:
        yield data, ""
        return
    for first, after in pairwise([1, *back, len(lines)]):
        text = "".join([lines[0], *lines[first:after]])
        yield text.encode(), f"lines {first + 1} to {after}, between steps back in time; line numbers count from there"


def _clock(text: str) -> int | None:
    try:
        return clock_ns(text)
    except ValueError:
        return None


def _run_numbers(name: str, data: bytes) -> list[int]:
    reader = csv.DictReader(io.StringIO(data.decode("utf-8", "replace")))
    found = dict.fromkeys(row.get("run_num") or "" for row in reader)
    if not found or not all(run.isdecimal() for run in found) or len(found) > _MOST_RUNS:
        raise UserError(f"{name}: needs a column run_num of whole numbers, at most {_MOST_RUNS} different ones")
    return [int(run) for run in found]


def _prepared(converter: Converter, name: str, data: bytes, did: list[str]) -> bytes:
    """Return a table without the rows that lack a value, and with lost packets as missing values."""
    if converter.lone is not None:
        numbers = data.decode("utf-8", "replace").split()
        return "\n".join([f"line,{converter.lone}", *(f"{row},{text}" for row, text in enumerate(numbers, 1))]).encode()
    if converter.only_with is None and not converter.missing:
        return data
    try:
        rows = list(csv.reader(io.StringIO(data.decode("utf-8")), strict=True))
        head = rows[0]
        places = {column: head.index(column) for column in (converter.only_with, *converter.missing) if column}
        if converter.only_with is not None:
            place = places[converter.only_with]
            kept = [row for row in rows[1:] if row[place].strip().lower() not in {"", "nan"}]
            did.append(f"{len(rows) - 1 - len(kept)} of {len(rows) - 1} rows have no {converter.only_with}")
            rows = [head, *kept]
        for column, cells in converter.missing.items():
            place, count = places[column], 0
            for row in rows[1:]:
                if row[place] in cells:
                    row[place] = ""
                    count += 1
            did.append(f"{count} of {len(rows) - 1} values of {column} stand for lost packets")
    except (UnicodeDecodeError, csv.Error, IndexError, ValueError) as error:
        raise UserError(f"{name}: is not the table that the catalogue describes ({error})") from None
    return csv_rows([["" if cell == "-" else cell for cell in row] for row in rows]).encode()


def _parts(converter: Converter, pattern: Pattern) -> tuple[list[Pattern], int]:
    """Part a pattern at its gaps, a row before a gap lasting as long as usual; tell how many parts had one row only."""
    limit_ns = converter.split_ns
    if limit_ns is None or pattern.kind != "steps":
        return [pattern], 0
    lengths = pattern.lengths()
    usual = int(np.median(lengths))
    gaps = np.flatnonzero(lengths[:-1] > max(limit_ns, usual)) + 1
    found = []
    for first, after in pairwise([0, *gaps.tolist(), len(pattern)]):
        begin, last = int(pattern.index[first]), int(pattern.index[after - 1])
        if after - first > 1:
            found.append(cut(pattern, begin, last + min(usual, int(lengths[after - 1]))))
    return found, len(gaps) + 1 - len(found)
