"""The film of the cameras of a call: a moving texture with grain, so that quality depends on bitrate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.workload.drafts import drafted

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["camera_film"]

_SECONDS = 2
_GRAIN = 5.0
"""Standard deviation of each pixel's grain, of 255: about that of a phone's camera indoors."""

_BLOCK = 8
_SPEED = 2


def camera_film(cache: Path, width: int, height: int, fps: int) -> Path:
    """Return a YUV4MPEG2 film of two seconds, which Chromium repeats, from `cache` or newly made.

    Parameters
    ----------
    width, height : int
        Pixels, both even.

    Raises
    ------
    MachineError
        If it cannot be written.
    """
    file = cache / f"call-{width}x{height}-{fps}fps-1.y4m"
    if file.exists():
        return file
    rng = np.random.default_rng(107)
    coarse = rng.uniform(40, 215, (height // _BLOCK + 1, width // _BLOCK + 1))
    texture = np.kron(coarse, np.ones((_BLOCK, _BLOCK)))[:height, :width]
    chroma = bytes([118]) * (width * height // 4) + bytes([138]) * (width * height // 4)
    with drafted(file) as film:
        film.write(f"YUV4MPEG2 W{width} H{height} F{fps}:1 Ip A1:1 C420\n".encode())
        for index in range(_SECONDS * fps):
            moved = np.roll(texture, index * _SPEED, axis=1)
            picture = moved + rng.normal(0, _GRAIN, moved.shape)
            film.write(b"FRAME\n" + np.clip(picture, 16, 235).astype(np.uint8).tobytes() + chroma)
    return file
