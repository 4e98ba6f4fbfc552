"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is slow at times: no example fails for the time it took.
settings.register_profile("wavebed", deadline=None)
settings.load_profile("wavebed")
