"""What applications make of walks: downloads and videos over drawn and over measured walks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from wavebed.fit.metrics import ks_distance
from wavebed.fit.playback import SHORT_BUFFER, watch
from wavebed.fit.volumes import Volumes, download_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.channel.placemap.levels import Floats, Integers
    from wavebed.fit.playback import Video

    ByWalk: TypeAlias = Sequence[Floats]

__all__ = [
    "MOST_DEVIATION",
    "MOST_DISTANCE",
    "Application",
    "Measure",
    "applications",
    "compare",
    "downloads",
    "videos",
]

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
        The values of each walk. Those of one walk are not independent.
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


def videos(walks: Sequence[Floats], video: Video) -> list[Measure]:
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
