"""Figures of realisations: by state of the geometry, and as a whole; over seeds, their spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wavebed.pattern.curves import say_rate
from wavebed.pattern.model import STATES
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from wavebed.channel.realisation import Realisation
    from wavebed.scene.model import SceneInterval, SceneModel

    Floats = NDArray[np.float64]


GEOMETRY = ("LOS", "NLOS", "OUTAGE")
PERCENTILES = (5, 50, 95)
LEAST_KNOWN = 0.01
"""Fraction of a span that a mean needs."""


class SeedSpread(NamedTuple):
    """A figure over seeds: its median, and the percentiles 5 and 95; all three are equal for one seed."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class ChannelFigures:
    """Means over some time of the walk; ``None`` where a mean has nothing to be taken of.

    Parameters
    ----------
    state : str
        State of the geometry, or ``all``.
    start_s, end_s : float or None
        When it holds; ``None`` where the times differ from seed to seed, and for ``all``.
    duration_s : SeedSpread
        How long it holds, in all.
    sinr_db : SeedSpread or None
        Mean of decibels.
    rate_bps, up_rate_bps : SeedSpread or None
        Mean capacity of the downlink and the uplink.
    bler : SeedSpread or None
        Mean fraction of first downlink transmissions that fail, of the time in which something is sent.
    """

    state: str
    start_s: float | None
    end_s: float | None
    duration_s: SeedSpread
    sinr_db: SeedSpread | None
    rate_bps: SeedSpread | None
    up_rate_bps: SeedSpread | None
    bler: SeedSpread | None


@dataclass(frozen=True)
class Summary:
    """The summary of a scene's realisations.

    Parameters
    ----------
    states : tuple of SceneInterval
        States of the geometry of the first seed.
    states_differ : bool
        Whether other seeds have others, because LOS is drawn; then `rows` has one row for each kind of state.
    rows : tuple of ChannelFigures
        One for each state of the geometry, in their order.
    rule : str
        The source of the states of the geometry.
    whole : ChannelFigures
        The whole time.
    radio_fractions : dict of str to SeedSpread
        Fraction of time in each state of the radio that occurs.
    rate_percentiles_bps, up_rate_percentiles_bps : dict of int to SeedSpread
        The capacity that is not exceeded in that fraction of the time.
    """

    states: tuple[SceneInterval, ...]
    states_differ: bool
    rows: tuple[ChannelFigures, ...]
    rule: str
    whole: ChannelFigures
    radio_fractions: dict[str, SeedSpread]
    rate_percentiles_bps: dict[int, SeedSpread]
    up_rate_percentiles_bps: dict[int, SeedSpread]


def step_edges_s(realisation: Realisation) -> Floats:
    """Where the steps begin, and where the last one ends, in seconds."""
    return np.append(realisation.time_s, realisation.scene.duration_s)


class Gathering:
    """Takes in one realisation after the other and keeps only their figures."""

    def __init__(self) -> None:
        self._rule = ""
        self._states: list[tuple[SceneInterval, ...]] = []
        self._by_interval: list[Floats] = []
        self._by_kind: list[Floats] = []
        self._whole: list[Floats] = []
        self._fractions: list[Floats] = []
        self._rates: list[list[float]] = []
        self._up_rates: list[list[float]] = []

    def add(self, realisation: Realisation) -> None:
        """Take in a realisation."""
        columns = _Columns(realisation)
        duration_s = realisation.scene.duration_s
        intervals = realisation.intervals
        self._rule = _rule(realisation.scene)
        self._states.append(intervals)
        self._by_interval.append(np.array([columns.means([(i.start_s, i.end_s)]) for i in intervals]))
        kinds = [[(i.start_s, i.end_s) for i in intervals if i.state == state] for state in GEOMETRY]
        self._by_kind.append(np.array([columns.means(spans) for spans in kinds]))
        self._whole.append(columns.means([(0.0, duration_s)]))
        times_s = np.diff(step_edges_s(realisation))
        self._fractions.append(np.bincount(realisation.state, weights=times_s, minlength=len(STATES)) / duration_s)
        self._rates.append(_percentiles(realisation.rate_bps, times_s))
        self._up_rates.append(_percentiles(realisation.up_rate_bps, times_s))

    def summary(self) -> Summary:
        """Return the summary of all realisations so far."""
        first = self._states[0]
        differ = any(states != first for states in self._states)
        if differ:
            table = np.array(self._by_kind)
            rows = [_figures(state, None, None, table[:, row]) for row, state in enumerate(GEOMETRY)]
            rows = [row for row in rows if row.duration_s.high > 0]
        else:
            table = np.array(self._by_interval)
            rows = [_figures(i.state, i.start_s, i.end_s, table[:, row]) for row, i in enumerate(first)]
        fractions = np.array(self._fractions)
        return Summary(
            states=first,
            states_differ=differ,
            rows=tuple(rows),
            rule=self._rule,
            whole=_figures("all", None, None, np.array(self._whole)),
            radio_fractions={
                name: _spread(fractions[:, code]) for code, name in enumerate(STATES) if fractions[:, code].any()
            },
            rate_percentiles_bps=_by_percentile(self._rates),
            up_rate_percentiles_bps=_by_percentile(self._up_rates),
        )


