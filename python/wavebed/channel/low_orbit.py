"""Low-orbit access: a rate and a delay for each slot of a schedule, an interruption between slots, and outages.

The network assigns a satellite for a slot (Starlink: 15 s, Mohan et al., WWW 2024, 6.2). A rate is a quantile of its
area: its normal score is a sum of one that holds for the slot and one that changes each second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from msgspec import Struct

from wavebed.channel.propagation.correlated import generator, normal_cdf
from wavebed.config.problems import Problem, at, described
from wavebed.config.reader import Reader, unread
from wavebed.config.table import Key, array_schema, read_table, table
from wavebed.config.units import format_rate, parse_rate
from wavebed.config.values import RATE_SCHEMA, TIME_SCHEMA, name, percentage, seconds, time_text
from wavebed.errors import UserError
from wavebed.foreign import read_toml
from wavebed.pattern.model import STATES, steps
from wavebed.scene import values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from wavebed.config.data import Json
    from wavebed.pattern.model import Pattern

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]
    Direction = Literal["down", "up"]


TABLE = "low-orbit"
STEP_NS = 10_000_000
"""Step of a pattern; times of the schedule are rounded to it."""
STEPS_PER_S = 100
JITTER_STEPS = 2
"""Steps for which the jitter holds: in Starlink it is uncorrelated after some 20 ms (docs/validation/low-orbit.md)."""
MOST_S = 86_400
_MOST_AREAS = 16
_MOST_QUANTILES = 101
_MOST_JITTER = 2.0
"""Standard deviations at which the jitter is cut off."""


def _list_reader(
    one: Callable[[object], float], example: str, schema: Mapping[str, Json], raw: Callable[[float], str], least: int
) -> Reader[tuple[float, ...]]:
    def read(value: object) -> tuple[float, ...]:
        if not isinstance(value, list) or not least <= len(value) <= _MOST_QUANTILES:
            count = f"{least} to {_MOST_QUANTILES}"
            raise Problem(f"{described(value)} is not an array of {count} quantiles: write it as in {example}")
        found = tuple(at(f"[{number}]", one, each) for number, each in enumerate(value))
        if any(after < before for before, after in pairwise(found)):
            raise Problem("does not ascend: sort it: its values are quantiles, from the least to the greatest")
        return found

    return Reader(
        read,
        f"[{'RATE' if 'bit' in example else 'TIME'}, …]",
        {"type": "array", "minItems": least, "maxItems": _MOST_QUANTILES, "items": dict(schema)},
        lambda found: [raw(each) for each in found],
    )


def _rate(value: object) -> float:
    if not isinstance(value, str):
        raise Problem(f'{described(value)} is not a rate: write it in quotes, as in "100mbit"')
    return float(parse_rate(value))


_rates = _list_reader(_rate, '["2mbit", "90mbit", "250mbit"]', RATE_SCHEMA, lambda each: format_rate(round(each)), 2)
_times = _list_reader(seconds(0.001, MOST_S), '["1s", "3s", "20s"]', TIME_SCHEMA, time_text, 0)


def _range() -> Reader[tuple[float, ...]]:
    times = _list_reader(seconds(0, 10), '["50ms", "130ms"]', TIME_SCHEMA, time_text, 2)

    def read(value: object) -> tuple[float, ...]:
        found = times(value)
        if len(found) != 2:
            raise Problem('has more than two times: write the least and the greatest, as in ["50ms", "130ms"]')
        return found

    return Reader(read, "[TIME, TIME]", times.schema(), times.raw)


def _correlation(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise Problem(f"{described(value)} is not a correlation: write a number from 0 to less than 1")
    return float(value)


_correlations = Reader(_correlation, "NUMBER", {"type": "number", "minimum": 0, "exclusiveMaximum": 1})


class SlotDelayTable(Struct, frozen=True, kw_only=True):
    """The round trip, half of it in each direction."""

    least_s: Annotated[float, Key(seconds(0, 10), "the shortest round trip")]
    change_s: Annotated[
        float, Key(seconds(0, 10), "mean of what a slot adds to it, from an exponential distribution, once a slot")
    ]
    jitter_s: Annotated[
        float,
        Key(
            seconds(0, 1),
            "standard deviation of the delay of each direction, drawn each 20 ms; the mean is two of them above the"
            " least",
        ),
    ] = 0.0


class AreaTable(Struct, frozen=True, kw_only=True):
    """The rates and outages of one kind of place."""

    name: Annotated[str, Key(name, "its name")]
    share: Annotated[float, Key(percentage, "fraction of the time in areas of this kind")] = 1.0
    lasts_s: Annotated[
        float, Key(seconds(1, MOST_S), "mean time until the next area, from an exponential distribution")
    ] = float(MOST_S)
    down: Annotated[
        tuple[float, ...],
        Key(_rates, "downlink rates without outage: quantiles at even steps from the least to the greatest"),
    ]
    up: Annotated[tuple[float, ...], Key(_rates, "uplink rates, written in the same way")]
    outage_lasting: Annotated[
        tuple[float, ...],
        Key(_times, "durations of outages by obstruction, quantiles: whole seconds, packets are lost"),
    ] = ()
    outage_every: Annotated[
        tuple[float, ...], Key(_times, "times from the end of an outage to the next one, quantiles")
    ] = ()


_AREAS = unread("[[low-orbit.area]]", lambda: array_schema(AreaTable))


class LowOrbitTable(Struct, frozen=True, kw_only=True):
    """The access; the defaults are Starlink's, from docs/validation/low-orbit.md."""

    period_s: Annotated[float, Key(seconds(1, 3600), "time between two reconfigurations")] = 15.0
    first_s: Annotated[
        float, Key(seconds(0, 3600), "the first reconfiguration: time 0 is the start of a minute in UTC")
    ] = 12.0
    interruption_s: Annotated[
        tuple[float, ...],
        Key(_range(), "the least and the greatest time without service at a reconfiguration, evenly distributed"),
    ] = (0.05, 0.13)
    recovery_s: Annotated[float, Key(seconds(0, 10), "time in which the rate then rises evenly from 0")] = 0.2
    interruption_loss: Annotated[
        float, Key(percentage, "loss of packets that are sent during an interruption; the others wait")
    ] = 0.6
    down_loss: Annotated[float, Key(percentage, "downlink loss at other times")] = 0.0
    up_loss: Annotated[float, Key(percentage, "uplink loss at other times")] = 0.0
    between_slots: Annotated[
        float,
        Key(
            percentage,
            "fraction of the variance of the rate's normal score that holds for a slot",
            name="between-slots",
        ),
    ]
    slot_memory: Annotated[float, Key(_correlations, "correlation of this part from slot to slot")]
    second_memory: Annotated[float, Key(_correlations, "correlation of the rest from second to second of a slot")]
    delay: Annotated[
        SlotDelayTable, Key(table(SlotDelayTable, "[low-orbit.delay]", "[low-orbit.delay]"), "the delay: keys below")
    ]
    area: Annotated[
        object,
        Key(
            _AREAS,
            "kinds of places, 1 to 16, among which a drive changes: keys below",
        ),
    ]


