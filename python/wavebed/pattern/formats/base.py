"""The interface of a trace format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from wavebed.pattern.model import Pattern
    from wavebed.pattern.source import Source

__all__ = ["AS_TABLE", "Format", "ReadOptions", "WriteOptions", "note_lost_columns"]

AS_TABLE = (
    "write its times and rates as a table with the header time_s,rate_mbit and read it with "
    "--columns time=time_s:s rate=rate_mbit:mbit"
)
"""Remedy for a file that no format fits."""


@dataclass(frozen=True)
class ReadOptions:
    """The options of a reader.

    Parameters
    ----------
    columns : tuple of str
        ``NAME=COLUMN:UNIT`` items, for the format ``csv``.
    window_ns : int
        The time over which transport blocks become a rate, for the format ``ns3-mmwave``.
    duration_ns : int, optional
        The duration, for formats that do not hold it.
    run : int, optional
        The run that is read, for files that hold several.
    """

    columns: tuple[str, ...] = ()
    window_ns: int = 1_000_000
    duration_ns: int | None = None
    run: int | None = None


@dataclass(frozen=True)
class WriteOptions:
    """The options of a writer.

    Parameters
    ----------
    window_ns : int, optional
        The time over which opportunities become a rate; each format has its own default.
    notes : list of str
        The writer adds a note for the data that the format cannot hold.
    """

    window_ns: int | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Format:
    """One trace format.

    Parameters
    ----------
    name : str
        As ``--format`` and ``--to`` take it.
    title : str
        One line of description.
    sniff : callable
        Whether the beginning of a file looks like this format; a wrong file may still look right.
    read : callable
        Read the whole file strictly.
    write : callable or None
        Write a pattern; the options' notes name the data that is lost.
    suffixes : tuple of str
        Ends of file names by which `convert` chooses the format, and by which a file that fits two is told apart.
    """

    name: str
    title: str
    sniff: Callable[[Source], bool]
    read: Callable[[Source, ReadOptions], Pattern]
    write: Callable[[Pattern, WriteOptions], str] | None
    suffixes: tuple[str, ...] = ()


def note_lost_columns(pattern: Pattern, options: WriteOptions, held: Collection[str] = ("rate",)) -> None:
    """Say which columns a format does not hold, where the pattern has them.

    Parameters
    ----------
    held : collection of str
        The columns of the format, by the names below.
    """
    columns = (
        ("rate", pattern.rate_bps),
        ("delay", pattern.delay_ns),
        ("loss", pattern.loss),
        ("bler", pattern.bler),
        ("sinr", pattern.sinr_mdb),
        ("state", pattern.state),
        ("fallback rate", pattern.fallback_rate_bps),
        ("light rate", pattern.light_rate_bps),
    )
    lost = [name for name, column in columns if column is not None and name not in held]
    if lost:
        said = " and ".join(filter(None, (", ".join(lost[:-1]), lost[-1])))
        options.notes.append(f"{said} cannot be written in this format")
