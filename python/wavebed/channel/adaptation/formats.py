"""Transport formats of a direction, slowest first: layers, resource blocks and MCS, and the SINR that each needs.

The SINR of a format is that of one layer. With S the SINR of all power in one layer on all N resource blocks,
1/SINR = r·(n/N)·loss·separation^(r - 1)/S + EVM²: n blocks hold all power, r layers share it, and the receiver pays for
separating them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wavebed.channel.adaptation.bler import need_db, slopes_per_db, waterfall
from wavebed.channel.adaptation.rates import CONTROL_SYMBOLS, mcs_rates_bps, most_blocks, most_layers, slot_bits
from wavebed.channel.adaptation.tbs import code_blocks, code_rate, modulation_order
from wavebed.channel.adaptation.wifi import FIRST_DATA_MCS
from wavebed.radio.table_files import read_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from wavebed.radio.model import WifiSettings
    from wavebed.radio.table_files import Direction
    from wavebed.scene.model import Carrier

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]

__all__ = ["FormatTable", "Formats", "format_table"]

FEWER_BLOCKS = (1, 2, 3, 4, 6, 10, 15, 25, 50, 75, 100, 150, 200, 400, 800, 1600)
"""Uplink allocations below the whole band: products of 2, 3 and 5 (TS 38.211 6.3.1.4), those of the table of LTE."""


class Formats(NamedTuple):
    """Columns with one value for each transport format.

    Attributes
    ----------
    from_db : float64
        SINR of the whole band and one layer at which one block in ten fails.
    rate_bps : int64
        Bits of transport blocks per second.
    mcs, layers, blocks : int64
        Modulation and coding scheme, spatial layers, resource blocks.
    need_db, slope_per_db : float64
        SINR of a layer at which one block in ten fails, and how fast the logit of the error rate falls there.
    noise : float64
        1/SINR of a layer is `noise` over the SINR of the whole band, and the errors of `FormatTable.floor`.
    """

    from_db: Floats
    rate_bps: Whole
    mcs: Whole
    layers: Whole
    blocks: Whole
    need_db: Floats
    slope_per_db: Floats
    noise: Floats

    def best(self) -> Formats:
        """Keep each format that no other beats with the same or less SINR, slowest first; one where none carries."""
        place = np.lexsort((-self.rate_bps, self.from_db))
        rate = self.rate_bps[place]
        slower = np.concatenate(([-1], np.maximum.accumulate(rate)[:-1]))
        return self.some(place[(rate > slower) & np.isfinite(self.from_db[place])])

    def some(self, place: NDArray[np.intp] | NDArray[np.bool_]) -> Formats:
        """Keep the formats in some places."""
        columns: Iterable[NDArray[Any]] = self
        return Formats(*(column[place] for column in columns))


class FormatTable(NamedTuple):
    """What may be sent.

    Attributes
    ----------
    formats : Formats
        Slowest first.
    floor : float
        1/SINR of a layer without noise.
    reports_db : (m,) float64 or None
        The SINR that reports can say; ``None``: any.
    """

    formats: Formats
    floor: float
    reports_db: Floats | None


@cache
def format_table(carrier: Carrier, direction: Direction, wifi: WifiSettings | None = None) -> FormatTable:
    """Return what a direction of a carrier may send.

    Parameters
    ----------
    carrier : Carrier
        The carrier.
    direction : str
        ``down`` or ``up``; only the uplink is short of power on many resource blocks, and may take fewer.
    wifi : WifiSettings or None
        Needed for 802.11ad.
    """
    if carrier.technology == "802.11ad":
        return FormatTable(_wifi_formats(carrier, wifi).best(), 0.0, None)
    whole = most_blocks(carrier)
    ranks = range(1, most_layers(carrier, direction) + 1)
    full = [_formats(carrier, direction, layers, whole) for layers in ranks]
    fewer = FEWER_BLOCKS if direction == "up" else ()
    narrow = [_formats(carrier, direction, layers, blocks) for layers in ranks for blocks in fewer if blocks < whole]
    reports_db = _reports_db(carrier, full) if direction == "down" else None
    return FormatTable(_together([*full, *narrow]).best(), carrier.evm**2, reports_db)


def _together(parts: list[Formats]) -> Formats:
    return Formats(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _formats(carrier: Carrier, direction: Direction, layers: int, blocks: int) -> Formats:
    """Return every MCS on some layers and blocks."""
    order = modulation_order(carrier.mcs_table)
    efficiency, block_bits = _coded(carrier, direction, layers, blocks)
    needed = need_db(order, efficiency, block_bits)
    finite = np.minimum(needed, 100.0)
    lost_db = carrier.implementation_loss_db + (layers - 1) * carrier.layer_loss_db
    noise = layers * blocks / most_blocks(carrier) * 10 ** (lost_db / 10)
    return Formats(
        _whole_band_db(needed, noise, carrier.evm**2),
        mcs_rates_bps(carrier, direction, layers=layers, blocks=blocks),
        np.arange(order.size),
        np.full(order.size, layers),
        np.full(order.size, blocks),
        finite,
        slopes_per_db(finite, efficiency, block_bits),
        np.full(order.size, noise),
    )


def _whole_band_db(layer_db: Floats, noise: float, floor: float) -> Floats:
    """Return the SINR of the whole band that gives a layer this SINR; infinite above what a layer ever has."""
    left = 10 ** (-layer_db / 10) - floor
    with np.errstate(divide="ignore"):
        return np.asarray(10 * np.log10(noise / np.maximum(left, 0.0)))


def _coded(carrier: Carrier, direction: Direction, layers: int, blocks: int) -> tuple[Floats, Floats]:
    """Return bits per symbol and bits of a code block for each MCS in a whole slot, check sums included."""
    rate = code_rate(carrier.mcs_table)
    if carrier.technology == "lte":
        # Each layer has a transport block. As many symbols as give its code rate where all blocks are used.
        most = most_blocks(carrier)
        full = slot_bits(carrier, direction, 1, most)
        bits = slot_bits(carrier, direction, 1, blocks)
        symbols = full / (modulation_order(carrier.mcs_table) * rate) * (blocks / most)
    else:
        bits = slot_bits(carrier, direction, layers, blocks)
        symbols = np.full(rate.size, float((12 * (14 - CONTROL_SYMBOLS[direction]) - 12) * blocks * layers))
    count, coded = code_blocks(bits, rate, carrier.technology)
    return coded / symbols, coded / count


def _reports_db(carrier: Carrier, full: list[Formats]) -> Floats:
    """Return the SINR that each report says: rank and CQI (TS 38.214 5.2.2.1, 5.2.2.2), those that are ever best.

    Each CQI but the first is an MCS of its table; the first has less than the lowest, and one layer.
    """
    order, rate = (read_table(f"cqi_{carrier.mcs_table}", name) for name in ("modulation_order", "code_rate_x1024"))
    known = set(zip(order.tolist(), (rate / 1024).tolist(), strict=True))
    pairs = zip(modulation_order(carrier.mcs_table).tolist(), code_rate(carrier.mcs_table).tolist(), strict=True)
    reported = np.array([pair in known for pair in pairs])
    levels_db = _together([formats.some(reported) for formats in full]).best().from_db
    first, slowest = need_db(2, 2 * np.array([rate[0] / 1024, code_rate(carrier.mcs_table)[0]]), 8448)
    return np.concatenate(([full[0].from_db[0] + first - slowest], levels_db))


def _wifi_formats(carrier: Carrier, wifi: WifiSettings | None) -> Formats:
    """Return the data MCS of 802.11ad: their needs are those of a receiver with loss, so that nothing is added."""
    rates = mcs_rates_bps(carrier, "down", wifi)[FIRST_DATA_MCS:]
    curve = waterfall("802.11ad")
    snr_db, slope = curve.snr_db[FIRST_DATA_MCS:], curve.slope_per_db[FIRST_DATA_MCS:]
    one = np.ones(rates.size, dtype=np.int64)
    mcs = np.arange(rates.size) + FIRST_DATA_MCS
    return Formats(snr_db, rates, mcs, one, one, snr_db, slope, np.ones(rates.size))
