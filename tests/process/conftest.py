"""Tests in this folder start programs, but no laboratory: `core` refuses to make one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wavebed._core import find_core

CORE = Path(__file__).parent / "core"


@pytest.fixture(autouse=True)
def no_laboratory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program in place of wavebed-core that refuses what needs namespaces or devices."""
    if "WAVEBED_CORE" not in os.environ:
        monkeypatch.setenv("WAVEBED_REAL_CORE", find_core())
        monkeypatch.setenv("WAVEBED_CORE", str(CORE))
