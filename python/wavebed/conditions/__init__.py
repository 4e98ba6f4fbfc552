"""Named network conditions: a radio scene for each technology, with the rest of the path and the text.

>>> from wavebed import Path
>>> from wavebed.conditions import find
>>> found = find("motorway-handover/lte")
>>> path = Path.of(**found.options, seed=3)

`find` takes every name that ``--scene`` takes: a condition, a variant of one, a 5QI profile, a scenario of the QUIC
network simulator, and a radio scene.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavebed.conditions.lookup import Found as Found
    from wavebed.conditions.lookup import find as find
    from wavebed.conditions.lookup import load_scene as load_scene
    from wavebed.conditions.lookup import names as names
    from wavebed.conditions.lookup import with_condition as with_condition

__all__ = ["Found", "find", "load_scene", "names", "with_condition"]


def __getattr__(name: str) -> object:
    """Import a public name on first use, so that the command line starts quickly."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.lookup"), name)
    globals()[name] = value
    return value
