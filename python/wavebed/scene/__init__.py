"""Scenes: a carrier, base stations, a UE and obstacles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.scene.model import SceneModel, find, shipped

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["SceneModel", "load", "shipped"]


def load(scene: str | Path) -> SceneModel:
    """Read a scene.

    Parameters
    ----------
    scene : str or pathlib.Path
        A file; or, if there is none of this name, a shipped scene such as ``kau-e5g-1`` or ``scenes/kau-e5g-1.toml``.

    Raises
    ------
    UserError
        If there is no such scene, or it is wrong.
    """
    from wavebed.scene.read import read_scene  # the models take a moment to load

    return read_scene(find(scene))
