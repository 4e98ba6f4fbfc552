"""The values of a scene that a fit may change, and the text of a scene file."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs
from scipy.optimize import least_squares, lsq_linear
from scipy.stats import qmc

from wavebed.channel import ensemble
from wavebed.errors import UserError
from wavebed.fit.judge import dips, runs_below
from wavebed.scene.read import scene_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from wavebed.fit.judge import FitNetwork
    from wavebed.scene.model import SceneModel
    from wavebed.scene.tables import Array

    Document = dict[str, object]
    Floats = NDArray[np.float64]

MOST_PARAMETERS = 12
LONGEST_LINE = 100


@dataclass(frozen=True, slots=True)
class SceneParameter:
    """One value of a scene, or one that several tables have in common.

    Parameters
    ----------
    key : str
        Its place; ``*`` stands for each table of an array.
    low, high : float
        Bounds.
    unit : str
        Written behind the number; without one it is a bare number.
    logarithmic : bool
        Whether ratios count, not differences.
    """

    key: str
    low: float
    high: float
    unit: str
    logarithmic: bool = False

    def value(self, part: float) -> float:
        """Return the value at a part of the range, 0 to 1."""
        if self.logarithmic:
            return self.low * math.exp(math.log(self.high / self.low) * part)
        return self.low + (self.high - self.low) * part

    def part(self, value: float) -> float:
        """Return the part of the range at which a value stands."""
        value = min(max(value, self.low), self.high)
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def text(self, value: float) -> str:
        """Return a value as people read it, with four digits."""
        return f"{_rounded(value):g}{self.unit or ' m'}"

    def written(self, value: float) -> str | float:
        """Return a value as a scene has it."""
        return f"{_rounded(value):.10g}{self.unit}" if self.unit else _rounded(value)


def _rounded(value: float) -> float:
    """Return a value with four digits, none below 0.0001: units are written without an exponent."""
    return round(float(f"{value:.4g}"), 4)


_KNOWN = (
    SceneParameter("base-station.*.power", 0.0, 60.0, "dbm"),
    *(SceneParameter(f"base-station.{place}.array.azimuth", -360.0, 360.0, "deg") for place in range(4)),
    SceneParameter("nlos-offset", -20.0, 30.0, "db"),
    SceneParameter("shadowing.spread", 1.0, 20.0, "db"),
    SceneParameter("shadowing.distance", 3.0, 200.0, "", logarithmic=True),
    SceneParameter("carrier.evm", 3.0, 40.0, "%", logarithmic=True),
    SceneParameter("cell-load.mean", 1.0, 95.0, "%"),
    SceneParameter("cell-load.time-constant", 500.0, 500_000.0, "ms", logarithmic=True),
    SceneParameter("timers.out-of-sync", -10.0, 3.0, "db"),
    SceneParameter("timers.in-sync", 3.0, 20.0, "db"),
    SceneParameter("timers.t310", 50.0, 6000.0, "ms", logarithmic=True),
    SceneParameter("timers.fallback", 20.0, 4000.0, "ms", logarithmic=True),
    SceneParameter("timers.return-hysteresis", 50.0, 30_000.0, "ms", logarithmic=True),
    SceneParameter("ue.body-loss", 0.0, 40.0, "db"),
    SceneParameter("fallback.cell-load", 0.0, 95.0, "%"),
    SceneParameter("fallback.base-station.power", -20.0, 60.0, "dbm"),
)
"""What may be fitted. The power stands for the EIRP, whose other part is the array; the EVM is the SINR ceiling. The
bounds of the two levels meet, since in-sync is never below out-of-sync."""


def parameters_of(document: Document, keys: Sequence[str] | None = None) -> list[SceneParameter]:
    """Return the parameters of a scene: those named, or those that its `fitted` names, or all that it has.

    Raises
    ------
    UserError
        If a key is none, or the scene does not have it, or there are more than 12.
    """
    known = {parameter.key: parameter for parameter in _KNOWN}
    if keys is None:
        keys = [key for key in _named(document) if key in known and _places(document, key)] or None
    if keys is None:
        chosen = [parameter for parameter in _KNOWN if _places(document, parameter.key)]
    else:
        for key in keys:
            if key not in known or not _places(document, key):
                raise UserError(f"{key}: cannot be fitted in this scene: name some of {', '.join(known)}, and write it")
        chosen = [known[key] for key in keys]
    if not 1 <= len(chosen) <= MOST_PARAMETERS:
        raise UserError(
            f"the scene has {len(chosen)} values to fit: name 1 to {MOST_PARAMETERS} of"
            f" {', '.join(parameter.key for parameter in chosen) or ', '.join(known)}"
        )
    return chosen


def _named(document: Document) -> list[str]:
    """Return what each line of a scene's `fitted` begins with: a key, if a fit wrote it."""
    lines = document.get("fitted")
    return [str(line).split(" (")[0] for line in lines] if isinstance(lines, list) else []


