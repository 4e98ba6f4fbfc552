"""Lumos5G v1.0: a CSV of measurements, one row a second; ``Throughput`` is in Mbit/s.

A row covers the second that ends with its ``seq_num``. A file may hold many runs; one is read.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import numpy as np

from wavebed.pattern.formats.base import Format, ReadOptions, WriteOptions, note_lost_columns
from wavebed.pattern.formats.seconds_mbit import ending_samples, late_step
from wavebed.pattern.formats.table import blocks_of_rows
from wavebed.pattern.model import MAX_NS, MAX_RATE_BPS, Pattern
from wavebed.pattern.numbers import Rows, format_scaled, integers, measured
from wavebed.pattern.resample import NS_PER_S, rate_steps, to_windows
from wavebed.pattern.source import quote

if TYPE_CHECKING:
    from wavebed.pattern.source import Source

__all__ = ["FORMAT"]

HEADER = (
    "run_num,seq_num,abstractSignalStr,latitude,longitude,movingSpeed,compassDirection,nrStatus,lte_rssi,lte_rsrp,"
    "lte_rsrq,lte_rssnr,nr_ssRsrp,nr_ssRsrq,nr_ssSinr,Throughput,mobility_mode,trajectory_direction,tower_id"
)
NEEDED = ("run_num", "seq_num", "Throughput")
MAX_RUNS = 1000
"""So many are counted."""


def sniff(source: Source) -> bool:
    """Recognise the header by two of its names."""
    return bool(source.head) and {"seq_num", "Throughput"} <= set(source.head[0].split(","))


class _Runs:
    """The runs that were met while one of them is read."""

    def __init__(self, wanted: int | None) -> None:
        self.wanted = None if wanted is None else str(wanted)
        self.some: dict[str, None] = {}
        self.found = False

    def meet(self, runs: list[str]) -> None:
        """Keep the names of the first runs; that of the first row is wanted if none was asked for."""
        if self.wanted is None:
            self.wanted = runs[0]
        self.found = self.found or self.wanted in runs
        if len(self.some) < MAX_RUNS:
            self.some.update(dict.fromkeys(runs))

    def check(self, source: Source, asked: bool) -> None:
        """Make sure that the run to read is there, and is the only one unless it was asked for."""
        shown = list(self.some)[:8]
        more = ", …" if len(self.some) > len(shown) else ""
        if not asked and len(self.some) > 1:
            some = ", ".join(quote(run) for run in shown) + more
            raise source.error(f"holds {len(self.some)} runs ({some}); choose one, as --run {quote(shown[0])[1:-1]}")
        if not self.found:
            raise source.error(f"has no run {self.wanted}; it has {', '.join(quote(run)[1:-1] for run in shown)}")


def read(source: Source, options: ReadOptions) -> Pattern:
    """Read one run.

    Raises
    ------
    UserError
        With the line, the rule and the remedy.
    """
    reader = csv.reader((f"{line}\n" for _, line in source.lines()), strict=True)
    runs = _Runs(options.run)
    most = source.count()
    seconds, rates, places = Rows(most, np.int64), Rows(most, np.int64), Rows(most, np.uint32)
    try:
        names = next(reader)
        for name in NEEDED:
            if names.count(name) != 1:
                raise source.error(f"the header needs one column {name!r}, as in Lumos5G v1.0", 1)
        run_column, second_column, rate_column = (names.index(name) for name in NEEDED)
        for lines, rows in blocks_of_rows(source, reader, len(names)):
            runs.meet([row[run_column] for row in rows])
            if options.run is None and len(runs.some) > 1:
                continue  # an error; all runs are counted for its message
            keep = [place for place, row in enumerate(rows) if row[run_column] == runs.wanted]
            kept = [lines[place] for place in keep]

            def line_of(position: int, kept: list[int] = kept) -> int:
                return kept[position]

            if keep:
                texts = [rows[place][second_column] for place in keep]
                seconds.add(integers(source, texts, line_of, "seq_num", most=MAX_NS // NS_PER_S))
                texts = [rows[place][rate_column] for place in keep]
                rates.add(measured(source, texts, line_of, "Throughput", scale=10**6, most=MAX_RATE_BPS))
                places.add(np.array(kept, dtype=np.uint32))
    except csv.Error as error:
        raise source.error(f"is not a table of comma-separated values: {error}", reader.line_num) from None
    if not runs.some:
        raise source.error("has no rows below the header", 1)
    runs.check(source, options.run is not None)
    lines_of_run, times = places.whole(), seconds.whole()
    times *= NS_PER_S
    return ending_samples(source, times, rates.whole(), "seq_num", lambda position: int(lines_of_run[position]))


def write(pattern: Pattern, options: WriteOptions) -> str:
    """Write one run of whole seconds; the columns that a pattern does not hold stay empty."""
    note_lost_columns(pattern, options)
    pattern = to_windows(rate_steps(pattern, options, NS_PER_S), NS_PER_S, options, "whole seconds")
    assert pattern.rate_bps is not None, "rate_steps returns a rate"
    options.notes.append("position, signal and the other columns stay empty")
    out = [HEADER + "\n"]
    ends = (pattern.index + pattern.lengths()) // NS_PER_S
    samples = list(zip(ends.tolist(), pattern.rate_bps.tolist(), strict=True))
    if late_step(ends, int(ends[0])):
        samples.insert(0, (0, samples[0][1]))  # else the first time would be read as an offset
    for end, rate in samples:
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
