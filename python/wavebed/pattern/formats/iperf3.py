"""The report of ``iperf3 --json``: the rate of each interval, over all streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.pattern.formats.base import Format, ReadOptions
from wavebed.pattern.formats.json_text import begins_with_keys, load
from wavebed.pattern.formats.times import note_gaps, say_seconds
from wavebed.pattern.model import MAX_NS, MAX_RATE_BPS, Pattern, steps
from wavebed.pattern.resample import NS_PER_S

if TYPE_CHECKING:
    from wavebed.pattern.source import Source

__all__ = ["FORMAT"]

NAMES = ("start", "end", "bits_per_second")


def sniff(source: Source) -> bool:
    """Recognise the keys of the report's beginning."""
    return begins_with_keys(source, "start", "connected")


def read(source: Source, options: ReadOptions) -> Pattern:  # noqa: ARG001
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


FORMAT = Format(
    name="iperf3",
    title="iperf3 --json: the rate of each interval, over all streams",
    sniff=sniff,
    read=read,
    write=None,
)
