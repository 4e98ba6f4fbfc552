"""Load a pattern from any trace file, and save one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.output import write_output
from wavebed.pattern.formats import FORMATS, by_file_name, by_name, detect, table
from wavebed.pattern.formats.base import Format, ReadOptions, WriteOptions
from wavebed.pattern.source import Source

if TYPE_CHECKING:
    from wavebed.pattern.model import Pattern

__all__ = ["format_for_output", "read_source", "read_trace", "render", "to_native", "write_trace"]


def read_source(source: Source, format_name: str | None = None, options: ReadOptions | None = None) -> Pattern:
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
    with Source.from_path(path) as source:
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
    fitting: list[Format] = by_file_name(path, writable)
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
    """Save a pattern; the format is that of the file's name unless given.

    Raises
    ------
    UserError
        If the format is not clear, cannot hold the pattern, or the place cannot be written.
    """
    name = format_for_output(os.fspath(path), format_name)
    write_output(path, render(pattern, name, options))
