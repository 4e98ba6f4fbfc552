"""Realisations as text: a table of states and a summary for people, one JSON object for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.pattern.curves import say_rate
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wavebed.channel.summary import Figures, Spread, Summary

__all__ = ["COLUMNS", "as_json", "as_text", "cells", "summary_lines"]

COLUMNS = ("state", "start", "end", "duration", "SINR", "capacity down", "up", "BLER")
NOTHING = "\N{EN DASH}"


def _say(spread: Spread | None, write: Callable[[float], str]) -> str:
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


def cells(figures: Figures) -> tuple[str, ...]:
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


def _plain(spread: Spread | None) -> object:
    """One number for one seed, percentiles for several."""
    if spread is None or spread.low == spread.high:
        return None if spread is None else spread.median
    return {"p5": spread.low, "p50": spread.median, "p95": spread.high}


def _means(figures: Figures) -> dict[str, object]:
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