class _Columns:
    """Integrals of a realisation's series, from which means over any times follow."""

    def __init__(self, realisation: Realisation) -> None:
        edges = step_edges_s(realisation)
        times = np.diff(edges)
        sent = realisation.mcs >= 0
        sinr = realisation.sinr_db
        known = np.isfinite(sinr)
        everywhere = np.ones(len(times), dtype=np.bool_)
        columns = (
            (np.where(known, sinr, 0.0), known),
            (realisation.rate_bps.astype(np.float64), everywhere),
            (realisation.up_rate_bps.astype(np.float64), everywhere),
            (np.where(sent, realisation.bler, 0.0), sent),
        )
        self._edges = edges
        self._sums = [_running(values * times) for values, _ in columns]
        self._weights = [_running(np.where(where, times, 0.0)) for _, where in columns]

    def means(self, spans: Sequence[tuple[float, float]]) -> Floats:
        """Duration and the mean of each column over the spans; NaN where there is nothing to take a mean of."""
        result = [sum((end - start for start, end in spans), 0.0)]
        for sums, weights in zip(self._sums, self._weights, strict=True):
            weight = self._over(weights, spans)
            # The steps across the edges of a span say nothing about the span itself.
            result.append(self._over(sums, spans) / weight if weight > LEAST_KNOWN * result[0] else np.nan)
        return np.array(result)

    def _over(self, running: Floats, spans: Sequence[tuple[float, float]]) -> float:
        ends = np.interp(np.array(spans, dtype=np.float64).reshape(-1, 2), self._edges, running)
        return float((ends[:, 1] - ends[:, 0]).sum())


def _rule(scene: SceneModel) -> str:
    """Return the source of the states of the geometry."""
    if scene.reference is not None:
        return "every box, in the plan, as in the study; mode 3gpp lets people and trees attenuate instead"
    return "drawn from its probability" if scene.draws_los else "buildings, in space"


def _running(values: Floats) -> Floats:
    return np.concatenate(([0.0], np.cumsum(values)))


def _percentiles(rates_bps: NDArray[np.int64], times_s: Floats) -> list[float]:
    order = np.argsort(rates_bps, kind="stable")
    done = np.cumsum(times_s[order])
    places = np.searchsorted(done, np.array(PERCENTILES) / 100 * done[-1] * (1 - 1e-12))
    return [float(rate) for rate in rates_bps[order[places]]]


def _by_percentile(rows: Sequence[Sequence[float]]) -> dict[int, SeedSpread]:
    table = np.array(rows)
    return {percentile: _spread(table[:, column]) for column, percentile in enumerate(PERCENTILES)}


def _spread(values: Floats) -> SeedSpread:
    low, median, high = np.percentile(values, PERCENTILES).tolist()
    return SeedSpread(median, low, high)


def _spread_of_known(values: Floats) -> SeedSpread | None:
    known = values[np.isfinite(values)]
    return _spread(known) if len(known) else None


def _figures(state: str, start_s: float | None, end_s: float | None, table: Floats) -> ChannelFigures:
    """Make figures of one row for each seed: duration and the four means."""
    return ChannelFigures(
        state,
        start_s,
        end_s,
        _spread(table[:, 0]),
        _spread_of_known(table[:, 1]),
        _spread_of_known(table[:, 2]),
        _spread_of_known(table[:, 3]),
        _spread_of_known(table[:, 4]),
    )


