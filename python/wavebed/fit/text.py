"""A judgement as tables on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.fit.judgement import target_of
from wavebed.report.numbers import MISSING, figure
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from wavebed.fit.applications import Application
    from wavebed.fit.judge import Band, Distance
    from wavebed.fit.judgement import Judgement
    from wavebed.fit.predict import Prediction

__all__ = [
    "application_rows",
    "as_text",
    "band_text",
    "distance_rows",
    "prediction_rows",
    "split_text",
    "trait_rows",
    "value_rows",
]

Rows = list[tuple[str, ...]]
_TARGETS: tuple[Callable[[float], str], ...] = (
    lambda target: f"≤ {target:.0f}",
    lambda target: f"≥ {100 * target:.0f} %",
    lambda target: f"≥ {target:.1f}",
)


def as_text(judgement: Judgement) -> str:
    """Return the tables, and the verdict below them."""
    tables = [distance_rows(judgement)]
    if judgement.traits:
        tables.append(trait_rows(judgement))
    if judgement.applications:
        tables.append(application_rows(judgement))
    if judgement.predictions:
        tables.append(prediction_rows(judgement))
    if judgement.values:
        tables.append(value_rows(judgement))
    return "\n\n".join([split_text(judgement), *map(table_text, tables), judgement.verdict()])


def split_text(judgement: Judgement) -> str:
    """Say what was fitted and held out."""
    split, network = judgement.split, judgement.network
    if split.quarter is not None:
        held = f"quarter {split.quarter} of the lap time held out of {len(judgement.fitted)} walks"
    else:
        held = f"{len(judgement.fitted)} walks fitted, {len(judgement.held_out)} held out"
    return f"{held} (rule {split.rule}); {network.name}; {len(judgement.drawn)} walks drawn"


def distance_rows(judgement: Judgement) -> Rows:
    """Return the table of distances; the first row is its head."""
    floor = "pooling" if judgement.split.quarter is not None else "real walks"
    rows: Rows = [("new walks", "fitted", "held out", floor, "target", "met")]
    return rows + [_distance(each) for each in judgement.distances]


def _distance(each: Distance) -> tuple[str, ...]:
    values = [_two(each.fitted), _two(each.held_out), _two(each.floor)]
    return (each.name, *values, MISSING if each.target is None else f"≤ {each.target:.2f}", _met(each.met))


def trait_rows(judgement: Judgement) -> Rows:
    """Return the table of traits."""
    rows: Rows = [("traits: median (p10 to p90)", "drawn", "fitted", "held out", "in band")]
    for each in judgement.traits:
        name = f"{each.name}, {each.unit}" if each.unit else each.name
        rows.append((name, band_text(each.drawn), band_text(each.fitted), band_text(each.held_out), _met(each.met)))
    return rows


def application_rows(judgement: Judgement) -> Rows:
    """Return the table of applications."""
    rows: Rows = [("applications", "drawn", "fitted", "held out", "deviation", "KS", "real walks", "KS", "met")]
    return rows + [_application(each) for each in judgement.applications]


def _application(each: Application) -> tuple[str, ...]:
    name = f"{each.name}, {each.unit}" if each.unit else each.name
    values = [MISSING if value != value else _short(value) for value in (each.drawn, each.fitted, each.held_out)]
    distances = (
        _deviation(each.deviation),
        _two(each.distance),
        _deviation(each.floor_deviation),
        _two(each.floor_distance),
    )
    return (name, *values, *distances, _met(each.met))


def _deviation(share: float) -> str:
    return MISSING if share != share else f"{100 * share:+.0f} %".replace("-", "−")


def prediction_rows(judgement: Judgement) -> Rows:
    """Return the table of predictions; its last columns are for the held-out walks, or the fitted if none is."""
    held = any(held is not None for _, held in judgement.predictions)
    rows: Rows = [
        (
            "each second",
            "uses",
            "error, Mbit/s",
            "CRPS gain",
            "60 s correlation",
            "fitted: error",
            "gain",
            "correlation",
        )
    ]
    if not held:
        rows = [("each second of fitted walks", "uses", "error, Mbit/s", "CRPS gain", "60 s correlation")]
    for fitted, unseen in judgement.predictions:
        one = unseen or fitted
        assert one is not None, "a row has a prediction"
        shown = [*_scores(judgement, one), *(_scores(None, fitted) if held and fitted is not None else [])]
        rows.append((one.name, one.uses, *shown))
    return rows


def _scores(judgement: Judgement | None, each: Prediction) -> list[str]:
    shown = [f"{each.mae_mbps:.0f}" if each.mae_mbps >= 100 else figure(each.mae_mbps), _percent(each.gain)]
    shown.append(_two(each.correlation))
    if judgement is None:
        return shown
    marks = [target_of(judgement.network, each, key) for key in ("mae", "gain", "correlation")]
    return [
        text if target is None else f"{text} ({write(target)}{'' if met else ' missed'})"
        for text, (target, met), write in zip(shown, marks, _TARGETS, strict=True)
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %".replace("-", "−")


def band_text(band: Band) -> str:
    """Write a median and its band."""
    if band.median != band.median:
        return MISSING
    return f"{_short(band.median)} ({_short(band.low)} to {_short(band.high)})"


def _short(value: float) -> str:
    """Write at most two decimals: more say nothing of a few walks."""
    return _two(value) if abs(value) < 10 else figure(value)


def _two(value: float) -> str:
    return MISSING if value != value else f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def _met(met: bool | None) -> str:
    return "" if met is None else "yes" if met else "no"


def value_rows(judgement: Judgement) -> Rows:
    """Return the table of fitted values; the first row is its head."""
    rows: Rows = [("value of the scene", "fitted", "90 % interval")]
    return rows + [(each.key, each.value, f"{each.low} to {each.high}") for each in judgement.values]
