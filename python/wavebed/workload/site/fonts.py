"""Web fonts with an exact size in bytes: letters of DejaVu, from Matplotlib."""

from __future__ import annotations

import io
import struct
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

__all__ = ["FACES", "font"]

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
