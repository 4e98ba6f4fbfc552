"""Which laboratories are run, and in which order."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from bufferbloat_run import DEEP, SHALLOW, Cell, Course, Result, run

from wavebed.experiment.order import in_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

FALLING: Final = [
    Cell("falling", direction, buffer, control)
    for direction in ("down", "up")
    for buffer in (DEEP, SHALLOW)
    for control in ("cubic", "bbr")
]
PHONE: Final = "bbr-5g-phone-mobile"
USB: Final = "bbr-5g-usb-mobile"
# Four streams, as the article loaded its devices.
SCENES: Final = [
    Cell(PHONE, "down", DEEP, "cubic", 4),
    Cell(PHONE, "down", DEEP, "bbr", 4),
    Cell(PHONE, "down", SHALLOW, "cubic", 4),
    Cell(PHONE, "up", DEEP, "cubic", 4),
    Cell(PHONE, "up", SHALLOW, "cubic", 4),
    Cell(USB, "down", DEEP, "cubic", 4),
    Cell(USB, "down", DEEP, "bbr", 4),
]
SCENE_COURSE: Final = Course(end_s=9.5)
# What the figures are read to. A run whose engine was later than this is made again, up to MOST_RUNS times.
LATE_MS: Final = 1.0
MOST_RUNS: Final = 3


def run_all(seeds: Sequence[int]) -> dict[Cell, list[Result]]:
    """Run every cell once for each seed, the cells in an order drawn for that seed, one at a time."""
    results: dict[Cell, list[Result]] = {}
    for seed, cells in zip(seeds, in_blocks(FALLING + SCENES, len(seeds), 1), strict=True):
        for cell in cells:
            results.setdefault(cell, []).append(_punctual(cell, seed))
    return results


def _punctual(cell: Cell, seed: int) -> Result:
    for turn in range(1, MOST_RUNS + 1):
        result = run(cell, seed, SCENE_COURSE if cell.link != "falling" else None)
        shown = ", ".join(f"{key} {value:.4g}" for key, value in result.figures().items())
        print(f"seed {seed}: {cell.link} {cell.direction} {cell.buffer} {cell.control}: {shown}", file=sys.stderr)
        if result.late_p99_ms <= LATE_MS or turn == MOST_RUNS:
            break
    return result
