"""Two recordings of one place at one time as one pattern: rates under heavy load, and delays under light load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wavebed.errors import UserError
from wavebed.pattern.files import read_trace
from wavebed.pattern.model import Pattern, steps
from wavebed.pattern.resample import window_rates
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.config.data import Json

__all__ = ["Replay", "read_replay"]

WINDOW_NS = 100_000_000
"""Opportunities are averaged over such windows: a pattern of opportunities has no delay."""
GRID_NS = 20_000_000
"""Steps of the delay, which is interpolated between samples."""
_PERCENTILES = (10, 50, 90)


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """What was combined.

    Parameters
    ----------
    pattern : Pattern
        With a rate and a delay.
    heavy, light : str
        The names of the recordings.
    """

    pattern: Pattern
    heavy: str
    light: str

    def _figures(self) -> tuple[list[float], list[float], float]:
        """Return the percentiles of the rate, Mbit/s, and of the delay, ms, over time, and the least delay."""
        pattern = self.pattern
        assert pattern.rate_bps is not None, "a replay has a rate"
        assert pattern.delay_ns is not None, "a replay has a delay"
        grid = np.searchsorted(pattern.index, np.arange(0, pattern.period, GRID_NS), side="right") - 1
        rates, delays = pattern.rate_bps[grid] / 1e6, pattern.delay_ns[grid] / 1e6
        return (
            np.percentile(rates, _PERCENTILES).tolist(),
            np.percentile(delays, _PERCENTILES).tolist(),
            float(delays.min()),
        )

    def as_text(self) -> str:
        """Return the table of both recordings."""
        rates, delays, least_ms = self._figures()
        rows = [
            ("recording", "file", "p10", "median", "p90"),
            ("rate under heavy load, Mbit/s", self.heavy, *(f"{value:.3g}" for value in rates)),
            ("delay under light load, ms", self.light, *(f"{value:.3g}" for value in delays)),
        ]
        less = 100 * (1 - least_ms / delays[1]) if delays[1] else 0.0
        return (
            f"{self.pattern.period / 1e9:g} s\n\n{table_text(rows)}\n\n"
            f"The least delay, {least_ms:.3g} ms, is {less:.0f} % below the median."
        )

    def as_json(self) -> dict[str, Json]:
        """Return what ``--json`` prints."""
        rates, delays, least_ms = self._figures()
        names = [f"p{percentile}" for percentile in _PERCENTILES]
        return {
            "method": "replay",
            "duration_s": self.pattern.period / 1e9,
            "heavy": self.heavy,
            "light": self.light,
            "rate_mbps": dict(zip(names, rates, strict=True)),
            "delay_ms": {**dict(zip(names, delays, strict=True)), "least": least_ms},
        }


def read_replay(files: Sequence[Path]) -> Replay:
    """Read the two recordings, in either order, and combine them.

    Raises
    ------
    UserError
        If they are not one of a rate and one of a delay over time.
    """
    heavy: list[tuple[str, Pattern]] = []
    light: list[tuple[str, Pattern]] = []
    for file in files:
        pattern = read_trace(file)
        # A recording of a light rate has a rate beside it, since the format wants one; its delay tells it apart.
        is_light = pattern.light_rate_bps is not None and pattern.delay_ns is not None
        has_rate = not is_light and (pattern.rate_bps is not None or pattern.size_bytes is not None)
        if pattern.kind == "packets" or has_rate == (pattern.delay_ns is not None):
            raise UserError(f"{file}: is no recording of either a rate or a delay over time: name one of each")
        (heavy if has_rate else light).append((file.name, pattern))
    if len(heavy) != 1 or len(light) != 1:
        found = f"{len(heavy)} of a rate and {len(light)} of a delay"
        raise UserError(f"--as replay: found recordings: {found}: name one of a rate and one of a delay")
    return Replay(combine(heavy[0][1], light[0][1]), heavy[0][0], light[0][0])


def combine(heavy: Pattern, light: Pattern) -> Pattern:
    """Return the rate of one pattern with the delay, and the light rate, of another, as long as the shorter of them."""
    rate = window_rates(heavy, WINDOW_NS) if heavy.size_bytes is not None else heavy
    assert rate.rate_bps is not None, "it is a recording of a rate"
    assert light.delay_ns is not None, "it is a recording of a delay"
    period = min(rate.period, light.period)
    index = np.union1d(rate.index, np.arange(0, period, GRID_NS))
    first = light.light_rate_bps
    if first is not None:
        index = np.union1d(index, light.index)
    index = index[index < period]
    row = np.searchsorted(rate.index, index, side="right") - 1
    delay = np.rint(np.interp(index, light.index, light.delay_ns)).astype(np.int64)
    light_row = np.searchsorted(light.index, index, side="right") - 1
    return steps(
        index,
        period,
        rate_bps=rate.rate_bps[row],
        delay_ns=delay,
        light_rate_bps=None if first is None else first[light_row],
        light_bytes=light.light_bytes,
        light_idle_ns=light.light_idle_ns,
    )
