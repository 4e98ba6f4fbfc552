"""Fit the parameters of a scene to measured walks.

The scene is realised with the same seeds for every set of parameters (common random numbers), in coarse steps, and the
figures of its walks are compared with the measured ones: a minimum-distance estimate (method of simulated moments:
McFadden 1989, Econometrica 57(5)). A Latin hypercube looks around; `scipy.optimize.least_squares` (trust region
reflective, with bounds) goes on from the best place. It needs a Jacobian of differences, 13 realisations for 12
parameters, where a derivative-free method such as CMA-ES needs some thousand; and the Jacobian gives the intervals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs
from scipy.optimize import least_squares, lsq_linear
from scipy.stats import qmc

from wavebed.channel import ensemble
from wavebed.fit.objective import Target
from wavebed.fit.scene_values import parameters_of, toml_text, value_of, with_values
from wavebed.scene.read import scene_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from wavebed.fit.network import Network
    from wavebed.fit.scene_values import Document, Parameter
    from wavebed.scene.model import Array, Scene

    Floats = NDArray[np.float64]

__all__ = [
    "FittedParameter",
    "PhysicsFit",
    "Settings",
    "fit_physics",
    "scene_text",
    "walks_of",
]

TCP_PAYLOAD = 1448 / 1500
"""Of a packet of 1500 bytes; what the application measures."""
COARSE_STEP_S = 0.1
COARSE_UPDATE_S = 1.0
DIFFERENCE = 0.06
"""Step of the differences, as a part of each range: wider than the noise of a few seeds."""
STEADY = 3e-3
"""A descent ends when a step moves or improves less than this, relatively."""
AROUND = 0.25
"""The Latin hypercube reaches this part of each range to both sides of the start."""
FAR = 0.15
"""Two places are far from each other if a value differs by this part of its range."""
LEAST_CURVATURE = 0.01
"""Weight, in a resample, of a uniform draw from the range of each value: one that changes nothing may be anywhere."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much work a fit is.

    Parameters
    ----------
    seeds : int
        Realisations of each set of parameters, the seeds from 1.
    first : int
        Places of the Latin hypercube, the start besides.
    rounds : int
        Most steps of a descent.
    descents : int
        Most descents, each from the best place so far.
    resamples : int
        Resamples of the walks for the intervals.
    """

    seeds: int = 4
    first: int = 60
    rounds: int = 12
    descents: int = 3
    resamples: int = 200


@dataclass(frozen=True, slots=True)
class FittedParameter:
    """A parameter, its value, and the bounds between which nine of ten resamples lie."""

    parameter: Parameter
    value: float
    low: float
    high: float

    def text(self) -> str:
        """Return the line of the scene's `fitted`."""
        show = self.parameter.text
        return f"{self.parameter.key} ({show(self.value)}): 90 % interval {show(self.low)} to {show(self.high)}"


@dataclass(frozen=True, slots=True, eq=False)
class PhysicsFit:
    """A fitted scene.

    Parameters
    ----------
    document : dict
        The scene, as TOML gives it; see `scene_text`.
    parameters : tuple of FittedParameter
        What was fitted.
    cost : float
        Mean squared distance of a metric, in spreads between walks.
    evaluations : int
        How often the scene was realised.
    """

    document: Document
    parameters: tuple[FittedParameter, ...]
    cost: float
    evaluations: int


def fit_physics(
    laps: Sequence[Floats],
    document: Document,
    network: Network,
    *,
    keys: Sequence[str] | None = None,
    settings: Settings | None = None,
    seed: int = 1,
    tell: Callable[[int, float, Floats], None] | None = None,
) -> PhysicsFit:
    """Fit a scene to measured walks.

    Parameters
    ----------
    laps : sequence of (seconds,) float64
        Rates of each second, Mbit/s; NaN where a rule hides a second.
    document : dict
        The starting scene, as TOML gives it.
    keys : sequence of str, optional
        What to fit; see `parameters_of`.
    network : Network
        Its thresholds divide the seconds.
    settings : Settings, optional
        How much work it is.
    seed : int
        Of the search and of the resamples.
    tell : callable, optional
        Is told the number of realisations so far, the cost and the parameters (parts of their ranges) of each.

    Raises
    ------
    UserError
        If a key cannot be fitted, or the scene is wrong.
    """
    work = settings or Settings()
    search = _Search(laps, document, parameters_of(document, keys), network, work, tell)
    ends = search.run(seed)
    parameters = search.intervals(ends, seed)
    found = with_values(document, {each.parameter: each.value for each in parameters})
    return PhysicsFit(found, parameters, search.cost_of(ends[0][0]), len(search.seen))


