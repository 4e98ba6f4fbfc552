"""The fraction of the cell that other users leave: given over time, or users that come and go.

Users arrive as a Poisson process and stay for exponential times, so that their number is Poisson and forgets itself
within the mean stay. Each has a weight, exponentially distributed with mean 1; this user's is 1. The cell is
shared by weight, so that 1/(1 + S) is left, S being the sum of the other weights. With m users on average E[e^(-tS)] is
e^(-mt/(1 + t)), and the mean of 1/(1 + S) is the integral of e^(-t) E[e^(-tS)] over t.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from msgspec import structs

from wavebed.channel.adaptation import adapt
from wavebed.channel.beams import panels_seen
from wavebed.channel.propagation.antenna import angles_deg
from wavebed.channel.propagation.correlated import generator
from wavebed.channel.realisation import FallbackCarrier, Realisation
from wavebed.channel.serving import Phase, ServingLink, follow, follow_sectors, interrupted, length_s, sweep_s
from wavebed.channel.signal import Beam, fading, signal, unobstructed_db, uplink_offset_db
from wavebed.channel.transport_formats import FIRST_DATA_MCS, waterfall
from wavebed.pattern.model import STATES
from wavebed.radio.presets import RadioSettings, WifiSettings
from wavebed.scene.model import SceneInterval
from wavebed.scene.values import LoadProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.channel.budget import LinkBudget, Sight
    from wavebed.channel.signal import Signal
    from wavebed.scene.model import SceneModel
    from wavebed.scene.tables import Array
    from wavebed.scene.values import CellLoad

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]


BEFORE = 12.0
"""Mean stays before the beginning, after which nobody of then is left: e^-12 are."""
MOST_USERS = 1000.0
_KEYS = ("users", "stays of users", "weights of users")


def own_fraction(load: tuple[CellLoad, ...] | LoadProcess, time_s: Floats, seeds: Sequence[int]) -> Floats:
    """Return the fraction of the cell that its load leaves to this user, (n,), or (seeds, n) where it is drawn.

    Parameters
    ----------
    load : tuple of CellLoad or LoadProcess
        The load of the scene.
    time_s : (n,) float64
        The beginning of each step.
    seeds : sequence of int
        One row each.
    """
    if isinstance(load, LoadProcess):
        return np.stack([1 / (1 + _weights(load, time_s, *(generator(seed, key) for key in _KEYS))) for seed in seeds])
    if not load:
        return np.ones(time_s.size)
    index = np.searchsorted([step.time_s for step in load], time_s, side="right") - 1
    used = np.array([step.fraction for step in load])[np.maximum(index, 0)]
    return np.where(index < 0, 1.0, 1.0 - used)


def users_of_load(mean: float) -> float:
    """Return the mean number of users that have this mean fraction of the cell."""
    low, high = 0.0, MOST_USERS
    for _ in range(60):
        middle = (low + high) / 2
        if 1 - left_by_users(middle) < mean:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def left_by_users(users: float) -> float:
    """Return the mean fraction of the cell that this many users leave on average."""
    part, weight = _points()  # t = part / (1 - part)
    return float(weight @ (np.exp(-part / (1 - part) - users * part) / (1 - part) ** 2))


@cache
def _points() -> tuple[Floats, Floats]:
    """Return points and weights of Gauss and Legendre between 0 and 1."""
    points, weights = np.polynomial.legendre.leggauss(256)
    return np.asarray((points + 1) / 2), np.asarray(weights / 2)


def _weights(
    load: LoadProcess,
    time_s: Floats,
    arrivals: np.random.Generator,
    stays: np.random.Generator,
    weights: np.random.Generator,
) -> Floats:
    """Return the sum of the users' weights at each time; arrivals change evenly with the mean and the time constant."""
    stay_s, users = load.time_constant_s, users_of_load(load.mean)
    if load.mean == 0.0:
        return np.zeros(time_s.size)
    expected = (float(time_s[-1]) + BEFORE * stay_s) * users / stay_s
    count = math.ceil(expected + 6 * math.sqrt(expected) + 6)
    begin_s = arrivals.exponential(size=count).cumsum() * (stay_s / users) - BEFORE * stay_s
    end_s = begin_s + stays.exponential(stay_s, size=count)
    weight = weights.exponential(size=count)
    leaving = np.argsort(end_s)
    came = np.searchsorted(begin_s, time_s, side="right")
    left = np.searchsorted(end_s[leaving], time_s, side="right")
    sums = [np.concatenate(([0.0], each.cumsum())) for each in (weight, weight[leaving])]
    # Without users the sum is exactly 0.
    return np.where(came > left, np.maximum(sums[0][came] - sums[1][left], 0.0), 0.0)


