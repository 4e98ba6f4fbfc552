"""Tests here compute: one that starts a process, connects, sleeps or takes a second fails (`tests/needs.py`)."""

from __future__ import annotations

# Imported once, so that the first test of each worker does not pay for it.
import matplotlib.pyplot as plt  # noqa: F401
import pandas as pd  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pytest
import scipy.stats  # noqa: F401


@pytest.fixture(autouse=True)
def no_check_by_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's check of a network is a process: `tests/process/test_network_rules.py` has its tests."""
    monkeypatch.setattr("wavebed.run.resolve.check_networks", lambda _: None)