class LowOrbitFile(Struct, frozen=True, kw_only=True):
    """The file of a low-orbit access."""

    title: Annotated[str, Key(values.title, "title for people")]
    anchor: Annotated[str, Key(values.title, "the publication that the numbers come from, or `illustrative`")]
    duration_s: Annotated[float, Key(seconds(15, MOST_S), "how long it lasts")]
    fitted: Annotated[tuple[str, ...], Key(values.texts, "values that were fitted to a measurement, and to which")] = ()
    low_orbit: Annotated[
        LowOrbitTable, Key(table(LowOrbitTable, "[low-orbit]", "[low-orbit]"), "the access: keys below")
    ]


@dataclass(frozen=True, eq=False)
class LowOrbit:
    """An access that is described.

    Parameters
    ----------
    name : str
        The file's, without its ending, or the condition's.
    title, anchor : str
        For people.
    duration_s : float
        Of a realisation.
    table : LowOrbitTable
        The values.
    areas : tuple of AreaTable
        At least one.
    """

    name: str
    title: str
    anchor: str
    duration_s: float
    table: LowOrbitTable
    areas: tuple[AreaTable, ...]

    @property
    def seconds(self) -> int:
        """Whole seconds of a realisation."""
        return round(self.duration_s)


def is_low_orbit(document: Mapping[str, object]) -> bool:
    """Tell whether a TOML document is a low-orbit access and not a radio scene."""
    return TABLE in document