def scene_text(fit: PhysicsFit, measured: str) -> str:
    """Return the fitted scene as TOML; its `fitted` has the values, and `measured` says what they were fitted to."""
    return toml_text({**fit.document, "fitted": [f"{each.text()}; {measured}" for each in fit.parameters]})


class _Search:
    """The figures of a scene at parameters that are parts (0 to 1) of their ranges."""

    def __init__(
        self,
        laps: Sequence[Floats],
        document: Document,
        parameters: list[Parameter],
        network: Network,
        work: Settings,
        tell: Callable[[int, float, Floats], None] | None,
    ) -> None:
        self.laps = laps
        self.document = document
        self.parameters = parameters
        self.work = work
        self.tell = tell
        self.target = Target(laps, network)
        self.seconds = _seconds(laps)
        self.seen: dict[bytes, tuple[Floats, Floats]] = {}

    def values(self, place: Floats) -> dict[Parameter, float]:
        """Return the parameters at a place."""
        pairs = zip(self.parameters, place.tolist(), strict=True)
        return {parameter: parameter.value(part) for parameter, part in pairs}

    def walks(self, place: Floats) -> list[Floats]:
        """Return the walks of the scene at a place, with the hidden seconds hidden."""
        document = with_values(self.document, self.values(place))
        return _hidden(walks_of(document, range(1, self.work.seeds + 1), seconds=self.seconds), self.laps)

    def residuals(self, place: Floats) -> Floats:
        """Return the residuals at a place; a place is realised once."""
        key = np.round(place, 9).tobytes()
        if key not in self.seen:
            found = self.target.residuals(self.target.figures(self.walks(place)).values())
            self.seen[key] = (place.copy(), found)
            if self.tell is not None:
                self.tell(len(self.seen), _cost(found), place)
        return self.seen[key][1]

    def cost_of(self, place: Floats) -> float:
        """Return the cost at a place."""
        return _cost(self.residuals(place))

    def run(self, seed: int) -> list[tuple[Floats, Floats]]:
        """Return the ends of the descents and the Jacobian at each, the best first.

        Descents begin in turn at the best place seen so far (a step of a Jacobian may have been better than an end) and
        at the best one far from all ends: a single valley may be the wrong one.
        """
        start = np.array([each.part(value_of(self.document, each)) for each in self.parameters])
        cube = qmc.LatinHypercube(start.size, rng=np.random.default_rng(seed)).random(self.work.first)
        for place in [start, *np.clip(start + AROUND * (2 * cube - 1), 0.0, 1.0)]:
            self.residuals(place)
        ends: list[tuple[Floats, Floats]] = []
        for number in range(self.work.descents):
            place = self._best_place([end for end, _ in ends] if number % 2 else [])
            if place is not None and not any(np.allclose(place, end) for end, _ in ends):
                ends.append(self._descended(place))
        return sorted(ends, key=lambda end: self.cost_of(end[0]))

    def _best_place(self, ends: Sequence[Floats]) -> Floats | None:
        """Return the best place seen that is far from all `ends`."""
        places = [place for place, _ in self.seen.values()]
        apart = [place for place in places if all(np.abs(place - end).max() > FAR for end in ends)]
        return min(apart, key=self.cost_of, default=None)

    def _descended(self, place: Floats) -> tuple[Floats, Floats]:
        found = least_squares(
            self.residuals,
            np.clip(place, 1e-4, 1 - 1e-4),
            jac=self._jacobian,
            bounds=(0.0, 1.0),
            max_nfev=self.work.rounds,
            xtol=STEADY,
            ftol=STEADY,
        )
        return np.asarray(found.x, dtype=np.float64), np.asarray(found.jac, dtype=np.float64)

    def _jacobian(self, place: Floats) -> Floats:
        """Return differences over steps that stay within the bounds."""
        here = self.residuals(place)
        columns = []
        for number, part in enumerate(place):
            step = DIFFERENCE if part + DIFFERENCE <= 1 else -DIFFERENCE
            there = place.copy()
            there[number] += step
            columns.append((self.residuals(there) - here) / step)
        return np.stack(columns, axis=1)

    def intervals(self, ends: list[tuple[Floats, Floats]], seed: int) -> tuple[FittedParameter, ...]:
        """Resample measured walks and seeds; for each resample, solve the linear problem around the end it prefers."""
        random = np.random.default_rng(seed)
        around = [_Around(place, jacobian, self.residuals(place)) for place, jacobian in ends]
        simulated = [self.target.figures(self.walks(end.place)) for end in around]
        count = self.work.seeds
        found = []
        for _ in range(self.work.resamples):
            seeds, measured = random.integers(0, count, count), self.target.resampled(random)
            drawn = random.random(len(self.parameters))
            solved = [
                end.solved(self.target.residuals(each.values(seeds), measured), drawn)
                for end, each in zip(around, simulated, strict=True)
            ]
            found.append(min(solved, key=lambda pair: pair[0])[1])
        low, high = np.clip(np.quantile(found, (0.05, 0.95), axis=0), 0.0, 1.0)
        best = ends[0][0]
        return tuple(
            FittedParameter(each, each.value(here), each.value(min(least, here)), each.value(max(most, here)))
            for each, here, least, most in zip(self.parameters, best.tolist(), low.tolist(), high.tolist(), strict=True)
        )


