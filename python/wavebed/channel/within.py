"""The rate within each second, learned from recordings with steps of 100 ms.

A second's ten rates are its mean times ratios. The ratios follow a line between the neighbouring seconds, and leave it
by noise. The noise has a spread of its own each second, by the rate and by how fast the rate changes; a shape; and a
correlation from 100 ms to 100 ms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from wavebed.channel.propagation.correlated import generator, normal_cdf
from wavebed.errors import UserError
from wavebed.pattern.formats import read_trace
from wavebed.pattern.resample import window_rates

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from wavebed.pattern.model import Pattern

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

PARTS = 10
"""Of a second."""
PART_NS = 10**9 // PARTS
EDGES_MBPS = (100.0, 500.0)
CHANGES = (0.1, 0.4)
"""Edges of the classes of change: half the difference of the neighbouring seconds over the rate."""
WIDTHS = (0.2, 0.6)
"""Edges of the classes of the noise's standard deviation in a second."""
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
WITHIN_SHAPES = {
    "spread": (len(EDGES_MBPS) + 1, len(CHANGES) + 1, len(QUANTILES)),
    "shape": (len(WIDTHS) + 1, len(QUANTILES)),
    "stay": (len(WIDTHS) + 1,),
}
LOWEST_MBPS = 1.0
"""Slower seconds teach nothing: a packet more or less is all that differs in them."""
FEWEST = 20
"""Seconds of a class; a class with fewer has the figures of its change at all rates."""
FEWEST_S = 30


@dataclass(frozen=True, slots=True, eq=False)
class WithinSecond:
    """What happens within a second.

    Parameters
    ----------
    spread : float array (3, 3, 9)
        `QUANTILES` of the noise's standard deviation in a second, by the classes of `EDGES_MBPS` and `CHANGES`.
    shape : float array (3, 9)
        `QUANTILES` of the noise over its standard deviation, by the class of `WIDTHS`.
    stay : float array (3,)
        Correlation of the noise's normal score from part to part, by the class of `WIDTHS`.
    """

    spread: Floats
    shape: Floats
    stay: Floats


def means_and_parts(pattern: Pattern) -> tuple[Floats, Floats] | None:
    """Return the mean of each whole second, Mbit/s, and its parts over it, (seconds, 10); ``None`` of longer steps."""
    if pattern.kind == "packets" or (pattern.rate_bps is None and pattern.size_bytes is None):
        return None
    seconds = pattern.duration_ns // 10**9
    if pattern.kind == "steps" and len(pattern) < PARTS * seconds * 3 // 4:
        return None
    rates = window_rates(pattern, PART_NS).rate_bps
    assert rates is not None, "windows have rates"
    parts = rates[: seconds * PARTS].reshape(-1, PARTS) / 1e6
    means = parts.mean(axis=1)
    return means, parts / np.maximum(means, 1e-9)[:, None]


def known_within(files: Sequence[Path]) -> WithinSecond | None:
    """Learn from those recordings that have steps of 100 ms; ``None`` if they are too few."""
    found = []
    for file in files:
        try:
            pattern = read_trace(file)
        except UserError:
            continue
        if means_and_parts(pattern) is not None:
            found.append((str(file), pattern))
    try:
        return learn_within(found) if found else None
    except UserError:
        return None


def read_within(files: Sequence[Path]) -> WithinSecond:
    """Learn from recordings with steps of 100 ms.

    Raises
    ------
    UserError
        If one cannot be read or has longer steps, or all are too short.
    """
    return learn_within([(str(file), read_trace(file)) for file in files])


def learn_within(patterns: Sequence[tuple[str, Pattern]]) -> WithinSecond:
    """Learn from recordings, each with its name.

    Raises
    ------
    UserError
        If one has no steps of 100 ms, or all are too short.
    """
    rows: list[tuple[Integers, Integers, Floats]] = []
    for name, pattern in patterns:
        found = means_and_parts(pattern)
        if found is None:
            raise UserError(f"{name}: has no rate in steps of 100 ms: name a recording that has")
        means, ratios = found
        taken = means > LOWEST_MBPS
        rate, change = _classes(means)
        rows.append((rate[taken], change[taken], (ratios - _line(means))[taken]))
    rate, change = (np.concatenate([row[column] for row in rows]) for column in (0, 1))
    noise = np.concatenate([row[2] for row in rows])
    if len(rate) < FEWEST_S:
        raise UserError(f"{patterns[0][0]}: has {len(rate)} s with a rate: name recordings of at least {FEWEST_S} s")
    width = noise.std(axis=1)
    over = noise / np.maximum(width, 1e-9)[:, None]
    spread = np.empty(WITHIN_SHAPES["spread"])
    for here in np.ndindex(spread.shape[:2]):
        chosen = _enough(((rate == here[0]) & (change == here[1]), change == here[1]))
        spread[here] = np.quantile(width[chosen], QUANTILES)
    wide = np.searchsorted(WIDTHS, width, side="right")
    classes = [_enough((wide == number,)) for number in range(len(WIDTHS) + 1)]
    shape = np.array([np.quantile(over[chosen], QUANTILES) for chosen in classes])
    stay = np.array([_correlation(noise[chosen]) for chosen in classes])
    return WithinSecond(spread, shape, stay)


