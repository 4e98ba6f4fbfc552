"""How much a modulation carries: bit-interleaved coded modulation with Gray labels in white noise."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["information_bits", "needed_snr_db"]

NODES = 20
"""Of the Gauss-Hermite rule: 64 change no needed SNR by more than 0.01 dB."""
GRID_DB = np.arange(-25.0, 40.01, 0.5)


@cache
def information_bits(modulation_order: int) -> NDArray[np.float64]:
    """Return the bits that a symbol carries at each SNR of `GRID_DB` (Caire, Taricco, Biglieri, IEEE Trans. IT 44).

    A square constellation with Gray labels is two independent amplitudes with half of the bits each.

    Parameters
    ----------
    modulation_order : int
        Bits of a symbol: 2, 4, 6 or 8.
    """
    bits = modulation_order // 2
    place = np.arange(2**bits)
    amplitude = 2.0 * place - (2**bits - 1)
    amplitude /= np.sqrt((amplitude**2).mean())
    label = place ^ (place >> 1)
    node, weight = np.polynomial.hermite.hermgauss(NODES)
    weight = weight / np.sqrt(np.pi)
    carried = np.full(GRID_DB.size, float(bits))
    for at, snr_db in enumerate(GRID_DB.tolist()):
        scale = np.sqrt(10 ** (snr_db / 10) / 2)
        # Of each sent amplitude, node and guessed amplitude: how likely the guess is, over the sent one.
        shift = scale * (amplitude[:, None] - amplitude)
        likely = np.exp(-(shift**2)[:, None, :] - 2 * node[:, None] * shift[:, None, :])
        every = likely.sum(axis=2)
        for bit in range(bits):
            one = (label >> bit) & 1
            same = (likely * (one[:, None] == one)[:, None, :]).sum(axis=2)
            carried[at] -= float((np.log2(every / same) @ weight).mean())
    found = 2 * carried
    found.setflags(write=False)
    return found


def needed_snr_db(modulation_order: int, bits_per_symbol: ArrayLike) -> NDArray[np.float64]:
    """Return the SNR at which a modulation carries so many bits a symbol; infinite where it never does."""
    carried = information_bits(modulation_order)
    below = carried < modulation_order - 1e-4
    bits = np.asarray(bits_per_symbol, dtype=np.float64)
    return np.asarray(np.interp(bits, carried[below], GRID_DB[below], right=np.inf))
