"""Transport block sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.radio.table_files import McsTable, read_table, read_texts

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from wavebed.radio.model import Technology

__all__ = ["code_blocks", "code_rate", "lte_transport_block_bits", "modulation_order", "nr_transport_block_bits"]


def modulation_order(mcs_table: McsTable) -> NDArray[np.int64]:
    """Return the bits per symbol of each MCS (TS 38.214 Tables 5.1.3.1-1 and -2)."""
    return read_table(f"nr_mcs_{mcs_table}", "modulation_order").astype(np.int64)


def code_rate(mcs_table: McsTable) -> NDArray[np.float64]:
    """Return the target code rate of each MCS (TS 38.214 Tables 5.1.3.1-1 and -2)."""
    return read_table(f"nr_mcs_{mcs_table}", "code_rate_x1024") / 1024


def nr_transport_block_bits(
    mcs: ArrayLike,
    blocks: int,
    *,
    symbols: int = 12,
    dmrs_elements: int = 12,
    overhead_elements: int = 0,
    layers: int = 1,
    mcs_table: McsTable = "64qam",
) -> NDArray[np.int64]:
    """Return the transport block size of NR in bits (TS 38.214 5.1.3.2; 6.1.4.2 for the uplink).

    Parameters
    ----------
    mcs : array_like of int
        MCS index, of any shape.
    blocks : int
        Resource blocks.
    symbols : int
        OFDM symbols of the shared channel in the slot.
    dmrs_elements, overhead_elements : int
        Resource elements per resource block that the demodulation reference signal and xOverhead take.
    layers : int
        Layers of the one codeword, 1 to 4.
    mcs_table : str
        ``64qam`` or ``256qam``.
    """
    index = np.asarray(mcs, dtype=np.int64)
    order, rate = modulation_order(mcs_table)[index], code_rate(mcs_table)[index]
    elements = min(156, 12 * symbols - dmrs_elements - overhead_elements) * blocks
    if elements <= 0:
        return np.zeros(index.shape, dtype=np.int64)
    information = elements * rate * order * layers
    return np.where(information <= 3824, _small(information), _large(information, rate))


def _small(information: NDArray[np.float64]) -> NDArray[np.int64]:
    """Step 3 of 5.1.3.2: the smallest table entry that is not less."""
    sizes = read_table("nr_tbs", "bits").astype(np.int64)
    unit = 2.0 ** np.maximum(3, np.floor(np.log2(information)) - 6)
    quantised = np.maximum(24, unit * np.floor(information / unit))
    return np.asarray(sizes[np.minimum(np.searchsorted(sizes, quantised), sizes.size - 1)])


def _large(information: NDArray[np.float64], rate: NDArray[np.float64]) -> NDArray[np.int64]:
    """Step 4 of 5.1.3.2: whole bytes in equal code blocks."""
    net = np.maximum(information - 24, 1.0)
    unit = 2.0 ** (np.floor(np.log2(net)) - 5)
    quantised = np.maximum(3840, unit * np.floor(net / unit + 0.5))  # ties go up
    count = np.where(
        rate <= 0.25,
        np.ceil((quantised + 24) / 3816),
        np.where(quantised > 8424, np.ceil((quantised + 24) / 8424), 1.0),
    )
    return np.asarray(8 * count * np.ceil((quantised + 24) / (8 * count)) - 24, dtype=np.int64)


def lte_transport_block_bits(
    mcs: ArrayLike, blocks: int, *, layers: int = 1, mcs_table: McsTable = "64qam"
) -> NDArray[np.int64]:
    """Return the transport block bits of LTE in a subframe (TS 36.213 7.1.7).

    Each layer beyond the first adds as many bits again. That is exact for two codewords of one layer each; a codeword
    on two layers (Table 7.1.7.2.2-1) differs by less than 2 %.

    Parameters
    ----------
    mcs : array_like of int
        MCS index, of any shape.
    blocks : int
        Resource blocks: 1, 2, 3, 4, 6, 10, 15, 25, 50, 75 or 100.
    layers : int
        Spatial layers.
    mcs_table : str
        ``64qam`` (Table 7.1.7.1-1) or ``256qam`` (Table 7.1.7.1-1A).

    Raises
    ------
    ValueError
        The table has no column for these resource blocks.
    """
    column = f"prb{blocks}"
    if column not in read_texts("lte_tbs"):
        raise ValueError(f"LTE with {blocks} resource blocks is not one of 1, 2, 3, 4, 6, 10, 15, 25, 50, 75, 100")
    index = read_table(f"lte_mcs_{mcs_table}", "tbs_index").astype(np.int64)[np.asarray(mcs, dtype=np.int64)]
    return layers * read_table("lte_tbs", column).astype(np.int64)[index]


def code_blocks(
    bits: NDArray[np.int64], rate: NDArray[np.float64], technology: Technology
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many code blocks a transport block is cut into, and the bits of all together with their check sums.

    TS 38.212 5.1, 5.2.2 and 7.2.2: check sums of 24 bits, or 16 up to 3824 bits; blocks of at most 8448 bits of base
    graph 1, 3840 of base graph 2, which is for short blocks and low rates. TS 36.212 5.1.2: at most 6144.

    Parameters
    ----------
    bits : (m,) int64
        Transport block without its check sum.
    rate : (m,) float64
        Its code rate.
    technology : str
        ``nr`` or ``lte``.
    """
    if technology == "lte":
        whole, most = bits + 24, np.full(bits.shape, 6144)
    else:
        whole = bits + np.where(bits > 3824, 24, 16)
        second_graph = (bits <= 292) | ((bits <= 3824) & (rate <= 0.67)) | (rate <= 0.25)
        most = np.where(second_graph, 3840, 8448)
    count = np.where(whole <= most, 1, -(-whole // (most - 24)))
    return count, np.where(count > 1, whole + 24 * count, whole)
