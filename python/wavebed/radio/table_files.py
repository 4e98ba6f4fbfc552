"""Read the data files in ``wavebed/radio/tables``; the first lines of each say where its values are from."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["Direction", "McsTable", "read_table", "read_texts"]

Direction: TypeAlias = Literal["down", "up"]
McsTable: TypeAlias = Literal["64qam", "256qam"]

FOLDER = Path(__file__).parent / "tables"


@cache
def read_texts(name: str) -> Mapping[str, tuple[str, ...]]:
    """Return the columns of the data file `name` (without ``.csv``) as they are written, by their header."""
    lines = [line for line in (FOLDER / f"{name}.csv").read_text().splitlines() if not line.startswith("#")]
    header, *rows = (line.split(",") for line in lines)
    return MappingProxyType(dict(zip(header, zip(*rows, strict=True), strict=True)))


@cache
def read_table(name: str, column: str) -> NDArray[np.float64]:
    """Return one numeric column of the data file `name` (without ``.csv``), read-only."""
    values = np.array([float(text) for text in read_texts(name)[column]])
    values.setflags(write=False)
    return values
