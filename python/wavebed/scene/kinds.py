"""Kinds of obstacles: their usual size and transmission loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.config.problems import Problem
from wavebed.radio.materials import concrete_db, glass_db, irr_glass_db

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KINDS", "Kind", "transmission_loss_db"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of obstacle.

    Parameters
    ----------
    meaning : str
        Its description, for people.
    width_m, height_m : float or None
        Usual size of its screen; ``None``: it has to be given.
    loss_db : callable, float or None
        Transmission loss by frequency in hertz; infinite: opaque; ``None``: it has to be given.
    loss : str
        The same for people, with its source.
    """

    meaning: str
    width_m: float | None
    height_m: float | None
    loss_db: Callable[[float], float] | float | None
    loss: str


_OPAQUE = "opaque"

KINDS = {
    "building": Kind("a box that decides between LOS and NLOS", None, None, math.inf, _OPAQUE),
    "person": Kind("0.3 m × 1.7 m (TR 38.901 7.6.4.2)", 0.3, 1.7, math.inf, _OPAQUE),
    "car": Kind("4.8 m × 1.4 m (TR 38.901 7.6.4.2)", 4.8, 1.4, math.inf, _OPAQUE),
    "bus": Kind("12 m × 3 m (a usual city bus)", 12.0, 3.0, math.inf, _OPAQUE),
    "tree": Kind("a crown that lets something through", None, None, None, "to be given (see ITU-R P.833)"),
    "metal": Kind("a sheet of metal", None, None, math.inf, _OPAQUE),
    "glass": Kind(
        "standard multi-pane glass",
        None,
        None,
        glass_db,
        "2 + 0.2·f/GHz dB (TR 38.901 Table 7.4.3-1)",
    ),
    "irr-glass": Kind(
        "infrared-reflecting glass",
        None,
        None,
        irr_glass_db,
        "23 + 0.3·f/GHz dB (TR 38.901 Table 7.4.3-1)",
    ),
    "cardboard": Kind("a sheet of cardboard", None, None, None, "to be given"),
    "concrete": Kind(
        "a wall of concrete",
        None,
        None,
        concrete_db,
        "5 + 4·f/GHz dB (TR 38.901 Table 7.4.3-1)",
    ),
    "box": Kind("anything else", None, None, math.inf, _OPAQUE),
}
"""Every kind by name."""


def transmission_loss_db(kind: str, frequency_hz: float) -> float:
    """Return the transmission loss of a kind of obstacle.

    Raises
    ------
    Problem
        If the kind has no value of its own.
    """
    loss_db = KINDS[kind].loss_db
    if loss_db is None:
        raise Problem(f"is missing: a {kind} has no usual value: write one, such as 10db", "transmission-loss")
    return loss_db if isinstance(loss_db, float) else loss_db(frequency_hz)
