"""Read the data files in ``wavebed/radio/tables``; the first lines of each say where its values are from."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from wavebed.radio.presets import Technology


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
    import numpy as np  # a list of names needs no table

    values = np.array([float(text) for text in read_texts(name)[column]])
    values.setflags(write=False)
    return values


FR1_HZ = (410e6, 7.125e9)  # TS 38.101-1 Table 5.1-1
FR2_HZ = (24.25e9, 52.6e9)  # TS 38.101-2 Table 5.1-1: FR2-1


def resource_blocks(
    technology: Technology, bandwidth_hz: float, numerology: int | None = None, frequency_hz: float = 3.5e9
) -> int:
    """Return the resource blocks of a carrier (TS 38.101-1 and -2 Table 5.3.2-1, TS 36.101 Table 5.6-1).

    Parameters
    ----------
    technology : str
        ``nr``, ``lte`` or ``802.11ad`` (which has none: 0).
    bandwidth_hz : float
        Channel bandwidth.
    numerology : int or None
        NR: subcarrier spacing 15·2^µ kHz.
    frequency_hz : float
        Centre frequency; decides between FR1 and FR2.

    Raises
    ------
    ValueError
        One line: what is wrong, and which values are allowed.
    """
    if technology == "802.11ad":
        return 0
    kind = "lte" if technology == "lte" else _frequency_range(frequency_hz)
    table = read_texts("resource_blocks")
    rows = [
        (int(mu), int(hertz), int(blocks))
        for name, mu, hertz, blocks in zip(*table.values(), strict=True)
        if name == kind
    ]
    spacing = 0 if technology == "lte" else numerology
    allowed = sorted({mu for mu, _, _ in rows})
    if spacing not in allowed:
        raise ValueError(
            f"numerology {spacing} is not one of {_join(allowed)}, which {kind.replace('nr-', '').upper()} allows"
        )
    widths = {hertz: blocks for mu, hertz, blocks in rows if mu == spacing}
    if bandwidth_hz not in widths:
        of = "LTE" if technology == "lte" else f"numerology {spacing} in {kind.replace('nr-', '').upper()}"
        megahertz = _join([f"{hertz / 1e6:g}" for hertz in widths])
        raise ValueError(f"bandwidth {bandwidth_hz / 1e6:g} MHz is not one of {megahertz} MHz, which {of} allows")
    return widths[int(bandwidth_hz)]


_GROUPS_NR = ((36, 2), (72, 4), (144, 8), (275, 16))
"""Most resource blocks, and blocks of a group: TS 38.214 table 5.1.2.2.1-1, configuration 1."""
_GROUPS_LTE = ((10, 1), (26, 2), (63, 3), (110, 4))
"""The same of TS 36.213 table 7.1.6.1-1."""


def resource_block_groups(technology: Technology, blocks: int) -> int:
    """Return the resource block groups of a carrier: the least parts of a slot that are given to one device.

    A carrier of more blocks than a standard has, as an aggregate of carriers, has groups of the largest size.
    """
    table = _GROUPS_LTE if technology == "lte" else _GROUPS_NR
    size = next((size for most, size in table if blocks <= most), table[-1][1])
    return -(-blocks // size)


def _frequency_range(frequency_hz: float) -> str:
    for name, (low, high) in (("nr-fr1", FR1_HZ), ("nr-fr2", FR2_HZ)):
        if low <= frequency_hz <= high:
            return name
    raise ValueError(
        f"frequency {frequency_hz / 1e9:g} GHz is neither in FR1 (0.41 to 7.125 GHz) nor in FR2 (24.25 to 52.6 GHz)"
    )


def _join(values: list[int] | list[str]) -> str:
    return ", ".join(str(value) for value in values)


def glass_db(frequency_hz: float) -> float:
    """Return the loss of standard multi-pane glass."""
    return 2 + 0.2 * frequency_hz / 1e9


def irr_glass_db(frequency_hz: float) -> float:
    """Return the loss of infrared-reflecting glass."""
    return 23 + 0.3 * frequency_hz / 1e9


def concrete_db(frequency_hz: float) -> float:
    """Return the loss of a concrete wall."""
    return 5 + 4 * frequency_hz / 1e9
