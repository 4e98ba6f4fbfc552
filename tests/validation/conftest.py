"""Comparisons with published figures; those of `long` take minutes, and only `--long` (`make validation`) runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the long ones, unless they were asked for."""
    return True if collection_path == HERE / "long" and not config.getoption("--long") else None


@pytest.fixture(autouse=True)
def no_check_by_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's check of a network is a process: `tests/process/test_network_rules.py` has its tests."""
    monkeypatch.setattr("wavebed.run.resolve.check_networks", lambda _: None)
