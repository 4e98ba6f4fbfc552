"""Lumos5G v1.0: a CSV of measurements, one row a second; ``Throughput`` is in Mbit/s.

A row covers the second that ends with its ``seq_num``. A file may hold many runs; one is read.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from wavebed.pattern.formats.base import Format, ReadOptions, WriteOptions, note_lost_columns
from wavebed.pattern.formats.seconds_mbit import ending_samples
from wavebed.pattern.model import MAX_NS, MAX_RATE_BPS, Pattern
from wavebed.pattern.numbers import format_scaled, integers, measured
from wavebed.pattern.resample import NS_PER_S, rate_steps, to_windows
from wavebed.pattern.source import plural, quote

if TYPE_CHECKING:
    from wavebed.pattern.source import Source

__all__ = ["FORMAT"]

HEADER = (
    "run_num,seq_num,abstractSignalStr,latitude,longitude,movingSpeed,compassDirection,nrStatus,lte_rssi,lte_rsrp,"
    "lte_rsrq,lte_rssnr,nr_ssRsrp,nr_ssRsrq,nr_ssSinr,Throughput,mobility_mode,trajectory_direction,tower_id"
)
NEEDED = ("run_num", "seq_num", "Throughput")


def sniff(source: Source) -> bool:
    """Recognise the header by two of its names."""
    return bool(source.head) and {"seq_num", "Throughput"} <= set(source.head[0].split(","))


def _rows_of_run(source: Source, options: ReadOptions) -> tuple[list[list[str]], list[str], list[int]]:
    reader = csv.reader(io.StringIO(source.text), strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        names = next(reader)
        for row in reader:
            rows.append(row)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise source.error(f"is not a table of comma-separated values: {error}", reader.line_num) from None
    for name in NEEDED:
        if names.count(name) != 1:
            raise source.error(f"the header needs one column {name!r}, as in Lumos5G v1.0", 1)
    if not rows:
        raise source.error("has no rows below the header", 1)
    for row, number in zip(rows, lines, strict=True):
        if len(row) != len(names):
            raise source.error(
                f"{plural(len(row), 'value')} for {plural(len(names), 'column')}; write one for each", number
            )
    runs = list(dict.fromkeys(row[names.index("run_num")] for row in rows))
    wanted = str(options.run) if options.run is not None else runs[0]
    if len(runs) > 1 and options.run is None:
        some = ", ".join(quote(run) for run in runs[:8]) + (", …" if len(runs) > 8 else "")
        raise source.error(f"holds {len(runs)} runs ({some}); choose one, as --run {runs[0]}")
    if wanted not in runs:
        raise source.error(f"has no run {wanted}; it has {', '.join(runs[:8])}")
    keep = [position for position, row in enumerate(rows) if row[names.index("run_num")] == wanted]
    return [rows[position] for position in keep], names, [lines[position] for position in keep]


def read(source: Source, options: ReadOptions) -> Pattern:
    """Read one run.

    Raises
    ------
    UserError
        With the line, the rule and the remedy.
    """
    rows, names, lines = _rows_of_run(source, options)

    def line_of(position: int) -> int:
        return lines[position]

    def cells(name: str) -> list[str]:
        return [row[names.index(name)] for row in rows]

    seconds = integers(source, cells("seq_num"), line_of, "seq_num", most=MAX_NS // NS_PER_S)
    rates = measured(source, cells("Throughput"), line_of, "Throughput", scale=10**6, most=MAX_RATE_BPS)
    return ending_samples(source, seconds * NS_PER_S, rates, "seq_num", lines)


def write(pattern: Pattern, options: WriteOptions) -> str:
    """Write one run of whole seconds; the columns that a pattern does not hold stay empty."""
    note_lost_columns(pattern, options)
    pattern = to_windows(rate_steps(pattern, options, NS_PER_S), NS_PER_S, options, "whole seconds")
    assert pattern.rate_bps is not None, "rate_steps returns a rate"
    options.notes.append("position, signal and the other columns stay empty")
    out = [HEADER + "\n"]
    ends = ((pattern.index + pattern.lengths()) // NS_PER_S).tolist()
    for end, rate in zip(ends, pattern.rate_bps.tolist(), strict=True):
        out.append(f"1,{end},,,,,,,,,,,,,,{format_scaled(rate, 6)},,,\n")
    return "".join(out)


FORMAT = Format(
    name="lumos5g",
    title="Lumos5G v1.0 CSV: seq_num in s, Throughput in Mbit/s",
    sniff=sniff,
    read=read,
    write=write,
    suffixes=(".lumos5g",),
)
