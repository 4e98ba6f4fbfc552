"""Decodable pictures with an exact size in bytes."""

from __future__ import annotations

import colorsys
import io
import math
import struct
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

    Pixels = NDArray[np.uint8]

__all__ = ["jpeg", "png"]

_JPEG_QUALITY = 80
_JPEG_BYTES_PER_PIXEL = 0.33
"""Of the pictures below at that quality; measured. Only the first guess depends on it."""
_PNG_BYTES_PER_PIXEL = 0.6
_MOST_SIDE = 4000
_COM_MOST = 65_533
"""Largest comment of JPEG: its length field counts itself."""
_ROUNDS = 40
_SKY = ((0.0, 0.55, 0.85), (0.06, 0.15, 1.0))
"""Top and bottom of the sky: how far the hue is turned, saturation, value."""
_HILLS = 3
_GRAIN = 24


def _pixels(width: int, height: int, source: random.Random) -> Pixels:
    """Draw hills below a sky in random colours with grain, which fills the file."""
    import numpy as np

    rng = np.random.default_rng(source.getrandbits(64))
    hue = source.random()
    down = np.linspace(0, 1, height, dtype=np.float32)[:, None, None]
    above, below = (np.array(_colour(hue + turn, strength, light)) for turn, strength, light in _SKY)
    drawn = (above + (below - above) * down + np.zeros((1, width, 1), dtype=np.float32)).astype(np.int16)
    along = np.linspace(0, 1, width)
    rows = np.arange(height)[:, None]
    for layer in range(_HILLS):
        ridge = (0.35 + 0.2 * layer) + sum(
            source.uniform(0.01, 0.07) * np.sin(along * source.uniform(3, 14) + source.uniform(0, 6)) for _ in range(3)
        )
        colour = _colour(hue + 0.45 + source.uniform(-0.15, 0.15), 0.5, 0.85 - 0.22 * layer)
        drawn[rows > ridge * height] = np.array(colour, dtype=np.int16)
    drawn += rng.integers(-_GRAIN, _GRAIN + 1, (height, width, 1), dtype=np.int16)
    shown: Pixels = np.clip(drawn, 0, 255).astype(np.uint8)
    return shown


def _colour(hue: float, saturation: float, value: float) -> tuple[float, ...]:
    return tuple(255 * part for part in colorsys.hsv_to_rgb(hue % 1, saturation, value))


def _sides(size_bytes: int, bytes_per_pixel: float, aspect: float) -> tuple[int, int]:
    area = size_bytes / bytes_per_pixel * 1.15
    width = min(_MOST_SIDE, max(8, round(math.sqrt(area * aspect))))
    return width, min(_MOST_SIDE, max(8, math.ceil(area / width)))


def _encoded_jpeg(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", quality=_JPEG_QUALITY, optimize=False)
    return out.getvalue()


def _cut_to(size_bytes: int, pixels: Pixels, spare_bytes: int, *, is_jpeg: bool) -> bytes:
    """Encode the most rows that leave nothing, or at least `spare_bytes`."""
    from PIL import Image

    rows = len(pixels)
    for _ in range(_ROUNDS):
        part = pixels[:rows]
        data = _encoded_jpeg(Image.fromarray(part)) if is_jpeg else _encoded_png(part)
        left = size_bytes - len(data)
        if left == 0 or left >= spare_bytes or rows == 1:
            return data
        rows = max(1, min(rows - 1, int(rows * size_bytes / len(data) * 0.985)))
    raise AssertionError("rows become fewer until they fit")


def jpeg(size_bytes: int, aspect: float, source: random.Random) -> bytes:
    """Return a baseline JPEG of `size_bytes`, about `aspect` times as wide as high.

    What the picture leaves of the size, a few hundredths, is in comment segments behind the first marker.
    """
    width, height = _sides(size_bytes - 600, _JPEG_BYTES_PER_PIXEL, aspect)
    data = _cut_to(size_bytes, _pixels(width, height, source), 4, is_jpeg=True)
    left = size_bytes - len(data)
    assert left >= 0, "the specification has been checked"
    comments = b""
    while left:
        # Never leave less than an empty segment.
        take = left if left <= _COM_MOST + 2 else min(_COM_MOST + 2, left - 4)
        comments += b"\xff\xfe" + struct.pack(">H", take - 2) + source.randbytes(take - 4)
        left -= take
    return data[:2] + comments + data[2:]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _encoded_png(pixels: Pixels) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels).quantize(64).save(out, "PNG", compress_level=6)
    return out.getvalue()


def png(size_bytes: int, aspect: float, source: random.Random) -> bytes:
    """Return a PNG with a palette, of `size_bytes`, about `aspect` times as wide as high.

    What the picture leaves of the size is in a private ancillary chunk at its end.
    """
    width, height = _sides(max(8, size_bytes - 330), _PNG_BYTES_PER_PIXEL, aspect)
    pixels = _pixels(width, height, source) if size_bytes > 700 else _plain(source)
    data = _cut_to(size_bytes, pixels, 12, is_jpeg=False)
    left = size_bytes - len(data)
    assert left == 0 or left >= 12, "the specification has been checked"
    end = data[-12:]
    return data[:-12] + (_chunk(b"wbFl", source.randbytes(left - 12)) if left else b"") + end


def _plain(source: random.Random) -> Pixels:
    import numpy as np

    return np.full((1, 1, 3), [source.randrange(256) for _ in range(3)], dtype=np.uint8)