def _places(document: object, key: str) -> list[tuple[dict[str, object], str]]:
    """Return the tables that have a key, and its last part."""
    here, _, rest = key.partition(".")
    if isinstance(document, list):
        if here == "*":
            found = [_places(each, rest) for each in document]
            return [place for each in found for place in each]
        return _places(document[int(here)], rest) if int(here) < len(document) else []
    if not isinstance(document, dict) or here not in document:
        return []
    return _places(document[here], rest) if rest else [(document, here)]


def value_of(document: Document, parameter: SceneParameter) -> float:
    """Return the value that a scene has, in the unit of the parameter."""
    table, key = _places(document, parameter.key)[0]
    given = table[key]
    if not parameter.unit:
        return float(str(given))
    return _READERS[parameter.unit](given)


def _milliseconds(given: object) -> float:
    from wavebed.config.values import seconds

    return seconds()(given) * 1e3


def _percent(given: object) -> float:
    from wavebed.config.values import percentage

    return percentage(given) * 100


def _decibels(given: object) -> float:
    from wavebed.scene.values import level_db

    return level_db(given)


def _power(given: object) -> float:
    from wavebed.scene.values import power_dbm

    return power_dbm(given)


def _degrees(given: object) -> float:
    from wavebed.scene.values import angle_deg

    return angle_deg(given)


_READERS = {"ms": _milliseconds, "%": _percent, "db": _decibels, "dbm": _power, "deg": _degrees}


def with_values(document: Document, values: Mapping[SceneParameter, float]) -> Document:
    """Return a scene with other values; the one given stays as it is."""
    copied: Document = json.loads(json.dumps(document))
    for parameter, value in values.items():
        for table, key in _places(copied, parameter.key):
            table[key] = parameter.written(value)
    return copied


def toml_text(document: Mapping[str, object]) -> str:
    """Return a scene as TOML; comments of the file that it was read from are lost."""
    top: list[str] = []
    tables: list[str] = []
    _write(document, "", top, tables)
    return "\n".join(["#:schema ../schema/scene.json", *top, *tables, ""])


def _write(table: Mapping[str, object], header: str, lines: list[str], tables: list[str]) -> None:
    for key, value in table.items():
        name = f"{header}.{key}" if header else key
        if isinstance(value, dict) and (not header or header == "fallback") and key not in _INLINE:
            inner: list[str] = []
            tables.extend(["", f"[{name}]"])
            after: list[str] = []
            _write(value, name, inner, after)
            tables.extend([*inner, *after])
        elif key in {"base-station", "obstacle"} and isinstance(value, list):
            for each in value:
                tables.extend(["", f"[[{name}]]", *(f"{inner} = {_inline(what)}" for inner, what in each.items())])
        else:
            lines.append(f"{key} = {_inline(value)}")


_INLINE = {"cell-load", "shadowing"}


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_inline(each)}' for key, each in value.items())} }}"
    if isinstance(value, list):
        parts = [_inline(each) for each in value]
        line = f"[{', '.join(parts)}]"
        return line if len(line) < LONGEST_LINE else "".join(["[\n", *(f"  {part},\n" for part in parts), "]"])
    return json.dumps(value, ensure_ascii=False)


