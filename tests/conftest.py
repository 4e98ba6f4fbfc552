"""What all tests share."""

from __future__ import annotations

import os

from hypothesis import settings
from tests.interrupts import heed_interrupts

# A busy machine is slow at times: no example fails for the time it took.
settings.register_profile("wavebed", deadline=None)
settings.load_profile("wavebed")

# Runs of tests beside each other, and beside other runs of the machine, are not under test but where a test says so.
os.environ["WAVEBED_LOCK"] = "/nowhere/lock"
heed_interrupts()
