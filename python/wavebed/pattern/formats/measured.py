"""Formats of measured rates: iperf3, seconds and Mbit/s, Lumos5G, ns-3 mmWave."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING

import numpy as np

from wavebed.errors import UserError
from wavebed.pattern.formats.base import (
    EPOCH_NS,
    LATEST_NS,
    ReadOptions,
    TraceFormat,
    WriteOptions,
    begins_with_keys,
    load,
    note_gaps,
    note_lost_columns,
    say_seconds,
    usual_step,
)
from wavebed.pattern.formats.table import blocks_of_rows
from wavebed.pattern.model import MAX_NS, MAX_OPPORTUNITY_BYTES, MAX_RATE_BPS, Pattern, opportunities, steps
from wavebed.pattern.resample import MAX_ROWS, NS_PER_MS, NS_PER_S, rate_steps, to_windows, window_rates
from wavebed.pattern.source import Rows, first_value, format_scaled, integers, measured, plural, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from wavebed.pattern.source import LineOf, TraceSource


NAMES = ("start", "end", "bits_per_second")


def sniff_iperf3(source: TraceSource) -> bool:
    """Recognise the keys of the report's beginning."""
    return begins_with_keys(source, "start", "connected")


def read_iperf3(source: TraceSource, options: ReadOptions) -> Pattern:  # noqa: ARG001
    """Read the intervals' sums; each holds to the start of the next.

    Raises
    ------
    UserError
        With the interval, the rule and the remedy.
    """
    document = load(source)
    error = document.get("error") if isinstance(document, dict) else None
    intervals = document.get("intervals") if isinstance(document, dict) else None
    if not isinstance(intervals, list) or not intervals:
        said = f" (iperf3 said: {error})" if isinstance(error, str) else ""
        raise source.error(f"has no intervals{said}; run iperf3 with --json and --interval 1")
    starts: list[int] = []
    rates: list[int] = []
    end, reverse = 0, False
    for number, interval in enumerate(intervals, start=1):
        total = interval.get("sum") if isinstance(interval, dict) else None
        found = [total.get(name) for name in NAMES] if isinstance(total, dict) else []
        values = [value for value in found if isinstance(value, int | float) and 0 <= value <= MAX_RATE_BPS]
        if len(values) < len(NAMES):
            raise source.error(
                f"interval {number} has no sum with start, end and bits_per_second; give iperf3's output"
            )
        reverse = reverse or "sum_bidir_reverse" in interval
        start, end = (round(value * NS_PER_S) for value in values[:2])
        if end <= start or end > MAX_NS or (starts and start <= starts[-1]):
            raise source.error(f"interval {number} does not follow the one before it; give iperf3's output unchanged")
        starts.append(start)
        rates.append(round(values[2]))
    source.note("iperf3 measured the rate of its own connection; it is taken as the capacity of the link")
    if reverse:
        source.note("the reverse direction (--bidir) is left out")
    index = np.array(starts, dtype=np.int64)
    if starts[0]:
        source.note(f"the first interval begins at {say_seconds(starts[0])}; shifted to 0 s")
    duration = end - starts[0]
    index -= starts[0]
    note_gaps(source, np.diff(index), lambda step: step + 1, "the rate of that interval", "interval")
    return steps(index, duration, rate_bps=np.array(rates, dtype=np.int64))


IPERF3 = TraceFormat(
    name="iperf3",
    title="iperf3 --json: the rate of each interval, over all streams",
    sniff=sniff_iperf3,
    read=read_iperf3,
    write=None,
)


_LINE = re.compile(r"\s*[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?[ \t]+[^\s,;:]+\s*")
LATE_STEPS = 3
"""A first time after at least this many usual steps is an offset."""


def sniff_seconds(source: TraceSource) -> bool:
    """Recognise lines of two words with blanks between, the first a number."""
    filled = source.head_rows
    if not filled or _LINE.fullmatch(filled[0]) is None:
        return False
    return 2 * sum(1 for line in filled if _LINE.fullmatch(line)) > len(filled)


def late_step(times: NDArray[np.int64], start: int) -> int:
    """Return the usual step of samples whose first time is an offset, else 0.

    Parameters
    ----------
    start : int
        The first time, in the unit of the times.
    """
    apart = np.diff(times)
    apart = apart[apart > 0]
    usual = usual_step(apart) if len(apart) else 0
    return usual if start >= LATE_STEPS * usual else 0


