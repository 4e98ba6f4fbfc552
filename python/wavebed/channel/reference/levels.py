"""Link adaptation of the study: the level that a channel allows, and its rate.

The UE reports one of 15 levels for the whole band. It takes the mean mutual information over the sub-bands and
finds the highest level that would fail in at most 10 % of transport blocks. A selective channel carries less than a
flat one of the same mean SINR, and a level carries what its lower edge allows: both lower the rate below a smooth
curve through the mean SINR.
"""

from __future__ import annotations

from csv import DictReader
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wavebed.channel.reference.beams import gains

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["Level", "flat_thresholds_db", "levels", "mcs_numbers", "needed_db", "rates_bps"]

RESOURCE_ELEMENTS = 48 * 72 - 864
"""Per symbol: 48 subcarriers in each of 72 sub-bands, less those of reference signals."""

USABLE_SYMBOLS = 22
"""Of 24 in a subframe; one at each end carries control."""

SUBFRAME_S = 100e-6
CRC_BITS = 24
CODE_BLOCK_BITS = 6144

UNCERTAINTY_DB = 0.5
"""A level begins within the dB below the one at which it was first seen; its middle is taken."""

_LOWEST_DB, _HIGHEST_DB, _PER_DB = -30.0, 40.0, 20
_SEARCH_STEP_DB = 1.0
_MOST_LOSS_DB = 15.0


class Level(NamedTuple):
    """A channel quality indicator: its MCS, bits per symbol, code rate, and the first whole dB at which it was seen."""

    cqi: int
    mcs: int
    bits: int
    code_rate: float
    sinr_db: float

    @property
    def rate_bps(self) -> float:
        """Bits of transport blocks per second, without their checksums."""
        block = int(RESOURCE_ELEMENTS * USABLE_SYMBOLS * self.bits * self.code_rate) - CRC_BITS
        if block > CODE_BLOCK_BITS:
            block -= CRC_BITS * -(-block // CODE_BLOCK_BITS)
        return block / SUBFRAME_S


@cache
def levels() -> tuple[Level, ...]:
    """Return the 15 levels, lowest first."""
    lines = files(__package__).joinpath("cqi.csv").read_text().splitlines()
    rows = DictReader(line for line in lines if not line.startswith("#"))
    return tuple(
        Level(int(row["cqi"]), int(row["mcs"]), int(row["bits"]), float(row["code_rate"]), float(row["sinr_db"]))
        for row in rows
    )


def rates_bps() -> NDArray[np.int64]:
    """Return the rate of each level; the first entry, 0, is that of no level."""
    return np.array([0, *(round(level.rate_bps) for level in levels())], dtype=np.int64)


def mcs_numbers() -> NDArray[np.int16]:
    """Return the MCS of each level; the first entry, -1, is that of no level."""
    return np.array([-1, *(level.mcs for level in levels())], dtype=np.int16)


def flat_thresholds_db() -> Floats:
    """Return the SINR at which each level begins in a channel without selectivity, ±`UNCERTAINTY_DB`."""
    return np.array([level.sinr_db - UNCERTAINTY_DB for level in levels()])


@cache
def needed_db(station: tuple[int, int], ue: tuple[int, int]) -> Floats:
    """Return the SINR before beamforming at which each level begins, for every channel instance.

    Returns
    -------
    (instances, levels) float64
        SINR of a single path between single antennas, in dB; it rises with the level.
    """
    gain = gains(station, ue)
    mean_db = 10 * np.log10(gain.mean(axis=1))
    relative_db = 10 * np.log10(np.maximum(gain, 1e-12)) - mean_db[:, np.newaxis]
    starts_db = flat_thresholds_db()
    columns = []
    for bits in (2, 4, 6):
        own_db = starts_db[[level.bits == bits for level in levels()]]
        mean_sinr_db = np.arange(own_db[0], own_db[-1] + _MOST_LOSS_DB, _SEARCH_STEP_DB)
        reached = np.stack([_information(bits, relative_db + at_db).mean(axis=1) for at_db in mean_sinr_db])
        columns += [_crossing(mean_sinr_db, reached, float(_information(bits, flat_db))) for flat_db in own_db]
    return np.asarray(np.maximum.accumulate(np.stack(columns, axis=1) - mean_db[:, np.newaxis], axis=1))


def _crossing(mean_sinr_db: Floats, reached: Floats, wanted: float) -> Floats:
    """Return the mean SINR at which each column of rising information gets to what is wanted."""
    after = np.clip((reached < wanted).sum(axis=0), 1, len(mean_sinr_db) - 1)
    column = np.arange(reached.shape[1])
    low, high = reached[after - 1, column], reached[after, column]
    part = np.clip((wanted - low) / np.maximum(high - low, 1e-12), 0.0, 1.0)
    return np.asarray(mean_sinr_db[after - 1] + part * (mean_sinr_db[after] - mean_sinr_db[after - 1]))


def _information(bits: int, sinr_db: Floats | float) -> Floats:
    """Mutual information per coded bit of QPSK, 16QAM or 64QAM at the given SINR, from the curve's nearest point."""
    place = np.rint((sinr_db - _LOWEST_DB) * _PER_DB).astype(np.int64)
    curve = _curve(bits)
    return np.asarray(curve[np.clip(place, 0, len(curve) - 1)])


@cache
def _curve(bits: int) -> Floats:
    """Mutual information per coded bit (bit-interleaved coded modulation), by Gauss-Hermite quadrature.

    Reference: G. Caire, G. Taricco, E. Biglieri, "Bit-interleaved coded modulation", IEEE Trans. IT 44(3), 1998,
    equation 18. A square constellation is two independent ones of half the bits.
    """
    size = 2 ** (bits // 2)
    points = np.arange(1 - size, size, 2.0)
    points /= np.sqrt(np.mean(points**2))
    labels = np.arange(size) ^ (np.arange(size) >> 1)
    nodes, weights = np.polynomial.hermite_e.hermegauss(32)
    weights = weights / weights.sum()
    sinr_db = np.arange(_LOWEST_DB, _HIGHEST_DB, 1.0)
    noise = 10 ** (-sinr_db / 20)[:, np.newaxis, np.newaxis]
    received = points[:, np.newaxis] + noise * nodes
    exponent = (received[..., np.newaxis] - points) ** 2 - (noise * nodes)[..., np.newaxis] ** 2
    likelihood = np.exp(-exponent / (2 * noise[..., np.newaxis] ** 2))
    total = likelihood.sum(axis=-1)
    lost = np.zeros(len(sinr_db))
    for bit in range(bits // 2):
        same = (labels[:, np.newaxis] >> bit & 1) == (labels >> bit & 1)
        right = (likelihood * same[:, np.newaxis, :]).sum(axis=-1)
        lost += (np.log2(total / right) * weights).sum(axis=-1).mean(axis=-1)
    fine_db = np.arange(_LOWEST_DB, _HIGHEST_DB - 1.0, 1 / _PER_DB)
    return np.asarray(np.interp(fine_db, sinr_db, 1 - lost / (bits // 2)))
