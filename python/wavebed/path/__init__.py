"""Emulated paths: read them from scenarios and options, bring them up, run programs on their hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavebed.path.api import Path as Path
    from wavebed.path.core import LabProcess as LabProcess
    from wavebed.path.lab import LabHost as LabHost
    from wavebed.path.lab import Laboratory as Laboratory

__all__ = ["LabHost", "LabProcess", "Laboratory", "Path"]

_HOMES = {
    "Path": "wavebed.path.api",
    "Laboratory": "wavebed.path.lab",
    "LabHost": "wavebed.path.lab",
    "LabProcess": "wavebed.path.core",
}


def __getattr__(name: str) -> object:
    """Import a public name on first use, so that the command line starts quickly."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
