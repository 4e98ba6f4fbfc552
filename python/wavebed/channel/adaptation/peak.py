"""The peak data rate that a UE's capability states."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavebed.radio.table_files import Direction

__all__ = ["peak_rate_bps"]

OVERHEAD = {("fr1", "down"): 0.14, ("fr2", "down"): 0.18, ("fr1", "up"): 0.08, ("fr2", "up"): 0.10}
FR2_FROM_HZ = 24.25e9


def peak_rate_bps(
    blocks: int,
    numerology: int,
    frequency_hz: float,
    *,
    modulation_order: int = 6,
    layers: int = 1,
    direction: Direction = "down",
) -> float:
    """Return the peak rate of one NR carrier in bit/s (TS 38.306 4.1.2), with scaling factor 1 and all slots.

    Parameters
    ----------
    blocks : int
        Resource blocks.
    numerology : int
        Subcarrier spacing 15·2^µ kHz.
    frequency_hz : float
        Centre frequency; decides the overhead, FR1 or FR2.
    modulation_order : int
        Bits per symbol of the highest modulation.
    layers : int
        Spatial layers.
    direction : str
        ``down`` or ``up``.
    """
    kind = "fr2" if frequency_hz >= FR2_FROM_HZ else "fr1"
    symbols_per_s = 14 * 2.0**numerology / 1e-3
    return layers * modulation_order * (948 / 1024) * 12 * blocks * symbols_per_s * (1 - OVERHEAD[kind, direction])
