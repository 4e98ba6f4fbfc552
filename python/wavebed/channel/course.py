"""The serving beam of each seed of a batch at each step: the phases of the state machines, by step."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace

from wavebed.channel.adaptation.bler import waterfall
from wavebed.channel.adaptation.wifi import FIRST_DATA_MCS
from wavebed.channel.serving import Phase, follow
from wavebed.channel.wifi import follow_sectors, sweep_s
from wavebed.radio.model import RadioSettings
from wavebed.scene.model import Interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.channel.budget import Budget
    from wavebed.channel.signal import Signal
    from wavebed.scene.model import Scene

    Floats = NDArray[np.float64]

__all__ = ["Course", "courses", "drawn_intervals", "seen_intervals"]

SWEEP_PERIOD_S = 0.002
"""How often the SINR of 802.11ad's beams is looked at: a fifth of the time after which a beam is lost."""


ABSENT_DB = -200.0
"""SNR of a beam that one base station has and another has not."""


class Course(NamedTuple):
    """The serving beam of one seed: phases, and for each step the link, the base station and the beam."""

    phases: tuple[Phase, ...]
    link: NDArray[np.uint8]
    station: NDArray[np.int16]
    beam: NDArray[np.int16]


def courses(budget: Budget, signals: Sequence[Signal], count: int) -> list[Course]:
    """Follow the connection of each seed.

    Parameters
    ----------
    budget : Budget
        The scene and its times.
    signals : sequence of Signal
        One for each base station.
    count : int
        Seeds.
    """
    scene = budget.scene
    wifi = scene.carrier.technology == "802.11ad"
    period_s = max(SWEEP_PERIOD_S if wifi else scene.timers.indication_s, scene.step_s)
    beams = [[beam.snr_db for beam in each.beams] for each in signals]
    means = levels = _by_beam(beams, budget.time_s, period_s)
    if any(each.rise_db.any() for each in signals):
        beams = [[beam.snr_db - each.rise_db for beam in each.beams] for each in signals]
        means = _by_beam(beams, budget.time_s, period_s)
    result = []
    for seed in range(count):
        sinr_db, level_db = (
            np.array([[beam[min(seed, len(beam) - 1)] for beam in station] for station in each])
            for each in (means, levels)
        )
        phases = _sectors(scene, sinr_db[0], period_s) if wifi else _cells(scene, sinr_db, level_db, period_s)
        result.append(_laid_out(phases, budget.time_s))
    return result


def _by_beam(beams: list[list[Floats]], time_s: Floats, period_s: float) -> list[list[Floats]]:
    """Return the means of each base station's beams, as many for each."""
    most = max(len(station) for station in beams)
    means = [[_means(beam, time_s, period_s) for beam in station] for station in beams]
    absent = np.full_like(means[0][0], ABSENT_DB)
    return [[*station, *[absent] * (most - len(station))] for station in means]


def _means(values: Floats, time_s: Floats, period_s: float) -> Floats:
    """Mean of each period, in dB, along the last axis."""
    periods = int(np.ceil((time_s[-1] + 1e-9) / period_s)) or 1
    starts = np.searchsorted(time_s, np.arange(periods) * period_s - 1e-9)
    return np.asarray(np.add.reduceat(values, starts, axis=-1) / np.diff(starts, append=len(time_s)))


def _cells(scene: Scene, sinr_db: Floats, level_db: Floats, period_s: float) -> tuple[Phase, ...]:
    """Radio link monitoring of NR and LTE; after T311 it returns from idle, where the scene names that time."""
    timers = replace(scene.timers, indication_s=period_s)
    connection = scene.radio.connection if isinstance(scene.radio, RadioSettings) else None
    setup_s = connection.rrc.promotion_ns / 1e9 if connection is not None and connection.rrc is not None else None
    return follow(sinr_db, timers, level_db=level_db, falls_back=scene.fallback is not None, setup_s=setup_s)


def _sectors(scene: Scene, sinr_db: Floats, period_s: float) -> tuple[Phase, ...]:
    """Beams of the one access point of 802.11ad; the others, if any, do not serve."""
    arrays = (scene.base_stations[0].array, scene.ue.array)
    training_s = sweep_s(*(array.rows * array.columns for array in arrays))
    needed_db = float(waterfall("802.11ad").snr_db[FIRST_DATA_MCS])
    return follow_sectors(sinr_db, period_s, needed_db, training_s)


def _laid_out(phases: tuple[Phase, ...], time_s: Floats) -> Course:
    starts = np.searchsorted(time_s, [phase.start_s - 1e-9 for phase in phases])
    lengths = np.diff(starts, append=len(time_s))
    link, station, beam = (np.repeat([phase[part] for phase in phases], lengths) for part in (1, 2, 3))
    return Course(phases, link.astype(np.uint8), station.astype(np.int16), beam.astype(np.int16))


def seen_intervals(budget: Budget, course: Course) -> tuple[Interval, ...]:
    """States of the geometry, exactly, as the serving base station sees them; the fallback carrier does not count."""
    ends = [*(phase.start_s for phase in course.phases[1:]), budget.scene.duration_s]
    parts = [
        Interval(part.state, max(part.start_s, phase.start_s), min(part.end_s, end_s))
        for phase, end_s in zip(course.phases, ends, strict=True)
        for part in budget.sights[phase.station].intervals
    ]
    return _joined([part for part in parts if part.end_s > part.start_s])


def drawn_intervals(los: NDArray[np.bool_], time_s: Floats, duration_s: float) -> tuple[Interval, ...]:
    """States of a line of sight that was drawn, step by step."""
    edges = [0, *(np.flatnonzero(np.diff(los)) + 1).tolist(), len(los)]
    bounds = [*time_s[edges[:-1]].tolist(), duration_s]
    return tuple(
        Interval("LOS" if los[first] else "NLOS", *span)
        for first, span in zip(edges[:-1], pairwise(bounds), strict=True)
    )


def _joined(parts: list[Interval]) -> tuple[Interval, ...]:
    joined = parts[:1]
    for part in parts[1:]:
        if part.state == joined[-1].state:
            joined[-1] = joined[-1]._replace(end_s=part.end_s)
        else:
            joined.append(part)
    return tuple(joined)
