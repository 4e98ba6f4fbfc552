"""How much is lost in what goes straight through an obstacle."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavebed.scene.model import ObstacleKind

__all__ = ["CARDBOARD_DB", "CROWN_DEPTH_M", "concrete_db", "foliage_db", "glass_db", "irr_glass_db", "transmission_db"]

CARDBOARD_DB = 1.0
"""Illustrative: a few millimetres of dry paper are all but clear at 60 GHz."""
CROWN_DEPTH_M = 5.0
"""Illustrative depth of the crown of a street tree."""


def glass_db(frequency_hz: float) -> float:
    """Return the loss of standard multi-pane glass (TR 38.901 Table 7.4.3-1)."""
    return 2 + 0.2 * frequency_hz / 1e9


def irr_glass_db(frequency_hz: float) -> float:
    """Return the loss of infrared-reflecting glass (TR 38.901 Table 7.4.3-1)."""
    return 23 + 0.3 * frequency_hz / 1e9


def concrete_db(frequency_hz: float) -> float:
    """Return the loss of a concrete wall (TR 38.901 Table 7.4.3-1)."""
    return 5 + 4 * frequency_hz / 1e9


def foliage_db(depth_m: float, frequency_hz: float) -> float:
    """Return the loss in foliage: Weissberger's modified exponential decay, 0.23 to 95 GHz, up to 400 m deep.

    M. A. Weissberger, ESD-TR-81-101, 1982: 0.45·f^0.284·d below 14 m, 1.33·f^0.284·d^0.588 from there.
    """
    depth = 0.45 * depth_m if depth_m < 14 else 1.33 * math.pow(depth_m, 0.588)
    return depth * math.pow(frequency_hz / 1e9, 0.284)


def transmission_db(kind: ObstacleKind, frequency_hz: float) -> float:
    """Return the default transmission loss of a kind of obstacle, in dB; infinite where only diffraction counts.

    Glass, IRR glass and concrete are of TR 38.901 Table 7.4.3-1. Metal is opaque; so are the bodies of cars and buses
    and, above a few GHz, people (the skin depth of muscle is below 2 cm at 3.5 GHz and 1 mm at 28 GHz), as in TR 38.901
    blockage model B. A tree is `CROWN_DEPTH_M` of foliage. Cardboard is illustrative. A ``box`` is
    opaque, and so is a building.
    """
    if kind == "glass":
        return glass_db(frequency_hz)
    if kind == "irr-glass":
        return irr_glass_db(frequency_hz)
    if kind == "concrete":
        return concrete_db(frequency_hz)
    if kind == "tree":
        return foliage_db(CROWN_DEPTH_M, frequency_hz)
    if kind == "cardboard":
        return CARDBOARD_DB
    return math.inf
