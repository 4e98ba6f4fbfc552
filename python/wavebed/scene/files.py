"""Find scenes: files of the user, or those that are shipped."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.foreign import is_file, is_there

if TYPE_CHECKING:
    from wavebed.scene.model import Scene

__all__ = ["find", "load", "shipped"]

_SHIPPED = re.compile(r"(?:(?:scenarios/)?scenes/)?([A-Za-z0-9._-]+?)(?:\.toml)?", re.ASCII)


@cache
def _folder() -> Path:
    return Path(str(resources.files("wavebed"))) / "scenarios" / "scenes"


def shipped() -> tuple[str, ...]:
    """Return the names of the scenes that come with the program."""
    return tuple(sorted(file.stem for file in _folder().glob("*.toml")))


def find(scene: str | Path) -> Path:
    """Return the file of a scene: one of this name, or that of a shipped scene, as `load` takes it.

    Raises
    ------
    UserError
        If there is no such scene.
    """
    if "\0" in str(scene):
        raise UserError(f"{str(scene)!r}: is not a file: write its name")
    file = Path(scene)
    name = _SHIPPED.fullmatch(str(scene))
    if (not is_there(file) or file.is_dir()) and name is not None:
        inner = _folder() / f"{name[1]}.toml"
        if is_file(inner):
            return inner
        if not file.suffix:
            raise UserError(f"{file}: no such file or scene: write a file, or one of {', '.join(shipped())}")
    return file


def load(scene: str | Path) -> Scene:
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
