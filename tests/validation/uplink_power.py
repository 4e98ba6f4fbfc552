"""Rates of an uplink on some of its resource blocks by the tables of TS 38.214, for the tests of power control.

`python -m tests.validation.uplink_power > crates/wavebed-link/tests/all/cell_power.json` writes the cases that
`cell_power.rs` plays in a cell. The expected rate of M blocks is the fastest MCS on at most M blocks that fails at most
once in ten with all power of the device on them; no formula for the efficiency of an MCS is used.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from wavebed.channel.power import uplink_power
from wavebed.channel.transport_formats import FEWER_BLOCKS, _formats, most_blocks
from wavebed.scene.model import Carrier
from wavebed.spec.part import plain

if TYPE_CHECKING:
    Json = dict[str, Any]

__all__ = ["fixture"]

CARRIERS = {
    "100 MHz at 3.5 GHz": Carrier("nr", 3.5e9, 100e6, 1, evm=0.08, implementation_loss_db=2.0),
    "400 MHz at 28 GHz": Carrier("nr", 28e9, 400e6, 3, evm=0.08, implementation_loss_db=2.0),
}
BAND_DB = np.arange(-10.0, 25.1, 2.5)
DEVICES = (2, 4, 8, 16)
NO_LIMIT_DBM = 24.0


def best(carrier: Carrier, band_db: float, blocks: int) -> tuple[int, float, float]:
    """Return rate, SINR and need of the fastest format on at most `blocks` at this SINR of the whole band."""
    found = (0, 0.0, 0.0)
    for used in {blocks, *(each for each in FEWER_BLOCKS if each < blocks)}:
        formats = _formats(carrier, "up", 1, used)
        for place in np.flatnonzero(formats.from_db <= band_db):
            sinr_db = -10 * np.log10(formats.noise[place] * 10 ** (-band_db / 10) + carrier.evm**2)
            found = max(found, (int(formats.rate_bps[place]), float(sinr_db), float(formats.need_db[place])))
    return found


def fixture() -> Json:
    """Return the cases: the pattern of a device with all blocks, its power control, and its rate beside others."""
    cases: list[Json] = []
    for name, carrier in CARRIERS.items():
        station = SimpleNamespace(noise_figure_db=5.0, noise_rise_db=0.0)
        scene = cast("Any", SimpleNamespace(carrier=carrier, base_stations=(station,)))
        power = plain(uplink_power(scene, cast("Any", SimpleNamespace(power_dbm=23.0)), NO_LIMIT_DBM, 1.0))
        for band_db in BAND_DB.tolist():
            rate_bps, sinr_db, need_db = best(carrier, band_db, most_blocks(carrier))
            rates = [best(carrier, band_db, most_blocks(carrier) // devices)[0] for devices in DEVICES]
            cases.append(
                {
                    "name": f"{name}, {band_db:g} dB",
                    "rate_bps": rate_bps,
                    "sinr_db": round(sinr_db, 3),
                    "need_db": round(need_db, 3),
                    "power": {key: round(cast("float", value), 6) for key, value in power.items()},
                    "expected_bps": dict(zip(map(str, DEVICES), rates, strict=True)),
                }
            )
    return {"cases": cases}


if __name__ == "__main__":
    json.dump(fixture(), sys.stdout, indent=1)
    sys.stdout.write("\n")
