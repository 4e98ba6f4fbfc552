"""Learn a low-orbit access from drives: rates of each second with the clock and, if known, the kind of area."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from wavebed.channel.low_orbit import (
    AreaTable,
    LowOrbit,
    LowOrbitTable,
    SlotDelayTable,
    draw_drives,
    low_orbit_of,
    low_orbit_text,
)
from wavebed.conditions.condition import low_orbit
from wavebed.errors import UserError
from wavebed.fit.judge import FitNetwork, runs_below
from wavebed.fit.judgement import DRAWN_WALKS, FittedValue, judge
from wavebed.fit.laps import SHORTEST_S, Lap
from wavebed.foreign import parse_toml, read_text
from wavebed.pattern.formats.base import clock_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from wavebed.channel.placemap import Floats, Integers
    from wavebed.fit.judgement import FitJudgement, Tell
    from wavebed.fit.laps import LapSplit


PERIOD_S = 15
NETWORK = FitNetwork("low orbit", 1.0, 5.0, 50.0, {})
"""Below 1 Mbit/s a second is one of an outage."""
ENDED_S = 60
"""A test that ends with this long without a rate may have failed: no file says whether it did."""
QUANTILES = 21
OUTAGE_QUANTILES = 11
FEWEST_SECONDS = 200
"""An area with fewer seconds of service has the rates of all areas."""
_RATE_NAMES = ("throughput_mbps", "rate_mbps", "mbps")
_MOST_LINES = 1_000_000
_LAGS = range(1, 11)


@dataclass(frozen=True, slots=True, eq=False)
class DriveTest:
    """One test without a gap.

    Parameters
    ----------
    name : str
        Of its file, with a number where the file has several.
    clock_s : int array
        Second of the minute of each second, from 0 to 59.
    rates : float array
        Mbit/s.
    area : sequence of str
        Of each second.
    """

    name: str
    clock_s: Integers
    rates: Floats
    area: NDArray[np.str_]

    @property
    def phase(self) -> Integers:
        """Seconds of the clock modulo the period."""
        return self.clock_s % PERIOD_S


def read_drives(files: Sequence[Path], notes: list[str], *, keep_ends: bool = False) -> list[DriveTest]:
    """Read tables with a column of clock times, one of Mbit/s, and perhaps ``area``.

    Parameters
    ----------
    notes : list of str
        Gets a line for each end of a test that is left out.
    keep_ends : bool
        Whether seconds without a rate at the end of a test stay.

    Raises
    ------
    UserError
        If a table is wrong, or none has a test of a minute.
    """
    found = [test for file in files for test in _tests(file, notes, keep_ends=keep_ends)]
    if files and not found:
        raise UserError(f"{files[0]}: has no test of {SHORTEST_S} s without a gap: name longer ones")
    return found


def _tests(file: Path, notes: list[str], *, keep_ends: bool) -> list[DriveTest]:
    rows = list(csv.reader(io.StringIO(read_text(file, "name a table of drives"))))
    if len(rows) > _MOST_LINES:
        raise UserError(f"{file}: has more than {_MOST_LINES} lines: divide it")
    head = [cell.strip().lower() for cell in rows[0]] if rows else []
    rate = next((head.index(each) for each in _RATE_NAMES if each in head), None)
    if "time" not in head or rate is None:
        raise UserError(
            f"{file}: has no columns time and throughput_mbps: write them in the first line, and area if it is known"
        )
    time, area = head.index("time"), head.index("area") if "area" in head else None
    clock, rates, areas = [], [], []
    for line, row in enumerate(rows[1:], start=2):
        moment = clock_ns(row[time]) if len(row) == len(head) else None
        if moment is None:
            raise UserError(
                f"{file}: line {line}: has no clock time, as 2023-04-04 11:27:06: write it, or leave it out"
            )
        try:
            value = float(row[rate])
        except ValueError:
            value = -1.0
        if not 0 <= value <= 1e6:
            raise UserError(f"{file}: line {line}: {row[rate]!r} is no rate: write Mbit/s, 0 or more")
        clock.append(moment // 10**9)
        rates.append(value)
        areas.append("all" if area is None else row[area].strip() or "all")
    return _divided(file.name, np.array(clock, dtype=np.int64), np.array(rates), np.array(areas), notes, keep_ends)


def _divided(
    name: str, clock: Integers, rates: Floats, areas: NDArray[np.str_], notes: list[str], keep_ends: bool
) -> list[DriveTest]:
    cuts = [0, *(np.flatnonzero(np.diff(clock) != 1) + 1).tolist(), len(clock)]
    found: list[DriveTest] = []
    for begin, last in pairwise(cuts):
        end = last
        while end > begin and rates[end - 1] < NETWORK.none_mbps:
            end -= 1
        if keep_ends or last - end < ENDED_S:
            end = last
        else:
            notes.append(f"{name}: the last {last - end} s of a test have no rate, and may be no outage: left out")
        if end - begin >= SHORTEST_S:
            number = f" {len(found) + 1}" if len(cuts) > 2 else ""
            found.append(DriveTest(name + number, clock[begin:end] % 60, rates[begin:end], areas[begin:end]))
    return found


@dataclass(frozen=True, slots=True)
class PhaseTest:
    """Whether the rate changes at one phase of the period.

    Parameters
    ----------
    phase_s : int
        At which the mean absolute change to the second is greatest.
    ratio : float
        Of this change to the mean of the other phases, those beside it left out.
    chance : float
        Fraction of random rotations of the tests against each other whose greatest ratio is as great.
    missing_s : float
        Service that is missing in each period at this phase and in the two seconds beside it.
    """

    phase_s: int
    ratio: float
    chance: float
    missing_s: float


def phase_of(tests: Sequence[DriveTest], rotations: int = 1000) -> PhaseTest:
    """Return the phase of the reconfigurations: seconds that are folded on the period.

    Each period is rotated at random for the chance, so the rates keep their memory and lose their phase.
    """
    pairs = [(each.phase[1:], np.abs(np.diff(each.rates)), _served(each)) for each in tests]
    phase = np.concatenate([each[both] for each, _, both in pairs])
    change = np.concatenate([each[both] for _, each, both in pairs])
    best, ratio = _greatest(phase, change)
    random = np.random.default_rng(0)
    starts = np.concatenate([np.cumsum(each[0] == 0) + 10_000 * place for place, each in enumerate(pairs)])
    _, period = np.unique(starts[np.concatenate([each[2] for each in pairs])], return_inverse=True)
    chance = 0
    for _ in range(rotations):
        turned = (phase + random.integers(0, PERIOD_S, period.max() + 1)[period]) % PERIOD_S
        chance += _greatest(turned, change)[1] >= ratio
    level = [np.concatenate([t.rates[(t.phase == p) & (t.rates >= NETWORK.none_mbps)] for t in tests]).mean()
             for p in range(PERIOD_S)]  # fmt: skip
    near = [(best + each) % PERIOD_S for each in (-1, 0, 1)]
    usual = np.mean([each for place, each in enumerate(level) if place not in near])
    missing = sum(1 - level[place] / usual for place in near)
    return PhaseTest(best, ratio, chance / max(1, rotations), float(missing))


def _served(test: DriveTest) -> NDArray[np.bool_]:
    above = test.rates >= NETWORK.none_mbps
    return np.asarray(above[1:] & above[:-1])


def _greatest(phase: Integers, change: Floats) -> tuple[int, float]:
    """Return the phase with the greatest mean change, and its ratio to the phases that are not beside it."""
    total = np.bincount(phase, change, PERIOD_S) / np.maximum(1, np.bincount(phase, minlength=PERIOD_S))
    best = int(total.argmax())
    others = [total[(best + each) % PERIOD_S] for each in range(2, PERIOD_S - 1)]
    return best, float(total[best] / np.mean(others))


def learn_access(tests: Sequence[DriveTest], title: str, anchor: str) -> LowOrbit:
    """Return what drives teach; they have no delay and no uplink: `starlink-drive` gives both.

    Raises
    ------
    UserError
        If there is too little service to learn from.
    """
    usual = low_orbit("starlink-drive/leo")
    first = phase_of(tests, rotations=0).phase_s
    rates = np.concatenate([each.rates for each in tests])
    kinds = np.concatenate([each.area for each in tests])
    away = np.concatenate([(each.phase - first) % PERIOD_S for each in tests])
    # A second beside a reconfiguration has an interruption in it, which is drawn on its own.
    whole = (rates >= NETWORK.none_mbps) & (away >= 2) & (away <= PERIOD_S - 2)
    if whole.sum() < FEWEST_SECONDS:
        raise UserError(f"{int(whole.sum())} s of service are too few to learn from: name drives of {FEWEST_SECONDS} s")
    up = usual.areas[0].up
    areas = []
    for kind in sorted(set(kinds.tolist())):
        here = kinds == kind
        chosen = whole & here if (whole & here).sum() >= FEWEST_SECONDS else whole
        lasting, every = _outages(tests, kind)
        areas.append(
            AreaTable(
                name=_plain(kind),
                share=round(float(here.mean()), 4),
                lasts_s=_mean_stay(tests, kind),
                down=_quantiles(rates[chosen] * 1e6, QUANTILES, -4),
                up=up,
                outage_lasting=lasting,
                outage_every=every,
            )
        )
    share, slot_memory, second_memory = _memory(tests, rates[whole], first)
    orbit = LowOrbitTable(
        period_s=float(PERIOD_S),
        first_s=usual.table.first_s,
        interruption_s=usual.table.interruption_s,
        recovery_s=usual.table.recovery_s,
        interruption_loss=usual.table.interruption_loss,
        down_loss=usual.table.down_loss,
        up_loss=usual.table.up_loss,
        between_slots=share,
        slot_memory=slot_memory,
        second_memory=second_memory,
        delay=SlotDelayTable(
            least_s=usual.table.delay.least_s,
            change_s=usual.table.delay.change_s,
            jitter_s=usual.table.delay.jitter_s,
        ),
        area=None,
    )
    return LowOrbit("fitted", title, anchor, float(np.median([len(each.rates) for each in tests])), orbit, tuple(areas))


def _plain(kind: str) -> str:
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in kind.lower()).strip("-")
    return kept[:32] or "all"


def _quantiles(found: Floats, count: int, digits: int) -> tuple[float, ...]:
    return tuple(np.round(np.quantile(found, np.linspace(0, 1, count)), digits).tolist())


def _mean_stay(tests: Sequence[DriveTest], kind: str) -> float:
    stays, seconds = 0, 0
    for each in tests:
        here = each.area == kind
        seconds += int(here.sum())
        stays += int(np.count_nonzero(np.diff(here.astype(np.int8), prepend=0) == 1))
    return float(max(1, round(seconds / max(1, stays))))


def _outages(tests: Sequence[DriveTest], kind: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return quantiles of the durations of outages that begin in an area, and of the times between them."""
    lasting: list[float] = []
    between: list[float] = []
    served = 0.0
    for each in tests:
        starts, durations = runs_below(each.rates, NETWORK.none_mbps)
        lasting += [float(time) for start, time in zip(starts, durations, strict=True) if each.area[start] == kind]
        ends = (starts + durations).tolist()
        between += [
            float(start - end)
            for end, start in zip(ends, starts[1:].tolist(), strict=False)
            if each.area[start] == kind
        ]
        served += float(((each.rates >= NETWORK.none_mbps) & (each.area == kind)).sum())
    if not lasting:
        return (), ()
    every = np.array(between or [served])
    shape = np.quantile(every, np.linspace(0, 1, OUTAGE_QUANTILES))
    # Times that a test or an area cuts off are missing: the mean time is the service for each outage.
    mean = float((shape[1:] + shape[:-1]).mean() / 2)
    scaled = np.maximum(1.0, np.round(shape * served / len(lasting) / mean, 1))
    return _quantiles(np.array(lasting), OUTAGE_QUANTILES, 0), tuple(scaled.tolist())


