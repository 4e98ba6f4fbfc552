"""Block error rate over SNR: a logistic curve for each modulation, code rate and size of a code block."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from wavebed.channel.adaptation.information import needed_snr_db
from wavebed.radio.table_files import McsTable, read_table

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from wavebed.radio.model import Technology

    Floats = NDArray[np.float64]

__all__ = [
    "DECODER_GAP_DB",
    "TABLE_ERROR_RATE",
    "Waterfall",
    "block_error_rate",
    "need_db",
    "slope_per_db",
    "slopes_per_db",
    "waterfall",
]

TABLE_ERROR_RATE = 0.1
"""The block error rate at which the needed SNR holds."""

SPREAD_DB = 0.5
"""Standard deviation of what the SINR of one step does not say: the fading inside the step and the error of the mapping
from many subbands to one SINR, some tenths of a decibel (Brueninghaus et al., IEEE PIMRC 2005)."""

DECODER_GAP_DB = 0.64
"""What the decoder loses against the finite block length: fitted by least squares to the 26 measured rows of
``nr_bler.csv``. What is left has a standard deviation of 0.30 dB and is at most 0.51 dB: the source's grid is 1.8 dB
wide."""

BLOCK_BITS = {"nr": 8448, "lte": 6144, "802.11ad": 672}
"""The largest code block: TS 38.212 5.2.2, TS 36.212 5.1.2, IEEE 802.11-2016 20.3.8."""

DMG_CHIP_HZ = 1.76e9
DMG_NOISE_FIGURE_DB = 10.0
SENSITIVITY_ERROR_RATE = 0.01
"""IEEE 802.11-2016 20.3.3.8: 1 % of packets of 4096 octets, noise figure 10 dB, implementation loss 5 dB."""

_Z = 1.2815515655446004  # a normal variable exceeds it with probability 0.1


@dataclass(frozen=True, eq=False)
class Waterfall:
    """Error rate of each MCS over SNR: a logistic curve in decibels.

    Parameters
    ----------
    snr_db : (m,) float64
        SNR at which one block in ten fails.
    slope_per_db : (m,) float64
        How much the logit of the error rate falls with each decibel.
    """

    snr_db: Floats
    slope_per_db: Floats


def need_db(modulation_order: ArrayLike, bits_per_symbol: ArrayLike, block_bits: ArrayLike) -> Floats:
    """Return the SNR at which one code block in ten fails; infinite where the modulation cannot carry the bits.

    That at which the modulation carries the bits, the distance that a finite block keeps from it, and the decoder's.

    Parameters
    ----------
    modulation_order : array_like of int
        Bits of a symbol before coding.
    bits_per_symbol : array_like of float
        Coded bits that carry information, check sums included.
    block_bits : array_like of float
        Bits of the code block; broadcast against the others.
    """
    order, efficiency, bits = np.broadcast_arrays(modulation_order, bits_per_symbol, block_bits)
    snr_db = np.empty(order.shape)
    for each in np.unique(order).tolist():
        snr_db[order == each] = needed_snr_db(each, efficiency[order == each])
    finite = np.minimum(snr_db, 100.0)
    return np.asarray(snr_db + _Z * _code_db(finite, efficiency, bits) + DECODER_GAP_DB)


def slopes_per_db(snr_db: Floats, bits_per_symbol: ArrayLike, block_bits: ArrayLike) -> Floats:
    """Return the logit slope at 10 % error rate: that of the code, with `SPREAD_DB` added as a variance.

    Parameters
    ----------
    snr_db, bits_per_symbol, block_bits
        As `need_db` gives and takes them.
    """
    width_db = np.hypot(_code_db(snr_db, bits_per_symbol, block_bits), SPREAD_DB)
    density = np.exp(-(_Z**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(density / (TABLE_ERROR_RATE * (1 - TABLE_ERROR_RATE)) / width_db)


def _code_db(snr_db: Floats, bits_per_symbol: ArrayLike, block_bits: ArrayLike) -> Floats:
    """Return the width of a code's own curve, a standard deviation in decibels.

    A code of n symbols fails with Q((C - R)·√(n/V)), C = log2(1+s), V = s(s+2)/(1+s)²·log2²e (Polyanskiy, Poor, Verdú:
    Channel coding rate in the finite blocklength regime, IEEE Trans. Inf. Theory 56, 2010): a normal curve in decibels.
    """
    snr = 10 ** (snr_db / 10)
    symbols = np.asarray(block_bits) / np.asarray(bits_per_symbol)
    dispersion = snr * (snr + 2) / (1 + snr) ** 2 / np.log(2) ** 2
    capacity_per_db = snr / (1 + snr) / np.log(2) * np.log(10) / 10
    return np.asarray(np.sqrt(dispersion / symbols) / capacity_per_db)


def block_error_rate(
    snr_db: ArrayLike, mcs: ArrayLike, technology: Technology = "nr", mcs_table: McsTable = "64qam"
) -> Floats:
    """Return the fraction of first transmissions that fail, 0 to 1, for the largest code block.

    Parameters
    ----------
    snr_db : array_like of float
        Effective SNR.
    mcs : array_like of int
        MCS, at least 0; broadcast against `snr_db`.
    technology, mcs_table : str
        Whose curves.
    """
    curve = waterfall(technology, mcs_table)
    index = np.asarray(mcs, dtype=np.int64)
    above_db = np.clip(np.asarray(snr_db, dtype=np.float64), -100, 100) - curve.snr_db[index]
    odds = (1 / TABLE_ERROR_RATE - 1) * np.exp(curve.slope_per_db[index] * above_db)
    return np.asarray(1 / (1 + odds))


def slope_per_db(technology: Technology = "nr", mcs_table: McsTable = "64qam") -> float:
    """Return the logit slope of the error rate per decibel, the mean over the MCS.

    It is what HARQ needs to say how much the error rate falls when combining adds decibels.
    """
    return float(waterfall(technology, mcs_table).slope_per_db.mean())


@cache
def waterfall(technology: Technology, mcs_table: McsTable = "64qam") -> Waterfall:
    """Return the curves of a technology's MCS with its largest code block.

    LTE takes the code rates of NR at the same MCS index: its tables have the same modulations, and code rates within
    3 % where 120 resource elements of a pair of blocks carry data (three control symbols, two antenna ports).
    """
    if technology == "802.11ad":
        return _dmg_waterfall()
    order, rate = (read_table(f"nr_mcs_{mcs_table}", name) for name in ("modulation_order", "code_rate_x1024"))
    efficiency, bits = order * rate / 1024, BLOCK_BITS[technology]
    snr_db = need_db(order.astype(np.int64), efficiency, bits)
    return Waterfall(snr_db, slopes_per_db(snr_db, efficiency, bits))


def _dmg_waterfall() -> Waterfall:
    """Return the curves of IEEE 802.11ad: the sensitivity that the standard asks for, implementation loss included."""
    noise_dbm = -174 + 10 * np.log10(DMG_CHIP_HZ) + DMG_NOISE_FIGURE_DB
    sensitive_db = read_table("dmg_mcs", "sensitivity_dbm") - noise_dbm
    efficiency = read_table("dmg_mcs", "rate_bps") / DMG_CHIP_HZ
    slope = slopes_per_db(sensitive_db, efficiency, BLOCK_BITS["802.11ad"])
    return Waterfall(sensitive_db - (_logit(TABLE_ERROR_RATE) - _logit(SENSITIVITY_ERROR_RATE)) / slope, slope)


def _logit(fraction: float) -> float:
    return float(np.log(fraction / (1 - fraction)))
