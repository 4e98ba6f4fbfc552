"""The picture of a condition: the rate of the downlink over time, a panel for each variant."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from wavebed.channel import realise, to_pattern
from wavebed.conditions.condition import radio_scene
from wavebed.conditions.tables import TECHNOLOGIES
from wavebed.pattern.curves import draw
from wavebed.pattern.resample import window_rates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.conditions.condition import Variant
    from wavebed.pattern.model import Pattern

__all__ = ["render"]

WINDOW_NS = 100_000_000
"""Of the mean rates that are drawn."""


def render(variants: Sequence[Variant], seed: int, kind: str) -> bytes:
    """Return the picture of one seed of these variants.

    Parameters
    ----------
    kind : {"png", "svg", "html"}
        The file format.
    """
    drawings = [draw(_rates(variant, seed), variant.name) for variant in variants]
    if kind == "html":
        from wavebed.pattern.plot_html import render_page

        return render_page(drawings, stacked=True)
    from wavebed.pattern.plot import render_picture

    return render_picture(drawings, kind, stacked=True)


def _rates(variant: Variant, seed: int) -> Pattern:
    """Return the mean rates of windows, which show the form and not the fading."""
    pattern = to_pattern(realise(radio_scene(variant.name), "3gpp", seed), "down")
    title = f"{variant.name}: {TECHNOLOGIES[variant.technology]}, seed {seed}"
    return replace(window_rates(pattern, WINDOW_NS), header=(("title", title),))
