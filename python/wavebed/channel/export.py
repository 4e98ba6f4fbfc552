"""A realisation as the pattern of one direction of a link."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from wavebed.pattern.model import steps

if TYPE_CHECKING:
    from wavebed.channel.realisation import Realisation
    from wavebed.pattern.model import Pattern

__all__ = ["Direction", "to_pattern"]

Direction: TypeAlias = Literal["down", "up"]

BLER_DECIMALS = 4
"""Block error rates are tables fitted to simulations; more digits say nothing and make more rows."""


def to_pattern(realisation: Realisation, direction: Direction) -> Pattern:
    """Return the pattern of one direction; equal neighbouring steps are one row.

    Parameters
    ----------
    realisation : Realisation
        The realisation.
    direction : {"down", "up"}
        Towards the UE or away from it.
    """
    down = direction == "down"
    rate_bps = realisation.rate_bps if down else realisation.up_rate_bps
    bler = np.round(realisation.bler if down else realisation.up_bler, BLER_DECIMALS)
    pattern = steps(
        np.rint(realisation.time_s * 1e9).astype(np.int64),
        round(realisation.scene.duration_s * 1e9),
        rate_bps=rate_bps.copy(),
        bler=np.where(rate_bps > 0, bler, 0.0),
        state=realisation.state.copy(),
    )
    return replace(pattern.merged(), header=_header(realisation, direction))


def _header(realisation: Realisation, direction: Direction) -> tuple[tuple[str, str], ...]:
    scene = realisation.scene
    lines = [
        ("title", scene.title),
        ("source", f"scene {scene.name}: {scene.anchor}"),
        ("mode", realisation.mode),
        ("seed", str(realisation.seed)),
        ("radio", scene.radio.preset),
        ("direction", direction),
    ]
    lines += [(f"warning-{k}", warning) for k, warning in enumerate(realisation.warnings, start=1)]
    return tuple(lines)
