"""By how much late packets may have delayed what an application did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.explain.layout import network_of
from wavebed.result.parquet import read_parquet
from wavebed.spec.network import least_rtt_ns

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from wavebed.result.model import TrialRecord

__all__ = ["most_lateness_s"]

_ROW_NS = 1_000_000
"""Time of a row of the table of departures."""


def most_lateness_s(trial: TrialRecord, folder: Path) -> float | None:
    """Return the most by which late packets may have delayed anything in a trial, seconds; ``None`` if unknown.

    What an application waits for is a chain of packets, each sent because of the one before it. Two of a direction have
    a packet of the other direction between them, so one of each direction is in the chain in the time of a round trip,
    at most. The sum of the latest of each round trip is therefore at least the lateness of every chain.

    Parameters
    ----------
    folder : pathlib.Path
        Of the trial.

    Raises
    ------
    UserError
        If its network or its table of departures is damaged.
    """
    file = folder / "series" / "departures.parquet"
    if "network" not in trial.resolved or not file.exists():
        return None
    table = read_parquet(file, ["time_ms", "direction", "segments", "late_max_ns"])
    direction = table.column("direction").to_numpy()
    time_ms, segments, late_ns = (table.column(name).to_numpy() for name in ("time_ms", "segments", "late_max_ns"))
    found = []
    for leg in network_of(trial, folder).legs:
        for way in ("down", "up"):
            own = direction == f"{leg.start}-{leg.end}.{way}"
            if own.any():
                found.append(_of_chain(time_ms[own], segments[own], late_ns[own], least_rtt_ns(leg)))
    return sum(found) / 1e9 if found else None


def _of_chain(time_ms: NDArray[np.int64], segments: NDArray[np.int64], late_ns: NDArray[np.int64], rtt_ns: int) -> int:
    """Return the sum of the latest packet of each round trip, ns; of all packets if there is no least round trip."""
    if rtt_ns >= _ROW_NS:
        _, begins = np.unique(time_ms // (rtt_ns // _ROW_NS), return_index=True)
        return int(np.maximum.reduceat(late_ns, begins).sum())
    most = segments if rtt_ns == 0 else np.minimum(segments, _ROW_NS // rtt_ns + 1)
    return int((most * late_ns).sum())