LAGS_S = (1, 5, 10, 30)
DURATIONS_S = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 40.0)
RECOVERIES_S = (1.0, 2.0, 4.0, 8.0)
PARTS = 8
RATES_COUNT = 3
"""The distribution of the rates counts as much as this many of the other metrics."""
_PART_QUANTILES = (0.25, 0.5, 0.75)
_QUANTILES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_RESAMPLES = 200
_LEAST_SPREAD = 0.05
"""A figure that hardly differs between walks is not held to better than this."""
_UNKNOWN_SPREADS = 3.0
"""Distance, in spreads, of a figure that a scene does not have, such as the duration of outages without any."""


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """The figures of some walks.

    Parameters
    ----------
    above, below : (walks, figures) float64
        Numerators and denominators.
    groups : (figures,) str
        The metric to which each figure belongs.
    """

    above: Floats
    below: Floats
    groups: NDArray[np.str_]

    def values(self, walks: NDArray[np.intp] | slice = slice(None)) -> Floats:
        """Return the figures over some walks; NaN where there is nothing to count."""
        below = self.below[walks].sum(axis=0)
        return np.asarray(np.where(below > 0, self.above[walks].sum(axis=0) / np.maximum(below, 1e-12), np.nan))


class Target:
    """Measured walks, and the distance of a scene from them.

    Parameters
    ----------
    walks : sequence of (seconds,) float64
        Rates of each second, Mbit/s.
    network : FitNetwork
        Its thresholds divide the seconds.
    seed : int
        Keys the resamples.
    """

    def __init__(self, walks: Sequence[Floats], network: FitNetwork, seed: int = 1) -> None:
        self.network = network
        known = np.concatenate([walk[~np.isnan(walk)] for walk in walks])
        self.thresholds = np.unique(np.quantile(known, _QUANTILES))
        self.part_thresholds = np.unique(np.quantile(known, _PART_QUANTILES))
        self.mean = float(known.mean())
        self.measured = self.figures(walks)
        self.values = self.measured.values()
        random = np.random.default_rng(seed)
        resampled = np.array([self.measured.values(self._some(random)) for _ in range(_RESAMPLES)])
        spread = np.ma.masked_invalid(resampled).std(axis=0).filled(0.0) * np.sqrt(len(walks))
        sizes = {group: int((self.measured.groups == group).sum()) for group in np.unique(self.measured.groups)}
        size = np.array([sizes[group] / (RATES_COUNT if group == "rates" else 1) for group in self.measured.groups])
        self.known = ~np.isnan(self.values)
        self.weight = np.where(self.known, 1 / (np.maximum(spread, _LEAST_SPREAD) * np.sqrt(size)), 0.0)

    def _some(self, random: np.random.Generator) -> NDArray[np.intp]:
        count = len(self.measured.above)
        return random.integers(0, count, count)

    def figures(self, walks: Sequence[Floats]) -> Figures:
        """Return the figures of walks, with the thresholds of the measured ones."""
        return figures(walks, self.network, self.thresholds, self.part_thresholds, self.mean)

    def residuals(self, values: Floats, measured: Floats | None = None) -> Floats:
        """Return how far figures are from the measured ones: in spreads between walks."""
        wanted = self.values if measured is None else measured
        missing = _UNKNOWN_SPREADS / np.maximum(np.sqrt(self._size()), 1.0)
        gap = (values - wanted) * self.weight
        return np.where(self.known, np.where(np.isnan(gap), missing, gap), 0.0)

    def _size(self) -> Floats:
        groups = self.measured.groups
        return np.array([(groups == group).sum() for group in groups], dtype=np.float64)

    def resampled(self, random: np.random.Generator) -> Floats:
        """Return the figures of as many walks, drawn with replacement."""
        return self.measured.values(self._some(random))