def ending_samples(
    source: TraceSource,
    times: NDArray[np.int64],
    rates: NDArray[np.int64],
    what: str,
    line_of: LineOf,
    shift: int = 0,
) -> Pattern:
    """Make steps of samples that cover the time up to them.

    Parameters
    ----------
    times : int64 array
        Nanoseconds after ``shift``.
    shift : int
        Nanoseconds that were taken off all times.

    A sample at 0, or at the time of the one before it, as clocks that are rounded give it, covers none and is left out.

    Raises
    ------
    UserError
        If times decrease, or the only sample is at 0.
    """
    back = np.diff(times) < 0
    if back.any():
        position = int(back.argmax()) + 1
        now, before = (format_scaled(int(times[place]), 9) for place in (position, position - 1))
        raise source.error(f"{what} {now} is before {before}, that of the row before; sort the rows", line_of(position))
    lines = np.arange(len(times), dtype=np.uint32)
    start = int(times[0]) + shift
    usual = late_step(times, start)
    if usual:
        source.note(
            f"the first {what} is {say_seconds(start)}; shifted to {say_seconds(usual)}, "
            "so that the first sample lasts as long as the others"
        )
        times = times - times[0] + usual
    elif shift:
        times = times + shift
    if times[0] == 0:
        if len(times) == 1:
            raise source.error(f"the only sample is at {what} 0 and covers no time; give its end", line_of(0))
        source.note(f"the sample at {what} 0 covers no time and is left out (a sample covers the time up to it)")
        times, rates, lines = times[1:], rates[1:], lines[1:]
    again = np.concatenate((np.zeros(1, dtype=np.bool_), np.diff(times) == 0))
    if again.any():
        count = plural(int(again.sum()), "sample")
        source.note(f"left out: {count} at the {what} of the row before (a sample covers the time up to it)")
        times, rates, lines = times[~again], rates[~again], lines[~again]
    starts = np.concatenate((np.zeros(1, dtype=np.int64), times[:-1]))
    note_gaps(source, times - starts, lambda step: line_of(int(lines[step])), "the value of that line")
    return steps(starts, int(times[-1]), rate_bps=rates)


def read_seconds(source: TraceSource, options: ReadOptions) -> Pattern:  # noqa: ARG001
    """Read two columns.

    Raises
    ------
    UserError
        With the line, the rule and the remedy.
    """
    most = source.count()
    times, rates, places = Rows(most, np.int64), Rows(most, np.int64), Rows(most, np.uint32)
    shift: int | None = None
    for line_of, lines in source.rows():
        rows = [line.split() for line in lines]
        for position, row in enumerate(rows):
            if len(row) != 2:
                raise source.error(f"{plural(len(row), 'value')}; write 'seconds Mbit/s'", line_of(position))
        seconds, mbit = [row[0] for row in rows], [row[1] for row in rows]
        if shift is None:
            # Seconds since 1970 are beyond the longest pattern.
            first = first_value(seconds[0], NS_PER_S)
            shift = first if first >= EPOCH_NS else 0
            if first >= LATEST_NS:
                raise source.error(
                    f"time {quote(seconds[0])} is no number of seconds; for milliseconds since 1970, write "
                    "--columns time=1:ms rate=2:mbit",
                    line_of(0),
                )
        times.add(measured(source, seconds, line_of, "time in s", scale=NS_PER_S, most=MAX_NS, shift=shift))
        rates.add(measured(source, mbit, line_of, "rate in Mbit/s", scale=10**6, most=MAX_RATE_BPS))
        places.add(np.fromiter(map(line_of, range(len(rows))), dtype=np.uint32, count=len(rows)))
    if shift is None:
        raise source.error("has no rows; write 'seconds Mbit/s'")
    line_numbers = places.whole()
    return ending_samples(
        source, times.whole(), rates.whole(), "time", lambda position: int(line_numbers[position]), shift
    )


def write_seconds(pattern: Pattern, options: WriteOptions) -> str:
    """Write the end of each step and its rate; steps are exact.

    A sample at 0 comes first if the end of the first step would be read as an offset.
    """
    note_lost_columns(pattern, options)
    pattern = rate_steps(pattern, options, NS_PER_S)
    assert pattern.rate_bps is not None, "rate_steps returns a rate"
    ends = pattern.index + pattern.lengths()
    begin = f"0.0\t{_one_digit(format_scaled(int(pattern.rate_bps[0]), 6))}\n" if late_step(ends, int(ends[0])) else ""
    return begin + "".join(
        f"{_one_digit(format_scaled(end, 9))}\t{_one_digit(format_scaled(rate, 6))}\n"
        for end, rate in zip(ends.tolist(), pattern.rate_bps.tolist(), strict=True)
    )


def _one_digit(text: str) -> str:
    return text if "." in text else text + ".0"


SECONDS_MBIT = TraceFormat(
    name="seconds-mbit",
    title="two columns, seconds and Mbit/s (processed Lumos5G, Pensieve)",
    sniff=sniff_seconds,
    read=read_seconds,
    write=write_seconds,
    suffixes=(".txt",),
)


