"""Two samples of counters become the values of the interval between them: rates, delays, losses, conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.path.watch import Head, Sample, Value

__all__ = ["COLUMNS", "Column", "Meter", "Point"]

_MODULUS = 1 << 64


class Column(NamedTuple):
    """A value of a point: its name with its unit, and its meaning."""

    name: str
    meaning: str


COLUMNS = (
    Column("offered_bps", "IP bits that entered, per second"),
    Column("delivered_bps", "IP bits that left at the far end, per second"),
    Column("dropped_segments", "segments dropped in the interval"),
    Column("marked_segments", "segments marked CE in the interval"),
    Column("queued_bytes", "IP bytes in the link at its end"),
    Column("queued_segments", "segments in the link at its end"),
    Column("wait_ms", "mean time in the queue of the segments that left it; null without"),
    Column("rate_bps", "rate of the link at its end; null without"),
    Column("delay_ms", "delay beside queueing at its end; null without"),
    Column("loss", "probability of loss at its end, 0 to 1; null where unknown"),
    Column("blocks_sent", "transmissions of radio blocks in the interval"),
    Column("blocks_failed", "failed ones"),
    Column("link_failures", "failures of the radio link"),
    Column("state", "state of the radio at its end; null without"),
    Column("sinr_db", "effective SINR of the data at its end; null without"),
)
"""The values of a link over one interval, in the order of events and recordings; null where nobody counts."""

Row: TypeAlias = "list[Value]"


class Point(NamedTuple):
    """The values of one interval.

    Parameters
    ----------
    time_s : float
        Its end, since time zero.
    links : list
        The values of each link, in the order of `COLUMNS`.
    transit_ms : list
        The mean emulated one-way delay of each direction; ``None`` without segments.
    """

    time_s: float
    links: list[Row]
    transit_ms: list[float | None]


class Meter:
    """Makes points of the samples of one laboratory.

    Parameters
    ----------
    head : Head
        The names of their values.
    """

    def __init__(self, head: Head) -> None:
        self._places = {name: place for place, name in enumerate(head.link_columns)}
        self._before: Sample | None = None

    def point(self, sample: Sample) -> Point | None:
        """Return the values since the last sample; ``None`` after the first one, or if no time has passed.

        A sample of another form raises what `wavebed.path.control.understood` catches.
        """
        before = self._before
        if before is None:
            self._before = sample
            return None
        at = self._places["at_ns"]
        if any(_number(now[at]) <= _number(then[at]) for then, now in zip(before.links, sample.links, strict=True)):
            return None
        self._before = sample
        links = [self._row(then, now) for then, now in zip(before.links, sample.links, strict=True)]
        transit = [_mean_ms(*then, *now) for then, now in zip(before.directions, sample.directions, strict=True)]
        return Point(max(_number(row[at]) for row in sample.links) / 1e9, links, transit)

    def _row(self, then: Sequence[Value], now: Sequence[Value]) -> Row:
        def grown(name: str) -> int | None:
            first, last = then[self._places[name]], now[self._places[name]]
            return None if first is None or last is None else int(_number(last) - _number(first))

        def bps(name: str) -> int | None:
            count = grown(name)
            return None if count is None else round(count * 8 / seconds)

        def held(name: str) -> Value:
            return now[self._places[name]]

        def pair(sample: Sequence[Value]) -> tuple[Value, Value]:
            return sample[self._places["waited_ns"]], sample[self._places["waited_segments"]]

        seconds = (grown("at_ns") or 0) / 1e9
        delay_ns = held("delay_ns")
        return [
            bps("offered_bytes"),
            bps("delivered_bytes"),
            grown("dropped_segments"),
            grown("marked_segments"),
            held("queued_bytes"),
            held("queued_segments"),
            _mean_ms(*pair(then), *pair(now)),
            held("rate_bps"),
            None if delay_ns is None else _number(delay_ns) / 1e6,
            held("loss"),
            grown("blocks_sent"),
            grown("blocks_failed"),
            grown("link_failures"),
            held("state"),
            held("sinr_db"),
        ]


def _mean_ms(sum_before: Value, count_before: Value, sum_now: Value, count_now: Value) -> float | None:
    """Return the mean of the times that were added in between; their sums count modulo 2^64."""
    if None in (sum_before, count_before, sum_now, count_now):
        return None
    count = _number(count_now) - _number(count_before)
    if count == 0:
        return None
    return round((_number(sum_now) - _number(sum_before)) % _MODULUS / count / 1e6, 4)


def _number(value: Value) -> int | float:
    if not isinstance(value, int | float):
        raise TypeError("a counter is a number")
    return value
