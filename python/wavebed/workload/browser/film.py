"""The filmstrip of a page: a few small pictures at equal distances in time."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.workload.browser.speed_index import Frame, VisualProgress

__all__ = ["MOST_BYTES", "MOST_PICTURES", "write_film"]

MOST_PICTURES = 12
MOST_BYTES = 4096
WIDTHS = (120, 96, 72, 48)
QUALITIES = (60, 40, 25)


def write_film(frames: Sequence[Frame], progress: VisualProgress, folder: Path) -> list[Json]:
    """Write the pictures as ``film-NNN.jpg``, and return when each is seen.

    The moments are equally far apart from the start of the navigation until the page is visually complete. Each entry
    has ``time_ms``, ``percent`` (visual progress), and ``file``: null while the screen is white; a picture that is
    still there has the file of the entry before.
    """
    end_ms = progress.complete_ms
    assert end_ms is not None, "the last picture is complete"
    film: list[Json] = []
    files: dict[int, str] = {}
    for number in range(MOST_PICTURES):
        at_ms = end_ms * (number / (MOST_PICTURES - 1))
        shown = sum(frame.time_ms <= at_ms for frame in frames) - 1
        percent = progress.percent[shown + 1]
        if percent > 0 and shown not in files:
            files[shown] = f"film-{number:03d}.jpg"
            (folder / files[shown]).write_bytes(_thumbnail(frames[shown].picture))
        film.append({"time_ms": round(at_ms, 1), "percent": percent, "file": files.get(shown)})
    return film


def _thumbnail(picture: bytes) -> bytes:
    """Return a JPEG of at most `MOST_BYTES`, as large and as good as possible; of the least size if none fits."""
    from PIL import Image

    image = Image.open(io.BytesIO(picture)).convert("RGB")
    small = b""
    for width in WIDTHS:
        height = max(1, round(image.height * width / image.width))
        resized = image.resize((width, height))
        for quality in QUALITIES:
            file = io.BytesIO()
            resized.save(file, "jpeg", quality=quality, optimize=True)
            small = file.getvalue()
            if len(small) <= MOST_BYTES:
                return small
    return small
