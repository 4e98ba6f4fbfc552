"""The channel: propagation, link adaptation and failures of a scene, as the capacity of its link over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavebed.channel.modes import ensemble, realise, realise_devices
    from wavebed.channel.realisation import Direction, Realisation, to_pattern

__all__ = ["Direction", "Realisation", "ensemble", "realise", "realise_devices", "to_pattern"]

_HOMES = {
    "Direction": "realisation",
    "Realisation": "realisation",
    "ensemble": "modes",
    "realise": "modes",
    "realise_devices": "modes",
    "to_pattern": "realisation",
}


def __getattr__(name: str) -> object:
    """Import a name when it is first used: the models take a moment to load."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
