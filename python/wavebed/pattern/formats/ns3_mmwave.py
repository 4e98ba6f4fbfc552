"""``RxPacketTrace`` of ns-3 mmwave and 5G-LENA: transport blocks at the receiver, tab-separated.

Columns are found by name. 5G-LENA calls them ``Time`` and ``direction``. Older files of ns-3 mmwave have no name for
the first column, and an empty value before ``corrupt`` that the header does not name.

Downlink blocks that are not corrupted are summed over windows (1 ms unless ``--window`` says otherwise) into a
rate. That is what was *received*: a capacity only where the simulated sender always had data waiting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.errors import UserError
from wavebed.pattern.formats.base import Format, ReadOptions, WriteOptions, note_lost_columns
from wavebed.pattern.formats.times import say_seconds
from wavebed.pattern.model import MAX_NS, MAX_OPPORTUNITY_BYTES, Pattern, opportunities, steps
from wavebed.pattern.numbers import Rows, format_scaled, integers, measured
from wavebed.pattern.resample import MAX_ROWS, NS_PER_MS, NS_PER_S, rate_steps, to_windows, window_rates
from wavebed.pattern.source import plural, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from wavebed.pattern.source import Source

__all__ = ["FORMAT"]

NEEDED = ("time", "tbSize", "corrupt")
MAX_UES = 1000
"""So many are counted."""
COLUMNS = (
    "DL/UL\ttime\tframe\tsubF\tslot\t1stSym\tsymbol#\tcellId\trnti\tccId\ttbSize\tmcs\trv\tSINR(dB)\tcorrupt\tTBler"
)


DIRECTIONS = ("direction", "DL/UL", "")
"""Names of the column with DL or UL."""


def sniff(source: Source) -> bool:
    """Recognise the header by two of its names."""
    return bool(source.head) and {"tbSize", "rnti"} <= set(source.head[0].split("\t"))


def _names(source: Source) -> list[str]:
    """Return the column names; that of the time is ``time``, that of DL or UL is ``direction``."""
    names = [name.strip() for name in source.head[0].split("\t")] if source.head else []
    names = ["time" if name == "Time" else name for name in names]
    for name in NEEDED:
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


def _downlink(source: Source, names: list[str]) -> Iterator[tuple[list[list[str]], list[int]]]:
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


def read(source: Source, options: ReadOptions) -> Pattern:
    """Sum the downlink blocks that arrived.

    Raises
    ------
    UserError
        With the line, the rule and the remedy.
    """
    names = _names(source)
    ue = names.index("rnti") if "rnti" in names else None
    ues: set[str] = set()
    parts = [Rows(source.count(), np.int64) for _ in NEEDED]
    for rows, lines in _downlink(source, names):

        def line_of(position: int, lines: list[int] = lines) -> int:
            return lines[position]

        time, size, corrupt = ([row[names.index(name)] for row in rows] for name in NEEDED)
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
    source: Source,
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


def write(pattern: Pattern, options: WriteOptions) -> str:
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


FORMAT = Format(
    name="ns3-mmwave",
    title="RxPacketTrace of ns-3 mmwave and 5G-LENA: received transport blocks, tab-separated with a header",
    sniff=sniff,
    read=read,
    write=write,
    suffixes=("RxPacketTrace.txt",),
)