def _memory(tests: Sequence[DriveTest], whole: Floats, first: int) -> tuple[float, float, float]:
    """Return the fraction of the variance between slots, and the two correlations, from pairs of normal scores."""
    ordered = np.sort(whole)
    same: dict[int, list[Floats]] = {lag: [] for lag in _LAGS}
    next_slot: list[Floats] = []
    for each in tests:
        away = (each.phase - first) % PERIOD_S
        slot = np.cumsum(away == 0)
        good = (each.rates >= NETWORK.none_mbps) & (away >= 2) & (away <= PERIOD_S - 2)
        rank = np.searchsorted(ordered, each.rates, side="right")
        score = ndtri((np.clip(rank, 1, len(ordered)) - 0.5) / len(ordered))
        for lag, pairs in same.items():
            both = good[:-lag] & good[lag:] & (slot[:-lag] == slot[lag:])
            pairs.append(np.stack([score[:-lag][both], score[lag:][both]]))
        both = good[:-PERIOD_S] & good[PERIOD_S:]
        next_slot.append(np.stack([score[:-PERIOD_S][both], score[PERIOD_S:][both]]))
    known = np.array([(np.concatenate(pairs, axis=1).prod(axis=0)).mean() for pairs in same.values()])
    lags = np.array(list(same))
    grid = [
        (float(((share + (1 - share) * memory**lags - known) ** 2).sum()), share, memory)
        for share in np.arange(0, 0.991, 0.01)
        for memory in np.arange(0, 0.96, 0.05)
    ]
    _, share, memory = min(grid)
    across = float(np.concatenate(next_slot, axis=1).prod(axis=0).mean())
    slots = float(np.clip(across / share, 0, 0.95)) if share > 0 else 0.0
    return round(float(share), 2), round(slots, 2), round(float(memory), 2)


