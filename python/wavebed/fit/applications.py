"""What a link that follows walks lets pass, in virtual time.

The link has the rate of the walk, second by second, and a walk that has ended begins again, as the trace of a scenario
does. There is no transport protocol: a download takes the time that the link needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from wavebed.errors import UserError
from wavebed.fit.judge import ks_distance
from wavebed.pattern.formats import read_trace
from wavebed.pattern.model import Pattern, steps
from wavebed.pattern.resample import window_rates
from wavebed.terminal import table_text
from wavebed.workload.video_media import LADDERS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.channel.placemap import Floats, Integers
    from wavebed.config.data import Json

    ByWalk: TypeAlias = Sequence[Floats]

EVERY_S = 5
"""An application starts at every fifth second of a walk."""


class Volumes:
    """What may pass over each of some walks, Mbit.

    Parameters
    ----------
    walks : sequence of float array
        The rate of each second of each walk, Mbit/s; at least one walk.
    """

    def __init__(self, walks: Sequence[Floats]) -> None:
        sums = [np.concatenate(([0.0], np.cumsum(walk))) for walk in walks]
        self.seconds = np.array([len(walk) for walk in walks], dtype=np.int64)
        self._whole = np.array([each[-1] for each in sums])
        self._first = np.concatenate(([0], np.cumsum(self.seconds + 1)[:-1]))
        self._before = np.concatenate(([0.0], np.cumsum(self._whole + 1.0)[:-1]))
        self._sums = np.concatenate([before + each for before, each in zip(self._before, sums, strict=True)])

    def until(self, walk: Integers, time_s: Floats) -> Floats:
        """Return what may have passed since the beginning of each walk."""
        rounds, rest = np.divmod(time_s, self.seconds[walk])
        second = self._first[walk] + rest.astype(np.int64)
        share = rest - np.floor(rest)
        within = (1 - share) * self._sums[second] + share * self._sums[second + 1] - self._before[walk]
        return np.asarray(rounds * self._whole[walk] + within, dtype=np.float64)

    def when(self, walk: Integers, volume: Floats) -> Floats:
        """Return the time at which so much has passed, more than nothing; the walk must have a rate."""
        whole = self._whole[walk]
        rounds = np.ceil(volume / whole) - 1
        wanted = self._before[walk] + volume - rounds * whole
        first = self._first[walk]
        after = np.clip(np.searchsorted(self._sums, wanted), first + 1, first + self.seconds[walk])
        low, high = self._sums[after - 1], self._sums[after]
        within = after - 1 - first + (wanted - low) / np.where(high > low, high - low, 1.0)
        return np.asarray(rounds * self.seconds[walk] + within, dtype=np.float64)

    def starts(self) -> tuple[Integers, Floats]:
        """Return the walk and the time of each start; a walk without any rate has none, since nothing ends there."""
        times = [
            np.arange(0, seconds if whole else 0, EVERY_S, dtype=np.float64)
            for seconds, whole in zip(self.seconds, self._whole, strict=True)
        ]
        walk = np.repeat(np.arange(len(times)), [len(each) for each in times])
        return walk, np.concatenate(times)


def download_s(volumes: Volumes, walk: Integers, start_s: Floats, size_mb: float) -> Floats:
    """Return how long downloads of a size take, from each start."""
    return volumes.when(walk, volumes.until(walk, start_s) + 8 * size_mb) - start_s


_ROUND_TRIP_S = 0.04
"""From a request to its first byte."""
_SAFETY, _UNDERRUN_SAFETY = 0.9, 0.7
_UNKNOWING_SEGMENTS = 2
_EMPTY_S = 0.3
_HALF_LIVES_S = np.array([[3.0], [8.0]])
_WEIGHT_PER_S = 1.5
_ABANDON_DURATIONS = 1.8
_ABANDON_CHECKS_S = (0.5, 1.0, 2.0, 4.0, 8.0)
_ABANDON_HOLDS_S = 10.0
_REMEMBERED_CHOICES = 8
_NONE = -1


@dataclass(frozen=True, slots=True)
class VideoOnWalk:
    """A video of the workload ``video`` with ``abr = "throughput"``, and its keys.

    Parameters
    ----------
    ladder : str
        Of `LADDERS`.
    buffer_s, top_buffer_s : float
        Target of the buffer, and that at the top quality.
    """

    buffer_s: float
    top_buffer_s: float
    segment_s: float
    duration_s: float = 60.0
    ladder: str = "uhd"

    @property
    def rates_mbps(self) -> Floats:
        """The bitrates, ascending."""
        return np.array([each.rate_bps / 1e6 for each in LADDERS[self.ladder].representations])


USUAL_BUFFER = VideoOnWalk(18.0, 30.0, 4.0)
"""With the buffer that dash.js has by default."""
SHORT_BUFFER = VideoOnWalk(4.0, 4.0, 1.0)
"""With the buffer of a live stream: stalls are common."""


@dataclass(frozen=True, slots=True, eq=False)
class Sessions:
    """Videos that were watched, one for each start.

    Parameters
    ----------
    startup_s, bitrate_mbps, stalled_s : float array
        Of each session.
    stall_session, stall_s : array
        The session and the duration of each stall.
    """

    startup_s: Floats
    bitrate_mbps: Floats
    stalled_s: Floats
    stall_session: Integers
    stall_s: Floats


def watch(volumes: Volumes, walk: Integers, start_s: Floats, video: VideoOnWalk) -> Sessions:
    """Watch a video from each start."""
    player = _Player(volumes, walk, start_s, video)
    segments = max(1, round(video.duration_s / video.segment_s))
    startup_s, shown = np.zeros(len(walk)), np.zeros(len(walk))
    stalls: list[tuple[Integers, Floats]] = []
    for number in range(segments):
        took_s = player.fetch(number)
        if number == 0:
            startup_s = took_s
        else:
            lacking_s = np.maximum(took_s - player.buffer_s, 0.0)
            stalled = np.flatnonzero(lacking_s)
            stalls.append((stalled, lacking_s[stalled]))
            player.buffer_s = np.maximum(player.buffer_s - took_s, 0.0)
        player.buffer_s = player.buffer_s + video.segment_s
        shown += player.rates[player.rung]
    session = np.concatenate([each for each, _ in stalls]) if stalls else np.empty(0, dtype=np.int64)
    duration_s = np.concatenate([each for _, each in stalls]) if stalls else np.empty(0)
    stalled_s = np.zeros(len(walk))
    np.add.at(stalled_s, session, duration_s)
    return Sessions(startup_s, shown / segments, stalled_s, session, duration_s)


class _Player:
    """Players that all fetch their segments in turn, one for each start."""

    def __init__(self, volumes: Volumes, walk: Integers, start_s: Floats, video: VideoOnWalk) -> None:
        self._volumes, self._walk, self._video = volumes, walk, video
        self.rates = video.rates_mbps
        self.rung = np.zeros(len(walk), dtype=np.int64)
        self.buffer_s = np.zeros(len(walk))
        self._now_s = start_s.copy()
        self._held_until_s = np.full(len(walk), -np.inf)
        self._estimates = np.zeros((2, len(walk)))
        self._weight = np.zeros(len(walk))
        self._left = np.full((len(walk), _REMEMBERED_CHOICES), _NONE)
        self._dropped = np.zeros((len(walk), _REMEMBERED_CHOICES), dtype=np.bool_)

    def fetch(self, number: int) -> Floats:
        """Choose and fetch a segment; return how long that took, without the wait for room in the buffer."""
        video = self._video
        target_s = np.where(self.rung == len(self.rates) - 1, video.top_buffer_s, video.buffer_s)
        wait_s = np.maximum(self.buffer_s - target_s, 0.0)
        self._now_s = self._now_s + wait_s
        self.buffer_s = self.buffer_s - wait_s
        if number > 0:
            self.rung = self._chosen(number)
        asked_s = self._now_s
        begin_s = asked_s + _ROUND_TRIP_S
        end_s = self._end_s(np.arange(len(begin_s)), begin_s)
        begin_s, end_s = self._abandon(begin_s, end_s)
        self._learn(end_s - begin_s)
        self._now_s = end_s
        return end_s - asked_s

    def _chosen(self, number: int) -> Integers:
        """Return the highest bitrate within the throughput, and that cannot empty the buffer."""
        known = 1 - 0.5 ** (self._weight / _HALF_LIVES_S)
        throughput = (self._estimates / np.maximum(known, 1e-12)).min(axis=0)
        free = (self._now_s >= self._held_until_s) & (self.buffer_s > _EMPTY_S)
        allowed = np.where(free, _SAFETY * throughput, np.inf)
        if number >= _UNKNOWING_SEGMENTS:
            lasting = _UNDERRUN_SAFETY * throughput * self.buffer_s / self._video.segment_s
            allowed = np.minimum(allowed, np.where(self.buffer_s > _EMPTY_S, lasting, 0.0))
        chosen = np.where(np.isinf(allowed), self.rung, self._highest(allowed))
        chosen = self._remembered(np.minimum(chosen, self._ceiling()))
        held = self._now_s < self._held_until_s
        return np.asarray(np.where(held, np.minimum(chosen, self.rung), chosen), dtype=np.int64)

    def _ceiling(self) -> Integers:
        """Return the highest bitrate of the last choices, or the next below if that one was left for a lower one."""
        top = self._left.max(axis=1)
        dropped_top = (self._dropped & (self._left == top[:, None])).any(axis=1) & (top > 0)
        acts = (self._left != _NONE).all(axis=1) & self._dropped.any(axis=1)
        return np.asarray(np.where(acts, top - dropped_top, len(self.rates)), dtype=np.int64)

    def _remembered(self, chosen: Integers) -> Integers:
        """Add a choice to the last ones: the bitrate that is left, and whether for a lower one."""
        self._left = np.column_stack((self._left[:, 1:], self.rung))
        self._dropped = np.column_stack((self._dropped[:, 1:], chosen < self.rung))
        return chosen

    def _highest(self, rate: Floats) -> Integers:
        return np.maximum(np.searchsorted(self.rates, rate, side="right") - 1, 0).astype(np.int64)

    def _end_s(self, who: Integers, begin_s: Floats) -> Floats:
        walk = self._walk[who]
        size = self.rates[self.rung[who]] * self._video.segment_s
        return self._volumes.when(walk, self._volumes.until(walk, begin_s) + size)

    def _abandon(self, begin_s: Floats, end_s: Floats) -> tuple[Floats, Floats]:
        """Let players abandon a segment that takes too long, once, for one of a lower bitrate."""
        segment_s = self._video.segment_s
        begin_s, end_s = begin_s.copy(), end_s.copy()
        may = (self.rung > 0) & (self.buffer_s <= self._video.buffer_s)
        for after_s in _ABANDON_CHECKS_S:
            who = np.flatnonzero(may & (end_s - begin_s > after_s))
            walk, from_s = self._walk[who], begin_s[who]
            got = self._volumes.until(walk, from_s + after_s) - self._volumes.until(walk, from_s)
            size = self.rates[self.rung[who]] * segment_s
            lower = self._highest(got / after_s)
            slow = size * after_s >= _ABANDON_DURATIONS * segment_s * got
            leave = slow & (size - got > self.rates[lower] * segment_s)
            who, now_s = who[leave], from_s[leave] + after_s
            self.rung[who] = lower[leave]
            self._held_until_s[who] = now_s + _ABANDON_HOLDS_S
            self._left[who], self._dropped[who] = _NONE, False
            begin_s[who] = now_s + _ROUND_TRIP_S
            end_s[who] = self._end_s(who, begin_s[who])
            may[who] = False
        return begin_s, end_s

    def _learn(self, took_s: Floats) -> None:
        """Count the throughput of a segment in two moving means."""
        with np.errstate(invalid="ignore"):
            throughput = self.rates[self.rung] * self._video.segment_s / took_s
        weight = _WEIGHT_PER_S * took_s
        kept = 0.5 ** (weight / _HALF_LIVES_S)
        self._estimates = (1 - kept) * throughput + kept * self._estimates
        self._weight = self._weight + weight


MOST_DEVIATION, MOST_DISTANCE = 0.10, 0.20
"""Targets."""
DOWNLOAD_MB = 200.0


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """A figure of an application, for all its starts in each walk.

    Parameters
    ----------
    key, name, unit : str
        What it is.
    by_walk : sequence of float array
        The values of each walk. Values of one walk are not independent.
    whole : bool
        Compared by its mean: the median of most of such figures is 0.
    """

    key: str
    name: str
    unit: str
    by_walk: ByWalk
    whole: bool = False

    @property
    def pooled(self) -> Floats:
        """The values of all walks."""
        return np.concatenate(list(self.by_walk)) if self.by_walk else np.empty(0)

    @property
    def middle(self) -> float:
        """The median, or the mean; NaN without a value."""
        values = self.pooled
        if not len(values):
            return float("nan")
        return float(values.mean() if self.whole else np.median(values))


@dataclass(frozen=True, slots=True)
class Application:
    """A figure of an application over drawn, fitted and held-out walks.

    Parameters
    ----------
    drawn, fitted, held_out : float
        The median of all starts, or the mean; NaN where there is none.
    deviation, distance : float
        Of the drawn from the held-out walks: relative deviation, and Kolmogorov-Smirnov distance.
    floor_deviation, floor_distance : float
        The same of the fitted walks from the held-out walks: what differs between real walks.
    """

    key: str
    name: str
    unit: str
    drawn: float
    fitted: float
    held_out: float
    deviation: float
    distance: float
    floor_deviation: float
    floor_distance: float

    @property
    def met(self) -> bool | None:
        """Whether both targets are met; ``None`` without a value of held-out walks."""
        if np.isnan(self.deviation) or np.isnan(self.distance):
            return None
        return abs(self.deviation) <= MOST_DEVIATION and self.distance <= MOST_DISTANCE


def downloads(walks: Sequence[Floats], size_mb: float) -> Measure:
    """Return the times of downloads of a size."""
    volumes = Volumes(walks)
    walk, start_s = volumes.starts()
    times = _by_walk(download_s(volumes, walk, start_s, size_mb), walk, len(walks))
    return Measure(f"download_{size_mb:g}_mb_s", f"download of {size_mb:g} MB", "s", times)


def videos(walks: Sequence[Floats], video: VideoOnWalk) -> list[Measure]:
    """Return the figures of a video: durations of stalls; time stalled, stalls and bitrate of each session."""
    volumes = Volumes(walks)
    walk, start_s = volumes.starts()
    sessions = watch(volumes, walk, start_s, video)
    count = np.bincount(sessions.stall_session, minlength=len(walk)).astype(np.float64)
    of_stalls = walk[sessions.stall_session]
    name, key = f"video, {video.buffer_s:g} s of buffer", f"video_{video.buffer_s:g}_s"

    def row(what: str, unit: str, values: Floats, at: Integers, *, whole: bool = True) -> Measure:
        return Measure(
            f"{key}_{what.replace(' ', '_')}", f"{name}: {what}", unit, _by_walk(values, at, len(walks)), whole
        )

    return [
        row("duration of a stall", "s", sessions.stall_s, of_stalls, whole=False),
        row("time stalled", "%", 100 * sessions.stalled_s / (video.duration_s + sessions.stalled_s), walk),
        row("stalls in a session", "", count, walk),
        row("bitrate", "Mbit/s", sessions.bitrate_mbps, walk, whole=False),
    ]


def _by_walk(values: Floats, walk: Integers, walks: int) -> ByWalk:
    order = np.argsort(walk, kind="stable")
    return np.split(values[order], np.searchsorted(walk[order], np.arange(1, walks)))


def compare(drawn: Measure, fitted: Measure, held_out: Measure) -> Application:
    """Compare a figure."""
    middle = held_out.middle
    return Application(
        drawn.key,
        drawn.name,
        drawn.unit,
        drawn.middle,
        fitted.middle,
        middle,
        _deviation(drawn.middle, middle),
        ks_distance(drawn.pooled, held_out.pooled),
        _deviation(fitted.middle, middle),
        ks_distance(fitted.pooled, held_out.pooled),
    )


def _deviation(one: float, other: float) -> float:
    return one / other - 1 if other else float("nan")


def applications(drawn: Sequence[Floats], fitted: Sequence[Floats], held_out: Sequence[Floats]) -> list[Application]:
    """Compare a download, and the stalls of a video with a short buffer."""
    rows = [
        [downloads(walks, DOWNLOAD_MB), *videos(walks, SHORT_BUFFER)[:2]] if walks else []
        for walks in (drawn, fitted, held_out)
    ]
    return [compare(*row) for row in zip(*rows, strict=True)] if held_out else []


WINDOW_NS = 100_000_000
"""Opportunities are averaged over such windows: a pattern of opportunities has no delay."""
GRID_NS = 20_000_000
"""Steps of the delay, which is interpolated between samples."""
_PERCENTILES = (10, 50, 90)


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """What was combined.

    Parameters
    ----------
    pattern : Pattern
        With a rate and a delay.
    heavy, light : str
        The names of the recordings.
    """

    pattern: Pattern
    heavy: str
    light: str

    def _figures(self) -> tuple[list[float], list[float], float]:
        """Return the percentiles of the rate, Mbit/s, and of the delay, ms, over time, and the least delay."""
        pattern = self.pattern
        assert pattern.rate_bps is not None, "a replay has a rate"
        assert pattern.delay_ns is not None, "a replay has a delay"
        grid = np.searchsorted(pattern.index, np.arange(0, pattern.period, GRID_NS), side="right") - 1
        rates, delays = pattern.rate_bps[grid] / 1e6, pattern.delay_ns[grid] / 1e6
        return (
            np.percentile(rates, _PERCENTILES).tolist(),
            np.percentile(delays, _PERCENTILES).tolist(),
            float(delays.min()),
        )

    def as_text(self) -> str:
        """Return the table of both recordings."""
        rates, delays, least_ms = self._figures()
        rows = [
            ("recording", "file", "p10", "median", "p90"),
            ("rate under heavy load, Mbit/s", self.heavy, *(f"{value:.3g}" for value in rates)),
            ("delay under light load, ms", self.light, *(f"{value:.3g}" for value in delays)),
        ]
        less = 100 * (1 - least_ms / delays[1]) if delays[1] else 0.0
        return (
            f"{self.pattern.period / 1e9:g} s\n\n{table_text(rows)}\n\n"
            f"The least delay, {least_ms:.3g} ms, is {less:.0f} % below the median."
        )

    def as_json(self) -> dict[str, Json]:
        """Return what ``--json`` prints."""
        rates, delays, least_ms = self._figures()
        names = [f"p{percentile}" for percentile in _PERCENTILES]
        return {
            "method": "replay",
            "duration_s": self.pattern.period / 1e9,
            "heavy": self.heavy,
            "light": self.light,
            "rate_mbps": dict(zip(names, rates, strict=True)),
            "delay_ms": {**dict(zip(names, delays, strict=True)), "least": least_ms},
        }


def read_replay(files: Sequence[Path]) -> Replay:
    """Read the two recordings, in either order, and combine them.

    Raises
    ------
    UserError
        If they are not one of a rate and one of a delay over time.
    """
    heavy: list[tuple[str, Pattern]] = []
    light: list[tuple[str, Pattern]] = []
    for file in files:
        pattern = read_trace(file)
        # A recording of a light rate has a rate beside it, since the format wants one; its delay tells it apart.
        is_light = pattern.light_rate_bps is not None and pattern.delay_ns is not None
        has_rate = not is_light and (pattern.rate_bps is not None or pattern.size_bytes is not None)
        if pattern.kind == "packets" or has_rate == (pattern.delay_ns is not None):
            raise UserError(f"{file}: is no recording of either a rate or a delay over time: name one of each")
        (heavy if has_rate else light).append((file.name, pattern))
    if len(heavy) != 1 or len(light) != 1:
        found = f"{len(heavy)} of a rate and {len(light)} of a delay"
        raise UserError(f"--as replay: found recordings: {found}: name one of a rate and one of a delay")
    return Replay(combine(heavy[0][1], light[0][1]), heavy[0][0], light[0][0])


def combine(heavy: Pattern, light: Pattern) -> Pattern:
    """Return the rate of one pattern with the delay, and the light rate, of another, as long as the shorter of them."""
    rate = window_rates(heavy, WINDOW_NS) if heavy.size_bytes is not None else heavy
    assert rate.rate_bps is not None, "it is a recording of a rate"
    assert light.delay_ns is not None, "it is a recording of a delay"
    period = min(rate.period, light.period)
    index = np.union1d(rate.index, np.arange(0, period, GRID_NS))
    first = light.light_rate_bps
    if first is not None:
        index = np.union1d(index, light.index)
    index = index[index < period]
    row = np.searchsorted(rate.index, index, side="right") - 1
    delay = np.rint(np.interp(index, light.index, light.delay_ns)).astype(np.int64)
    light_row = np.searchsorted(light.index, index, side="right") - 1
    return steps(
        index,
        period,
        rate_bps=rate.rate_bps[row],
        delay_ns=delay,
        light_rate_bps=None if first is None else first[light_row],
        light_bytes=light.light_bytes,
        light_idle_ns=light.light_idle_ns,
    )
