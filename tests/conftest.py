"""What all tests share."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from tests.inconclusive import Inconclusive
from tests.interrupts import heed_interrupts
from tests.outputs import checked_text
from tests.traces import Absent

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """Undo what a command of this test does at signals: its second one, raised by later tests, would end pytest."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture(autouse=True)
def published_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check all that commands print with ``--json`` in this process against the published schemas."""
    monkeypatch.setattr("wavebed.cli.outputs.json_text", checked_text)
