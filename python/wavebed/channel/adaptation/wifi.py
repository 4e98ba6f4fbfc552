"""What IEEE 802.11ad carries: single-carrier rates, less the airtime of preambles, gaps and block acknowledgements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.radio.table_files import read_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.radio.model import WifiSettings

__all__ = ["FIRST_DATA_MCS", "wifi_efficiency", "wifi_overhead_ns", "wifi_rates_bps"]

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
