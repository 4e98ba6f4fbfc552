"""The map of a run's scene, drawn once at its start for the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.foreign import read_bytes
from wavebed.output import replace_file
from wavebed.result.names import INCOMPLETE, SCENE_FILE

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.channel.realisation import Realisation

__all__ = ["copy_scene", "draw_scene"]

_NAME_SPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'


_MOST_BYTES = 16 << 20


def draw_scene(realisation: Realisation, folder: Path) -> None:
    """Write the map of a scene, with the trajectory of one realisation, into the folder of a run.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    from wavebed.channel.plot import render_map
    from wavebed.channel.plot_data import Album

    album = Album()
    album.add(realisation)
    svg = render_map(album.view()).svg.replace("<svg", f"<svg {_NAME_SPACES}", 1)
    replace_file(folder / SCENE_FILE, svg.encode())


def copy_scene(source: Path, folder: Path) -> None:
    """Copy the map from the run of a stored trial, if it has one."""
    if (source / SCENE_FILE).is_file():
        replace_file(folder / SCENE_FILE, read_bytes(source / SCENE_FILE, INCOMPLETE, most=_MOST_BYTES))
