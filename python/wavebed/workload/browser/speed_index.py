"""How fast a page is seen: visual progress, Speed Index and visual completeness from its pictures over time.

Definitions are on the page ``docs/models/speed-index.md``. The variant is that of speedline: histograms without pixels
that are nearly white, a white picture at the start of the navigation, no tolerance between neighbouring bins.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["VARIANT", "Frame", "VisualProgress", "histogram", "progress_shares", "visual_progress"]

VARIANT = "speedline variant, wavebed 1"

NEARLY_WHITE = 249
"""A pixel with all three channels at least this bright is background."""

_BINS = 256

Histogram: TypeAlias = "NDArray[np.int64]"


@dataclass(frozen=True, slots=True)
class Frame:
    """What the page looked like from a moment on.

    Parameters
    ----------
    time_ms : float
        Since the start of the navigation.
    picture : bytes
        A file that Pillow reads.
    """

    time_ms: float
    picture: bytes


@dataclass(frozen=True, slots=True)
class VisualProgress:
    """Visual progress towards the final picture over time.

    Parameters
    ----------
    time_ms : sequence of float
        Since the start of the navigation; the first is 0.
    percent : sequence of int
        Whole percents from 0 to 100, as many.
    """

    time_ms: Sequence[float]
    percent: Sequence[int]

    @property
    def speed_index_ms(self) -> float:
        """Area above the curve of progress."""
        times, shares = np.asarray(self.time_ms), np.asarray(self.percent) / 100
        return float(np.sum(np.diff(times) * (1 - shares[:-1])))

    @property
    def first_change_ms(self) -> float | None:
        """When progress was first above 0."""
        return next((at for at, part in zip(self.time_ms, self.percent, strict=True) if part > 0), None)

    @property
    def complete_ms(self) -> float | None:
        """When progress was first 100 %."""
        return next((at for at, part in zip(self.time_ms, self.percent, strict=True) if part >= 100), None)

    def complete_at_least_ms(self, percent: int) -> float | None:
        """Return since when progress has been at least `percent` for good."""
        since = None
        for at, part in zip(self.time_ms, self.percent, strict=True):
            if part < percent:
                since = None
            elif since is None:
                since = at
        return since


def histogram(picture: bytes) -> Histogram:
    """Return how many pixels have each of 256 values of red, green and blue; nearly white ones are left out."""
    from PIL import Image

    pixels = np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")).reshape(-1, 3)
    seen = pixels[(pixels < NEARLY_WHITE).any(axis=1)]
    return np.stack([np.bincount(seen[:, channel], minlength=_BINS) for channel in range(3)])


def progress_shares(histograms: Sequence[Histogram]) -> list[int]:
    """Return the progress of each picture from the first to the last, in whole percents.

    All are 100 if nothing differs between the first and the last, and the picture does not either.
    """
    first, last = histograms[0], histograms[-1]
    target = np.abs(last - first)
    total = int(target.sum())
    matches = [int(np.minimum(np.abs(each - first), target).sum()) for each in histograms]
    return [100 * match // total if total else 100 for match in matches]


def visual_progress(frames: Sequence[Frame]) -> VisualProgress | None:
    """Return the progress of a page from white to its last picture.

    Parameters
    ----------
    frames : sequence of Frame
        In the order of time. Without a picture, or with a white last one, there is no result.
    """
    if not frames:
        return None
    histograms = [histogram(frame.picture) for frame in frames]
    if not histograms[-1].any():
        return None
    white = np.zeros_like(histograms[0])
    return VisualProgress([0.0, *(frame.time_ms for frame in frames)], progress_shares([white, *histograms]))
