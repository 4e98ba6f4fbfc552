"""Resolve a carrier: the defaults and the bounds of its technology."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.config.problems import Problem
from wavebed.radio.carriers import FR1_HZ, FR2_HZ, resource_blocks
from wavebed.scene.model import Carrier
from wavebed.scene.values import frequency_hz

if TYPE_CHECKING:
    from wavebed.scene.tables import CarrierTable

__all__ = ["resolved"]

_RANGES_HZ = {
    "nr": ((FR1_HZ, FR2_HZ), "0.41 to 7.125 GHz (FR1) or 24.25 to 52.6 GHz (FR2-1), TS 38.101-1/-2 5.1"),
    "lte": (((410e6, 6e9),), "0.41 to 6 GHz, TS 36.101 5.5"),
    "802.11ad": (((57e9, 71e9),), "57 to 71 GHz, IEEE 802.11ad"),
}
_WIFI_BANDWIDTH_HZ = 2.16e9
_EVM_LIMITS = {"64qam": 0.08, "256qam": 0.035}
"""Of base station and UE, NR and LTE: TS 38.104 Tables 6.5.2.2-1 and 9.6.2.3-1, TS 38.101-1 and -2 6.4.2.1."""


def resolved(table: CarrierTable) -> Carrier:
    """Return the carrier that a table describes.

    Raises
    ------
    Problem
        If there is no such carrier.
    """
    technology = table.technology
    ranges_hz, words = _RANGES_HZ[technology]
    if not any(low <= table.frequency_hz <= high for low, high in ranges_hz):
        given = frequency_hz.text(table.frequency_hz)
        raise Problem(f"{given!r} is no frequency of {technology}: write {words}", "frequency")
    numerology = table.numerology
    if technology == "nr" and numerology is None:
        numerology = 1 if table.frequency_hz <= FR1_HZ[1] else 3
    wifi = technology == "802.11ad"
    if wifi and table.bandwidth_hz != _WIFI_BANDWIDTH_HZ:
        raise Problem("an 802.11ad channel is 2.16ghz wide: write that", "bandwidth")
    usual_frame = "DDDSU" if technology == "nr" else ""
    return Carrier(
        technology=technology,
        frequency_hz=table.frequency_hz,
        bandwidth_hz=table.bandwidth_hz,
        numerology=numerology,
        resource_blocks=0 if wifi else _blocks(table, numerology),
        frame=usual_frame if table.frame is None else table.frame,
        special_symbols=table.special_symbols,
        layers=table.layers,
        uplink_layers=table.uplink_layers,
        mcs_table=table.mcs_table,
        # The needs of 802.11ad come from its sensitivities, which have an implementation loss.
        evm=0.0 if wifi else _evm(table),
        implementation_loss_db=0.0 if wifi else table.implementation_loss_db,
        layer_loss_db=0.0 if wifi else table.layer_loss_db,
    )


def _evm(table: CarrierTable) -> float:
    return _EVM_LIMITS[table.mcs_table] if table.evm is None else table.evm


def _blocks(table: CarrierTable, numerology: int | None) -> int:
    given = table.resource_blocks
    if given is None:
        try:
            return resource_blocks(table.technology, table.bandwidth_hz, numerology, table.frequency_hz)
        except ValueError as error:
            key = "numerology" if str(error).startswith("numerology") else "bandwidth"
            rule = str(error).removeprefix(key).strip()
            more = ", or resource-blocks for carriers that are aggregated" if table.technology == "nr" else ""
            raise Problem(f"{rule}: write one of them{more}", key) from None
    spacing_hz = 15_000 * 2 ** (numerology or 0)
    most = int(table.bandwidth_hz // (12 * spacing_hz))
    if given > most:
        raise Problem(
            f"{given} blocks of {12 * spacing_hz // 1000} kHz are wider than the bandwidth: write at most {most}",
            "resource-blocks",
        )
    return given