HEADER = (
    "run_num,seq_num,abstractSignalStr,latitude,longitude,movingSpeed,compassDirection,nrStatus,lte_rssi,lte_rsrp,"
    "lte_rsrq,lte_rssnr,nr_ssRsrp,nr_ssRsrq,nr_ssSinr,Throughput,mobility_mode,trajectory_direction,tower_id"
)
LUMOS5G_COLUMNS = ("run_num", "seq_num", "Throughput")
MAX_RUNS = 1000
"""Limit of the number that is counted."""


def sniff_lumos5g(source: TraceSource) -> bool:
    """Recognise the header by two of its names."""
    return bool(source.head) and {"seq_num", "Throughput"} <= set(source.head[0].split(","))


class _Runs:
    """The runs that were met while one of them is read."""

    def __init__(self, wanted: int | None) -> None:
        self.wanted = None if wanted is None else str(wanted)
        self.some: dict[str, None] = {}
        self.found = False

    def meet(self, runs: list[str]) -> None:
        """Keep the names of the first runs; the run of the first row is wanted if none was asked for."""
        if self.wanted is None:
            self.wanted = runs[0]
        self.found = self.found or self.wanted in runs
        if len(self.some) < MAX_RUNS:
            self.some.update(dict.fromkeys(runs))

    def check(self, source: TraceSource, asked: bool) -> None:
        """Make sure that the run to read is there, and is the only one unless it was asked for."""
        shown = list(self.some)[:8]
        more = ", …" if len(self.some) > len(shown) else ""
        if not asked and len(self.some) > 1:
            some = ", ".join(quote(run) for run in shown) + more
            raise source.error(f"holds {len(self.some)} runs ({some}); choose one, as --run {quote(shown[0])[1:-1]}")
        if not self.found:
            raise source.error(f"has no run {self.wanted}; it has {', '.join(quote(run)[1:-1] for run in shown)}")


def read_lumos5g(source: TraceSource, options: ReadOptions) -> Pattern:
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
        for name in LUMOS5G_COLUMNS:
            if names.count(name) != 1:
                raise source.error(f"the header needs one column {name!r}, as in Lumos5G v1.0", 1)
        run_column, second_column, rate_column = (names.index(name) for name in LUMOS5G_COLUMNS)
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


def write_lumos5g(pattern: Pattern, options: WriteOptions) -> str:
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


LUMOS5G = TraceFormat(
    name="lumos5g",
    title="Lumos5G v1.0 CSV: seq_num in s, Throughput in Mbit/s",
    sniff=sniff_lumos5g,
    read=read_lumos5g,
    write=write_lumos5g,
    suffixes=(".lumos5g",),
)


NS3_COLUMNS = ("time", "tbSize", "corrupt")
MAX_UES = 1000
"""Limit of the number that is counted."""
COLUMNS = (
    "DL/UL\ttime\tframe\tsubF\tslot\t1stSym\tsymbol#\tcellId\trnti\tccId\ttbSize\tmcs\trv\tSINR(dB)\tcorrupt\tTBler"
)


DIRECTIONS = ("direction", "DL/UL", "")
"""Names of the column with DL or UL."""


def sniff_ns3(source: TraceSource) -> bool:
    """Recognise the header by two of its names."""
    return bool(source.head) and {"tbSize", "rnti"} <= set(source.head[0].split("\t"))


def _names(source: TraceSource) -> list[str]:
    """Return the column names; the column of the time is ``time``, the column of DL or UL is ``direction``."""
    names = [name.strip() for name in source.head[0].split("\t")] if source.head else []
    names = ["time" if name == "Time" else name for name in names]
    for name in NS3_COLUMNS:
        if names.count(name) != 1:
            remedy = (
                "run the simulation with a version that prints it"
                if name == "time" and "frame" in names
                else ("give an RxPacketTrace with its header line, tab-separated")
            )
            raise source.error(f"the header needs one column {name!r}; {remedy}", 1)
    direction = next((name for name in DIRECTIONS if names.count(name) == 1), None)
    if direction is None:
        raise source.error("the header needs one column 'direction' (DL or UL), as 5G-LENA writes it", 1)
    names[names.index(direction)] = "direction"
    return names


def _downlink(source: TraceSource, names: list[str]) -> Iterator[tuple[list[list[str]], list[int]]]:
    """Yield the downlink's rows and their lines, many at a time."""
    link, corrupt = names.index("direction"), names.index("corrupt")
    for begin, texts in source.blocks(2):
        rows: list[list[str]] = []
        lines: list[int] = []
        for number, line in enumerate(texts, start=begin):
            if not line.strip():
                continue
            row = line.split("\t")
            if len(row) == len(names) + 1 and not row[corrupt].strip():
                del row[corrupt]
            if len(row) != len(names):
                raise source.error(
                    f"{plural(len(row), 'value')} for {plural(len(names), 'column')}; the line may be cut off", number
                )
            if row[link] not in {"DL", "UL"}:
                raise source.error(f"the direction is {quote(row[link])}; it must be DL or UL", number)
            if row[link] == "DL":
                rows.append(row)
                lines.append(number)
        if rows:
            yield rows, lines


