"""Comparisons with published figures; those of `long` take minutes, and only `--long` (`make validation`) runs them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the long ones, unless they were asked for."""
    return True if collection_path == HERE / "long" and not config.getoption("--long") else None