def interfered(budget: LinkBudget, signals: Sequence[Signal]) -> list[Signal]:
    """Return the signals of the base stations, each with the interference of the others.

    Parameters
    ----------
    budget : LinkBudget
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


def _received_snr(budget: LinkBudget, place: int, signal: Signal) -> Floats:
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


SWEEP_PERIOD_S = 0.002
"""How often the SINR of 802.11ad's beams is looked at: a fifth of the time after which a beam is lost."""


ABSENT_DB = -200.0
"""SNR of a beam that one base station has and another has not."""


class ChannelCourse(NamedTuple):
    """The serving beam of one seed: phases, and for each step the link, the base station and the beam."""

    phases: tuple[Phase, ...]
    link: NDArray[np.uint8]
    station: NDArray[np.int16]
    beam: NDArray[np.int16]


def courses(budget: LinkBudget, signals: Sequence[Signal], seeds: Sequence[int]) -> list[ChannelCourse]:
    """Follow the connection of each seed.

    Parameters
    ----------
    budget : LinkBudget
        The scene and its times.
    signals : sequence of Signal
        One for each base station.
    seeds : sequence of int
        Not negative.
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
    for row, seed in enumerate(seeds):
        sinr_db, level_db = (
            np.array([[beam[min(row, len(beam) - 1)] for beam in station] for station in each])
            for each in (means, levels)
        )
        phases = _sectors(scene, sinr_db[0], period_s) if wifi else _cells(scene, sinr_db, level_db, period_s, seed)
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


def _cells(scene: SceneModel, sinr_db: Floats, level_db: Floats, period_s: float, seed: int) -> tuple[Phase, ...]:
    """Radio link monitoring of NR and LTE; after T311 it returns from idle, where the scene names that time."""
    timers = structs.replace(scene.timers, indication_s=period_s)
    connection = scene.radio.connection if isinstance(scene.radio, RadioSettings) else None
    setup_s = connection.rrc.promotion_ns / 1e9 if connection is not None and connection.rrc is not None else None

    def draw(period: int) -> float:
        return float(generator(seed, f"interruption {period}{scene.ue.stream}").random())

    falls_back = scene.fallback is not None
    phases = follow(sinr_db, timers, level_db=level_db, falls_back=falls_back, setup_s=setup_s, draw=draw)
    return interrupted(phases, anchor_gaps(scene, seed)) if timers.anchor_every_s is not None else phases


def anchor_gaps(scene: SceneModel, seed: int) -> list[tuple[float, float]]:
    """Return begin and end of the handovers of the LTE anchor, seconds: a Poisson process."""
    every_s = scene.timers.anchor_every_s
    assert every_s is not None, "only a scene with anchor-every has them"
    waits, lengths = (generator(seed, f"{what} of anchor{scene.ue.stream}") for what in ("waits", "lengths"))
    gaps: list[tuple[float, float]] = []
    begin_s = waits.exponential(every_s)
    while begin_s < scene.duration_s:
        gaps.append((begin_s, begin_s + length_s(scene.timers.anchor_s, lengths.random())))
        begin_s += waits.exponential(every_s)
    return gaps


def _sectors(scene: SceneModel, sinr_db: Floats, period_s: float) -> tuple[Phase, ...]:
    """Beams of the one access point of 802.11ad; the others, if any, do not serve."""
    arrays = (scene.base_stations[0].array, scene.ue.array)
    training_s = sweep_s(*(array.rows * array.columns for array in arrays))
    needed_db = float(waterfall("802.11ad").snr_db[FIRST_DATA_MCS])
    return follow_sectors(sinr_db, period_s, needed_db, training_s)


def _laid_out(phases: tuple[Phase, ...], time_s: Floats) -> ChannelCourse:
    starts = np.searchsorted(time_s, [phase.start_s - 1e-9 for phase in phases])
    lengths = np.diff(starts, append=len(time_s))
    link, station, beam = (np.repeat([phase[part] for phase in phases], lengths) for part in (1, 2, 3))
    return ChannelCourse(phases, link.astype(np.uint8), station.astype(np.int16), beam.astype(np.int16))


def seen_intervals(budget: LinkBudget, course: ChannelCourse) -> tuple[SceneInterval, ...]:
    """States of the geometry, exactly, as the serving base station sees them; the fallback carrier does not count."""
    ends = [*(phase.start_s for phase in course.phases[1:]), budget.scene.duration_s]
    parts = [
        SceneInterval(part.state, max(part.start_s, phase.start_s), min(part.end_s, end_s))
        for phase, end_s in zip(course.phases, ends, strict=True)
        for part in budget.sights[phase.station].intervals
    ]
    return _joined([part for part in parts if part.end_s > part.start_s])


def drawn_intervals(los: NDArray[np.bool_], time_s: Floats, duration_s: float) -> tuple[SceneInterval, ...]:
    """States of a line of sight that was drawn, step by step."""
    edges = [0, *(np.flatnonzero(np.diff(los)) + 1).tolist(), len(los)]
    bounds = [*time_s[edges[:-1]].tolist(), duration_s]
    return tuple(
        SceneInterval("LOS" if los[first] else "NLOS", *span)
        for first, span in zip(edges[:-1], pairwise(bounds), strict=True)
    )


def _joined(parts: list[SceneInterval]) -> tuple[SceneInterval, ...]:
    joined = parts[:1]
    for part in parts[1:]:
        if part.state == joined[-1].state:
            joined[-1] = joined[-1]._replace(end_s=part.end_s)
        else:
            joined.append(part)
    return tuple(joined)


Number = TypeVar("Number", bound=np.generic)

BLOCKED_DB = 3.0
"""Obstacles that cost the direct path more than this make the state ``blocked``: half of its power is gone."""


class _Air(NamedTuple):
    """The series of a carrier, each (seeds, n).

    Attributes
    ----------
    sinr_db : float64
        SINR of the downlink with all power in one layer.
    mcs : int16
        MCS of the downlink.
    rate_bps, bler, up_rate_bps, up_bler
        Rates and error rates of both directions.
    data_db, need_db, up_data_db, up_need_db : float64
        Effective SINR of a layer of data in both directions, and that at which a tenth of its blocks fails.
    """

    sinr_db: Floats
    mcs: NDArray[np.int16]
    rate_bps: Whole
    bler: Floats
    up_rate_bps: Whole
    up_bler: Floats
    data_db: Floats
    need_db: Floats
    up_data_db: Floats
    up_need_db: Floats

    def columns(self) -> tuple[NDArray[Any], ...]:
        """Return all of them."""
        return tuple(self)

    def margins(self, row: int) -> dict[str, Floats]:
        """Return the SINR of one seed's data, and what it needs."""
        names = ("data_db", "need_db", "up_data_db", "up_need_db")
        return {name: getattr(self, name)[row] for name in names}

    def put(self, rows: NDArray[np.intp], where: NDArray[np.bool_], other: _Air) -> None:
        """Take over another carrier's values in some rows."""
        for mine, theirs in zip(self.columns(), other.columns(), strict=True):
            mine[rows] = np.where(where[rows], theirs, mine[rows])

    def fallback(self, row: int) -> FallbackCarrier:
        """Return the values of one seed, for a carrier that is always connected."""
        sends = self.mcs[row] >= 0
        rate_bps, up_rate_bps = (np.where(sends, rate[row], 0) for rate in (self.rate_bps, self.up_rate_bps))
        return FallbackCarrier(rate_bps, up_rate_bps, **self.margins(row))

    def silence(self, where: NDArray[np.bool_]) -> None:
        """Send nothing there."""
        for values, nothing in zip(self.columns()[1:6], (-1, 0, 0.0, 0, 0.0), strict=True):
            values[where] = nothing


