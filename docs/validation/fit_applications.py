"""Compare downloads and videos over drawn and over held-out walks: the tables in `recorded/fit-applications.txt`.

All of it is in virtual time; `fit_applications_laboratory.py` runs real programs. The traces are looked for in the
folder that WAVEBED_TRACES names.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from fit_walks import END, markdown

from wavebed.channel.placemap import draw_walks
from wavebed.channel.within import PARTS, draw_within, learn_within
from wavebed.fit import learn as learning
from wavebed.fit.applications import (
    MOST_DEVIATION,
    MOST_DISTANCE,
    SHORT_BUFFER,
    USUAL_BUFFER,
    Measure,
    Volumes,
    downloads,
    videos,
    watch,
)
from wavebed.fit.judge import ks_distance, pooled
from wavebed.fit.laps import DEFAULT_RULE, find_files, read_laps, split
from wavebed.fit.learn import learn
from wavebed.pattern.model import steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wavebed.channel.placemap import Floats, Integers, PlaceMap
    from wavebed.fit.laps import Lap
    from wavebed.pattern import Pattern

    Measures: TypeAlias = Mapping[str, Measure]

HERE: Final = Path(__file__).parent
PAGE: Final = HERE / "recorded" / "fit-applications.txt"
KINDS: Final = {
    "mmwave": ("lumos-5g", DEFAULT_RULE),
    "last": ("lumos-5g", "last:0.25"),
    "lte": ("lumos-4g", DEFAULT_RULE),
    "lte last": ("lumos-4g", "last:0.25"),
}
"""Tables, with the folder of the walks and the rule that holds some of them out."""
SIZES_MB: Final = (2, 20, 200, 2000)
DRAWN_WALKS: Final = 200
FOLDS: Final = 4
FOLD_WALKS: Final = 500
"""Drawn for each fold, with seeds of its own: of 200 walks the mean time stalled has a standard error of 7 %."""
RECORDINGS: Final = Path(os.environ.get("WAVEBED_DATA", HERE.parents[1] / ".." / "shared" / "data")) / "m2ho"
RESAMPLES: Final = 300
SEED: Final = 1
NONE: Final = "–"


@dataclass(frozen=True, slots=True, eq=False)
class Walks:
    """Walks of one network: measured ones, and those drawn from what was learned of the fitted ones."""

    places: PlaceMap
    fitted: Sequence[Floats]
    held_out: Sequence[Floats]
    drawn: Sequence[Floats]
    pooling: Sequence[Floats]


def main() -> int:
    """Write the tables; 2 if there are no traces."""
    folder = Path(os.environ.get("WAVEBED_TRACES", HERE.parents[1] / ".." / "shared" / "traces"))
    if not folder.is_dir():
        print(f"{folder}: no such folder: name the traces' in WAVEBED_TRACES", file=sys.stderr)
        return 2
    for kind, (_, rule) in KINDS.items():
        write(tables(kind, walks_of(folder, kind)))
        if rule == DEFAULT_RULE:
            write(
                {
                    f"{kind} folds": markdown([*_folds(folder, kind)]),
                    f"{kind} causes": markdown([*_causes(folder, kind)]),
                }
            )
    return 0


def write(new: Mapping[str, str], file: Path = PAGE) -> None:
    """Put each table of a page between its two comments."""
    page = file.read_text(encoding="utf-8")
    for name, table in new.items():
        head, rest = page.split(f"<!-- table {name} -->\n")
        page = f"{head}<!-- table {name} -->\n{table}{rest[rest.index(END) :]}"
    file.write_text(page, encoding="utf-8")


def walks_of(folder: Path, kind: str) -> Walks:
    """Learn a map, draw from it, and read the held-out walks."""
    chosen = split(_files(folder, kind), KINDS[kind][1])
    laps = chosen.fitted_laps([])
    places = learn(laps, kind, kind, kind, lambda _left: None).places
    drawn = list(draw_walks(places, range(1, DRAWN_WALKS + 1)))
    rates, random = pooled([lap.parts for lap in laps]), np.random.default_rng(SEED)
    return Walks(
        places,
        [lap.rates for lap in laps],
        [lap.rates for lap in chosen.held_out_laps([])],
        drawn,
        [random.choice(rates, len(walk)) for walk in drawn],
    )


def _folds(folder: Path, kind: str) -> Iterator[Sequence[str]]:
    """Compare each walk with walks of a map that was learned without it."""
    laps = read_laps(_files(folder, kind), [])
    sides: list[tuple[Measures, Measures]] = []
    for fold in range(FOLDS):
        fitted = [lap for number, lap in enumerate(laps) if number % FOLDS != fold]
        places = learn(fitted, kind, kind, kind, lambda _left: None).places
        drawn = list(draw_walks(places, range(1 + fold * FOLD_WALKS, 1 + (fold + 1) * FOLD_WALKS)))
        sides.append((measures(drawn), measures([lap.rates for lap in laps[fold::FOLDS]])))
    yield ("figure", "measured", "drawn", "deviation (90 %)", "KS", "deviation in each fold")
    for key in sides[0][0]:
        drawn_all, measured_all = (_joined([side[number][key] for side in sides]) for number in (0, 1))
        deviation, distance = compared(drawn_all, measured_all)
        low, high, *_ = _intervals(drawn_all, measured_all)
        yield (
            f"{drawn_all.name}, {drawn_all.unit}" if drawn_all.unit else drawn_all.name,
            _short(measured_all.middle),
            _short(drawn_all.middle),
            f"{_percent(deviation)} ({_percent(low)} to {_percent(high)})",
            f"{distance:.2f}",
            ", ".join(_percent(compared(one[key], other[key])[0]) for one, other in sides),
        )


def _joined(parts: Sequence[Measure]) -> Measure:
    first = parts[0]
    return Measure(first.key, first.name, first.unit, [walk for part in parts for walk in part.by_walk], first.whole)


def _causes(folder: Path, kind: str) -> Iterator[Sequence[str]]:
    """Change one thing at a time in the fitted walks, and in the walks drawn from them."""
    _, rule = KINDS[kind]
    laps = split(_files(folder, kind), rule).fitted_laps([])
    learned = learn(laps, kind, kind, kind, lambda _left: None)
    places, walks = learned.places, [lap.rates for lap in laps]
    seeds = range(1, 2 * DRAWN_WALKS + 1)
    upright = replace(places, lean=np.stack((np.zeros((3, 3)), np.ones((3, 3))), axis=-1))
    rows: dict[str, Volumes] = {
        "measured": Volumes(walks),
        "measured, straight lines between seconds": _Fine(_lines(walks)),
    }
    if RECORDINGS.is_dir():
        within = learn_within(recordings(RECORDINGS))
        fine = [draw_within(within, np.rint(1e6 * walk).astype(np.int64), seed) for seed, walk in enumerate(walks)]
        rows["measured, with parts of seconds drawn"] = _Fine([each.ravel() / 1e6 for each in fine])
    rows["drawn"] = Volumes(list(draw_walks(places, seeds)))
    rows["drawn, tilt of forecasts"] = Volumes(list(draw_walks(learned.ahead, seeds)))
    rows["drawn, rates lean to no side of their level"] = Volumes(list(draw_walks(upright, seeds)))
    rows["drawn, no level below 5 Mbit/s, none halved"] = Volumes(list(draw_walks(_coarse(laps, kind), seeds)))
    yield ("video, 4 s of buffer", "time stalled, %", "stalls in a session", "mean duration of a stall, s")
    for name, volumes in rows.items():
        walk, start_s = volumes.starts()
        found = watch(volumes, walk, start_s, SHORT_BUFFER)
        stalled = 100 * found.stalled_s / (SHORT_BUFFER.duration_s + found.stalled_s)
        yield (
            name,
            _short(float(stalled.mean())),
            _short(len(found.stall_s) / len(walk)),
            _short(float(found.stall_s.mean())),
        )


def _coarse(laps: Sequence[Lap], kind: str) -> PlaceMap:
    """Learn with fewer levels, as this project did before."""
    kept = learning.STATE_EDGES_MBPS, learning.WIDEST
    try:
        learning.STATE_EDGES_MBPS, learning.WIDEST = kept[0][1:], np.inf  # type: ignore[assignment]
        return learn(laps, kind, kind, kind, lambda _left: None).places
    finally:
        learning.STATE_EDGES_MBPS, learning.WIDEST = kept


class _Fine(Volumes):
    """Volumes over walks with ten rates in each second."""

    def __init__(self, walks: Sequence[Floats]) -> None:
        super().__init__([walk / PARTS for walk in walks])

    def until(self, walk: Integers, time_s: Floats) -> Floats:
        return super().until(walk, PARTS * time_s)

    def when(self, walk: Integers, volume: Floats) -> Floats:
        return super().when(walk, volume) / PARTS

    def starts(self) -> tuple[Integers, Floats]:
        walk, times = super().starts()
        early = times < self.seconds[walk] / PARTS
        return walk[early], times[early]


def _lines(walks: Sequence[Floats]) -> list[Floats]:
    """Return walks whose rate is straight between the middles of seconds, ten rates a second."""
    at = (np.arange(PARTS) + 0.5) / PARTS - 0.5
    return [np.interp((np.arange(len(walk))[:, None] + at).ravel(), np.arange(len(walk)), walk) for walk in walks]


def recordings(folder: Path) -> list[tuple[str, Pattern]]:
    """Read the goodput of each 100 ms at the receivers of M2HO."""
    found = []
    for file in sorted(folder.glob("*tcp-recv*.csv")):
        start_s, end_s, size = np.genfromtxt(file, delimiter=",", skip_header=1, usecols=(0, 1, 2)).T
        rate = np.rint(8 * size / (end_s - start_s)).astype(np.int64)
        found.append((file.name, steps(np.rint(1e9 * start_s).astype(np.int64), round(1e9 * end_s[-1]), rate_bps=rate)))
    return found


def _files(folder: Path, kind: str) -> list[Path]:
    return [file for file in find_files([folder / KINDS[kind][0]]) if "walking" in file.name]


def measures(walks: Sequence[Floats]) -> dict[str, Measure]:
    """Return all figures of walks."""
    found = [downloads(walks, size) for size in SIZES_MB]
    for video in (USUAL_BUFFER, SHORT_BUFFER):
        found += videos(walks, video)
    return {each.key: each for each in found}


def tables(kind: str, walks: Walks) -> dict[str, str]:
    """Return the tables of one kind, in Markdown."""
    sets = [measures(each) for each in (walks.drawn, walks.fitted, walks.held_out, walks.pooling)]
    found = {kind: markdown([*_comparison(*sets)])}
    if KINDS[kind][1] == DEFAULT_RULE:
        found[f"{kind} floor"] = markdown([*_floor(sets[1], sets[2])])
    return found


def _comparison(drawn: Measures, fitted: Measures, held_out: Measures, pooling: Measures) -> Iterator[Sequence[str]]:
    yield (
        *("figure", "held out", "drawn", "deviation (90 %)", "KS (90 %)", "met"),
        *("fitted walks: deviation", "KS", "without memory: deviation", "KS"),
    )
    for key, measured in held_out.items():
        deviation, distance = compared(drawn[key], measured)
        real, real_distance = compared(fitted[key], measured)
        guess, guess_distance = compared(pooling[key], measured)
        met = abs(deviation) <= MOST_DEVIATION and distance <= MOST_DISTANCE
        low, high, nearest, farthest = _intervals(drawn[key], measured)
        yield (
            f"{measured.name}, {measured.unit}" if measured.unit else measured.name,
            _short(measured.middle),
            _short(drawn[key].middle),
            f"{_percent(deviation)} ({_percent(low)} to {_percent(high)})",
            f"{distance:.2f} ({nearest:.2f} to {farthest:.2f})",
            "yes" if met else "no",
            _percent(real),
            f"{real_distance:.2f}",
            _percent(guess),
            f"{guess_distance:.2f}",
        )


def _floor(fitted: Measures, held_out: Measures) -> Iterator[Sequence[str]]:
    """Compare real walks with real walks: as many as were held out, chosen at random, with the rest."""
    yield ("figure", "deviation: median", "90th percentile", "KS: median", "90th percentile", "both targets met")
    for key, measured in held_out.items():
        random = np.random.default_rng(SEED)
        every = [*fitted[key].by_walk, *measured.by_walk]
        found = []
        for _ in range(RESAMPLES):
            order = random.permutation(len(every))
            cut = len(measured.by_walk)
            found.append(compared(*(_of(measured, every, part) for part in (order[cut:], order[:cut]))))
        deviation, distance = np.abs(np.array(found)).T
        yield (
            measured.name,
            *(f"{100 * value:.0f} %" for value in np.nanpercentile(deviation, (50, 90))),
            *(f"{value:.2f}" for value in np.nanpercentile(distance, (50, 90))),
            f"{100 * ((deviation <= MOST_DEVIATION) & (distance <= MOST_DISTANCE)).mean():.0f} %",
        )


def compared(one: Measure, measured: Measure) -> tuple[float, float]:
    """Return the relative deviation and the distance of one figure between walks and measured walks."""
    middle = measured.middle
    return one.middle / middle - 1 if middle else float("nan"), ks_distance(one.pooled, measured.pooled)


def _intervals(one: Measure, measured: Measure) -> list[float]:
    """Return the 90 % intervals of deviation and distance: the walks of both sides are resampled."""
    random = np.random.default_rng(SEED)
    sides = (one, measured)
    values = np.concatenate([each.pooled for each in sides])
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    # Walks in the order of their values; the second side is numbered after the first.
    lengths = [len(each) for side in sides for each in side.by_walk]
    walk = np.repeat(np.arange(len(lengths)), lengths)[order]
    ends = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)
    counts = [len(side.by_walk) for side in sides]
    found = []
    for _ in range(RESAMPLES):
        times = [np.bincount(random.integers(0, count, count), minlength=count) for count in counts]
        total = [np.cumsum(np.concatenate(part)[walk]) for part in ((times[0], 0 * times[1]), (0 * times[0], times[1]))]
        middles = [_middle(ordered, each, whole=one.whole) for each in total]
        gap = np.abs(np.subtract(*(each[ends] / max(each[-1], 1) for each in total))).max()
        found.append((middles[0] / middles[1] - 1, gap if total[0][-1] and total[1][-1] else np.nan))
    return [float(value) for column in np.array(found).T for value in np.nanpercentile(column, (5, 95))]


def _middle(ordered: Floats, total: Integers, *, whole: bool) -> float:
    """Return the mean or the median of ordered values, each repeated; `total` sums the repetitions up to each value."""
    count = int(total[-1])
    if not count:
        return float("nan")
    if whole:
        return float((np.diff(total, prepend=0) * ordered).sum() / count)
    return float(ordered[np.searchsorted(total, [(count - 1) // 2, count // 2], side="right")].mean())


def _of(measure: Measure, by_walk: Sequence[Floats], chosen: Sequence[int] | np.ndarray) -> Measure:
    return Measure(measure.key, measure.name, measure.unit, [by_walk[place] for place in chosen], measure.whole)


def _percent(share: float) -> str:
    return NONE if np.isnan(share) else f"{100 * share:+.0f} %".replace("-", "−")


def _short(value: float) -> str:
    return NONE if np.isnan(value) else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