def figures(
    walks: Sequence[Floats], network: FitNetwork, thresholds: Floats, part_thresholds: Floats, mean: float
) -> Figures:
    """Return the figures of walks.

    Parameters
    ----------
    walks : sequence of (seconds,) float64
        Rates of each second, Mbit/s; NaN where hidden.
    network : FitNetwork
        Its thresholds divide the seconds.
    thresholds, part_thresholds : (k,) float64
        Where the distributions of a whole walk and of its parts are compared.
    mean : float
        From which the mean rate of a walk may differ.
    """
    rows = [_of_walk(walk, network, thresholds, part_thresholds, mean) for walk in walks]
    groups = [group for group, pairs in rows[0] for _ in pairs]
    pairs = np.array([[pair for _, part in row for pair in part] for row in rows], dtype=np.float64)
    return Figures(pairs[..., 0], pairs[..., 1], np.array(groups))


def _of_walk(
    walk: Floats, network: FitNetwork, thresholds: Floats, part_thresholds: Floats, mean: float
) -> list[tuple[str, list[tuple[float, float]]]]:
    known = ~np.isnan(walk)
    seconds = float(known.sum())
    rates = walk[known]
    durations = dips(walk, network.low_mbps)
    shares = [(float((rates < level).sum()), seconds) for level in (network.none_mbps, network.low_mbps)]
    count = float(durations.size)
    outages = [(float((durations <= most).sum()), count) for most in DURATIONS_S]
    return [
        ("rates", [(float((rates <= threshold).sum()), seconds) for threshold in thresholds]),
        ("shares", shares),
        ("outages", [*outages, (10 * count, seconds)]),
        ("autocorrelation", _autocorrelation(walk, known)),
        ("recovery", _recovery(walk, network)),
        ("spread", [(float(rates.mean() - mean) ** 2, float(((rates - mean) ** 2).mean()))]),
        ("places", _place_figures(walk, known, part_thresholds)),
    ]


def _autocorrelation(walk: Floats, known: NDArray[np.bool_]) -> list[tuple[float, float]]:
    centred = np.where(known, walk - np.nanmean(walk), 0.0)
    power = float((centred**2).sum())
    return [(float((centred[lag:] * centred[:-lag]).sum()), power) for lag in LAGS_S]


def _place_figures(walk: Floats, known: NDArray[np.bool_], thresholds: Floats) -> list[tuple[float, float]]:
    part = np.arange(walk.size) * PARTS // walk.size
    found = []
    for number in range(PARTS):
        rates = walk[(part == number) & known]
        found += [(float((rates <= threshold).sum()), float(rates.size)) for threshold in thresholds]
    return found


def _recovery(walk: Floats, network: FitNetwork) -> list[tuple[float, float]]:
    """Return which outages end in a recovery before the next one, and how soon."""
    begin, durations = runs_below(walk, network.low_mbps)
    end = begin + durations
    recovered = np.flatnonzero(walk >= network.high_mbps)
    ended = end[end < walk.size]
    following = np.append(begin[1:], walk.size)[: ended.size]
    place = np.searchsorted(recovered, ended)
    reached = np.append(recovered, 2 * walk.size)[place]
    back = reached < following
    times = (reached - ended)[back]
    count = float(back.sum())
    return [(count, float(ended.size)), *((float((times <= most).sum()), count) for most in RECOVERIES_S)]


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
class FitSettings:
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

    parameter: SceneParameter
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
    network: FitNetwork,
    *,
    keys: Sequence[str] | None = None,
    settings: FitSettings | None = None,
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
    network : FitNetwork
        Its thresholds divide the seconds.
    settings : FitSettings, optional
        How much work it is.
    seed : int
        Of the search and of the resamples.
    tell : callable, optional
        Receives the number of realisations so far, the cost and the parameters (parts of their ranges) of each.

    Raises
    ------
    UserError
        If a key cannot be fitted, or the scene is wrong.
    """
    work = settings or FitSettings()
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
        parameters: list[SceneParameter],
        network: FitNetwork,
        work: FitSettings,
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

    def values(self, place: Floats) -> dict[SceneParameter, float]:
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


def _coarse(scene: SceneModel) -> SceneModel:
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
