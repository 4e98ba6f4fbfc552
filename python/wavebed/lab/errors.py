"""Errors of requests to a laboratory."""

from __future__ import annotations

from wavebed.errors import WavebedError

__all__ = ["LaboratoryGoneError", "LaboratoryHungError"]


class LaboratoryGoneError(WavebedError):
    """The laboratory ended during a request."""


class LaboratoryHungError(WavebedError):
    """The laboratory did not answer in time."""