def _enough(choices: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    return next((each for each in choices if each.sum() >= FEWEST), np.ones_like(choices[0]))


def _correlation(noise: Floats) -> float:
    """Return the correlation of neighbouring parts as it is before each second's mean is taken out."""
    found = (noise[:, 1:] * noise[:, :-1]).sum() / max((noise[:, 1:] ** 2).sum(), 1e-9)
    before = np.arange(0, 0.96, 0.01)
    lag = np.abs(np.subtract.outer(np.arange(PARTS), np.arange(PARTS)))
    centre = np.eye(PARTS) - 1 / PARTS
    after = []
    for correlation in before:
        covariance = centre @ correlation**lag @ centre
        after.append(covariance.diagonal(1).sum() / covariance.diagonal()[1:].sum())
    return float(np.interp(found, after, before))


def _classes(means: Floats) -> tuple[Integers, Integers]:
    """Return the classes of rate and of change of each second."""
    before, after = np.append(means[:1], means[:-1]), np.append(means[1:], means[-1:])
    change = np.abs(after - before) / 2 / np.maximum(means, 1e-9)
    return np.searchsorted(EDGES_MBPS, means, side="right"), np.searchsorted(CHANGES, change, side="right")


def _line(means: Floats) -> Floats:
    """Return the ratios of parts on the lines between the middles of neighbouring seconds; their mean is 1."""
    at = (np.arange(len(means) * PARTS) + 0.5) / PARTS - 0.5
    values = np.interp(at, np.arange(len(means)), means).reshape(-1, PARTS)
    mean = values.mean(axis=1, keepdims=True)
    return np.asarray(np.where(mean > 0, values / np.maximum(mean, 1e-9), 1.0), dtype=np.float64)


def draw_within(within: WithinSecond, means_bps: Integers, seed: int) -> Integers:
    """Return the rates of the parts of each second, (seconds, 10), bit/s; their mean is exactly the second's."""
    means = means_bps / 1e6
    rate, change = _classes(means)
    width = _at(within.spread[rate, change], generator(seed, "within spread").random(len(means)))
    noise = generator(seed, "within").standard_normal((len(means), PARTS))
    wide = np.searchsorted(WIDTHS, width, side="right")
    stay = within.stay[wide]
    for part in range(1, PARTS):
        noise[:, part] = stay * noise[:, part - 1] + np.sqrt(1 - stay**2) * noise[:, part]
    over = _at(np.repeat(within.shape[wide], PARTS, axis=0), normal_cdf(noise).ravel()).reshape(noise.shape)
    over -= over.mean(axis=1, keepdims=True)
    over /= np.maximum(over.std(axis=1, keepdims=True), 1e-9)
    ratios = np.maximum(_line(means) + width[:, None] * over, 0.0)
    ratios /= np.maximum(ratios.mean(axis=1, keepdims=True), 1e-9)
    found = np.floor(ratios * means_bps[:, None]).astype(np.int64)
    lacking = PARTS * means_bps - found.sum(axis=1)
    np.put_along_axis(found, found.argmax(axis=1)[:, None], found.max(axis=1, keepdims=True) + lacking[:, None], axis=1)
    return found


def _at(quantiles: Floats, share: Floats) -> Floats:
    """Return the value at a share of each row of quantiles."""
    upper = np.clip(np.searchsorted(QUANTILES, share, side="right"), 1, len(QUANTILES) - 1)
    low, high = np.asarray(QUANTILES)[upper - 1], np.asarray(QUANTILES)[upper]
    row = np.arange(len(share))
    below, above = quantiles[row, upper - 1], quantiles[row, upper]
    return np.asarray(below + (share - low) / (high - low) * (above - below), dtype=np.float64)


def refined(pattern: Pattern, within: WithinSecond, seed: int) -> Pattern:
    """Return a pattern of rates in steps of 100 ms, each second with its mean; other columns keep their times.

    Raises
    ------
    UserError
        If it has no rate, or steps below a second.
    """
    if pattern.kind != "steps" or pattern.rate_bps is None:
        raise UserError("has no rate over time: write a trace of rates")
    seconds = -(-pattern.period // 10**9)
    if len(pattern) > 1 and int(np.diff(pattern.index).min()) < 10**9:
        raise UserError("has steps below a second already: leave --within out")
    whole = window_rates(pattern, 10**9).rate_bps
    assert whole is not None, "windows have rates"
    parts = draw_within(within, whole, seed).ravel()
    if pattern.period % 10**9:
        # A last second that is cut keeps its rate.
        parts[-PARTS:] = whole[-1]
    index = np.arange(seconds * PARTS, dtype=np.int64) * PART_NS
    index = np.union1d(index[index < pattern.period], pattern.index)
    row = np.searchsorted(pattern.index, index, side="right") - 1
    columns = ("delay_ns", "loss", "bler", "sinr_mdb", "need_mdb", "state", "cell", "light_rate_bps")
    kept = {name: getattr(pattern, name)[row] for name in columns if getattr(pattern, name) is not None}
    return replace(pattern, index=index, rate_bps=parts[index // PART_NS], **kept)
