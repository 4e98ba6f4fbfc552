"""A 5G/mmWave network laboratory on one Linux machine.

>>> import wavebed
>>> results = wavebed.run("demo", trials=3)
>>> wavebed.compare(results, wavebed.run("demo", trials=3, queue="codel"))

Importing the package is cheap: each name is imported when it is first used, and NumPy, pandas and Matplotlib by what
needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavebed.conditions.scenes import Scene as Scene
    from wavebed.interface.comparing import compare as compare
    from wavebed.interface.results import load as load
    from wavebed.interface.running import run as run
    from wavebed.path import Path as Path
    from wavebed.pattern import Pattern as Pattern
    from wavebed.virtual.call import virtual_time as virtual_time

__version__ = "0.1.0"
__all__ = ["Path", "Pattern", "Scene", "__version__", "compare", "load", "run", "virtual_time"]

_HOMES = {
    "Path": "wavebed.path",
    "Pattern": "wavebed.pattern",
    "Scene": "wavebed.conditions.scenes",
    "load": "wavebed.interface.results",
    "virtual_time": "wavebed.virtual.call",
}
_CALLED = ("compare", "run")
"""Packages that are functions too (`wavebed.called`)."""


def __getattr__(name: str) -> object:
    """Import a public name from its module on first use."""
    value: object
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _CALLED:
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, for completion."""
    return sorted(__all__)
