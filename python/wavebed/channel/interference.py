"""Interference of the base stations that do not serve: SINR = S / (N + Σ load · I).

A neighbour's beams point to its own users, and the UE's beam to its server. Averaged over the beams of an array, which
cover all directions alike, its gain in a direction is that of one element, so that is what counts at both ends. A load
is the fraction of the resource blocks in use: over the whole band, that fraction of the power. Interference is taken
through the neighbour's own path loss, shadowing and blockage, at the mean of its fading.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from wavebed.channel.beams import panels_seen
from wavebed.channel.propagation.antenna import angles_deg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.channel.budget import Budget
    from wavebed.channel.signal import Signal
    from wavebed.scene.tables import Array

    Floats = NDArray[np.float64]

__all__ = ["interfered"]


def interfered(budget: Budget, signals: Sequence[Signal]) -> list[Signal]:
    """Return the signals of the base stations, each with the interference of the others.

    Parameters
    ----------
    budget : Budget
        The scene.
    signals : sequence of Signal
        One for each of its base stations.
    """
    stations = budget.scene.base_stations
    if len(stations) == 1 or not any(station.load for station in stations):
        return list(signals)
    received = [
        station.load * _received_snr(budget, place, signals[place]) if station.load > 0 else None
        for place, station in enumerate(stations)
    ]
    result = []
    for place, each in enumerate(signals):
        others = [ratio for other, ratio in enumerate(received) if other != place and ratio is not None]
        result.append(replace(each, rise_db=10 * np.log10(1 + sum(others))) if others else each)
    return result


def _received_snr(budget: Budget, place: int, signal: Signal) -> Floats:
    """Return the power of a base station at the UE over noise, over all its beams and at full load."""
    station, ue = budget.scene.base_stations[place], budget.scene.ue
    azimuth, elevation = (angle[:, None] for angle in angles_deg(budget.position_m - np.asarray(station.position_m)))
    out = _element_gain(station.array, azimuth, elevation, None)
    back = _element_gain(ue.array, azimuth + 180.0, -elevation, budget.heading_deg[:, None])
    return np.asarray(signal.bare() * out * back)


def _element_gain(array: Array, azimuth_deg: Floats, elevation_deg: Floats, heading_deg: Floats | None) -> Floats:
    """Return the power gain of one element of the best panel towards angles of shape (n, 1)."""
    one = structs.replace(array, rows=1, columns=1)
    towards = (azimuth_deg, elevation_deg)
    panels = panels_seen(one, towards, towards, heading=heading_deg).some(slice(None))
    return np.asarray(np.max([panel.highest[:, 0] for panel in panels], axis=0), dtype=np.float64)
