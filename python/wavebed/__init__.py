"""A 5G/mmWave network laboratory on one Linux machine.

Importing the package is cheap: NumPy and matplotlib are imported by what needs them, when it needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavebed.load_results import load as load
    from wavebed.path import Path as Path
    from wavebed.pattern import Pattern as Pattern
    from wavebed.virtual.call import virtual_time as virtual_time

__version__ = "0.1.0"
__all__ = ["Path", "Pattern", "__version__", "load", "virtual_time"]

_HOMES = {
    "Path": "wavebed.path",
    "Pattern": "wavebed.pattern",
    "load": "wavebed.load_results",
    "virtual_time": "wavebed.virtual.call",
}


def __getattr__(name: str) -> object:
    """Import a public name from its module on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
