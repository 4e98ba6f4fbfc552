"""Mode ``3gpp``: from a scene and seeds to realisations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from wavebed.channel.adaptation import adapt
from wavebed.channel.course import courses, drawn_intervals, seen_intervals
from wavebed.channel.interference import interfered
from wavebed.channel.load import own_fraction
from wavebed.channel.realisation import FallbackCarrier, Realisation
from wavebed.channel.serving import Link
from wavebed.channel.signal import Beam, fading, signal, unobstructed_db, uplink_offset_db
from wavebed.pattern.model import STATES
from wavebed.radio.model import RadioSettings, WifiSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.channel.budget import Budget, Sight
    from wavebed.channel.course import Course
    from wavebed.channel.signal import Signal

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]

__all__ = ["realise_batch"]

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


def realise_batch(budget: Budget, seeds: Sequence[int]) -> list[Realisation]:
    """Realise a scene for some seeds at once; each result equals that of its seed alone.

    Parameters
    ----------
    budget : Budget
        The parts that all seeds have in common.
    seeds : sequence of int
        Not negative.
    """
    signals = [signal(budget, sight, seeds, str(place)) for place, sight in enumerate(budget.sights)]
    signals = interfered(budget, signals)
    followed = courses(budget, signals, len(seeds))
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
    fallen = link == Link.FALLBACK
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
    budget: Budget,
    seed: int,
    row: int,
    course: Course,
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


def _reciprocal(budget: Budget) -> bool:
    """Whether both directions share one carrier frequency, and therefore their fading: TDD and 802.11ad."""
    carrier = budget.scene.carrier
    return carrier.technology == "802.11ad" or bool(carrier.frame)


def _faded(
    budget: Budget,
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


def _adapted(budget: Budget, sight: Sight, down_db: Floats, up_db: Floats, own_fraction: Floats | float) -> _Air:
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


def _second_carrier(budget: Budget, seeds: Sequence[int]) -> _Air:
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
    state[link == Link.FALLBACK] = code["fallback"]
    state[(link == Link.OUTAGE) | (mcs < 0)] = code["outage"]
    state[link == Link.HANDOVER] = code["handover"]
    return state