def realise_batch(budget: LinkBudget, seeds: Sequence[int]) -> list[Realisation]:
    """Realise a scene for some seeds at once; each result is the same as for its seed alone.

    Parameters
    ----------
    budget : LinkBudget
        The parts that all seeds have in common.
    seeds : sequence of int
        Not negative.
    """
    signals = [signal(budget, sight, seeds, str(place)) for place, sight in enumerate(budget.sights)]
    signals = interfered(budget, signals)
    followed = courses(budget, signals, seeds)
    link = np.stack([course.link for course in followed])
    station = np.stack([course.station for course in followed])
    beam = np.stack([course.beam for course in followed])
    served = _served(signals, station, beam)
    large_db = served.snr_db
    fade_db = [_faded(budget, place, signals, served, station, seeds, "") for place in range(len(signals))]
    up_fade_db = fade_db
    if not _reciprocal(budget):
        up_fade_db = [_faded(budget, place, signals, served, station, seeds, " up") for place in range(len(signals))]
    offsets = np.array([uplink_offset_db(budget, sight) for sight in budget.sights])
    rise_db = _pick([each.rise_db for each in signals], station)
    down_db = large_db + _pick(fade_db, station) - rise_db
    up_db = large_db + _pick(up_fade_db, station) + offsets[station]
    air = _adapted(budget, budget.sights[0], down_db, up_db, own_fraction(budget.scene.cell_load, budget.time_s, seeds))
    fallen = link == ServingLink.FALLBACK
    radio = budget.scene.radio
    split = isinstance(radio, RadioSettings) and radio.bearer == "split" and budget.fallback is not None
    rows = np.arange(len(seeds)) if split else np.flatnonzero(fallen.any(axis=1))
    second = _second_carrier(budget, [seeds[row] for row in rows.tolist()]) if rows.size else None
    if second is not None:
        air.put(rows, fallen, second)
    los = _pick([each.los for each in signals], station)
    blockage_db = _pick([each.blockage_db for each in signals], station)
    state = _states(link, los, blockage_db, air.mcs)
    air.silence((state == STATES.index("outage")) | (state == STATES.index("handover")))
    gain_db = _pick([each.gain_db for each in signals], station)
    losses = {
        "path loss": _pick([each.path_loss_db for each in signals], station),
        "shadowing": _pick([each.shadowing_db for each in signals], station),
        "gain": gain_db,
        "fading": _pick(fade_db, station),
        "interference": rise_db,
    }
    power_db = _pick([np.full((1, 1), unobstructed_db(budget, sight)) for sight in budget.sights], station)
    # What obstacles take from the serving beam, other paths counted: less than they take from the direct ray.
    losses["blockage"] = power_db + gain_db - losses["path loss"] - losses["shadowing"] - large_db
    legs = [second.fallback(row) if split and second is not None else None for row in range(len(seeds))]
    return [
        _row(budget, seed, row, followed[row], air, los, state, losses, legs[row]) for row, seed in enumerate(seeds)
    ]


