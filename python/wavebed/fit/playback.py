"""Videos over walks, in virtual time: the rules by which dash.js chooses, fetches and abandons segments.

Of dash.js 5.2.1 these rules and their values are used: ThroughputRule, InsufficientBufferRule, SwitchHistoryRule,
AbandonRequestsRule and ThroughputModel. Sound, and the browser's own times, are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wavebed.workload.media.ladder import LADDERS

if TYPE_CHECKING:
    from wavebed.channel.placemap.levels import Floats, Integers
    from wavebed.fit.volumes import Volumes

__all__ = ["SHORT_BUFFER", "USUAL_BUFFER", "Sessions", "Video", "watch"]

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
class Video:
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


USUAL_BUFFER = Video(18.0, 30.0, 4.0)
"""With the buffer that dash.js has by default."""
SHORT_BUFFER = Video(4.0, 4.0, 1.0)
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


def watch(volumes: Volumes, walk: Integers, start_s: Floats, video: Video) -> Sessions:
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

    def __init__(self, volumes: Volumes, walk: Integers, start_s: Floats, video: Video) -> None:
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