def load_low_orbit(file: Path) -> LowOrbit:
    """Read the file of a low-orbit access.

    Raises
    ------
    UserError
        If it cannot be read, or is wrong: the line names the file and the key.
    """
    return low_orbit_of(read_toml(file, "name a scene file"), file, file.stem)


def low_orbit_of(document: Mapping[str, object], file: Path, known_as: str) -> LowOrbit:
    """Return the access that a TOML document describes.

    Raises
    ------
    UserError
        If it is wrong: the line names the file and the key.
    """
    try:
        found = read_table(LowOrbitFile, dict(document), "a scene")
        areas = at(TABLE, _areas, found.low_orbit.area)
        _check_times(found.low_orbit)
    except Problem as problem:
        raise UserError(f"{file}: {problem}") from None
    return LowOrbit(known_as, found.title, found.anchor, found.duration_s, found.low_orbit, areas)


def _check_times(orbit: LowOrbitTable) -> None:
    if orbit.first_s >= orbit.period_s:
        raise Problem(
            f"is not before the second reconfiguration: write a time below the period, {time_text(orbit.period_s)}",
            f"{TABLE}.first",
        )
    if orbit.interruption_s[1] + orbit.recovery_s >= orbit.period_s:
        raise Problem("is, with recovery, as long as the period: write a shorter one", f"{TABLE}.interruption")


def _areas(given: object) -> tuple[AreaTable, ...]:
    if not isinstance(given, list) or not 1 <= len(given) <= _MOST_AREAS:
        raise Problem(f"is not an array of 1 to {_MOST_AREAS} tables: write [[low-orbit.area]] above each one", "area")
    found = tuple(at(f"area[{number}]", _area, each) for number, each in enumerate(given, 1))
    if sum(each.share for each in found) <= 0:
        raise Problem('has no area with a share of the time: write share = "100%"', "area")
    return found


def _area(given: object) -> AreaTable:
    found = read_table(AreaTable, given, "[[low-orbit.area]]")
    if bool(found.outage_lasting) != bool(found.outage_every):
        raise Problem("outage-lasting and outage-every stand together: add the other one", "outage-lasting")
    return found


def low_orbit_text(access: LowOrbit, fitted: Sequence[str]) -> str:
    """Return the text of the file of an access."""
    orbit = access.table

    def times(found: Sequence[float]) -> str:
        return "[" + ", ".join(f'"{time_text(each)}"' for each in found) + "]"

    def rates(found: Sequence[float]) -> str:
        return "[" + ", ".join(f'"{format_rate(round(each))}"' for each in found) + "]"

    lines = [
        f'title = "{access.title}"',
        f'anchor = "{access.anchor}"',
        f'duration = "{time_text(access.duration_s)}"',
        "fitted = [" + ", ".join(f'"{each}"' for each in fitted) + "]",
        "",
        f"[{TABLE}]",
        f'period = "{time_text(orbit.period_s)}"',
        f'first = "{time_text(orbit.first_s)}"',
        f"interruption = {times(orbit.interruption_s)}",
        f'recovery = "{time_text(orbit.recovery_s)}"',
        f'interruption-loss = "{orbit.interruption_loss * 100:g}%"',
        f'down-loss = "{orbit.down_loss * 100:g}%"',
        f'up-loss = "{orbit.up_loss * 100:g}%"',
        f'between-slots = "{orbit.between_slots * 100:g}%"',
        f"slot-memory = {orbit.slot_memory:g}",
        f"second-memory = {orbit.second_memory:g}",
        "",
        f"[{TABLE}.delay]",
        f'least = "{time_text(orbit.delay.least_s)}"',
        f'change = "{time_text(orbit.delay.change_s)}"',
        f'jitter = "{time_text(orbit.delay.jitter_s)}"',
    ]
    for area in access.areas:
        lines += [
            "",
            f"[[{TABLE}.area]]",
            f'name = "{area.name}"',
            f'share = "{area.share * 100:.4g}%"',
            f'lasts = "{time_text(area.lasts_s)}"',
            f"down = {rates(area.down)}",
            f"up = {rates(area.up)}",
        ]
        if area.outage_lasting:
            lines += [
                f"outage-lasting = {times(area.outage_lasting)}",
                f"outage-every = {times(area.outage_every)}",
            ]
    return "\n".join(lines) + "\n"