def read_ns3(source: TraceSource, options: ReadOptions) -> Pattern:
    """Sum the downlink blocks that arrived.

    Raises
    ------
    UserError
        With the line, the rule and the remedy.
    """
    names = _names(source)
    ue = names.index("rnti") if "rnti" in names else None
    ues: set[str] = set()
    parts = [Rows(source.count(), np.int64) for _ in NS3_COLUMNS]
    for rows, lines in _downlink(source, names):

        def line_of(position: int, lines: list[int] = lines) -> int:
            return lines[position]

        time, size, corrupt = ([row[names.index(name)] for row in rows] for name in NS3_COLUMNS)
        parts[0].add(measured(source, time, line_of, "time", scale=NS_PER_S, most=MAX_NS))
        parts[1].add(integers(source, size, line_of, "tbSize", most=MAX_OPPORTUNITY_BYTES))
        parts[2].add(integers(source, corrupt, line_of, "corrupt", most=1))
        if ue is not None and len(ues) < MAX_UES:
            ues |= {row[ue] for row in rows}
    if not len(parts[0]):
        raise source.error("has no downlink blocks; give a file with lines of DL")
    if len(ues) > 1:
        shown = ", ".join(quote(name)[1:-1] for name in sorted(ues)[:5])
        source.note(f"holds {len(ues)} UEs (rnti {shown}); their blocks are added up")
    times, sizes, corrupted = (part.whole() for part in parts)
    good = (corrupted == 0) & (sizes > 0)
    return _summed(source, times, sizes, good, options)


def _summed(
    source: TraceSource,
    times: NDArray[np.int64],
    sizes: NDArray[np.int64],
    good: NDArray[np.bool_],
    options: ReadOptions,
) -> Pattern:
    window_ns = options.window_ns
    count = int(times.max()) // window_ns + 1
    if count > MAX_ROWS:
        raise source.error(f"{count} windows are too many (at most {MAX_ROWS}); choose a longer --window")
    source.note(f"received transport blocks are summed over {window_ns / NS_PER_MS:g} ms into a rate")
    duration = count * window_ns
    if not good.any():
        return steps(np.zeros(1, dtype=np.int64), duration, rate_bps=np.zeros(1, dtype=np.int64))
    first = int(times[good].min()) // window_ns * window_ns
    if first:
        source.note(
            f"no blocks before {say_seconds(first)}: the rate is 0 until then "
            f"(wavebed trace cut --from {format_scaled(first, 9)}s removes it)"
        )
    order = np.argsort(times[good], kind="stable")
    blocks = opportunities(times[good][order], duration, sizes[good][order])
    return window_rates(blocks, window_ns).merged()


def write_ns3(pattern: Pattern, options: WriteOptions) -> str:
    """Write one block for each millisecond; one that ends in an outage ends with a corrupt block.

    Raises
    ------
    UserError
        If the pattern has no rate or is too long.
    """
    note_lost_columns(pattern, options)
    pattern = to_windows(rate_steps(pattern, options), NS_PER_MS, options, "whole milliseconds")
    assert pattern.rate_bps is not None, "rate_steps returns a rate"
    if pattern.period // NS_PER_MS > MAX_ROWS:
        raise UserError(f"the trace would have more than {MAX_ROWS} rows; cut it")
    if (pattern.rate_bps % 8000 != 0).any():
        options.notes.append("rates are rounded to whole bytes in each millisecond")
    rates = np.repeat(pattern.rate_bps, pattern.lengths() // NS_PER_MS)
    sizes = np.diff(np.cumsum(rates // 8) // 1000, prepend=0)
    out = [COLUMNS + "\n"]
    last = len(sizes) - 1
    for slot, size in enumerate(sizes.tolist()):
        if size or slot == last:
            time = format_scaled(slot * NS_PER_MS, 9)
            frame, subframe = slot // 10, slot % 10
            bad = 0 if size else 1
            out.append(f"DL\t{time}\t{frame}\t{subframe}\t0\t1\t12\t1\t1\t0\t{size}\t0\t0\t0\t{bad}\t0\n")
    return "".join(out)


NS3_MMWAVE = TraceFormat(
    name="ns3-mmwave",
    title="RxPacketTrace of ns-3 mmwave and 5G-LENA: received transport blocks, tab-separated with a header",
    sniff=sniff_ns3,
    read=read_ns3,
    write=write_ns3,
    suffixes=("RxPacketTrace.txt",),
)
