"""Simulated campaigns: coverage, false alarms, power and stopping of the statistics of campaigns.

Usage: python docs/validation/campaign_statistics.py [CAMPAIGNS]

Prints the tables that `standards.md` sums up. A simulated campaign is its differences between two treatments, a row for
each primary metric, in the order of the blocks. All verdicts come from `wavebed.stats`.
"""

from __future__ import annotations

import platform
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from wavebed.stats.family import Primary, advise, settle, simultaneous_level
from wavebed.stats.looks import Planned, log_wealth
from wavebed.stats.paired import Pairs, SignedRanks, find, signed_rank_p
from wavebed.stats.verdict import Margin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from wavebed.stats.looks import Score
    from wavebed.stats.paired import PairedDesign

    Floats = NDArray[np.float64]
    Looks = NDArray[np.int64]

Sides: TypeAlias = Literal["both", "above", "below"]

CAMPAIGNS: Final = 2000
SEED: Final = 13
FIXED: Final = 20
PILOTS: Final = (10, 20)
MARGIN: Final = 0.98
"""Standard deviations; a difference of 1 is beyond it."""
LOOKS: Final = (10, 20, 30)
LONGEST: Final = 60
PRIMARIES: Final = (1, 3)
EFFECTS: Final = (0.5, 1.0, 1.5, 2.0)
POWERED: Final = (0.4, 0.7, 1.0)


@dataclass(frozen=True, slots=True)
class Shape:
    """A distribution of differences; without a shift its standard deviation is 1.

    Parameters
    ----------
    draw : callable
        From a generator, a shape of array and a shift to differences.
    centre, median : float
        Pseudo-median, which signed ranks estimate, and median, without a shift.
    """

    draw: Callable[[np.random.Generator, tuple[int, ...], float], Floats]
    centre: float = 0.0
    median: float = 0.0


def _normal(rng: np.random.Generator, size: tuple[int, ...], shift: float) -> Floats:
    return rng.normal(size=size) + shift


def _heavy(rng: np.random.Generator, size: tuple[int, ...], shift: float) -> Floats:
    return rng.standard_t(3, size) / np.sqrt(3) + shift


def _exponential_values(rng: np.random.Generator, size: tuple[int, ...], shift: float) -> Floats:
    return (rng.exponential(size=size) - rng.exponential(size=size)) / np.sqrt(2) + shift


def _rounded(rng: np.random.Generator, size: tuple[int, ...], shift: float) -> Floats:
    return np.round(2 * (rng.normal(size=size) + shift)) / 2


def _counts(rng: np.random.Generator, size: tuple[int, ...], shift: float) -> Floats:
    """Poisson counts of mean 0.5, and more by the shift."""
    return (rng.poisson(0.5 + shift, size) - rng.poisson(0.5, size)).astype(np.float64)


def _exponential_differences(rng: np.random.Generator, size: tuple[int, ...], shift: float) -> Floats:
    return rng.exponential(size=size) - 1 + shift


SHAPES: Final[Mapping[str, Shape]] = {
    "normal": Shape(_normal),
    "heavy tails (Student, 3)": Shape(_heavy),
    "exponential values": Shape(_exponential_values),
    "rounded to 0.5": Shape(_rounded),
    "counts (Poisson, 0.5)": Shape(_counts),
    # The pseudo-median of an exponential distribution solves (1 + 2 x) · exp(-2 x) = 1/2.
    "exponential differences": Shape(_exponential_differences, 0.8391734950 - 1, float(np.log(2)) - 1),
}
SYMMETRIC: Final = tuple(SHAPES)[:-1]


