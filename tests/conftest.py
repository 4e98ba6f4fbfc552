"""What all tests share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hypothesis import settings
from tests.inconclusive import Inconclusive
from tests.interrupts import heed_interrupts
from tests.traces import Absent

if TYPE_CHECKING:
    import pytest

# A busy machine is slow at times: no example fails for the time it took.
settings.register_profile("wavebed", deadline=None)
settings.load_profile("wavebed")

# Runs of tests beside each other, and beside other runs of the machine, are not under test but where a test says so.
os.environ["WAVEBED_LOCK"] = "/nowhere/lock"
heed_interrupts()


def pytest_configure(config: pytest.Config) -> None:
    """Count apart what a late machine left open, and what absent traces left out."""
    config.pluginmanager.register(Inconclusive(), "inconclusive")
    config.pluginmanager.register(Absent(), "absent")
