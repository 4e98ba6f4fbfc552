"""Bits per second of a carrier's transport blocks for each MCS, averaged over the duplex frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.channel.adaptation.tbs import lte_transport_block_bits, modulation_order, nr_transport_block_bits
from wavebed.channel.adaptation.wifi import wifi_rates_bps
from wavebed.radio.carriers import resource_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.radio.model import WifiSettings
    from wavebed.radio.table_files import Direction
    from wavebed.scene.model import Carrier

__all__ = ["mcs_rates_bps", "most_blocks", "most_layers", "slot_bits"]

CONTROL_SYMBOLS = {"down": 2, "up": 1}
"""Symbols of a slot without data: PDCCH (TS 38.211 7.3.2.2: 1 to 3 symbols); short PUCCH or SRS (6.3.2, 6.4.1.4)."""


def mcs_rates_bps(
    carrier: Carrier,
    direction: Direction,
    wifi: WifiSettings | None = None,
    *,
    layers: int | None = None,
    blocks: int | None = None,
) -> NDArray[np.int64]:
    """Return the rate of each MCS in bit/s, where one user has every slot of the direction.

    Nothing is taken off for MAC, RLC or PDCP headers: the link engine adds them to each packet.

    Parameters
    ----------
    carrier : Carrier
        The carrier; its resource blocks are looked up where they are 0.
    direction : str
        ``down`` or ``up``.
    wifi : WifiSettings or None
        Needed for 802.11ad: the aggregates that decide what is left of the rate.
    layers, blocks : int or None
        Spatial layers and resource blocks; ``None``: the most of the carrier.

    Raises
    ------
    ValueError
        One line: the carrier has a value that its technology does not allow.
    """
    if carrier.technology == "802.11ad":
        if wifi is None:
            raise ValueError("802.11ad needs the settings of its aggregates")
        return np.rint(wifi_rates_bps(wifi)).astype(np.int64)
    layers = layers or most_layers(carrier, direction)
    blocks = blocks or most_blocks(carrier)
    slot_s = 1e-3 if carrier.technology == "lte" else 1e-3 / 2 ** (carrier.numerology or 0)
    frame = carrier.frame or ("D" if direction == "down" else "U")
    letter = "D" if direction == "down" else "U"
    bits = frame.count(letter) * slot_bits(carrier, direction, layers, blocks)
    if "S" in frame:
        symbols = carrier.special_symbols[0 if direction == "down" else 2]
        bits = bits + frame.count("S") * slot_bits(carrier, direction, layers, blocks, symbols)
    return np.rint(bits / (len(frame) * slot_s)).astype(np.int64)


def most_layers(carrier: Carrier, direction: Direction) -> int:
    """Return the most spatial layers of a direction."""
    return carrier.layers if direction == "down" else carrier.uplink_layers


def most_blocks(carrier: Carrier) -> int:
    """Return the resource blocks of a carrier."""
    return carrier.resource_blocks or resource_blocks(
        carrier.technology, carrier.bandwidth_hz, carrier.numerology, carrier.frequency_hz
    )


def slot_bits(carrier: Carrier, direction: Direction, layers: int, blocks: int, symbols: int = 14) -> NDArray[np.int64]:
    """Return the transport block of a slot that gives `symbols` symbols to the direction, for each MCS."""
    mcs = np.arange(modulation_order(carrier.mcs_table).size)
    if carrier.technology == "lte":
        bits = lte_transport_block_bits(mcs, blocks, layers=layers, mcs_table=carrier.mcs_table)
        return bits if symbols == 14 else (bits * _lte_special_fraction(direction, symbols)).astype(np.int64)
    return nr_transport_block_bits(
        mcs,
        blocks,
        symbols=max(0, symbols - CONTROL_SYMBOLS[direction]),
        layers=layers,
        mcs_table=carrier.mcs_table,
    )


def _lte_special_fraction(direction: Direction, symbols: int) -> float:
    """TS 36.213 7.1.7: in a special subframe the table is read at 0.75 of the blocks, 0.375 of them for six symbols."""
    if direction == "up" or symbols < 6:
        return 0.0
    return 0.75 if symbols >= 9 else 0.375
