"""Block error rate over SNR, and the effective SINR of a channel that differs between subbands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from wavebed.radio.table_files import McsTable, read_table

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from wavebed.radio.model import Technology

__all__ = [
    "TABLE_ERROR_RATE",
    "Waterfall",
    "block_error_rate",
    "cqi_snr_db",
    "effective_sinr_db",
    "slope_per_db",
    "waterfall",
]

TABLE_ERROR_RATE = 0.1
"""The block error rate at which the table's SNR holds."""

SPREAD_DB = 0.5
"""Standard deviation of what the SINR of one step does not say: the fading inside the step and the error of the mapping
from many subbands to one SINR, some tenths of a decibel (Brueninghaus et al., IEEE PIMRC 2005)."""

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

    snr_db: NDArray[np.float64]
    slope_per_db: NDArray[np.float64]


def block_error_rate(
    snr_db: ArrayLike, mcs: ArrayLike, technology: Technology = "nr", mcs_table: McsTable = "64qam"
) -> NDArray[np.float64]:
    """Return the fraction of first transmissions that fail, 0 to 1.

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
    """Return the curves of a technology.

    LTE takes those of NR at the same MCS index: its tables have the same modulations, and code rates within 3 % where
    120 resource elements of a pair of blocks carry data (three control symbols, two antenna ports).
    """
    if technology == "802.11ad":
        return _dmg_waterfall()
    order, rate = (read_table(f"nr_mcs_{mcs_table}", name) for name in ("modulation_order", "code_rate_x1024"))
    snr_db = _snr_db(order, rate)
    return Waterfall(snr_db, _slope(snr_db, order * rate / 1024, BLOCK_BITS[technology]))


def cqi_snr_db(mcs_table: McsTable) -> NDArray[np.float64]:
    """Return the SNR at which each CQI, from 1 on, is reported: 10 % error rate (TS 38.214 5.2.2.1)."""
    return _snr_db(*(read_table(f"cqi_{mcs_table}", name) for name in ("modulation_order", "code_rate_x1024")))


def effective_sinr_db(sinr_db: ArrayLike, mcs: ArrayLike, mcs_table: McsTable = "64qam") -> NDArray[np.float64]:
    """Return the effective SINR over the subbands of the last axis: -β·ln(mean e^(-s/β)), the EESM, s a ratio.

    Parameters
    ----------
    sinr_db : array_like of float, (..., subbands)
        SINR of each subband.
    mcs : array_like of int
        MCS, which decides β; broadcast against the other axes.
    mcs_table : str
        ``64qam`` or ``256qam``.
    """
    order, rate = (read_table(f"nr_mcs_{mcs_table}", name) for name in ("modulation_order", "code_rate_x1024"))
    beta = _column(order, rate, "beta")[np.asarray(mcs, dtype=np.int64)]
    ratio = 10 ** (np.asarray(sinr_db, dtype=np.float64) / 10) / beta[..., None]
    least = ratio.min(axis=-1, keepdims=True)
    mean = np.exp(least - ratio).mean(axis=-1)
    return np.asarray(10 * np.log10(beta * (least[..., 0] - np.log(mean))))


def _snr_db(order: NDArray[np.float64], rate: NDArray[np.float64]) -> NDArray[np.float64]:
    return _column(order, rate, "snr_db")


def _column(order: NDArray[np.float64], rate: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    known = zip(read_table("nr_bler", "modulation_order"), read_table("nr_bler", "code_rate_x1024"), strict=True)
    values = dict(zip(known, read_table("nr_bler", name), strict=True))
    return np.array([values[key] for key in zip(order, rate, strict=True)])


def _slope(snr_db: NDArray[np.float64], efficiency: NDArray[np.float64], bits: int) -> NDArray[np.float64]:
    """Return the logit slope at 10 % error rate.

    A code of n symbols fails with Q((C - R)·√(n/V)), C = log2(1+s), V = s(s+2)/(1+s)²·log2²e (Polyanskiy, Poor, Verdú:
    Channel coding rate in the finite blocklength regime, IEEE Trans. Inf. Theory 56, 2010): a normal curve in
    decibels; `SPREAD_DB` is added as a variance.
    """
    snr = 10 ** (snr_db / 10)
    symbols = bits / efficiency
    dispersion = snr * (snr + 2) / (1 + snr) ** 2 / np.log(2) ** 2
    capacity_per_db = snr / (1 + snr) / np.log(2) * np.log(10) / 10
    code_db = np.sqrt(dispersion / symbols) / capacity_per_db
    density = np.exp(-(_Z**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(density / (TABLE_ERROR_RATE * (1 - TABLE_ERROR_RATE)) / np.hypot(code_db, SPREAD_DB))


def _dmg_waterfall() -> Waterfall:
    """Return the curves of IEEE 802.11ad: the sensitivity that the standard asks for, implementation loss included."""
    noise_dbm = -174 + 10 * np.log10(DMG_CHIP_HZ) + DMG_NOISE_FIGURE_DB
    sensitive_db = read_table("dmg_mcs", "sensitivity_dbm") - noise_dbm
    efficiency = read_table("dmg_mcs", "rate_bps") / DMG_CHIP_HZ
    slope = _slope(sensitive_db, efficiency, BLOCK_BITS["802.11ad"])
    return Waterfall(sensitive_db - (_logit(TABLE_ERROR_RATE) - _logit(SENSITIVITY_ERROR_RATE)) / slope, slope)


def _logit(fraction: float) -> float:
    return float(np.log(fraction / (1 - fraction)))