def _row(
    budget: LinkBudget,
    seed: int,
    row: int,
    course: ChannelCourse,
    air: _Air,
    los: NDArray[np.bool_],
    state: NDArray[np.uint8],
    losses: dict[str, Floats],
    leg: FallbackCarrier | None,
) -> Realisation:
    """One seed of a batch."""
    scene = budget.scene
    drawn = drawn_intervals(los[row], budget.time_s, scene.duration_s) if scene.draws_los else None
    return Realisation(
        scene=scene,
        mode="3gpp",
        seed=seed,
        time_s=budget.time_s,
        position_m=budget.position_m,
        serving=course.station,
        los=los[row],
        state=state[row],
        sinr_db=air.sinr_db[row],
        mcs=air.mcs[row],
        rate_bps=air.rate_bps[row],
        bler=air.bler[row],
        up_rate_bps=air.up_rate_bps[row],
        up_bler=air.up_bler[row],
        losses_db={name: values[row] for name, values in losses.items()},
        intervals=seen_intervals(budget, course) if drawn is None else drawn,
        warnings=budget.warnings,
        fallback=leg,
        **({} if scene.carrier.technology == "802.11ad" else air.margins(row)),
    )


def _reciprocal(budget: LinkBudget) -> bool:
    """Whether both directions share one carrier frequency, and therefore their fading: TDD and 802.11ad."""
    carrier = budget.scene.carrier
    return carrier.technology == "802.11ad" or bool(carrier.frame)