class _Around:
    """The linear problem around the end of a descent."""

    def __init__(self, place: Floats, jacobian: Floats, residuals: Floats) -> None:
        self.place = place
        self.steady = np.vstack((jacobian, np.sqrt(LEAST_CURVATURE) * np.eye(place.size)))
        self.left = self._step(residuals, place)[0]

    def solved(self, residuals: Floats, drawn: Floats) -> tuple[float, Floats]:
        """Return the cost and the place for other residuals; the step that the end itself left counts as none."""
        step, cost = self._step(residuals, drawn)
        return cost, self.place + step - self.left

    def _step(self, residuals: Floats, towards: Floats) -> tuple[Floats, float]:
        wanted = np.concatenate((-residuals, np.sqrt(LEAST_CURVATURE) * (towards - self.place)))
        found = lsq_linear(self.steady, wanted, (-self.place - 1e-6, 1 - self.place + 1e-6))
        return np.asarray(found.x, dtype=np.float64), float(found.cost)


def _cost(residuals: Floats) -> float:
    return float((residuals**2).sum())


def _seconds(laps: Sequence[Floats]) -> int:
    return round(float(np.median([lap.size for lap in laps])))


def walks_of(document: Document, seeds: Sequence[int], *, seconds: int | None = None) -> list[Floats]:
    """Return the mean rate of TCP data in each second of a scene's walks, Mbit/s, from coarse steps.

    Parameters
    ----------
    document : dict
        The scene.
    seeds : sequence of int
        One walk each.
    seconds : int, optional
        Most seconds of a walk.
    """
    scene = _coarse(scene_of(document, Path("scene.toml")))
    per_second = round(1 / scene.step_s)
    found = []
    for realisation in ensemble(scene, seeds=seeds):
        carried = realisation.rate_bps * (1 - realisation.bler) * (TCP_PAYLOAD / 1e6)
        whole = carried.size // per_second
        means = carried[: whole * per_second].reshape(whole, per_second).mean(axis=1)
        found.append(np.asarray(means[:seconds], dtype=np.float64))
    return found


def _coarse(scene: Scene) -> Scene:
    """Return the scene in steps that are coarse, but short beside a second."""

    def seldom(array: Array) -> Array:
        return structs.replace(array, update_s=max(array.update_s, COARSE_UPDATE_S))

    stations = tuple(replace(station, array=seldom(station.array)) for station in scene.base_stations)
    ue = replace(scene.ue, array=seldom(scene.ue.array))
    return replace(scene, step_s=max(scene.step_s, COARSE_STEP_S), base_stations=stations, ue=ue)


def _hidden(walks: Sequence[Floats], laps: Sequence[Floats]) -> list[Floats]:
    """Return walks in which the seconds are hidden that most of the laps hide, by lap time."""
    parts = (np.arange(1000) + 0.5) / 1000
    hidden = np.mean([np.isnan(lap[(parts * lap.size).astype(np.intp)]) for lap in laps], axis=0) > 0.5
    if not hidden.any():
        return list(walks)
    found = []
    for walk in walks:
        place = ((np.arange(walk.size) + 0.5) / walk.size * hidden.size).astype(np.intp)
        found.append(np.where(hidden[place], np.nan, walk))
    return found
