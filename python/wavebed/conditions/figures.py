"""Figures of conditions: computed by the channel model over several seeds, in virtual time, and kept in a file.

The list of conditions must be quick, so that the figures of each seed are stored with the conditions. A test computes
some of them again, and ``docs/validation/condition_figures.py`` all of them.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

from wavebed.foreign import read_text
from wavebed.shipped import folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wavebed.channel.realisation import Realisation

__all__ = ["FILE", "SEEDS", "SEED_FIGURES", "Figures", "Spread", "compute", "figures_of", "seconds_bps", "stored"]

SEEDS = range(1, 21)
FILE = "condition-figures.json"
SEED_FIGURES = (
    *("down_mean_bps", "down_median_bps", "down_p5_bps", "down_p95_bps"),
    *("up_median_bps", "no_service_ppm", "longest_gap_ms"),
)
"""What is kept of a seed: of whole seconds the mean rate and its statistics, and the time in which nothing is sent."""


class Spread(Struct, frozen=True):
    """A figure over seeds: its median, and the percentiles 5 and 95."""

    median: float
    low: float
    high: float


class Figures(Struct, frozen=True):
    """The figures of a variant.

    Parameters
    ----------
    seeds : tuple of int
        The seeds.
    down_mean_bps, down_median_bps, down_p5_bps, down_p95_bps : Spread
        Downlink rate that arrives at the first attempt, averaged over whole seconds: the mean, the median and the
        percentiles of the seconds of a seed.
    up_median_bps : Spread
        The same of the uplink: the median.
    no_service : Spread
        Fraction of time in outage or handover.
    longest_gap_s : Spread
        The longest time without a break in which nothing is sent.
    rtt_idle_ms : float
        Median round trip of a packet of 64 bytes in an idle path, by the link engine in virtual time.
    """

    seeds: tuple[int, ...]
    down_mean_bps: Spread
    down_median_bps: Spread
    down_p5_bps: Spread
    down_p95_bps: Spread
    up_median_bps: Spread
    no_service: Spread
    longest_gap_s: Spread
    rtt_idle_ms: float


@cache
def stored() -> dict[str, dict[str, object]]:
    """Return what is stored of each variant, as in the file: a list with a value for each seed, and the idle RTT."""
    found: dict[str, dict[str, object]] = json.loads(read_text(folder() / FILE, "install wavebed again"))
    return found


def figures_of(name: str) -> Figures:
    """Return the stored figures of a variant."""
    rows = stored()[name]

    def spread(key: str, unit: float = 1.0) -> Spread:
        values = rows[key]
        assert isinstance(values, list), "a value for each seed"
        return _spread([value * unit for value in values])

    rtt = rows["rtt_idle_us"]
    assert isinstance(rtt, int), "it is shipped"
    return Figures(
        seeds=tuple(SEEDS),
        **{key: spread(key) for key in SEED_FIGURES if key.endswith("_bps")},
        no_service=spread("no_service_ppm", 1e-6),
        longest_gap_s=spread("longest_gap_ms", 1e-3),
        rtt_idle_ms=rtt / 1e3,
    )


def _spread(values: Sequence[float]) -> Spread:
    """Return the median and the percentiles 5 and 95, with linear interpolation."""
    ordered = sorted(values)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (place - low) * (ordered[high] - ordered[low])

    return Spread(at(0.5), at(0.05), at(0.95))


def seconds_bps(realisation: Realisation, direction: str) -> NDArray[np.float64]:
    """Return the mean of each whole second of what arrives at the first attempt, bits per second."""
    import numpy as np

    down = direction == "down"
    rate_bps = realisation.rate_bps if down else realisation.up_rate_bps
    bler = realisation.bler if down else realisation.up_bler
    arriving = rate_bps * (1 - bler)
    per_second = max(1, round(1 / realisation.scene.step_s))
    whole = arriving[: arriving.size // per_second * per_second]
    return np.asarray(whole.reshape(-1, per_second).mean(axis=1), dtype=np.float64)


def compute(name: str, seeds: Sequence[int] = SEEDS) -> dict[str, list[int]]:
    """Return the figures of each seed of a variant, by the channel model."""
    from wavebed.channel import ensemble
    from wavebed.conditions.condition import radio_scene

    rows = [_of_seed(realisation) for realisation in ensemble(radio_scene(name), "3gpp", seeds)]
    return {key: [row[key] for row in rows] for key in SEED_FIGURES}


def _of_seed(realisation: Realisation) -> dict[str, int]:
    import numpy as np

    down, up = (seconds_bps(realisation, direction) for direction in ("down", "up"))
    low, median, high = np.percentile(down, (5, 50, 95)).tolist()
    silent = realisation.rate_bps == 0
    edges = np.diff(np.concatenate(([0], silent.astype(np.int8), [0])))
    gaps = np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)
    found = {
        "down_mean_bps": float(down.mean()),
        "down_median_bps": median,
        "down_p5_bps": low,
        "down_p95_bps": high,
        "up_median_bps": float(np.median(up)),
    }
    return {
        **{key: round(value, -3) for key, value in ((key, round(value)) for key, value in found.items())},
        "no_service_ppm": round(float(silent.mean()) * 1e6),
        "longest_gap_ms": round(float(gaps.max(initial=0)) * realisation.scene.step_s * 1e3),
    }


def text(rows: dict[str, dict[str, object]]) -> str:
    """Return the file: a line for each figure."""
    lines = []
    for name in sorted(rows):
        inner = ",\n".join(f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in rows[name].items())
        lines.append(f"  {json.dumps(name)}: {{\n{inner}\n  }}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