COLUMNS = ("state", "start", "end", "duration", "SINR", "capacity down", "up", "BLER")
NOTHING = "\N{EN DASH}"


def _say(spread: SeedSpread | None, write: Callable[[float], str]) -> str:
    """Write a figure, over several seeds with its percentiles 5 and 95."""
    if spread is None:
        return NOTHING
    median, low, high = (write(value) for value in spread)
    if low == high:
        return median
    (number, unit), (lowest, low_unit), (highest, high_unit) = (text.rsplit(" ", 1) for text in (median, low, high))
    if unit == low_unit == high_unit:
        return f"{number} ({lowest} to {highest}) {unit}"
    return f"{median} ({low} to {high})"


def _seconds(value: float) -> str:
    return f"{value:.3f} s"


def _decibels(value: float) -> str:
    return f"{value:.1f} dB"


def _rate(value: float) -> str:
    """Write a rate for a table: three significant digits."""
    return say_rate(float(f"{value:.3g}"))


def _percent(value: float) -> str:
    return f"{value * 100:.1f} %"


def cells(figures: ChannelFigures) -> tuple[str, ...]:
    """Write figures as a row of the table; the columns are `COLUMNS`."""
    return (
        figures.state,
        NOTHING if figures.start_s is None else _seconds(figures.start_s),
        NOTHING if figures.end_s is None else _seconds(figures.end_s),
        _say(figures.duration_s, _seconds),
        _say(figures.sinr_db, _decibels),
        _say(figures.rate_bps, _rate),
        _say(figures.up_rate_bps, _rate),
        _say(figures.bler, _percent),
    )


def summary_lines(summary: Summary) -> list[tuple[str, str]]:
    """Say the main figures: pairs of a name and a text."""
    down, up = summary.rate_percentiles_bps, summary.up_rate_percentiles_bps
    fractions = "  ".join(f"{state} {_say(fraction, _percent)}" for state, fraction in summary.radio_fractions.items())
    return [
        ("downlink", "  ".join(f"p{key} {_say(spread, _rate)}" for key, spread in down.items())),
        ("uplink", "  ".join(f"p{key} {_say(spread, _rate)}" for key, spread in up.items())),
        ("radio", fractions),
        ("states", summary.rule),
    ]


def as_text(title: str, summary: Summary) -> str:
    """Write the table of states and the summary for a terminal."""
    rows = [COLUMNS, *(cells(row) for row in summary.rows), cells(summary.whole)]
    lines = [f"{name:<10}{text}" for name, text in summary_lines(summary)]
    return "\n".join([title, "", table_text(rows), "", *lines])


def _plain(spread: SeedSpread | None) -> object:
    """One number for one seed, percentiles for several."""
    if spread is None or spread.low == spread.high:
        return None if spread is None else spread.median
    return {"p5": spread.low, "p50": spread.median, "p95": spread.high}


def _means(figures: ChannelFigures) -> dict[str, object]:
    return {
        "mean_sinr_db": _plain(figures.sinr_db),
        "mean_rate_bps": _plain(figures.rate_bps),
        "mean_up_rate_bps": _plain(figures.up_rate_bps),
        "mean_bler_share": _plain(figures.bler),
    }


def as_json(
    summary: Summary, scene: str, mode: str, seeds: Sequence[int], duration_s: float, warnings: Sequence[str]
) -> dict[str, object]:
    """Make the object that ``--json`` prints."""
    states = [{"state": state, "start_s": start_s, "end_s": end_s} for state, start_s, end_s in summary.states]
    if not summary.states_differ:
        states = [{**state, **_means(row)} for state, row in zip(states, summary.rows, strict=True)]
    figures: dict[str, object] = {
        "scene": scene,
        "mode": mode,
        "seeds": list(seeds),
        "duration_s": duration_s,
        **_means(summary.whole),
        "percentiles_rate_bps": {f"p{key}": _plain(spread) for key, spread in summary.rate_percentiles_bps.items()},
        "percentiles_up_rate_bps": {
            f"p{key}": _plain(spread) for key, spread in summary.up_rate_percentiles_bps.items()
        },
        "radio_states_share": {state: _plain(fraction) for state, fraction in summary.radio_fractions.items()},
        "states_decided_by": summary.rule,
        "states_differ_by_seed": summary.states_differ,
        "warnings": list(warnings),
    }
    return {"states": states, "summary": figures}
