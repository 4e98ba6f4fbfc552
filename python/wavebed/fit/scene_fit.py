"""Fit a scene: find its values, draw, and only then read the walks that judge it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from wavebed.fit.judge import pooled
from wavebed.fit.judgement import FittedValue, judge
from wavebed.fit.network import network_of
from wavebed.fit.physics import Settings, fit_physics, scene_text, walks_of
from wavebed.fit.scene_values import parameters_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from wavebed.fit.judgement import Judgement
    from wavebed.fit.laps import Split
    from wavebed.fit.network import Network
    from wavebed.fit.physics import Floats
    from wavebed.fit.scene_values import Document

    Tell = Callable[[str, float], None]

__all__ = ["fit_scene"]

JUDGED_SEEDS = range(1001, 1013)
"""Walks by which the scene is judged: seeds that the fit has not seen."""


def fit_scene(
    chosen: Split,
    start: Callable[[Network], Document],
    tell: Tell,
    keep: Callable[[str], None],
    notes: list[str],
    settings: Settings | None = None,
) -> Judgement:
    """Return the judgement of a fitted scene.

    Parameters
    ----------
    start : callable
        Returns the scene to begin with, as TOML gives it, for a kind of network.
    tell : callable
        Is told each step, and the time that is left at most, seconds.
    keep : callable
        Is given the text of the fitted scene before the held-out walks are read.
    notes : list of str
        Gets a line for each file that is left out.
    settings : Settings, optional
        How much work the fit is.

    Raises
    ------
    UserError
        If no walk can be read, or the scene has nothing to fit.
    """
    work = settings or Settings()
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
