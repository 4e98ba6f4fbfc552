"""Resolve a carrier: what its technology leaves open, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wavebed.config.problems import Problem
from wavebed.radio.carriers import FR1_HZ, FR2_HZ, resource_blocks
from wavebed.scene.model import Carrier
from wavebed.scene.schema import CARRIER_KEYS, fields

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["read_carrier"]

_FOREIGN = {
    "nr": (),
    "lte": ("numerology",),
    "802.11ad": (
        "numerology",
        "resource-blocks",
        "frame",
        "special-symbols",
        "layers",
        "uplink-layers",
        "mcs-table",
    ),
}
_RANGES_HZ = {
    "nr": ((FR1_HZ, FR2_HZ), "0.41 to 7.125 GHz (FR1) or 24.25 to 52.6 GHz (FR2-1), TS 38.101-1/-2 5.1"),
    "lte": (((410e6, 6e9),), "0.41 to 6 GHz, TS 36.101 5.5"),
    "802.11ad": (((57e9, 71e9),), "57 to 71 GHz, IEEE 802.11ad"),
}
_WIFI_BANDWIDTH_HZ = 2.16e9


def read_carrier(table: object) -> Carrier:
    """Return the carrier that a table describes.

    Raises
    ------
    Problem
        If a key is wrong, or there is no such carrier.
    """
    found = fields(table, CARRIER_KEYS, "[carrier] on a line of its own")
    technology = found["technology"]
    assert isinstance(table, dict), "fields() has checked it"
    for key in _FOREIGN[technology]:
        if key in table:
            raise Problem(f"does not belong to {technology}: leave it out", key)
    ranges_hz, words = _RANGES_HZ[technology]
    if not any(low <= found["frequency_hz"] <= high for low, high in ranges_hz):
        raise Problem(f"{table['frequency']!r} is no frequency of {technology}: write {words}", "frequency")
    if found["frame"] is None:
        found["frame"] = "DDDSU" if technology == "nr" else ""
    if technology == "nr" and found["numerology"] is None:
        found["numerology"] = 1 if found["frequency_hz"] <= FR1_HZ[1] else 3
    if technology == "802.11ad":
        if found["bandwidth_hz"] != _WIFI_BANDWIDTH_HZ:
            raise Problem("an 802.11ad channel is 2.16ghz wide: write that", "bandwidth")
        found["resource_blocks"] = 0
    else:
        found["resource_blocks"] = _blocks(found)
    return Carrier(**found)


def _blocks(found: Mapping[str, Any]) -> int:
    given: int | None = found["resource_blocks"]
    if given is None:
        try:
            return resource_blocks(
                found["technology"], found["bandwidth_hz"], found["numerology"], found["frequency_hz"]
            )
        except ValueError as error:
            key = "numerology" if str(error).startswith("numerology") else "bandwidth"
            rule = str(error).removeprefix(key).strip()
            more = ", or resource-blocks for carriers that are aggregated" if found["technology"] == "nr" else ""
            raise Problem(f"{rule}: write one of them{more}", key) from None
    spacing_hz = 15_000 * 2 ** (found["numerology"] or 0)
    most = int(found["bandwidth_hz"] // (12 * spacing_hz))
    if given > most:
        raise Problem(
            f"{given} blocks of {12 * spacing_hz // 1000} kHz are wider than the bandwidth: write at most {most}",
            "resource-blocks",
        )
    return given
