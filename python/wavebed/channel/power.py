"""Power control of an uplink: what a device that is given fewer resource blocks gains, from the budget of its scene."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.channel.propagation.pathloss import noise_dbm
from wavebed.channel.transport_formats import format_table, mcs_rates_bps, most_blocks, waterfall
from wavebed.spec.types import UplinkPower

if TYPE_CHECKING:
    from wavebed.scene.model import SceneModel, Ue

GAP_DB = 1.5
"""What the MCS of TS 38.214 need beyond capacity, the mean over them; the link engine has the same."""


def uplink_power(scene: SceneModel, ue: Ue, p0_dbm: float, alpha: float) -> UplinkPower:
    """Return the power control of a UE (TS 38.213 7.1.1, TS 36.213 5.1.1), without closed loop and MCS-dependent part.

    P = min(Pcmax, P0 + 10·lg(2^µ·M) + alpha·PL) on M of N blocks. The patterns of a scene have Pcmax on the blocks that
    they use, so only the power of a block matters: Pcmax/M, up to P0 + 10·lg 2^µ + alpha·PL. With S the SINR of the
    whole band, PL = Pcmax - noise - S.

    Parameters
    ----------
    scene : SceneModel
        Its carrier and first base station.
    ue : Ue
        Whose power and place.
    p0_dbm, alpha : float
        P0 of a resource block of 180 kHz, and the part of the path loss that is compensated.
    """
    carrier, station = scene.carrier, scene.base_stations[0]
    blocks = most_blocks(carrier)
    table = format_table(carrier, "up")
    # Bits of one layer on all blocks per bit of a symbol: the least over the MCS, so that all of them use all blocks.
    needed_db = waterfall(carrier.technology, carrier.mcs_table).snr_db
    rates_bps = mcs_rates_bps(carrier, "up", layers=1, blocks=blocks)
    symbols_per_s = float(np.min(rates_bps / np.log2(1 + 10 ** ((needed_db - GAP_DB) / 10))))
    noise = noise_dbm(carrier.bandwidth_hz, station.noise_figure_db + station.noise_rise_db)
    numerology = carrier.numerology or 0
    limit_db = p0_dbm + 10 * np.log10(2**numerology * blocks) - ue.power_dbm + alpha * (ue.power_dbm - noise)
    return UplinkPower(
        symbols_per_s=symbols_per_s,
        most_need_db=float(table.formats.need_db[-1]),
        evm=carrier.evm,
        loss_db=carrier.implementation_loss_db,
        limit_db=float(limit_db),
        alpha=alpha,
    )