def draw_areas(access: LowOrbit, seed: int, count: int) -> Integers:
    """Return the area of each of `count` seconds, as its place in `LowOrbit.areas`."""
    random = generator(seed, f"{TABLE} areas")
    weights = np.array([area.share / area.lasts_s for area in access.areas])
    found = np.empty(0, dtype=np.int64)
    while len(found) < count:
        chosen = int(random.choice(len(weights), p=weights / weights.sum()))
        lasting = max(1, round(random.exponential(access.areas[chosen].lasts_s)))
        found = np.concatenate((found, np.full(min(lasting, count), chosen)))
    return found[:count]


def draw_rates(access: LowOrbit, seed: int, direction: Direction, area: Integers | None = None) -> Floats:
    """Return the rate of each second before interruptions, bits per second; 0 in an outage.

    Parameters
    ----------
    area : int array, optional
        The area of each second, for a drive that is known; by default drawn for the duration of the access.
    """
    if area is None:
        area = draw_areas(access, seed, access.seconds)
    orbit = access.table
    slot = _slots(orbit, np.arange(len(area), dtype=np.float64))
    scores = _scores(orbit, slot, generator(seed, f"{TABLE} {direction}"))
    places = normal_cdf(scores)
    rates = np.empty(len(area))
    for number, each in enumerate(access.areas):
        here = area == number
        quantiles = each.down if direction == "down" else each.up
        rates[here] = np.interp(places[here], np.linspace(0, 1, len(quantiles)), quantiles)
    rates[_outages(access, seed, area)] = 0.0
    return rates


def _slots(orbit: LowOrbitTable, time_s: Floats) -> Integers:
    """Return the number of the slot at each time, from 0."""
    return np.floor((time_s - orbit.first_s) / orbit.period_s + 1e-9).astype(np.int64) + 1


def _scores(orbit: LowOrbitTable, slot: Integers, random: np.random.Generator) -> Floats:
    """Return the normal score of each second."""
    slots = _remembered(random.standard_normal(int(slot[-1]) + 1), orbit.slot_memory)
    inner = random.standard_normal(len(slot))
    starts = np.flatnonzero(np.diff(slot, prepend=slot[0] - 1))
    for begin, end in zip(starts, [*starts[1:], len(slot)], strict=True):
        inner[begin:end] = _remembered(inner[begin:end], orbit.second_memory)
    share = orbit.between_slots
    return np.asarray(np.sqrt(share) * slots[slot] + np.sqrt(1 - share) * inner, dtype=np.float64)


def _remembered(drawn: Floats, memory: float) -> Floats:
    """Return a stationary autoregressive process of order 1 from independent normal numbers."""
    found = drawn.copy()
    for place in range(1, len(found)):
        found[place] = memory * found[place - 1] + np.sqrt(1 - memory**2) * drawn[place]
    return found


def _outages(access: LowOrbit, seed: int, area: Integers) -> NDArray[np.bool_]:
    """Return whether each second is in an outage."""
    random = generator(seed, f"{TABLE} outages")
    out = np.zeros(len(area), dtype=bool)
    changes = np.flatnonzero(np.diff(area, prepend=area[0] - 1))
    for begin, end in zip(changes, [*changes[1:], len(area)], strict=True):
        every, lasting = (access.areas[area[begin]].outage_every, access.areas[area[begin]].outage_lasting)
        if not every:
            continue
        # An area is entered at any moment of a time between outages: long ones are entered more often.
        between = _quantiles(every, (np.arange(64) + 0.5) / 64)
        now = float(begin + random.choice(between, p=between / between.sum()) * random.random())
        while now < end:
            lasts = max(1, round(float(_quantiles(lasting, random.random()))))
            out[round(now) : round(now) + lasts] = True
            now += lasts + float(_quantiles(every, random.random()))
    return out


