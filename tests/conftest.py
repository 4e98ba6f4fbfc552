"""What all tests share."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

# A busy machine is slow at times: no example fails for the time it took.
settings.register_profile("wavebed", deadline=None)
settings.load_profile("wavebed")

# Runs of tests beside each other, and beside other runs of the machine, are not under test but where a test says so.
os.environ["WAVEBED_LOCK"] = "/nowhere/lock"
# A shell starts what runs in the background with these ignored, and programs of tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
