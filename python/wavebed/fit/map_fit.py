"""Fit a map: learn, draw, and only then read the walks that judge it."""

from __future__ import annotations

import time
from itertools import zip_longest
from typing import TYPE_CHECKING

from wavebed.channel.placemap import draw_walks
from wavebed.fit.align import ROUNDS
from wavebed.fit.judge import pooled
from wavebed.fit.judgement import judge
from wavebed.fit.learn import learn
from wavebed.fit.network import network_of
from wavebed.fit.predict import predictions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wavebed.channel.placemap import PlaceMap
    from wavebed.channel.placemap.levels import Floats
    from wavebed.fit.judgement import Judgement
    from wavebed.fit.laps import Lap, Split
    from wavebed.fit.learn import Learned
    from wavebed.fit.predict import Prediction

    Tell = Callable[[str, float], None]

__all__ = ["fit_map"]

DRAWN_WALKS = 200
MOST_FITTED_PREDICTED = 10
"""Fitted walks whose seconds are predicted, for comparison: the forecast takes about a second for each."""
_READ_COST_S = 0.02
_ALIGN_COST_S = 5e-7
"""For each second of a walk at each second of the others."""
_PREDICT_COST_S = 1.5e-3


def fit_map(
    chosen: Split, name: str, tell: Tell, keep: Callable[[PlaceMap], None], notes: list[str]
) -> tuple[Judgement, Learned]:
    """Return the judgement of a map, and what was learned.

    Parameters
    ----------
    name : str
        Of the map.
    tell : callable
        Is told each step, and the time that is left, seconds.
    keep : callable
        Is given the map before the held-out walks are read.
    notes : list of str
        Gets a line for each file that is left out.

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
    keep(learned.places)
    drawn = list(draw_walks(learned.places, range(1, DRAWN_WALKS + 1)))
    held_out = chosen.held_out_laps(notes)
    pool = pooled([lap.parts for lap in fitted])
    judgement = judge("map", network_of(pool), chosen, drawn, fitted, held_out)
    if chosen.quarter is None:
        judgement.predictions.extend(_predictions(work, learned, pool, fitted, held_out))
    return judgement, learned


def _source(chosen: Split) -> str:
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

    def __init__(self, tell: Tell, chosen: Split, fitted_s: int) -> None:
        self._tell = tell
        self._begin_s = time.monotonic()
        mean_s = fitted_s / len(chosen.fitted)
        walks = min(len(chosen.fitted), MOST_FITTED_PREDICTED) + len(chosen.held_out)
        self._align_s = _ALIGN_COST_S * fitted_s * mean_s
        self._walk_s = 0.0 if chosen.quarter is not None else _PREDICT_COST_S * mean_s
        self._all_s = self._align_s + walks * self._walk_s

    def align(self, done: int, rounds: int) -> None:
        """Say that so many rounds of the alignment are done."""
        self._say(f"aligning walks, round {done + 1} of {rounds}", self._align_s * done / rounds)

    def predict(self, done: int, text: str) -> None:
        """Say that the alignment is done, and the seconds of so many walks are predicted."""
        self._say(text, self._align_s + done * self._walk_s)

    def _say(self, text: str, done_s: float) -> None:
        slower = (time.monotonic() - self._begin_s) / done_s if done_s else 1.0
        self._tell(text, slower * max(0.0, self._all_s - done_s))
