"""The trace formats: one module each, all listed here, and how a file's format is found."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.pattern.formats import (
    cellreplay,
    iperf3,
    kaunet,
    lumos5g,
    mahimahi,
    native,
    netem_trace,
    ns3_mmwave,
    ntrace,
    seconds_mbit,
    table,
    theaterq,
)
from wavebed.pattern.formats.base import AS_TABLE
from wavebed.pattern.source import quote

if TYPE_CHECKING:
    from wavebed.pattern.formats.base import Format
    from wavebed.pattern.source import Source

__all__ = ["FORMATS", "by_file_name", "by_name", "detect"]

_IPERF_TEXT = re.compile(r"\bsec\b.*\b[KMG]?bits/sec")

FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        native.FORMAT,
        mahimahi.FORMAT,
        seconds_mbit.FORMAT,
        kaunet.FORMAT,
        ns3_mmwave.FORMAT,
        lumos5g.FORMAT,
        cellreplay.HEAVY,
        cellreplay.LIGHT,
        cellreplay.OFFSET,
        theaterq.SIMPLE,
        theaterq.EXTENDED,
        netem_trace.FORMAT,
        ntrace.DOWN,
        ntrace.UP,
        iperf3.FORMAT,
        table.FORMAT,
    )
}


def by_name(name: str) -> Format:
    """Return the format of that name.

    Raises
    ------
    UserError
        If there is none.
    """
    if name not in FORMATS:
        raise UserError(f"format {name!r} is unknown; the formats are {', '.join(FORMATS)}")
    return FORMATS[name]


def by_file_name(name: str, candidates: list[Format]) -> list[Format]:
    """Return the candidates whose usual file names end as this one, the longest ends only."""
    file = PurePath(name).name
    ends = [(len(end), form) for form in candidates for end in form.suffixes if file.endswith(end)]
    longest = max((length for length, _ in ends), default=0)
    return [form for length, form in ends if length == longest]


def detect(source: Source) -> Format:
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
