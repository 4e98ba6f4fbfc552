"""Errors of requests to a laboratory."""

from __future__ import annotations

from wavebed.errors import WavebedError

__all__ = ["LaboratoryGoneError", "LaboratoryHungError", "LaboratoryKilledError", "LaboratoryMalformedError"]


class LaboratoryGoneError(WavebedError):
    """The laboratory ended during a request."""


class LaboratoryKilledError(LaboratoryGoneError):
    """A signal ended the laboratory, such as that of a machine without memory."""


class LaboratoryHungError(WavebedError):
    """The laboratory did not answer in time."""


class LaboratoryMalformedError(WavebedError):
    """What the laboratory sent is no answer."""