class Share(NamedTuple):
    """A fraction of campaigns, and its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, hits: Sequence[bool] | NDArray[np.bool_]) -> Share:
        """Return the fraction of hits."""
        value = float(np.mean(hits))
        return cls(value, float(np.sqrt(value * (1 - value) / len(hits))))

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} %"


def campaigns(shape: Shape, count: int, primaries: int, blocks: int, seed: int, shift: float = 0.0) -> Floats:
    """Return differences of campaigns around `shift`: (campaigns, primary metrics, blocks)."""
    rng = np.random.default_rng([SEED, seed])
    return shape.draw(rng, (count, primaries, blocks), shift)


def primary(differences: Floats, margin: Margin | None = None) -> Primary:
    """Return a metric whose samples have these differences."""
    return Primary([0.0] * len(differences), differences.tolist(), margin, "lower")


def covered(found: Floats, centre: float, design: PairedDesign) -> Share:
    """Return how often the intervals of all primary metrics contain the centre."""
    level = simultaneous_level(design.level, found.shape[1])
    hits = []
    for metrics in found:
        intervals = [design.at(level).interval(metric) for metric in metrics]
        hits.append(all(each.low is None or each.high is None or each.low <= centre <= each.high for each in intervals))
    return Share.of(hits)


def alarms(found: Floats, design: PairedDesign) -> Share:
    """Return how often a primary metric is said to be better or worse."""
    return Share.of(
        [
            any(each.verdict in ("better", "worse") for each in settle([primary(row) for row in metrics], design))
            for metrics in found
        ]
    )


def first_rejection(
    found: Floats, value: float, level: float = 0.95, sides: Sides = "both", score: Score = "ranks"
) -> Looks:
    """Return the first look, after each block, whose interval does not contain a value; 0 if there is none.

    It is read from the wealth, since 2000 campaigns with 60 looks have 120 000 intervals; a test compares the two.

    Parameters
    ----------
    found : float array, shape (campaigns, primary metrics, blocks)
        Differences.
    sides : {"both", "above", "below"}
        Whether the interval lies anywhere else, above the value or below it.

    Returns
    -------
    int array, shape (campaigns, primary metrics)
        Number of blocks.
    """
    needed = np.log(2 / (1 - simultaneous_level(level, found.shape[1])))
    above = log_wealth(found - value, score) >= needed
    below = log_wealth(value - found, score) >= needed
    hits = {"both": above | below, "above": above, "below": below}[sides]
    return np.where(hits.any(axis=-1), hits.argmax(axis=-1) + 1, 0)


def ever_rejected(found: Floats, value: float, score: Score = "ranks") -> Share:
    """Return how often a look after any block rejects the value for one of the primary metrics."""
    return Share.of((first_rejection(found, value, score=score) > 0).any(axis=1))


def stops(found: Floats) -> Looks:
    """Return after how many blocks the simultaneous intervals of all primary metrics exclude 0; 0 for never."""
    first = first_rejection(found, 0.0)
    return np.where((first > 0).all(axis=1), first.max(axis=1), 0)


def powered(shape: Shape, effect: float, pilot: int, primaries: int, count: int, seed: int) -> tuple[Share, float]:
    """Return how often a campaign of the advised size finds the effect, and the median size.

    The margin is the effect. The pilot's blocks are not used again. A metric is found if it is worse at the
    simultaneous level of all primary metrics.
    """
    rng = np.random.default_rng([SEED, seed])
    design = SignedRanks(simultaneous_level(0.95, primaries))
    hits, sizes = [], []
    for _ in range(count):
        size = advise(shape.draw(rng, (pilot,), effect), effect, primaries=primaries).blocks
        if size is None:  # a pilot that does not vary bears no advice
            continue
        pairs = Pairs.of([0.0] * size, shape.draw(rng, (size,), effect).tolist())
        hits.append(find(pairs, "lower", design).verdict == "worse")
        sizes.append(size)
    return Share.of(hits), float(np.median(sizes))


def _print(head: str, rows: Sequence[Sequence[object]]) -> None:
    names = head.split(" | ")
    print(f"\n| {head} |\n|{'---|' * len(names)}")
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")


def coverage_rows(count: int) -> list[tuple[object, ...]]:
    """Return for each shape and number of primary metrics the coverage of the three designs."""
    rows: list[tuple[object, ...]] = []
    for seed, (name, shape) in enumerate(SHAPES.items()):
        for primaries in PRIMARIES:
            found = campaigns(shape, count, primaries, LONGEST, seed)
            fixed = covered(found[..., :FIXED], shape.centre, SignedRanks())
            planned = covered(found[..., : LOOKS[-1]], shape.centre, Planned(LOOKS))
            ever = [ever_rejected(found[..., :most], shape.centre) for most in (30, LONGEST)]
            signs = ever_rejected(found, shape.median, "signs")
            continuous = [Share(1 - each.value, each.error) for each in (*ever, signs)]
            rows.append((name, primaries, fixed, planned, *continuous))
    return rows


def alarm_rows(count: int) -> list[tuple[object, ...]]:
    """Return for each symmetric shape and number of primary metrics the false alarms without a difference."""
    rows: list[tuple[object, ...]] = []
    for seed, name in enumerate(SYMMETRIC, 100):
        for primaries in PRIMARIES:
            found = campaigns(SHAPES[name], count, primaries, LONGEST, seed)
            fixed = alarms(found[..., :FIXED], SignedRanks())
            planned = alarms(found[..., : LOOKS[-1]], Planned(LOOKS))
            ever = [ever_rejected(found[..., :most], 0.0) for most in (30, LONGEST)]
            rows.append((name, primaries, fixed, planned, *ever, stops_wrongly(found[: max(count // 10, 1)])))
    return rows


def stops_wrongly(found: Floats) -> Share:
    """Return how often the test of a fixed size rejects after any block at Holm's first step: what must not be done."""
    hits = []
    for metrics in found:
        least = [min(signed_rank_p(row[:count]) for row in metrics) for count in range(6, found.shape[2] + 1)]
        hits.append(min(least) <= 0.05 / found.shape[1])
    return Share.of(hits)


