"""What all tests share."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from tests.inconclusive import Inconclusive
from tests.interrupts import heed_interrupts
from tests.needs import Needs, judges_times
from tests.outputs import checked_text
from tests.samples_by_seed import SEED, VARIABLE
from tests.traces import Absent

from wavebed import beneath

if TYPE_CHECKING:
    from collections.abc import Iterator

# A busy machine is slow at times: no example fails for the time it took. A change is judged by what it changes, so the
# examples are the same each time; `--hypothesis-profile=thorough` draws more, and others each time.
settings.register_profile("wavebed", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile("wavebed")

# Runs of tests beside each other, and beside other runs of the machine, are not under test but where a test says so.
os.environ["WAVEBED_LOCK"] = "/nowhere/lock"
# What a test of check, campaigns or the demo runs in does not depend on the kernels in the developer's cache.
os.environ["WAVEBED_TIME"] = "real"
heed_interrupts()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what Makefile targets choose by."""
    parser.addoption("--witnesses", action="store_true", help="of tests/measure, one test of each family")
    parser.addoption("--long", action="store_true", help="also the long computations of tests/validation")


def pytest_configure(config: pytest.Config) -> None:
    """Hold tests to the rules of their folders; count apart what a late machine or absent traces left open."""
    config.pluginmanager.register(Needs(), "needs")
    config.pluginmanager.register(Inconclusive(judges_times), "inconclusive")
    config.pluginmanager.register(Absent(), "absent")


def pytest_report_header() -> str:
    """Name the seed that repeats the samples of this run."""
    return f"samples: {VARIABLE}={SEED}"


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """Undo what a command of this test does at signals: its second one, raised by later tests, would end pytest."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture(autouse=True)
def own_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the folders of results of this test: a program never does, and each test stands for one."""
    monkeypatch.setattr("wavebed.beneath._GUARDED", set(beneath._GUARDED))
    beneath._found.cache_clear()


@pytest.fixture(autouse=True)
def published_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check all that commands print with ``--json`` in this process against the published schemas."""
    monkeypatch.setattr("wavebed.cli.outputs.json_text", checked_text)
