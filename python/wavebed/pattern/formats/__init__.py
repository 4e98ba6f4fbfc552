"""The trace formats: one module each, all listed here, and how a file's format is found."""

from __future__ import annotations

import os
import re
from pathlib import PurePath
from typing import TYPE_CHECKING

from wavebed.config.problems import one_of
from wavebed.errors import UserError
from wavebed.output import write_output
from wavebed.pattern.formats import deliveries, kaunet, measured, native, netem_trace, table
from wavebed.pattern.formats.base import AS_TABLE, ReadOptions, TraceFormat, WriteOptions
from wavebed.pattern.source import TraceSource, quote

if TYPE_CHECKING:
    from wavebed.pattern.model import Pattern


__all__ = ["FORMATS", "by_file_name", "by_name", "detect"]

_IPERF_TEXT = re.compile(r"\bsec\b.*\b[KMG]?bits/sec")

FORMATS: dict[str, TraceFormat] = {
    form.name: form
    for form in (
        native.FORMAT,
        deliveries.FORMAT,
        measured.SECONDS_MBIT,
        kaunet.FORMAT,
        measured.NS3_MMWAVE,
        measured.LUMOS5G,
        deliveries.HEAVY,
        deliveries.LIGHT,
        deliveries.OFFSET,
        netem_trace.SIMPLE,
        netem_trace.EXTENDED,
        netem_trace.FORMAT,
        kaunet.DOWN,
        kaunet.UP,
        measured.IPERF3,
        table.FORMAT,
    )
}


def by_name(name: str) -> TraceFormat:
    """Return the format of that name.

    Raises
    ------
    UserError
        If there is none.
    """
    if name not in FORMATS:
        raise UserError(f"format {name!r} is unknown: {one_of(name, FORMATS)}")
    return FORMATS[name]


def by_file_name(name: str, candidates: list[TraceFormat]) -> list[TraceFormat]:
    """Return the candidates whose usual file names end as this one, the longest ends only."""
    file = PurePath(name).name
    ends = [(len(end), form) for form in candidates for end in form.suffixes if file.endswith(end)]
    longest = max((length for length, _ in ends), default=0)
    return [form for length, form in ends if length == longest]


def detect(source: TraceSource) -> TraceFormat:
    """Find the format from the content; the file's name decides only between formats that both fit.

    Raises
    ------
    UserError
        If no format fits, or several do.
    """
    if any(_IPERF_TEXT.search(line) for line in source.head):
        raise source.error("is iperf3's report for readers; run iperf3 with --json and give its output")
    fitting = [form for form in FORMATS.values() if form.sniff(source)]
    if len(fitting) > 1:
        fitting = by_file_name(source.name, fitting) or fitting
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = " and ".join(form.name for form in fitting)
        choice = " or ".join(f"--format {form.name}" for form in fitting)
        raise source.error(f"the content fits {names}; say which with {choice}")
    described = table.looks_like_table(source)
    if described is not None:
        raise source.error(described)
    first = source.head_rows[0] if source.head_rows else ""
    if first.lstrip().startswith("<"):
        raise source.error(f"is XML or HTML, not a trace; {AS_TABLE}")
    known = ", ".join(name for name in FORMATS if name != "cellreplay-offset")
    raise source.error(
        f"no format fits, the first line is {quote(first)}; give --format with one of {known}; or {AS_TABLE}"
    )


def read_source(source: TraceSource, format_name: str | None = None, options: ReadOptions | None = None) -> Pattern:
    """Read a trace whose text is at hand.

    Raises
    ------
    UserError
        If the format is not clear or the content breaks its rules.
    """
    options = options or ReadOptions()
    if source.is_blank():
        raise source.error("is empty; a trace has at least one line")
    if format_name is not None:
        form = by_name(format_name)
    elif options.columns:
        form = table.FORMAT
    else:
        form = detect(source)
    if options.columns and form is not table.FORMAT:
        raise source.error(f"--columns is for tables, not for --format {form.name}; leave one of them out")
    try:
        return form.read(source, options)
    except UserError as error:
        if str(error).startswith((source.name, "--")):
            raise
        raise source.error(str(error)) from None


def read_trace(
    path: str | os.PathLike[str],
    format_name: str | None = None,
    options: ReadOptions | None = None,
    notes: list[str] | None = None,
) -> Pattern:
    """Load a trace file.

    Parameters
    ----------
    path : path-like
        The file.
    format_name : str, optional
        Its format; found from the content by default.
    options : ReadOptions, optional
        The options of the format.
    notes : list of str, optional
        Where assumptions and omissions are appended, one line each.

    Raises
    ------
    UserError
        With the file, line, rule and remedy.
    """
    with TraceSource.from_path(path) as source:
        pattern = read_source(source, format_name, options)
    if notes is not None:
        notes.extend(source.notes)
    return pattern


def render(pattern: Pattern, format_name: str = "native", options: WriteOptions | None = None) -> str:
    """Write a pattern as text in a format.

    Raises
    ------
    UserError
        If the format cannot be written or cannot hold the pattern.
    """
    form = by_name(format_name)
    if form.write is None:
        raise UserError(f"format {form.name} can be read but not written; choose another --to")
    return form.write(pattern, options or WriteOptions())


def to_native(pattern: Pattern) -> str:
    """Write a pattern as the text that the link engine reads."""
    return render(pattern, "native")


def format_for_output(path: str, format_name: str | None) -> str:
    """Return the format to write: as named, else as the file's name says.

    Raises
    ------
    UserError
        If neither says it.
    """
    writable = [form for form in FORMATS.values() if form.write is not None]
    if format_name is not None:
        return by_name(format_name).name
    fitting: list[TraceFormat] = by_file_name(path, writable)
    if not fitting:
        names = ", ".join(form.name for form in writable)
        raise UserError(f"{path}: the name does not say which format to write; give --to with one of {names}")
    return fitting[0].name


def write_trace(
    pattern: Pattern,
    path: str | os.PathLike[str],
    format_name: str | None = None,
    options: WriteOptions | None = None,
) -> None:
    """Save a pattern; the file's name decides the format unless given.

    Raises
    ------
    UserError
        If the format is not clear, cannot hold the pattern, or the place cannot be written.
    """
    name = format_for_output(os.fspath(path), format_name)
    write_output(path, render(pattern, name, options))
