"""The pattern as the study made it: traffic through a deep queue, cut where the SINR crosses 20 dB, averaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.channel.reference.chain import realise_reference
from wavebed.errors import UserError
from wavebed.pattern.model import Pattern, steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.channel.realisation import Realisation
    from wavebed.scene.model import ReferenceChain, Scene

    Floats = NDArray[np.float64]

__all__ = ["received_bps", "study_pattern"]

TRAFFIC_STARTS_S = 0.1
"""When the load begins, while the study averages from 0. Inferred: 945 instead of 1001 Mbit/s over the first 2.1 s is a
start at about 0.12 s; 0.1 s is a usual start in scripts of that simulator."""

SHORTEST_S = 0.001
"""No two switches are nearer to each other than this."""


def study_pattern(scene: Scene, seed: int) -> Pattern:
    """Make the pattern of the study from one realisation.

    Its rates are what a receiver got of a fixed load, not what the link could carry: use it to repeat the study, and
    `realise_reference` for capacity.

    Parameters
    ----------
    scene : Scene
        A scene with a table ``[reference]``.
    seed : int
        Of the realisation.

    Returns
    -------
    Pattern
        Steps with a rate for each interval between two crossings of the threshold.

    Raises
    ------
    UserError
        If the scene has no table ``[reference]``.
    """
    realisation = realise_reference(scene, [seed])[0]
    duration_ns = round(scene.duration_s * 1e9)
    reference = scene.reference
    if reference is None:
        raise UserError(f"{scene.name}: the scene has no [reference] table")
    if reference.constant_bps is not None:
        rate = np.array([round(reference.constant_bps)], dtype=np.int64)
        return steps(np.zeros(1, dtype=np.int64), duration_ns, rate_bps=rate)
    starts = _switches(realisation, reference.threshold_db)
    received = received_bps(realisation, reference)
    lengths = np.diff(starts, append=len(received))
    rates = np.add.reduceat(received, starts) / lengths
    time_ns = np.rint(realisation.time_s[starts] * 1e9).astype(np.int64)
    return steps(time_ns, duration_ns, rate_bps=np.rint(rates).astype(np.int64))


def received_bps(realisation: Realisation, reference: ReferenceChain) -> Floats:
    """Return what the receiver gets in each step: the offered load through the RLC queue, behind block errors."""
    step_s = realisation.scene.step_s
    served = (realisation.rate_bps * (1 - realisation.bler) * step_s).tolist()
    fraction = np.clip((realisation.time_s + step_s - TRAFFIC_STARTS_S) / step_s, 0.0, 1.0)
    offered = (fraction * reference.offered_bps * step_s).tolist()
    limit = reference.rlc_buffer_bytes * 8.0
    queue = 0.0
    received = []
    for new, room in zip(offered, served, strict=True):
        there = queue + new
        sent = min(there, room)
        queue = min(there - sent, limit)
        received.append(sent)
    return np.array(received) / step_s


def _switches(realisation: Realisation, threshold_db: float) -> NDArray[np.int64]:
    """First steps of the intervals on one side of the threshold; no link is below it."""
    above = np.nan_to_num(realisation.sinr_db, nan=-np.inf) >= threshold_db
    starts = [0]
    for place in (np.flatnonzero(above[1:] != above[:-1]) + 1).tolist():
        if realisation.time_s[place] - realisation.time_s[starts[-1]] >= SHORTEST_S - 1e-9:
            starts.append(place)
    return np.array(starts, dtype=np.int64)
