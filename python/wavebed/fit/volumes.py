"""What a link that follows walks lets pass, in virtual time.

The link has the rate of the walk, second by second, and a walk that has ended begins again, as the trace of a scenario
does. There is no transport protocol: a download takes the time that the link needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.channel.placemap.levels import Floats, Integers

__all__ = ["EVERY_S", "Volumes", "download_s"]

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