def _faded(
    budget: LinkBudget,
    place: int,
    signals: Sequence[Signal],
    served: Beam,
    station: NDArray[np.int16],
    seeds: Sequence[int],
    direction: str,
) -> Floats:
    """Fading of one base station, where it serves anyone."""
    if not (station == place).any():
        return np.zeros((1, station.shape[1]))
    return fading(
        budget, budget.sights[place], signals[place].los, served.scattered, seeds, f"{place}{direction}", served.snr_db
    )


def _pick(arrays: Sequence[NDArray[Number]], index: NDArray[np.int16]) -> NDArray[Number]:
    """Choose among arrays of shape (seeds, n) or (1, n), step by step."""
    picked = np.broadcast_to(arrays[0], index.shape)
    for place, values in enumerate(arrays[1:], start=1):
        picked = np.where(index == place, values, picked)
    return picked


def _served(signals: Sequence[Signal], station: NDArray[np.int16], beam: NDArray[np.int16]) -> Beam:
    """Return what the serving beam receives at each step."""
    most = max(len(each.beams) for each in signals)
    columns = []
    for part in (0, 1):
        by_beam = [
            _pick([each.beams[min(number, len(each.beams) - 1)][part] for each in signals], station)
            for number in range(most)
        ]
        columns.append(_pick(by_beam, beam))
    return Beam(*columns)


def _adapted(budget: LinkBudget, sight: Sight, down_db: Floats, up_db: Floats, own_fraction: Floats | float) -> _Air:
    """Adapt both directions to the SINR that all power has in one layer."""
    carrier, step_s = sight.carrier, budget.scene.step_s
    wifi = budget.scene.radio if isinstance(budget.scene.radio, WifiSettings) else None
    down = adapt(down_db, step_s, carrier, "down", wifi=wifi)
    up = adapt(up_db, step_s, carrier, "up", wifi=wifi)
    rates = [(each.rate_bps * own_fraction).astype(np.int64) for each in (down, up)]
    return _Air(
        down_db,
        down.mcs,
        rates[0],
        down.bler,
        rates[1],
        up.bler,
        down.sinr_db,
        down.need_db,
        up.sinr_db,
        up.need_db,
    )


def _second_carrier(budget: LinkBudget, seeds: Sequence[int]) -> _Air:
    """Return the fallback carrier's values; its reflected path, if any, is as good as a beam."""
    fallback, sight = budget.scene.fallback, budget.fallback
    assert fallback is not None, "only a scene with a fallback carrier falls back"
    assert sight is not None, "it has a base station"
    received = signal(budget, sight, seeds, "fallback")
    best = np.argmax([np.broadcast_to(beam.snr_db, received.shape) for beam in received.beams], axis=0)
    served = _served([received], np.zeros_like(best, dtype=np.int16), best.astype(np.int16))
    streams = ("fallback", "fallback" if sight.carrier.frame else "fallback up")
    down_db, up_db = (
        served.snr_db + fading(budget, sight, received.los, served.scattered, seeds, stream, served.snr_db)
        for stream in streams
    )
    up_db = up_db + uplink_offset_db(budget, sight)
    return _adapted(budget, sight, down_db, up_db, 1.0 - fallback.cell_load)


def _states(
    link: NDArray[np.uint8], los: NDArray[np.bool_], blockage_db: Floats, mcs: NDArray[np.int16]
) -> NDArray[np.uint8]:
    """Return the state of the radio at each step."""
    code = {name: np.uint8(STATES.index(name)) for name in STATES}
    state = np.where(los, np.where(blockage_db > BLOCKED_DB, code["blocked"], code["los"]), code["nlos"])
    state[link == ServingLink.FALLBACK] = code["fallback"]
    state[(link == ServingLink.OUTAGE) | (mcs < 0)] = code["outage"]
    state[link == ServingLink.HANDOVER] = code["handover"]
    return state
