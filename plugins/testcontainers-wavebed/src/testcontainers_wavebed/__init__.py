"""Containers of a test behind an emulated radio path."""

from testcontainers_wavebed.container import RefusedError, WavebedContainer

__all__ = ["RefusedError", "WavebedContainer"]
