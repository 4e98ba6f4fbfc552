"""Scenes: a carrier, base stations, a UE and obstacles."""

from __future__ import annotations

from wavebed.scene.model import Scene, load, shipped

__all__ = ["Scene", "load", "shipped"]
