"""Made-up walks on a loop whose rates are known: two fast stretches, a slow one, and an outage; in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["SECONDS", "profile", "walk", "write_walks"]

SECONDS = 160


def profile() -> np.ndarray:
    """Return the mean rate of each second of a lap, Mbit/s."""
    second = np.arange(SECONDS)
    return np.select([second < 40, second < 70, second < 90, second < 130], [1200.0, 300.0, 2.0, 900.0], 110.0)


def walk(number: int, *, back: bool) -> np.ndarray:
    """Return the rates of a walk; at each place they vary by a tenth."""
    rng = np.random.default_rng(number)
    rates = profile()[::-1] if back else profile()
    return np.round(rates * rng.uniform(0.9, 1.1, SECONDS), 1)


def write_walks(folder: Path, count: int) -> list[Path]:
    """Write walks as traces of seconds and Mbit/s, every other one in the other direction."""
    files = []
    for number in range(1, count + 1):
        rates = walk(number, back=number % 2 == 0)
        file = folder / f"{number}_walking.txt"
        file.write_text("".join(f"{second + 1:.1f}\t{rate:.1f}\n" for second, rate in enumerate(rates)))
        files.append(file)
    return files
