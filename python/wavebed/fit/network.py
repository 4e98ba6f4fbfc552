"""Thresholds and targets of a kind of network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.channel.placemap.levels import Floats

__all__ = ["LTE", "MMWAVE", "Network", "network_of"]

FAST_MBPS = 400.0
"""A 95th percentile from here on is that of a mmWave network."""


@dataclass(frozen=True, slots=True)
class Network:
    """Thresholds of the figures, Mbit/s, and the targets of a fit.

    Parameters
    ----------
    none_mbps : float
        Below there is no service.
    low_mbps : float
        Below is an outage of the fast carrier.
    high_mbps : float
        From here on the rate has recovered.
    targets : mapping
        Bounds of distances and predictions, by their keys.
    """

    name: str
    none_mbps: float
    low_mbps: float
    high_mbps: float
    targets: Mapping[str, float]


MMWAVE = Network(
    "mmWave",
    5.0,
    100.0,
    400.0,
    {
        "ks_median": 0.20,
        "ks_p90": 0.30,
        "ks_dips": 0.20,
        "ks_quarter": 0.30,
        "correlation": 0.6,
        "mae": 300.0,
        "gain": 0.20,
    },
)
LTE = Network("LTE", 1.0, 5.0, 20.0, {"ks_median": 0.35})


def network_of(rates: Floats) -> Network:
    """Return the kind of network that gives these rates, Mbit/s."""
    return MMWAVE if np.quantile(rates, 0.95) >= FAST_MBPS else LTE
