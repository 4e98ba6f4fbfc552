"""Content of made objects: text, fonts and images of an exact size."""

from __future__ import annotations

import colorsys
import hashlib
import io
import math
import random
import struct
import zlib
from functools import cache
from importlib import resources
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING

from wavebed.config.problems import Problem
from wavebed.workload.site.spec import MINIMUM_BYTES, MINIMUM_JPEG_BYTES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

    from wavebed.workload.site.model import Kind

    Pixels = NDArray[np.uint8]


def random_stream(*names: object) -> random.Random:
    """Return a random generator seeded by the names."""
    key = "/".join(str(name) for name in names)
    return random.Random(int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big"))  # noqa: S311


def share_out(total_bytes: int, count: int, spread: float, least_bytes: int, source: random.Random) -> list[int]:
    """Return `count` sizes that sum to `total_bytes`, none below `least_bytes`.

    Above the least, they are the quantiles at (i + ½)/count of a log-normal distribution whose logarithm has the
    standard deviation `spread`, in an order that is drawn.
    """
    quantiles = [math.exp(spread * NormalDist().inv_cdf((index + 0.5) / count)) for index in range(count)]
    source.shuffle(quantiles)
    free_bytes = total_bytes - count * least_bytes
    assert free_bytes >= 0, "the specification has been checked"
    ends = [0.0]
    for part in quantiles:
        ends.append(ends[-1] + part)
    edges = [round(free_bytes * end / ends[-1]) for end in ends]
    return [least_bytes + edges[index + 1] - edges[index] for index in range(count)]


_WORDS = (resources.files("wavebed.workload.site") / "words.txt").read_text(encoding="ascii").split()


def words(size_bytes: int, source: random.Random) -> str:
    """Return words of `size_bytes` ASCII characters."""
    text = " ".join(source.choices(_WORDS, k=size_bytes // 4 + 1))
    while len(text) < size_bytes:
        text += " " + source.choice(_WORDS)
    return text[:size_bytes]


def headline(source: random.Random) -> str:
    """Return a few words."""
    return " ".join(source.choices(_WORDS, k=source.randint(4, 7))).capitalize()


def sentence(source: random.Random) -> str:
    """Return a sentence."""
    return " ".join(source.choices(_WORDS, k=source.randint(9, 16))).capitalize() + "."


def padded(text: str, before: str, after: str, size_bytes: int, source: random.Random, *, key: str) -> bytes:
    """Return `text` padded to `size_bytes` with words between `before` and `after`.

    Raises
    ------
    Problem
        At `key`, if the text alone is longer.
    """
    left = size_bytes - len(text.encode())
    if left < 0:
        raise Problem(f"{size_bytes} bytes do not hold what belongs there: write at least {size_bytes - left}b", key)
    room = left - len(before) - len(after)
    text += before + words(room, source) + after if room >= 0 else " " * left
    return text.encode()


FACES = ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSans-Oblique")
_LETTERS = [*range(0x20, 0x7F), 0xB7, 0xD7, 0x2013, 0x2019, 0x2026]


@cache
def _letters(face: str) -> bytes:
    """Return a face as WOFF 1.0 with the letters that pages use, without hints or kerning."""
    import matplotlib as mpl
    from fontTools import subset  # type: ignore[import-untyped]
    from fontTools.ttLib import TTFont  # type: ignore[import-untyped]

    options = subset.Options(hinting=False, layout_features=[], notdef_outline=True, recalc_timestamp=False)
    options.drop_tables += ["FFTM"]
    with TTFont(Path(mpl.get_data_path()) / "fonts" / "ttf" / f"{face}.ttf", recalcTimestamp=False) as whole:
        chosen = subset.Subsetter(options)
        chosen.populate(unicodes=_LETTERS)
        chosen.subset(whole)
        whole.flavor = "woff"
        out = io.BytesIO()
        whole.save(out)
    return out.getvalue()


def font(size_bytes: int, index: int, source: random.Random) -> bytes:
    """Return the font number `index` with `size_bytes`, padded in WOFF's private data block."""
    data = bytearray(_letters(FACES[index % len(FACES)]))
    data += bytes(-len(data) % 4)  # the private block begins at a multiple of four
    left = size_bytes - len(data)
    assert left >= 0, "the specification has been checked"
    if left:
        struct.pack_into(">II", data, 36, len(data), left)
        data += source.randbytes(left)
    struct.pack_into(">I", data, 8, len(data))
    return bytes(data)


_JPEG_QUALITY = 80
JPEG_BYTES_PER_PIXEL = 0.33
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
    width, height = _sides(size_bytes - 600, JPEG_BYTES_PER_PIXEL, aspect)
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


_AROUND = {"html": ("<!doctype html><title>-</title><p>", "</p>"), "css": ("/*", "*/"), "js": ("/*", "*/")}
_AROUND["json"] = ('["', '"]')


def filler(kind: Kind, content_type: str, size_bytes: int, key: str) -> tuple[str, bytes]:
    """Return the type and the content of something of a kind and size, the same for the same `key`.

    Pictures can be decoded: they are JPEG, or PNG where they are small, and never smaller than the least PNG. Fonts
    are real where they are large enough.
    """
    source = random_stream(key)
    if kind == "image" and size_bytes:
        if size_bytes >= MINIMUM_JPEG_BYTES:
            return "image/jpeg", jpeg(size_bytes, 4 / 3, source)
        return "image/png", png(max(size_bytes, MINIMUM_BYTES["image"]), 1.0, source)
    if kind == "font" and size_bytes >= MINIMUM_BYTES["font"]:
        return "font/woff", font(size_bytes, 0, source)
    if kind in _AROUND:
        before, after = _AROUND[kind]
        room = size_bytes - len(before) - len(after)
        return content_type, (before + words(room, source) + after if room >= 0 else " " * size_bytes).encode()
    return content_type, source.randbytes(size_bytes)