def fit_access(chosen: LapSplit, tell: Tell, keep: Callable[[str], None], notes: list[str]) -> FitJudgement:
    """Return the judgement of a low-orbit access; see `wavebed.fit.judgement.fit_map` for the parameters.

    Raises
    ------
    UserError
        If a quarter is held out, or no test can be read.
    """
    from pathlib import Path

    if chosen.quarter is not None:
        raise UserError(f"--held-out {chosen.rule}: drives have no quarters: write every:N, files:PATH or none")
    tell("reading drives", 0.0)
    tests = read_drives(chosen.fitted, notes)
    learned = learn_access(tests, f"low orbit, {len(tests)} tests", f"fit of {len(chosen.fitted)} files")
    text = low_orbit_text(learned, [f"rates, outages, memory: {len(tests)} tests, held out by rule {chosen.rule}"])
    keep(text)
    # The file has rounded values: what is judged is what is saved.
    access = low_orbit_of(parse_toml(text, "fitted.toml"), Path("fitted.toml"), "fitted")
    tell("drawing drives", 0.0)
    drawn = list(draw_drives(access, range(1, DRAWN_WALKS + 1)))
    held = read_drives(chosen.held_out, notes)
    fitted, held_out = ([Lap(each.name, each.rates) for each in some] for some in (tests, held))
    found = judge("leo", NETWORK, chosen, drawn, fitted, held_out)
    phase = phase_of(tests)
    found.values.extend(
        FittedValue(key, value, "", "")
        for key, value in (
            ("phase of the reconfigurations", f"{phase.phase_s} s"),
            ("change there / elsewhere", f"{phase.ratio:.2f}"),
            ("between-slots", f"{access.table.between_slots:.0%}"),
            ("slot-memory", f"{access.table.slot_memory:g}"),
            ("second-memory", f"{access.table.second_memory:g}"),
        )
    )
    return found