def stop_rows(count: int) -> list[tuple[object, ...]]:
    """Return for each symmetric shape, effect and number of primary metrics how early the campaigns stop."""
    rows: list[tuple[object, ...]] = []
    for seed, name in enumerate(SYMMETRIC, 200):
        for primaries in PRIMARIES:
            cells: list[object] = [name, primaries]
            for effect in EFFECTS:
                stopped = stops(campaigns(SHAPES[name], count, primaries, LONGEST, seed, effect))
                median = int(np.median(np.where(stopped > 0, stopped, LONGEST + 1)))
                early = Share.of((stopped > 0) & (stopped < 30))
                cells.append(f"{early}, {median if median <= LONGEST else f'over {LONGEST}'}")
            rows.append(tuple(cells))
    return rows


def power_rows(count: int) -> list[tuple[object, ...]]:
    """Return the power of the advised size by symmetric shape but Student's, number of primary metrics and pilot."""
    rows: list[tuple[object, ...]] = []
    for seed, name in enumerate(SYMMETRIC, 300):
        if SHAPES[name].draw is _heavy:  # pilots with an outlier ask for thousands of blocks
            continue
        for primaries in PRIMARIES:
            for pilot in PILOTS:
                found = [powered(SHAPES[name], effect, pilot, primaries, count, seed) for effect in POWERED]
                rows.append((name, primaries, pilot, *(f"{share}, {median:.0f}" for share, median in found)))
    return rows


def margin_rows(count: int) -> list[tuple[object, ...]]:
    """Return how often a difference just beyond the margin, and none, are called equivalent."""
    rows: list[tuple[object, ...]] = []
    for seed, name in enumerate(SYMMETRIC, 400):
        cells: list[object] = [name]
        for effect in (1.0, 0.0):
            found = campaigns(SHAPES[name], count, 1, 30, seed, effect)
            verdicts = [settle([primary(metrics[0, :FIXED], Margin(MARGIN))])[0].verdict for metrics in found]
            cells.append(Share.of([verdict == "equivalent" for verdict in verdicts]))
            above, below = (
                first_rejection(found, bound, sides=side)[:, 0] > 0
                for bound, side in ((-MARGIN, "above"), (MARGIN, "below"))
            )
            cells.append(Share.of(above & below))
        rows.append(tuple(cells))
    return rows


def main() -> None:
    """Print all tables."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else CAMPAIGNS
    began = time.monotonic()
    names = "Python {}, NumPy {}, SciPy {}".format(platform.python_version(), version("numpy"), version("scipy"))
    print(f"{count} campaigns for each setting, seed {SEED}; {platform.machine()}, {names}")
    effects, powers = (" | ".join(f"{effect:g} SD" for effect in each) for each in (EFFECTS, POWERED))
    designs = "20 blocks | 10, 20, 30 | every block to 30 | to 60"
    tables = (
        (f"differences | primaries | {designs} | to 60, signs", coverage_rows),
        (f"differences | primaries | {designs} | to 60 by a fixed size", alarm_rows),
        (f"differences | primaries | {effects}", stop_rows),
        (f"differences | primaries | pilot | {powers}", power_rows),
        ("differences | 1 SD, 20 blocks | every block to 30 | none, 20 blocks | every block to 30", margin_rows),
    )
    for head, rows in tables:
        _print(head, rows(count))
        sys.stdout.flush()
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
