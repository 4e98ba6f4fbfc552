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

from wavebed.channel.propagation.antenna import gain_db
from wavebed.channel.propagation.noise import noise_rise_db
from wavebed.channel.propagation.random_streams import generators

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.channel.budget import Budget
    from wavebed.channel.signal import Signal

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
        station.load * 10 ** (_received_dbm(budget, place, signals[place]) / 10) if station.load > 0 else None
        for place, station in enumerate(stations)
    ]
    noise = budget.noise_dbm(budget.scene.ue.noise_figure_db)
    result = []
    for place, each in enumerate(signals):
        others = [power_mw for other, power_mw in enumerate(received) if other != place and power_mw is not None]
        result.append(replace(each, rise_db=noise_rise_db(noise, 10 * np.log10(sum(others)))) if others else each)
    return result


def _received_dbm(budget: Budget, place: int, signal: Signal) -> Floats:
    """Return the power of a base station at the UE over all its beams and at full load; by the better of two paths."""
    scene, station = budget.scene, budget.scene.base_stations[place]
    to_ue = budget.position_m - np.asarray(station.position_m)
    gains = [
        gain_db(structs.replace(array, rows=1, columns=1), direction, budget.time_s, generators((0,), "one element"))
        for array, direction in ((station.array, to_ue), (scene.ue.array, -to_ue))
    ]
    blockage = signal.blockage_db
    if scene.reflection_loss_db is not None:
        blockage = np.minimum(blockage, scene.reflection_loss_db)
    return station.power_dbm + gains[0] + gains[1] - signal.path_loss_db - signal.shadowing_db - blockage
