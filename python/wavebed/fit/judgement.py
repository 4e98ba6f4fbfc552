"""The judgement of a fit: what is compared, and what it says."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from wavebed.channel.placemap import draw_walks
from wavebed.channel.within import known_within
from wavebed.fit.applications import applications
from wavebed.fit.judge import distances, network_of, pooled, traits
from wavebed.fit.laps import QUARTERS, ROUNDS
from wavebed.fit.learn import CALIBRATED_WALKS, learn, predictions
from wavebed.fit.physics import FitSettings, fit_physics, parameters_of, scene_text, walks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wavebed.channel.placemap import Floats, PlaceMap
    from wavebed.channel.within import WithinSecond
    from wavebed.config.data import Json
    from wavebed.fit.applications import Application
    from wavebed.fit.judge import Band, Distance, FitNetwork, Trait
    from wavebed.fit.laps import Lap, LapSplit
    from wavebed.fit.learn import Learned, Prediction
    from wavebed.fit.physics import Document

    Tell = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class FittedValue:
    """A value that was fitted, with its unit, and its 90 % interval."""

    key: str
    value: str
    low: str
    high: str


@dataclass(frozen=True, slots=True, eq=False)
class FitJudgement:
    """Drawn walks beside measured ones.

    Parameters
    ----------
    method : str
        How the walks were fitted.
    network : FitNetwork
        The thresholds and targets.
    split : LapSplit
        Which walks were held out.
    drawn : sequence of float array
        Walks that were drawn before the held-out ones were read.
    fitted, held_out : sequence of Lap
        The measured walks.
    traits : list of Trait
        Empty where a quarter is held out: it is too short for them.
    applications : list of Application
        Empty where a quarter or nothing is held out.
    predictions : list of (Prediction or None, Prediction or None)
        Of fitted and of held-out walks, row by row; empty for a method that knows no places.
    values : list of FittedValue
        Empty for a method that fits no values of a scene.
    """

    method: str
    network: FitNetwork
    split: LapSplit
    drawn: Sequence[Floats]
    fitted: Sequence[Lap]
    held_out: Sequence[Lap]
    distances: list[Distance]
    traits: list[Trait]
    applications: list[Application] = field(default_factory=list)
    predictions: list[tuple[Prediction | None, Prediction | None]] = field(default_factory=list)
    values: list[FittedValue] = field(default_factory=list)

    def verdict(self) -> str:
        """Say in a sentence what is met."""
        if not self.held_out:
            return "No walk was held out, so nothing says how well new walks are predicted."
        found = [each.met for each in self.distances] + [each.met for each in self.applications] + self._predicted()
        marks = [met for met in found if met is not None]
        said = [f"{sum(marks)} of {len(marks)} targets are met on walks that were held out"] if marks else []
        if self.traits:
            within = sum(each.met for each in self.traits)
            said.append(f"{within} of {len(self.traits)} traits of drawn walks are within the band of the fitted walks")
        return f"{'; '.join(said)}." if said else "There is no target for this rule."

    def _predicted(self) -> list[bool | None]:
        return [
            target_of(self.network, held, key)[1]
            for _, held in self.predictions
            for key in ("mae", "gain", "correlation")
            if held is not None
        ]


def target_of(network: FitNetwork, prediction: Prediction, key: str) -> tuple[float | None, bool | None]:
    """Return the target of a figure of a prediction, and whether it is met; targets are for the forecast."""
    target = network.targets.get(key) if prediction.key == "forecast" else None
    if target is None:
        return None, None
    value = {"mae": prediction.mae_mbps, "gain": prediction.gain, "correlation": prediction.correlation}[key]
    return target, value <= target if key == "mae" else value >= target


def judge(
    method: str,
    network: FitNetwork,
    split: LapSplit,
    drawn: Sequence[Floats],
    fitted: Sequence[Lap],
    held_out: Sequence[Lap],
) -> FitJudgement:
    """Return the judgement of drawn walks, without predictions of seconds."""
    quarter = split.quarter
    parts = [[_quarter(walk, quarter)] for walk in drawn]
    known, unseen = ([lap.rates for lap in laps] for laps in (fitted, held_out))
    return FitJudgement(
        method,
        network,
        split,
        drawn,
        fitted,
        held_out,
        distances(
            parts, [lap.parts for lap in fitted], [lap.parts for lap in held_out], network, quarter=quarter is not None
        ),
        [] if quarter is not None else traits(drawn, known, unseen, network),
        [] if quarter is not None else applications(drawn, known, unseen),
    )


def _quarter(walk: Floats, quarter: int | None) -> Floats:
    if quarter is None:
        return walk
    place = np.arange(len(walk)) * QUARTERS // len(walk) + 1
    return np.asarray(walk[place == quarter], dtype=np.float64)


def as_json(judgement: FitJudgement) -> dict[str, Json]:
    """Return what ``--json`` prints."""
    network = judgement.network
    return {
        "method": judgement.method,
        "rule": judgement.split.rule,
        "network": network.name,
        "thresholds_mbps": {"none": network.none_mbps, "low": network.low_mbps, "high": network.high_mbps},
        "fitted_walks": [lap.name for lap in judgement.fitted],
        "held_out_walks": [lap.name for lap in judgement.held_out],
        "fitted_s": len(pooled([lap.parts for lap in judgement.fitted])),
        "drawn_walks": len(judgement.drawn),
        "verdict": judgement.verdict(),
        "distances": [
            {
                "key": each.key,
                "name": each.name,
                "fitted": _number(each.fitted),
                "held_out": _number(each.held_out),
                "floor": _number(each.floor),
                "target": each.target,
                "met": each.met,
            }
            for each in judgement.distances
        ],
        "traits": [
            {
                "name": each.name,
                "unit": each.unit,
                "drawn": _band(each.drawn),
                "fitted": _band(each.fitted),
                "held_out": _band(each.held_out),
                "met": each.met,
            }
            for each in judgement.traits
        ],
        "applications": [_application(each) for each in judgement.applications],
        "predictions": [
            {"key": one.key, "name": one.name, "uses": one.uses, "fitted": _scores(fitted), "held_out": _scores(held)}
            for fitted, held in judgement.predictions
            if (one := held or fitted) is not None
        ],
        "values": [
            {"key": each.key, "value": each.value, "low": each.low, "high": each.high} for each in judgement.values
        ],
    }


def _application(each: Application) -> dict[str, Json]:
    return {
        "key": each.key,
        "name": each.name,
        "unit": each.unit,
        "drawn": _number(each.drawn),
        "fitted": _number(each.fitted),
        "held_out": _number(each.held_out),
        "deviation_share": _number(each.deviation),
        "ks": _number(each.distance),
        "floor_deviation_share": _number(each.floor_deviation),
        "floor_ks": _number(each.floor_distance),
        "met": each.met,
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _band(band: Band) -> dict[str, Json]:
    return {"p10": _number(band.low), "p50": _number(band.median), "p90": _number(band.high)}


def _scores(prediction: Prediction | None) -> Json:
    if prediction is None:
        return None
    return {
        "mae_mbps": prediction.mae_mbps,
        "crps_gain_share": prediction.gain,
        "minute_correlation": _number(prediction.correlation),
    }


DRAWN_WALKS = 200
MOST_FITTED_PREDICTED = 10
"""Fitted walks whose seconds are predicted, for comparison: the forecast takes about a second for each."""
_READ_COST_S = 0.02
_ALIGN_COST_S = 5e-7
"""For each second of a walk at each second of the others."""
_SIMULATE_COST_S = 6e-3
"""For each second of the mean walk: the walks that are drawn and compared while learning."""
_PREDICT_COST_S = 1.5e-3


def fit_map(
    chosen: LapSplit,
    name: str,
    tell: Tell,
    keep: Callable[[PlaceMap], None],
    notes: list[str],
    within: WithinSecond | None = None,
) -> tuple[FitJudgement, Learned]:
    """Return the judgement of a map, and what was learned.

    Parameters
    ----------
    name : str
        Of the map.
    tell : callable
        Receives each step, and the time that is left, seconds.
    keep : callable
        Is given the map before the held-out walks are read.
    notes : list of str
        Gets a line for each file that is left out.
    within : WithinSecond, optional
        What happens within a second; by default it is learned from the fitted walks, if they have steps of 100 ms.

    Raises
    ------
    UserError
        If the walks are too few, or none can be read.
    """
    tell("reading walks", _READ_COST_S * len(chosen.fitted))
    fitted = chosen.fitted_laps(notes)
    work = _Work(tell, chosen, sum(len(lap.rates) for lap in fitted))
    learned = learn(
        fitted, name, f"map of {len(fitted)} walks", _source(chosen), lambda left: work.align(ROUNDS - left, ROUNDS)
    )
    if within is None and chosen.quarter is None:
        within = known_within(chosen.fitted)
    keep(replace(learned.places, within=within))
    drawn = list(draw_walks(learned.places, range(1, DRAWN_WALKS + 1)))
    held_out = chosen.held_out_laps(notes)
    pool = pooled([lap.parts for lap in fitted])
    judgement = judge("map", network_of(pool), chosen, drawn, fitted, held_out)
    if chosen.quarter is None:
        judgement.predictions.extend(_predictions(work, learned, pool, fitted, held_out))
    return judgement, learned


def _source(chosen: LapSplit) -> str:
    names = [file.name for file in chosen.fitted]
    listed = ", ".join(names if len(names) <= 3 else [*names[:2], "…", names[-1]])
    return f"{len(names)} walks ({listed}), held out by rule {chosen.rule}"


def _predictions(
    work: _Work, learned: Learned, pool: Floats, fitted: Sequence[Lap], held_out: Sequence[Lap]
) -> list[tuple[Prediction | None, Prediction | None]]:
    some = fitted[:: -(-len(fitted) // MOST_FITTED_PREDICTED)]
    work.predict(0, "predicting seconds of fitted walks")
    known = predictions(learned, pool, some)
    work.predict(len(some), "predicting seconds of held-out walks")
    unseen = predictions(learned, pool, held_out) if held_out else []
    return list(zip_longest(known, unseen))


class _Work:
    """Tells the progress, and the time left: measured costs on one core, scaled by the speed of what is done."""

    def __init__(self, tell: Tell, chosen: LapSplit, fitted_s: int) -> None:
        self._tell = tell
        self._begin_s = time.monotonic()
        mean_s = fitted_s / len(chosen.fitted)
        walks = min(len(chosen.fitted), MOST_FITTED_PREDICTED) + len(chosen.held_out)
        self._align_s = _ALIGN_COST_S * fitted_s * mean_s
        self._simulate_s = _SIMULATE_COST_S * mean_s if len(chosen.fitted) >= CALIBRATED_WALKS else 0.0
        self._walk_s = 0.0 if chosen.quarter is not None else _PREDICT_COST_S * mean_s
        self._all_s = self._align_s + self._simulate_s + walks * self._walk_s

    def align(self, done: int, rounds: int) -> None:
        """Report the finished rounds of the alignment; after the last, drawn walks are compared."""
        text = f"aligning walks, round {done + 1} of {rounds}" if done < rounds else "comparing drawn and fitted walks"
        self._say(text, self._align_s * done / rounds)

    def predict(self, done: int, text: str) -> None:
        """Report the end of the comparison, and the number of walks with predicted seconds."""
        self._say(text, self._align_s + self._simulate_s + done * self._walk_s)

    def _say(self, text: str, done_s: float) -> None:
        slower = (time.monotonic() - self._begin_s) / done_s if done_s else 1.0
        self._tell(text, slower * max(0.0, self._all_s - done_s))


JUDGED_SEEDS = range(1001, 1013)
"""Walks that judge the scene: seeds that the fit has not seen."""


def fit_scene(
    chosen: LapSplit,
    start: Callable[[FitNetwork], Document],
    tell: Tell,
    keep: Callable[[str], None],
    notes: list[str],
    settings: FitSettings | None = None,
) -> FitJudgement:
    """Return the judgement of a fitted scene.

    Parameters
    ----------
    start : callable
        Returns the scene to begin with, as TOML gives it, for a kind of network.
    tell : callable
        Receives each step, and the time that is left at most, seconds.
    keep : callable
        Is given the text of the fitted scene before the held-out walks are read.
    notes : list of str
        Gets a line for each file that is left out.
    settings : FitSettings, optional
        How much work the fit is.

    Raises
    ------
    UserError
        If no walk can be read, or the scene has nothing to fit.
    """
    work = settings or FitSettings()
    fitted = chosen.fitted_laps(notes)
    network = network_of(pooled([lap.parts for lap in fitted]))
    document = start(network)
    most = 1 + work.first + work.descents * work.rounds * (1 + len(parameters_of(document)))
    begin_s = time.monotonic()

    def told(count: int, _cost: float, _place: Floats) -> None:
        left_s = (time.monotonic() - begin_s) / count * (most - count)
        tell(f"scene {count} of at most {most}", max(0.0, left_s))

    found = fit_physics([lap.rates for lap in fitted], document, network, settings=work, tell=told)
    keep(scene_text(found, f"{len(fitted)} walks, held out by rule {chosen.rule}"))
    seconds = round(float(np.median([lap.rates.size for lap in fitted])))
    drawn = walks_of(found.document, JUDGED_SEEDS, seconds=seconds)
    judgement = judge("physics", network, chosen, drawn, fitted, chosen.held_out_laps(notes))
    for each in found.parameters:
        low, value, high = (each.parameter.text(number) for number in (each.low, each.value, each.high))
        judgement.values.append(FittedValue(each.parameter.key, value, low, high))
    return judgement
