"""Transmission loss of materials (TR 38.901 Table 7.4.3-1)."""

from __future__ import annotations

__all__ = ["concrete_db", "glass_db", "irr_glass_db"]


def glass_db(frequency_hz: float) -> float:
    """Return the loss of standard multi-pane glass."""
    return 2 + 0.2 * frequency_hz / 1e9


def irr_glass_db(frequency_hz: float) -> float:
    """Return the loss of infrared-reflecting glass."""
    return 23 + 0.3 * frequency_hz / 1e9


def concrete_db(frequency_hz: float) -> float:
    """Return the loss of a concrete wall."""
    return 5 + 4 * frequency_hz / 1e9
