"""Channel bandwidths and their resource blocks."""

from __future__ import annotations

__all__ = ["resource_blocks"]

_FR1_END_HZ = 7.125e9
_WIDTHS = (5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 70, 80, 90, 100)
_FR1: dict[int, dict[float, int]] = {
    0: dict(zip(_WIDTHS, (25, 52, 79, 106, 133, 160, 188, 216, 242, 270), strict=False)),
    1: dict(zip(_WIDTHS, (11, 24, 38, 51, 65, 78, 92, 106, 119, 133, 162, 189, 217, 245, 273), strict=True)),
    2: dict(zip(_WIDTHS[1:], (11, 18, 24, 31, 38, 44, 51, 58, 65, 79, 93, 107, 121, 135), strict=True)),
}
"""TS 38.101-1 Table 5.3.2-1, by numerology and MHz."""
_FR2: dict[int, dict[float, int]] = {2: {50: 66, 100: 132, 200: 264}, 3: {50: 32, 100: 66, 200: 132, 400: 264}}
"""TS 38.101-2 Table 5.3.2-1."""
_LTE: dict[int, dict[float, int]] = {0: {1.4: 6, 3: 15, 5: 25, 10: 50, 15: 75, 20: 100}}
"""TS 36.101 Table 5.6-1."""


def resource_blocks(
    technology: str, bandwidth_hz: float, numerology: int | None, frequency_hz: float
) -> tuple[int | None, str]:
    """Return the resource blocks of a channel, or ``None`` and the rule that it breaks."""
    if technology == "lte":
        name, clause, tables = "LTE", "TS 36.101 Table 5.6-1", _LTE
    elif frequency_hz <= _FR1_END_HZ:
        name, clause, tables = "NR FR1", "TS 38.101-1 Table 5.3.2-1", _FR1
    else:
        name, clause, tables = "NR FR2", "TS 38.101-2 Table 5.3.2-1", _FR2
    megahertz = bandwidth_hz / 1e6
    spacing = numerology or 0
    if spacing in tables and megahertz in tables[spacing]:
        return tables[spacing][megahertz], ""
    able = [str(other) for other in tables if megahertz in tables[other]]
    if able:
        return (
            None,
            f"{megahertz:g} MHz needs numerology {' or '.join(able)}, not {spacing} ({clause}): change one of them",
        )
    widths = sorted({width for blocks in tables.values() for width in blocks})
    choices = ", ".join(f"{width:g}" for width in widths)
    return None, f"{megahertz:g} MHz is no channel bandwidth of {name} ({clause}): write one of {choices} mhz"
