"""The data of a picture: curves, states and the walk, of one seed or over many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wavebed.channel.summary import Gathering, step_edges_s
from wavebed.pattern.curves import Curve, stepped
from wavebed.pattern.model import STATES

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from wavebed.channel.realisation import Realisation
    from wavebed.channel.summary import Summary
    from wavebed.scene.model import SceneModel

    Floats = NDArray[np.float64]


#: Below this, an SINR is drawn as this: nothing is received there, and the scale stays readable.
LOWEST_SINR_DB = -25.0
BINS = 800
WALK_POINTS = 1500
NS_PER_S = 1e9


@dataclass(frozen=True, eq=False)
class ChannelPanel:
    """One chart over time: its curves by name, and the range of its axis."""

    name: str
    label: str
    unit: str
    curves: tuple[tuple[str, Curve], ...]
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Walk:
    """Where the UE is (m) over time (s), with the state of the radio (a place in `STATES`)."""

    time_s: Floats
    position_m: Floats
    state: NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class ChannelView:
    """Everything that a picture shows.

    Parameters
    ----------
    subtitle : str
        Mode, seeds and anchor on one line.
    spans : dict of str to list of (float, float)
        Start and end in seconds of each state of the radio.
    notes : tuple of str
        Warnings, and how to read the picture.
    """

    scene: SceneModel
    subtitle: str
    panels: tuple[ChannelPanel, ...]
    spans: dict[str, list[tuple[float, float]]]
    walk: Walk
    summary: Summary
    notes: tuple[str, ...]


_SERIES: dict[str, Callable[[Realisation], NDArray[np.float64] | NDArray[np.int64] | NDArray[np.int16]]] = {
    "sinr": lambda r: np.where(np.isfinite(r.sinr_db), np.maximum(r.sinr_db, LOWEST_SINR_DB), LOWEST_SINR_DB),
    "mcs": lambda r: r.mcs,
    "down": lambda r: r.rate_bps,
    "up": lambda r: r.up_rate_bps,
    "bler": lambda r: r.bler,
    "up bler": lambda r: r.up_bler,
}


class Album:
    """Takes in one realisation after the other and keeps only what a picture of them all needs."""

    def __init__(self) -> None:
        self._gathering = Gathering()
        self._first: Realisation | None = None
        self._cuts: Floats = np.zeros(0)
        self._binned: dict[str, list[Floats]] = {name: [] for name in _SERIES}
        self._time_in: Floats = np.zeros(0)
        self._warnings: dict[str, None] = {}
        self._seeds: list[int] = []

    def add(self, realisation: Realisation) -> None:
        """Take in a realisation."""
        self._gathering.add(realisation)
        self._seeds.append(realisation.seed)
        self._warnings |= dict.fromkeys(realisation.warnings)
        if self._first is None:
            self._first = realisation
            bins = min(BINS, len(realisation.time_s))
            self._cuts = np.linspace(0, realisation.scene.duration_s, bins + 1)
            self._time_in = np.zeros((len(STATES), bins))
        for name, series in _SERIES.items():
            self._binned[name].append(self._bin(realisation, series(realisation).astype(np.float64)))
        for code in np.unique(realisation.state).tolist():
            self._time_in[code] += self._bin(realisation, (realisation.state == code).astype(np.float64))

    def _bin(self, realisation: Realisation, values: Floats) -> Floats:
        edges = step_edges_s(realisation)
        done = np.concatenate(([0.0], np.cumsum(values * np.diff(edges))))
        means: Floats = np.diff(np.interp(self._cuts, edges, done)) / np.diff(self._cuts)
        return means

    @property
    def seeds(self) -> list[int]:
        """The seeds that were taken in."""
        return self._seeds

    @property
    def warnings(self) -> list[str]:
        """The warnings, each once."""
        return list(self._warnings)

    def summary(self) -> Summary:
        """Work out the figures."""
        return self._gathering.summary()

    def view(self) -> ChannelView:
        """Prepare the picture."""
        first = self._first
        assert first is not None, "the caller has added a realisation"
        alone = len(self._seeds) == 1
        curves = {name: self._alone(first, name) if alone else self._spread(name) for name in _SERIES}
        edges = step_edges_s(first) if alone else self._cuts
        state = first.state if alone else self._time_in.argmax(axis=0).astype(np.uint8)
        notes = [f"Warning: {warning}" for warning in self._warnings]
        if alone:
            if curves["sinr"].banded:
                notes.append("Lines are means of each point's time; bands go from its lowest to its highest value.")
        else:
            notes.append("Lines are medians over the seeds, bands their percentiles 5 to 95; states the most frequent.")
        return ChannelView(
            scene=first.scene,
            subtitle=said_of(first, self._seeds),
            panels=_panels(curves),
            spans=state_spans(edges, state),
            walk=walk_of(first, edges, state),
            summary=self.summary(),
            notes=tuple(notes),
        )

    def _alone(self, realisation: Realisation, name: str) -> Curve:
        index = np.rint(realisation.time_s * NS_PER_S).astype(np.int64)
        period = round(realisation.scene.duration_s * NS_PER_S)
        return stepped(index, _SERIES[name](realisation).astype(np.float64), period, NS_PER_S)

    def _spread(self, name: str) -> Curve:
        low, median, high = np.percentile(np.array(self._binned[name]), (5, 50, 95), axis=0)
        return Curve(self._cuts, median, low, high)


def said_of(first: Realisation, seeds: list[int]) -> str:
    """Return radio, mode, seeds and source on one line."""
    seeded = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds, {min(seeds)} to {max(seeds)}"
    carrier = first.scene.carrier
    kind = {"nr": "5G NR", "lte": "LTE"}.get(carrier.technology, carrier.technology)
    radio = f"{kind}, {carrier.frequency_hz / 1e9:g} GHz, {carrier.bandwidth_hz / 1e6:g} MHz"
    return f"{radio} · mode {first.mode} · {seeded} · {first.scene.anchor}"


def _panels(curves: dict[str, Curve]) -> tuple[ChannelPanel, ...]:
    sinr, mcs = curves["sinr"], curves["mcs"]
    rate_high = max(float(curves[name].high.max()) for name in ("down", "up"))
    scale, unit = (1e9, "Gbit/s") if rate_high >= 1e9 else (1e6, "Mbit/s")
    rates = tuple((name, _scaled(curves[name], scale)) for name in ("down", "up"))
    blocks = tuple((name, _scaled(curves[key], 0.01)) for name, key in (("down", "bler"), ("up", "up bler")))
    block_high = max(float(curve.high.max()) for _, curve in blocks)
    low, high = float(sinr.low.min()), float(sinr.high.max())
    room = max(2.0, (high - low) * 0.06)
    return (
        ChannelPanel("SINR", "SINR", "dB", (("down", sinr),), low - room, high + room),
        ChannelPanel("MCS", "MCS", "", (("down", mcs),), -1.5, max(10.0, float(mcs.high.max()) + 1)),
        ChannelPanel("capacity", "capacity", unit, rates, 0.0, rate_high / scale * 1.06 or 1.0),
        ChannelPanel("BLER", "loss (BLER)", "%", blocks, 0.0, min(104.0, max(20.0, block_high * 1.06))),
    )


def _scaled(curve: Curve, scale: float) -> Curve:
    return Curve(curve.edges, curve.mean / scale, curve.low / scale, curve.high / scale)


def state_spans(edges: Floats, state: NDArray[np.uint8]) -> dict[str, list[tuple[float, float]]]:
    """Return start and end of each state of the radio, in seconds."""
    first = np.concatenate(([0], np.flatnonzero(state[1:] != state[:-1]) + 1))
    bounds = [*edges[first].tolist(), float(edges[-1])]
    spans: dict[str, list[tuple[float, float]]] = {}
    for code, start, end in zip(state[first].tolist(), bounds[:-1], bounds[1:], strict=True):
        spans.setdefault(STATES[code], []).append((start, end))
    return {name: spans[name] for name in STATES if name in spans}


def walk_of(realisation: Realisation, edges: Floats, state: NDArray[np.uint8]) -> Walk:
    """Thin the walk out to few points, keeping the corners of the track and the changes of state."""
    times = realisation.time_s
    change = edges[np.flatnonzero(state[1:] != state[:-1]) + 1]
    corners = np.array(realisation.scene.ue.trajectory.time_s)
    even = np.linspace(times[0], times[-1], min(len(times), WALK_POINTS))
    keep = np.unique(np.searchsorted(times, np.concatenate((even, change, corners))).clip(max=len(times) - 1))
    shown = state[np.searchsorted(edges, times[keep], side="right") - 1]
    return Walk(times[keep], realisation.position_m[keep], shown)
