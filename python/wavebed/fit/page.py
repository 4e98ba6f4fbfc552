"""The report of a fit: one HTML page that needs no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wavebed.fit import judge
from wavebed.fit.applications import MOST_DEVIATION, MOST_DISTANCE
from wavebed.fit.judge import pooled
from wavebed.fit.judgement import target_of
from wavebed.fit.laps import align
from wavebed.page.document import document, filled, joined, section, soft
from wavebed.page.plots import Chart, ChartLine, Scale, linear
from wavebed.page.text import MISSING, figure, tick_text, ticks_between
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from markupsafe import Markup

    from wavebed.channel.placemap import Floats
    from wavebed.fit.applications import Application
    from wavebed.fit.judge import Band, Distance
    from wavebed.fit.judgement import FitJudgement
    from wavebed.fit.learn import Learned, Prediction

LAGS_S = range(61)
_TEMPLATE = "fit/page.html.j2"
_MOST_POINTS = 300
_TICK_PX = 45
_STYLE = """
table.fit th { white-space: normal; }
td.text { color: var(--soft); min-width: 9rem; } td.text, th.text { text-align: left; }
td.yes { color: var(--good); font-weight: 600; } td.no { color: var(--bad); font-weight: 600; }
"""
_DISTANCES = (
    "Kolmogorov-Smirnov distances of drawn walks to measured ones; 0 is the same distribution. The column “{floor}” has"
    " the distance of the held-out walks to all fitted walks together: no model of the fitted walks can be expected to"
    " do better. The walks were drawn before the held-out walks were read."
)
_TRAITS = (
    "Each figure is taken of each walk alone. In band: the median of the drawn walks lies between the percentiles 10"
    " and 90 of the fitted walks."
)
_APPLICATIONS = (
    "Each application starts at every fifth second of each walk, in virtual time: the link has the rate of the walk,"
    " without a transport protocol. The video has the rules of dash.js. Downloads and durations of stalls are medians"
    " of all starts, the time stalled is the mean. Deviation and KS are those of the drawn walks from the held-out"
    " walks; “real walks” has those of the fitted walks from the held-out walks. Targets: ±{:.0f} %, KS ≤ {:.2f}."
)
_PREDICTIONS = (
    "The rate of each second of a held-out walk, by the median and the distribution of the prediction. The ways differ"
    " in what they use. The control finds places in walks that begin elsewhere: what it gains over pooling is no place,"
    " but the walk's own rates. CRPS gain: reduction of the continuous ranked probability score against pooled rates."
)
_VALUES = "Intervals by resampling walks and seeds. What the scene assumes and the fit leaves alone is not in them."


def page(judgement: FitJudgement, learned: Learned | None) -> str:
    """Return the page; `learned` is the map, for a method that has one."""
    title = f"Fit of {len(judgement.fitted)} walks as {judgement.method}"
    parts = [
        filled(_TEMPLATE, "head", title, split_text(judgement), judgement.verdict()),
        _tables(judgement),
        _distributions(judgement),
    ]
    if judgement.split.quarter is None:
        parts.append(_memory(judgement))
        if learned is not None:
            parts.append(_places(judgement, learned))
        parts.append(_example(judgement))
    lists = [
        (name, len(laps), ", ".join(lap.name for lap in laps))
        for name, laps in (("Fitted", judgement.fitted), ("Held out", judgement.held_out))
        if laps
    ]
    parts.append(filled(_TEMPLATE, "walks", lists))
    return document(title, joined(parts), style=_STYLE)


def _tables(judgement: FitJudgement) -> Markup:
    floor = "pooling" if judgement.split.quarter is not None else "real walks"
    parts = [("", _DISTANCES.format(floor=floor), distance_rows(judgement), 0)]
    if judgement.traits:
        parts.append(("Traits of walks", _TRAITS, trait_rows(judgement), 0))
    if judgement.applications:
        said = _APPLICATIONS.format(100 * MOST_DEVIATION, MOST_DISTANCE)
        parts.append(("Applications", said, application_rows(judgement), 0))
    if judgement.predictions:
        parts.append(("Each second", _PREDICTIONS, prediction_rows(judgement), 1))
    if judgement.values:
        parts.append(("Values of the scene", _VALUES, value_rows(judgement), 0))
    return filled(_TEMPLATE, "tables", parts)


def _distributions(judgement: FitJudgement) -> Markup:
    quarter = judgement.split.quarter
    fitted, held = (pooled([lap.parts for lap in laps]) for laps in (judgement.fitted, judgement.held_out))
    curves = [_cumulative("fitted walks", "ink", fitted)]
    if len(held):
        curves.append(_cumulative("held-out walks", "t1", held))
    curves.append(_cumulative("drawn walks", "t0", np.concatenate(list(judgement.drawn))))
    said = (
        "" if quarter is None else soft("Drawn walks are shown whole; the table compares the held-out quarter alone.")
    )
    drawn = _chart("Seconds with at most this rate", "%", "rate, Mbit/s", curves)
    return section("distribution", "Distribution of the rate", said, drawn)


def _chart(
    title: str, unit: str, axis: str, lines: Sequence[ChartLine], *, height: int = 200, top: float = 0.0
) -> Markup:
    """Return a still chart.

    Parameters
    ----------
    top : float
        The upright axis reaches at least as high.
    """
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for y in (*(y for _, y in line.points), *line.upper)]
    across = Scale(min(xs), max(xs), [(tick, tick_text(tick)) for tick in ticks_between(min(xs), max(xs))])
    up = linear([*ys, top], about=round(height / _TICK_PX))
    return Chart(title, unit, axis, across, up, lines, height, read=False, upright=False).render()


def _line(name: str, style: str, x: Floats, y: Floats, upper: Floats | None = None) -> ChartLine:
    edge = () if upper is None else upper.tolist()
    return ChartLine(name, style, list(zip(x.tolist(), y.tolist(), strict=True)), upper=edge, marks=False)


def _cumulative(name: str, style: str, values: Floats) -> ChartLine:
    """Return the distribution of values: the percentage that is at most x."""
    shares = np.linspace(0, 1, min(len(values), _MOST_POINTS))
    return _line(name, style, np.quantile(values, shares), 100 * shares)


def _memory(judgement: FitJudgement) -> Markup:
    lags = np.array(LAGS_S, dtype=np.float64)
    fitted = _autocorrelations([lap.rates for lap in judgement.fitted])
    curves = [_line("fitted walks, p10 to p90", "ink", lags, *_percentiles(fitted, 10, 90))]
    if judgement.held_out:
        held = _autocorrelations([lap.rates for lap in judgement.held_out])
        curves.append(_line("held-out walks, median", "t1", lags, *_percentiles(held, 50)))
    curves.append(_line("drawn walks, median", "t0", lags, *_percentiles(_autocorrelations(judgement.drawn), 50)))
    return section("memory", "Memory", _chart("Autocorrelation of the rate", "", "lag, s", curves))


def _autocorrelations(walks: Sequence[Floats]) -> Floats:
    known = [walk for walk in walks if walk.std() > 0]
    return np.array([[1.0, *(judge.autocorrelation(walk, lag) for lag in LAGS_S[1:])] for walk in known])


def _percentiles(values: Floats, *percentiles: int) -> list[Floats]:
    return [np.asarray(np.percentile(values, each, axis=0), dtype=np.float64) for each in percentiles]


def _places(judgement: FitJudgement, learned: Learned) -> Markup:
    """Draw the mean rate by place of each course, and of the held-out walks that were aligned to it."""
    places = learned.places
    middle = places.quantiles_mbps.mean(axis=1)
    time_s = np.asarray(np.arange(places.places) * places.step_s, dtype=np.float64)
    aligned = align(learned.courses, judgement.held_out) if judgement.held_out else []
    charts = []
    top = float((places.shares @ middle).max())
    for course, shares in enumerate(places.shares):
        curves = [_line("map", "t0", time_s, np.asarray(shares @ middle))]
        mine = [
            (each.places, lap.rates)
            for each, lap in zip(aligned, judgement.held_out, strict=True)
            if each.course == course
        ]
        if mine:
            mean = _mean_by_place(mine, places.places, places.step_s)
            known = ~np.isnan(mean)
            curves.append(
                _line(f"{len(mine)} held-out walks, aligned by their own rates", "t1", time_s[known], mean[known])
            )
        title = f"Course {course + 1}: {100 * places.weights[course]:.0f} % of fitted walks, mean rate"
        charts.append(_chart(title, "Mbit/s", "lap time at the mean speed, s", curves, height=120, top=top))
    text = (
        "A course is an order in which places are passed, such as a direction of a loop. Courses and places are found"
        " from the rates alone. Held-out walks are smoothed over 20 s."
    )
    return section("places", "Places", soft(text), *charts)


def _mean_by_place(walks: Sequence[tuple[object, Floats]], count: int, step_s: float) -> Floats:
    """Return the mean rate at each place in a window of 20 s; NaN where no walk passes."""
    from scipy.ndimage import gaussian_filter1d

    sums = np.zeros((2, count))
    for places, rates in walks:
        place = np.asarray(places)[np.minimum(np.arange(len(rates)) // round(step_s), len(np.asarray(places)) - 1)]
        np.add.at(sums[0], place, rates)
        np.add.at(sums[1], place, 1.0)
    total, weight = gaussian_filter1d(sums, 10 / step_s / 2, axis=1, mode="constant")
    return np.asarray(np.where(weight > 0.05, total / np.maximum(weight, 1e-9), np.nan), dtype=np.float64)


def _example(judgement: FitJudgement) -> Markup:
    """Draw a measured walk above a drawn one."""
    real = (judgement.held_out or judgement.fitted)[0]
    drawn = judgement.drawn[0]
    top = float(max(real.rates.max(), drawn.max()))
    kind = "held out" if judgement.held_out else "fitted"
    walks = ((f"Measured: {real.name}, {kind}", "t1 thin", real.rates), ("Drawn: seed 1", "t0 thin", drawn))
    charts = []
    for title, style, rates in walks:
        line = _line("", style, np.arange(len(rates), dtype=np.float64), rates)
        charts.append(_chart(title, "Mbit/s", "time, s", [line], height=130, top=top))
    return section("example", "A measured and a drawn walk", *charts)


Rows = list[tuple[str, ...]]
_TARGETS: tuple[Callable[[float], str], ...] = (
    lambda target: f"≤ {target:.0f}",
    lambda target: f"≥ {100 * target:.0f} %",
    lambda target: f"≥ {target:.1f}",
)


def as_text(judgement: FitJudgement) -> str:
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


def split_text(judgement: FitJudgement) -> str:
    """Say what was fitted and held out."""
    split, network = judgement.split, judgement.network
    if split.quarter is not None:
        held = f"quarter {split.quarter} of the lap time held out of {len(judgement.fitted)} walks"
    else:
        held = f"{len(judgement.fitted)} walks fitted, {len(judgement.held_out)} held out"
    return f"{held} (rule {split.rule}); {network.name}; {len(judgement.drawn)} walks drawn"


def distance_rows(judgement: FitJudgement) -> Rows:
    """Return the table of distances; the first row is its head."""
    floor = "pooling" if judgement.split.quarter is not None else "real walks"
    rows: Rows = [("new walks", "fitted", "held out", floor, "target", "met")]
    return rows + [_distance(each) for each in judgement.distances]


def _distance(each: Distance) -> tuple[str, ...]:
    values = [_two(each.fitted), _two(each.held_out), _two(each.floor)]
    return (each.name, *values, MISSING if each.target is None else f"≤ {each.target:.2f}", _met(each.met))


def trait_rows(judgement: FitJudgement) -> Rows:
    """Return the table of traits."""
    rows: Rows = [("traits: median (p10 to p90)", "drawn", "fitted", "held out", "in band")]
    for each in judgement.traits:
        name = f"{each.name}, {each.unit}" if each.unit else each.name
        rows.append((name, band_text(each.drawn), band_text(each.fitted), band_text(each.held_out), _met(each.met)))
    return rows


def application_rows(judgement: FitJudgement) -> Rows:
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


def prediction_rows(judgement: FitJudgement) -> Rows:
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


def _scores(judgement: FitJudgement | None, each: Prediction) -> list[str]:
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


def value_rows(judgement: FitJudgement) -> Rows:
    """Return the table of fitted values; the first row is its head."""
    rows: Rows = [("value of the scene", "fitted", "90 % interval")]
    return rows + [
        (each.key, each.value, f"{each.low} to {each.high}" if each.low else MISSING) for each in judgement.values
    ]
