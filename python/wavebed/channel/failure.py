"""Radio link failure and beam failure: from SINR to indications, from indications to timers.

Radio link monitoring follows TS 38.133 8.1 (Q_out, Q_in and the evaluation periods) and TS 38.331 5.3.10 (N310, T310,
N311); beam failure detection follows TS 38.133 8.5 and TS 38.321 5.17.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.scene.model import Timers

__all__ = ["BeamMonitor", "Indications", "LinkMonitor", "indications", "running_mean_db"]

EVALUATE_OUT_S = 0.2
"""T_Evaluate_out (TS 38.133 Table 8.1.2.2-1, no DRX): out of sync is judged by the SINR of at least this time."""
EVALUATE_IN_S = 0.1
"""T_Evaluate_in (same table): the same for in sync."""
EVALUATE_OUT_SAMPLES = 10
EVALUATE_IN_SAMPLES = 5
EVALUATE_BEAM_S = 0.05
"""T_Evaluate_BFD (TS 38.133 Table 8.5.2.2-1, no DRX)."""
EVALUATE_BEAM_SAMPLES = 5


@dataclass(frozen=True)
class Indications:
    """The indications of the physical layer for each beam, once per indication period.

    Each array has the shape (base stations, beams, periods).

    Parameters
    ----------
    sinr_db : float64
        Mean of this period.
    out_of_sync, in_sync : bool
        SINR over the evaluation period below Q_out, above Q_in; between the two there is no indication.
    beam_out : bool
        SINR over the evaluation period of beam failure detection below Q_out,LR, which is Q_out.
    """

    sinr_db: NDArray[np.float64]
    out_of_sync: NDArray[np.bool_]
    in_sync: NDArray[np.bool_]
    beam_out: NDArray[np.bool_]


def running_mean_db(sinr_db: NDArray[np.float64], periods: int) -> NDArray[np.float64]:
    """Mean of the last `periods` values along the last axis, as ratios, in dB; fewer at the beginning."""
    ratio = np.power(10.0, sinr_db / 10)
    total = np.cumsum(ratio, axis=-1)
    # Differences of a long sum lose what is 150 dB below its largest term; Q_out is nowhere near.
    total[..., periods:] -= total[..., :-periods].copy()
    count = np.minimum(np.arange(1, sinr_db.shape[-1] + 1), periods)
    return np.asarray(10 * np.log10(np.maximum(total / count, 1e-30)), dtype=np.float64)


def indications(sinr_db: NDArray[np.float64], timers: Timers) -> Indications:
    """Judge the SINR of each indication period.

    Parameters
    ----------
    sinr_db : (base stations, beams, periods) float64
        Mean SINR of each period of ``timers.indication_s``.
    timers : Timers
        Thresholds and the indication period.
    """

    def over(least_s: float, samples: int) -> NDArray[np.float64]:
        periods = max(samples, round(least_s / timers.indication_s))
        return running_mean_db(sinr_db, min(periods, sinr_db.shape[-1]))

    return Indications(
        sinr_db,
        out_of_sync=over(EVALUATE_OUT_S, EVALUATE_OUT_SAMPLES) < timers.out_of_sync_db,
        in_sync=over(EVALUATE_IN_S, EVALUATE_IN_SAMPLES) > timers.in_sync_db,
        beam_out=over(EVALUATE_BEAM_S, EVALUATE_BEAM_SAMPLES) < timers.out_of_sync_db,
    )


class LinkMonitor:
    """N310, T310 and N311 (TS 38.331 5.3.10.1 to 5.3.10.3)."""

    def __init__(self, timers: Timers) -> None:
        self.timers = timers
        self.reset()

    def reset(self) -> None:
        """Reset the counters: a new link."""
        self.out = 0
        self.back = 0
        self.expires_s: float | None = None

    def indicate(self, now_s: float, out_of_sync: bool, in_sync: bool) -> bool:
        """Take one indication and tell whether T310 has expired, which is a radio link failure."""
        if self.expires_s is None:
            if out_of_sync:
                self.out += 1
            elif in_sync:
                self.out = 0
            if self.out >= self.timers.n310:
                self.expires_s = now_s + self.timers.t310_s
                self.back = 0
            return False
        if in_sync:
            self.back += 1
        elif out_of_sync:
            self.back = 0
        if self.back >= self.timers.n311:
            self.reset()
            return False
        return now_s >= self.expires_s - 1e-9


class BeamMonitor:
    """BFI_COUNTER of TS 38.321 5.17: so many beam failure instances in a row are a beam failure."""

    def __init__(self, timers: Timers) -> None:
        self.most = timers.beam_failure_instances
        self.count = 0

    def reset(self) -> None:
        """Reset the counters: another beam."""
        self.count = 0

    def indicate(self, out: bool) -> bool:
        """Take one indication and tell whether the beam has failed; a good one is as long as the detection timer."""
        self.count = self.count + 1 if out else 0
        return 0 < self.most <= self.count