def _quantiles(found: Sequence[float], places: Floats | float) -> Floats:
    return np.asarray(np.interp(places, np.linspace(0, 1, len(found)), found), dtype=np.float64)


def reconfigurations_s(access: LowOrbit) -> Floats:
    """Return the times of the reconfigurations, seconds."""
    return np.arange(access.table.first_s, access.duration_s, access.table.period_s)


def _service(access: LowOrbit, seed: int, count: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Return for each of `count` steps the fraction of the rate that is served, and whether service is interrupted."""
    orbit = access.table
    random = generator(seed, f"{TABLE} interruptions")
    served, interrupted = np.ones(count), np.zeros(count, dtype=bool)
    least, most = orbit.interruption_s
    recovery = round(orbit.recovery_s * STEPS_PER_S)
    for moment_s in np.arange(orbit.first_s, count / STEPS_PER_S, orbit.period_s):
        begin = round(moment_s * STEPS_PER_S)
        end = begin + round(float(random.uniform(least, most)) * STEPS_PER_S)
        served[begin:end] = 0.0
        interrupted[begin:end] = True
        rising = served[end : end + recovery]
        rising[:] = (np.arange(len(rising)) + 0.5) / max(1, recovery)
    return served, interrupted


def draw_drives(access: LowOrbit, seeds: Sequence[int], area: Integers | None = None) -> Floats:
    """Return the mean downlink rate of each second with interruptions, Mbit/s, (seeds, seconds)."""
    rows = []
    for seed in seeds:
        rates = draw_rates(access, seed, "down", area)
        served, _ = _service(access, seed, len(rates) * STEPS_PER_S)
        rows.append(rates * served.reshape(-1, STEPS_PER_S).mean(axis=1) / 1e6)
    return np.array(rows)


def to_pattern(access: LowOrbit, seed: int, direction: Direction) -> Pattern:
    """Return the pattern of one direction: rate, delay, loss and state in steps of 10 ms."""
    orbit = access.table
    rates = np.repeat(draw_rates(access, seed, direction), STEPS_PER_S)
    served, interrupted = _service(access, seed, len(rates))
    outage = rates == 0
    loss = np.full(len(rates), orbit.down_loss if direction == "down" else orbit.up_loss)
    loss[interrupted] = np.maximum(loss[interrupted], orbit.interruption_loss)
    loss[outage] = 1.0
    state = np.full(len(rates), STATES.index("los"), dtype=np.uint8)
    state[interrupted] = STATES.index("handover")
    state[outage] = STATES.index("outage")
    pattern = steps(
        np.arange(len(rates), dtype=np.int64) * STEP_NS,
        len(rates) * STEP_NS,
        rate_bps=np.rint(rates * served).astype(np.int64),
        delay_ns=_delay_ns(orbit, seed, direction, len(rates)),
        loss=loss,
        state=state,
    ).merged()
    header = (("title", access.title), ("source", access.anchor), ("seed", str(seed)), ("direction", direction))
    return replace(pattern, header=header)


def _delay_ns(orbit: LowOrbitTable, seed: int, direction: Direction, count: int) -> Integers:
    """Return the one-way delay of each step, nanoseconds in whole microseconds."""
    time_s = np.arange(count) / STEPS_PER_S
    slot = _slots(orbit, time_s)
    # Both directions take the same way, so they draw the same change.
    changes = generator(seed, f"{TABLE} delay").exponential(1.0, int(slot[-1]) + 1) * orbit.delay.change_s
    random = generator(seed, f"{TABLE} jitter {direction}")
    drawn = np.clip(random.standard_normal(-(-count // JITTER_STEPS)), -_MOST_JITTER, _MOST_JITTER) + _MOST_JITTER
    jitter_s = np.repeat(drawn, JITTER_STEPS)[:count] * orbit.delay.jitter_s
    delay_s = (orbit.delay.least_s + changes[slot]) / 2 + jitter_s
    return np.asarray(np.rint(delay_s * 1e6), dtype=np.int64) * 1000
