"""The table ``[radio]``: settings of the radio stage, for the carriers of the scene."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.config.problems import Problem, described
from wavebed.radio.read import carrier_slots, mac_settings, ue_limit

if TYPE_CHECKING:
    from wavebed.radio.model import MacSettings, UeLimit
    from wavebed.scene.model import Carrier, Fallback

__all__ = ["read_radio", "read_ue_limit"]


def read_radio(table: object, carrier: Carrier, fallback: Fallback | None) -> MacSettings:
    """Return the settings of the radio stage: the preset of the carrier, its slots, and the changes of the table.

    Raises
    ------
    Problem
        If the table is wrong.
    """
    if table is None:
        table = {}
    if not isinstance(table, dict):
        raise Problem(f"{described(table)} is not a table: write [radio] on a line of its own", "radio")
    return mac_settings(
        carrier.technology,
        table,
        "radio",
        numerology=carrier.numerology,
        frame=carrier.frame,
        special_symbols=carrier.special_symbols,
        fallback=None
        if fallback is None
        else carrier_slots(
            fallback.carrier.technology,
            numerology=fallback.carrier.numerology,
            frame=fallback.carrier.frame,
            special_symbols=fallback.carrier.special_symbols,
        ),
    )


def read_ue_limit(table: object) -> UeLimit | None:
    """Return the packet-rate limit of the UE; ``None`` (no table): it has none.

    Raises
    ------
    Problem
        If the table is wrong.
    """
    if table is None:
        return None
    if not isinstance(table, dict):
        raise Problem(f"{described(table)} is not a table: write [ue-limit] on a line of its own", "ue-limit")
    return ue_limit(table, "ue-limit")
