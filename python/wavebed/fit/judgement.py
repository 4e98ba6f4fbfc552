"""The judgement of a fit: what is compared, and what it says."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from wavebed.fit.applications import applications
from wavebed.fit.judge import distances, pooled, traits
from wavebed.fit.laps import QUARTERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.channel.placemap.levels import Floats
    from wavebed.config.data import Json
    from wavebed.fit.applications import Application
    from wavebed.fit.judge import Band, Distance, Trait
    from wavebed.fit.laps import Lap, Split
    from wavebed.fit.network import Network
    from wavebed.fit.predict import Prediction

__all__ = ["FittedValue", "Judgement", "as_json", "judge", "target_of"]


@dataclass(frozen=True, slots=True)
class FittedValue:
    """A value that was fitted, with its unit, and its 90 % interval."""

    key: str
    value: str
    low: str
    high: str


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """Drawn walks beside measured ones.

    Parameters
    ----------
    method : str
        How the walks were fitted.
    network : Network
        The thresholds and targets.
    split : Split
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
    network: Network
    split: Split
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


def target_of(network: Network, prediction: Prediction, key: str) -> tuple[float | None, bool | None]:
    """Return the target of a figure of a prediction, and whether it is met; targets are for the forecast."""
    target = network.targets.get(key) if prediction.key == "forecast" else None
    if target is None:
        return None, None
    value = {"mae": prediction.mae_mbps, "gain": prediction.gain, "correlation": prediction.correlation}[key]
    return target, value <= target if key == "mae" else value >= target


def judge(
    method: str, network: Network, split: Split, drawn: Sequence[Floats], fitted: Sequence[Lap], held_out: Sequence[Lap]
) -> Judgement:
    """Return the judgement of drawn walks, without predictions of seconds."""
    quarter = split.quarter
    parts = [[_quarter(walk, quarter)] for walk in drawn]
    known, unseen = ([lap.rates for lap in laps] for laps in (fitted, held_out))
    return Judgement(
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


def as_json(judgement: Judgement) -> dict[str, Json]:
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
