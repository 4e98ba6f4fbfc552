"""The old name of `wavebed.lab.confine`, for one release."""

from wavebed.lab.confine import Confined, take_back

__all__ = ["Confined", "take_back"]
