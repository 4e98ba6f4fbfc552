"""What becomes of a laboratory while it is spoken to."""

from __future__ import annotations

from wavebed.errors import WavebedError

__all__ = ["LaboratoryGoneError", "LaboratoryHungError"]


class LaboratoryGoneError(WavebedError):
    """The laboratory ended while it was spoken to."""


class LaboratoryHungError(WavebedError):
    """The laboratory did not answer in time."""
