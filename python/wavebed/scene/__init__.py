"""Scenes: a carrier, base stations, a UE and obstacles."""

from __future__ import annotations

from wavebed.scene.files import load, shipped
from wavebed.scene.model import Scene

__all__ = ["Scene", "load", "shipped"]
