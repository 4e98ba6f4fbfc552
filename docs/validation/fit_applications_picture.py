"""The picture of applications over drawn and held-out walks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from real_traces_pictures import MODEL, cumulative, label, legend, picture

from wavebed.fit.applications import SHORT_BUFFER, downloads, videos
from wavebed.page.charts import INK
from wavebed.pattern.plot import FAINT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fit_applications import Walks
    from matplotlib.axes import Axes

LINES: Final = {
    "fitted walks": ("fitted", FAINT, "-", 2.4),
    "held-out walks": ("held_out", INK, "-", 2.4),
    "drawn walks": ("drawn", MODEL, "-", 1.6),
    "seconds without memory": ("pooling", MODEL, (0, (1.2, 1.2)), 1.2),
}
DOWNLOAD_MB: Final = 200


def draw(file: Path, walks: Walks) -> None:
    """Draw the distributions of download times and of the durations of stalls."""
    picture(file, 2, lambda panels: _panels(panels, walks))


def _panels(panels: Sequence[Axes], walks: Walks) -> None:
    times, stalls = panels
    for text, (which, colour, dash, width) in LINES.items():
        each = getattr(walks, which)
        cumulative(times, downloads(each, DOWNLOAD_MB).pooled, text, colour, dash, width)
        cumulative(stalls, videos(each, SHORT_BUFFER)[0].pooled, text, colour, dash, width)
    label(times, f"Downloads of {DOWNLOAD_MB} MB", "time, s", "fraction at or below")
    label(stalls, f"Stalls of a video with {SHORT_BUFFER.buffer_s:g} s of buffer", "duration, s", "")
    low, high = np.percentile(downloads(walks.fitted, DOWNLOAD_MB).pooled, (0.1, 99.9))
    ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500) if low <= tick <= high]
    times.set_xscale("log")
    times.set_xlim(low, high)
    times.set_xticks(ticks, [str(tick) for tick in ticks])
    times.set_xticks([], minor=True)
    stalls.set_xlim(0, 6)
    for axes in panels:
        axes.set_ylim(0, 1.01)
        legend(axes)
