"""Transport block sizes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wavebed.radio.carriers import McsTable, read_table, read_texts, resource_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

    from wavebed.radio.carriers import Direction
    from wavebed.radio.presets import Technology, WifiSettings
    from wavebed.scene.model import Carrier

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]


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


FIRST_DATA_MCS = 1
"""A frame of the control PHY (MCS 0) holds at most 1023 octets (IEEE 802.11-2016 20.4.3.2): no full packet."""

PREAMBLE_HEADER_NS = 1236 + 655 + 582
"""Short training, channel estimation and header of the SC PHY: 2176, 1152, 1024 chips at 1.76 GHz (20.3.6, 20.6.3)."""

SIFS_NS = 3_000
SLOT_NS = 5_000
AIFS_NUMBER = 3
MIN_WINDOW = 15
"""DMG PHY characteristics and default EDCA parameters of best effort (20.12.4, Table 9-137)."""

BLOCK_ACK_BITS = 32 * 8
BLOCK_ACK_RATE_BPS = 385e6
"""A compressed BlockAck (9.3.1.9), sent with MCS 1."""


def wifi_overhead_ns(aggregates_per_txop: int = 3) -> int:
    """Return the airtime of an aggregate that carries no data, in nanoseconds.

    Preamble and header, SIFS, BlockAck with its own preamble and header, SIFS; and its part of the cost of a TXOP: AIFS
    and the mean backoff of an idle medium (IEEE 802.11-2016 10.22.2). No collisions, beacons or sector sweeps.

    Parameters
    ----------
    aggregates_per_txop : int
        Aggregates that are sent after one contention.
    """
    block_ack_ns = PREAMBLE_HEADER_NS + BLOCK_ACK_BITS / BLOCK_ACK_RATE_BPS * 1e9
    contention_ns = SIFS_NS + AIFS_NUMBER * SLOT_NS + MIN_WINDOW / 2 * SLOT_NS
    return round(PREAMBLE_HEADER_NS + 2 * SIFS_NS + block_ack_ns + contention_ns / aggregates_per_txop)


def wifi_efficiency(settings: WifiSettings, packet_bytes: int = 1500) -> NDArray[np.float64]:
    """Return the fraction of each MCS's rate that full aggregates keep: t / (t + overhead), t the A-MPDU's airtime.

    The frames' own overhead (`settings.overhead_bytes` per packet) counts as data: the engine adds it to each packet.

    Parameters
    ----------
    settings : WifiSettings
        Limits of an aggregate, and its overhead in time.
    packet_bytes : int
        IP bytes of a packet.
    """
    frame_bytes = packet_bytes + settings.overhead_bytes
    frames = max(1, min(settings.aggregate_frames, settings.aggregate_bytes // frame_bytes))
    airtime_s = frames * frame_bytes * 8 / read_table("dmg_mcs", "rate_bps")
    return np.asarray(airtime_s / (airtime_s + settings.overhead_ns * 1e-9))


def wifi_rates_bps(settings: WifiSettings) -> NDArray[np.float64]:
    """Return what full aggregates carry with each MCS, in bit/s; 0 for MCS 0, which carries no data."""
    rates = read_table("dmg_mcs", "rate_bps") * wifi_efficiency(settings)
    rates[:FIRST_DATA_MCS] = 0
    return np.asarray(rates)


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
    """Return the SNR at which a modulation carries this number of bits a symbol; infinite where it never does."""
    carried = information_bits(modulation_order)
    below = carried < modulation_order - 1e-4
    bits = np.asarray(bits_per_symbol, dtype=np.float64)
    return np.asarray(np.interp(bits, carried[below], GRID_DB[below], right=np.inf))


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
    """Return the logit slope at 10 % error rate: the slope of the code, with `SPREAD_DB` added as a variance.

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


FEWER_BLOCKS = (1, 2, 3, 4, 6, 10, 15, 25, 50, 75, 100, 150, 200, 400, 800, 1600)
"""Uplink allocations below the whole band: products of 2, 3 and 5 (TS 38.211 6.3.1.4), as in LTE's table."""


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
    """Return the data MCS of 802.11ad: their needs include the receiver's loss, so nothing is added."""
    rates = mcs_rates_bps(carrier, "down", wifi)[FIRST_DATA_MCS:]
    curve = waterfall("802.11ad")
    snr_db, slope = curve.snr_db[FIRST_DATA_MCS:], curve.slope_per_db[FIRST_DATA_MCS:]
    one = np.ones(rates.size, dtype=np.int64)
    mcs = np.arange(rates.size) + FIRST_DATA_MCS
    return Formats(snr_db, rates, mcs, one, one, snr_db, slope, np.ones(rates.size))
