"""The default folder of results of a command."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

__all__ = ["new_folder"]


def new_folder(name: str) -> Path:
    """Return ``runs/NAME-TIME``."""
    return Path("runs") / f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
