"""Rates as levels, and the context in which a level is left: its age, and the side from which it was entered.

A walk is a semi-Markov chain over the levels: the probability to leave depends on the time since the level was entered
(Howard 1964, "System analysis of semi-Markov processes").
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from math import erf, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct

from wavebed.channel.propagation.correlated import generators
from wavebed.channel.within import PARTS, WITHIN_SHAPES, WithinSecond, draw_within
from wavebed.config.problems import Problem
from wavebed.errors import UserError
from wavebed.foreign import read_bytes
from wavebed.formats import MAP, require_version
from wavebed.pattern.model import steps
from wavebed.prepared import prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from wavebed.config.data import Json
    from wavebed.pattern.model import Pattern

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


AGES = (2, 3, 5, 9, 17)
"""Seconds since a level was entered at which the next class of ages begins; the first class is one second."""
SIDES = 3
"""Entered at the start of the walk, from below, or from above."""
UNKNOWN = -1
"""The level of a second without a measurement."""


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """Levels, the seconds since the group of each was entered (1 in the first), and the sides; arrays of one shape."""

    level: Integers
    age: Integers
    side: Integers

    @property
    def age_class(self) -> Integers:
        """The class of each age."""
        return np.searchsorted(AGES, self.age, side="right")

    def at(self, chosen: Integers | int | tuple[slice, slice]) -> Context:
        """Return the contexts at some places of the arrays."""
        return Context(*(np.asarray(each[chosen]) for each in (self.level, self.age, self.side)))


def level_of(rates: Floats, edges: Floats) -> Integers:
    """Return the level of each rate: the number of edges, ascending, that are not above it."""
    return np.where(np.isnan(rates), UNKNOWN, np.searchsorted(edges, rates, side="right"))


def advanced(before: Context, level: Integers, groups: Integers) -> Context:
    """Return the contexts one second later, when the levels are these; age and side are of the level's group."""
    change = groups[level] - groups[before.level]
    held = change == 0
    return Context(
        level,
        np.where(held, before.age + 1, 1),
        np.where(held, before.side, np.where(change > 0, 1, 2)).astype(np.int64),
    )


def contexts(level: Integers, groups: Integers) -> Context:
    """Return the context of each second of a walk; after an unknown second a walk starts anew."""
    age, side = np.ones_like(level), np.zeros_like(level)
    group = np.where(level == UNKNOWN, UNKNOWN, groups[level])
    for second in range(1, len(level)):
        change = group[second] - group[second - 1]
        if change == 0:
            age[second], side[second] = age[second - 1] + 1, side[second - 1]
        elif level[second - 1] != UNKNOWN:
            side[second] = 1 if change > 0 else 2
    return Context(level, age, side)


QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of the rates within a level; between them the distribution is linear in the logarithm."""
TURNS = 3
"""Of a level from second to second: down, held, up."""


@dataclass(frozen=True, slots=True, eq=False)
class PlaceMap:
    """The rates at each place of a course, learned from walks.

    Parameters
    ----------
    name : str
        The file's, without its ending.
    title, source : str
        For people: what it is a map of, and the walks that it was learned from.
    duration_s : float
        Of a walk.
    step_s : float
        Time from place to place at the mean speed.
    edges_mbps : float array (levels - 1,)
        Between the levels, ascending.
    quantiles_mbps : float array (levels, 5)
        Of the rates within a level, at `QUANTILES`.
    groups : integer array (levels,)
        Group of each level, ascending from 0; the age and side of a level are its group's.
    stay : float array (levels,)
        Correlation of the normal score of the rate within its level from one second to the next.
    lean : float array (3, 3, 2) or None
        Mean and standard deviation of the normal score, by the turn into its second and the turn after it; the rates
        of two levels are then independent. ``None`` in maps of version 1: scores lean nowhere, and outlast their level.
    transitions : float array (levels, ages, sides, levels)
        Probability of the next second's level in each context, averaged over the places.
    tilt : float
        Weight of the place, 0 to 1: transitions are multiplied by ``(share at the place / share overall) ** tilt``.
    tilt_holds : bool
        Whether the place also acts on staying in a group; else only on the moves to other groups.
    weights : float array (courses,)
        Fraction of the walks that take each course; a course is an order in which places are passed.
    shares : float array (courses, places, levels)
        Fraction of the time in each level at each place.
    moves : float array (3, 3)
        Probability to pass 0, 1 or 2 places in a step, by the number passed in the step before.
    within : WithinSecond or None
        What happens within a second; ``None`` if nothing is known.
    """

    name: str
    title: str
    source: str
    duration_s: float
    step_s: float
    edges_mbps: Floats
    quantiles_mbps: Floats
    groups: Integers
    stay: Floats
    lean: Floats | None
    transitions: Floats
    tilt: float
    weights: Floats
    shares: Floats
    moves: Floats
    within: WithinSecond | None = None
    tilt_holds: bool = True

    @property
    def seconds(self) -> int:
        """Whole seconds of a walk."""
        return round(self.duration_s)

    @property
    def places(self) -> int:
        """Number of places of a course."""
        return int(self.shares.shape[1])

    @property
    def overall(self) -> Floats:
        """Fraction of the time in each level, over all places and courses."""
        return np.asarray(np.einsum("c,cpl->l", self.weights, self.shares) / self.places, dtype=np.float64)

    def tilts(self) -> Floats:
        """Return the factors that each place applies to the transitions, (courses, places, levels)."""
        return np.asarray((self.shares / self.overall) ** self.tilt, dtype=np.float64)


VERSION = MAP.version
SUFFIX = ".json"
_REMEDY = "name a map that wavebed fit wrote"
_MOST_BYTES = 64 << 20
_ROUNDING = 0.005
"""Of the sum of probabilities that are written with few digits."""

Probability = Annotated[float, Meta(ge=0, le=1)]
Correlation = Annotated[float, Meta(ge=0, lt=1)]
Score = Annotated[float, Meta(ge=-10, le=10)]
Rate = Annotated[float, Meta(ge=0, le=1_000_000)]
Text = Annotated[str, Meta(min_length=1, max_length=10_000)]


class _Course(Struct, frozen=True, forbid_unknown_fields=True):
    weight: Probability
    shares: Annotated[list[list[Probability]], Meta(min_length=1, max_length=100_000)]


class _Within(Struct, frozen=True, forbid_unknown_fields=True):
    spread: list[list[list[Annotated[float, Meta(ge=0, le=PARTS)]]]]
    shape: list[list[Score]]
    stay: list[Correlation]


class _File(Struct, frozen=True, forbid_unknown_fields=True, rename={"version": "wavebed-map"}):
    version: Literal[1, 2]
    title: Text
    source: Text
    duration_s: Annotated[float, Meta(ge=1, le=1_000_000)]
    step_s: Annotated[float, Meta(ge=0.1, le=1000)]
    edges_mbps: Annotated[list[Rate], Meta(max_length=63)]
    quantiles_mbps: list[list[Rate]]
    stay: Correlation | list[Correlation]
    tilt: Probability
    moves: list[list[Probability]]
    transitions: list[list[list[list[Probability]]]]
    courses: Annotated[list[_Course], Meta(min_length=1, max_length=64)]
    groups: list[Annotated[int, Meta(ge=0, le=63)]] | None = None
    lean: list[list[list[Score]]] | None = None
    tilt_holds: bool | None = None
    within: _Within | None = None


def is_map(file: str | Path) -> bool:
    """Tell whether a name means a map and not a scene: it ends in ``.json``."""
    return Path(file).suffix.lower() == SUFFIX


def load_map(file: str | Path) -> PlaceMap:
    """Read a map.

    Raises
    ------
    UserError
        If it cannot be read or is none; the line names the file, the key and the rule.
    """
    return decode_map(read_bytes(file, _REMEDY, most=_MOST_BYTES), str(file))


def decode_map(text: bytes, name: str) -> PlaceMap:
    """Return the map that a JSON text holds; `name` is its file, for messages.

    Raises
    ------
    UserError
        If it is none.
    """
    try:
        found = msgspec.json.decode(text, type=prepared(_File))
        _check(found)
    except msgspec.ValidationError as error:
        document = msgspec.json.decode(text)
        if isinstance(document, dict) and "wavebed-map" in document:
            require_version(name, document["wavebed-map"], MAP)
        rule, _, place = str(error).partition(" - at `$")
        key = place.rstrip("`").removeprefix(".") or "map"
        raise UserError(f"{name}: {key}: {rule[:1].lower()}{rule[1:]}: {_REMEDY}") from None
    except msgspec.DecodeError as error:
        raise UserError(f"{name}: is not JSON ({error}): {_REMEDY}") from None
    except Problem as problem:
        raise UserError(f"{name}: {problem}") from None
    levels = len(found.edges_mbps) + 1
    return PlaceMap(
        name=Path(name).name.removesuffix(SUFFIX),
        title=found.title,
        source=found.source,
        duration_s=found.duration_s,
        step_s=found.step_s,
        edges_mbps=_array(found.edges_mbps),
        quantiles_mbps=_array(found.quantiles_mbps),
        groups=np.arange(levels) if found.groups is None else np.asarray(found.groups, dtype=np.int64),
        stay=np.broadcast_to(_array(found.stay), levels),
        lean=None if found.lean is None else _array(found.lean),
        transitions=_array(found.transitions),
        tilt=found.tilt,
        weights=_array([course.weight for course in found.courses]),
        shares=_array([course.shares for course in found.courses]),
        moves=_array(found.moves),
        tilt_holds=found.tilt_holds is not False,
        within=None
        if found.within is None
        else WithinSecond(*(_array(getattr(found.within, key)) for key in WITHIN_SHAPES)),
    )


def _array(values: object) -> NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)


def _check(found: _File) -> None:
    levels = len(found.edges_mbps) + 1
    if not found.title.isprintable() or not found.source.isprintable():
        raise Problem("is not on one line: write printable text", "title" if found.source.isprintable() else "source")
    _check_shape("quantiles_mbps", found.quantiles_mbps, (levels, len(QUANTILES)))
    _check_shape("moves", found.moves, (3, 3))
    _check_shape("transitions", found.transitions, (levels, len(AGES) + 1, SIDES, levels))
    _check_version(found, levels)
    places = len(found.courses[0].shares)
    for number, course in enumerate(found.courses):
        _check_shape(f"courses[{number}].shares", course.shares, (places, levels))
    for key, rows in (("edges_mbps", [found.edges_mbps]), ("quantiles_mbps", found.quantiles_mbps)):
        if any((np.diff(row) < 0).any() for row in rows):
            raise Problem("is not ascending: sort it", key)
    sums: list[tuple[str, object]] = [
        ("moves", found.moves),
        ("transitions", found.transitions),
        ("courses.weight", [course.weight for course in found.courses]),
        *((f"courses[{number}].shares", course.shares) for number, course in enumerate(found.courses)),
    ]
    for key, values in sums:
        if np.abs(_array(values).sum(axis=-1) - 1).max() > _ROUNDING:
            raise Problem("has probabilities whose sum is not 1: write each row so that it is", key)
    _check_reached(found)


def _check_version(found: _File, levels: int) -> None:
    """Refuse keys of the other version, and check those that only version 2 has."""
    if found.version == 1:
        for key in ("groups", "lean", "tilt_holds", "within"):
            if getattr(found, key) is not None:
                raise Problem("belongs to version 2 of the format: write 2 in wavebed-map, or remove it", key)
        if isinstance(found.stay, list):
            raise Problem("is an array only in version 2 of the format: write a number", "stay")
    else:
        _check_shape("stay", found.stay, (levels,))
        _check_shape("groups", found.groups, (levels,))
        _check_shape("lean", found.lean, (TURNS, TURNS, 2))
        if found.tilt_holds is None:
            raise Problem("is missing: write true or false", "tilt_holds")
        if found.groups and (found.groups[0] != 0 or not set(np.diff(found.groups)) <= {0, 1}):
            raise Problem("does not ascend from 0 by 0 or 1: number the groups so", "groups")
    if found.within is not None:
        for key, shape in WITHIN_SHAPES.items():
            _check_shape(f"within.{key}", getattr(found.within, key), shape)
        for key in ("spread", "shape"):
            if (np.diff(_array(getattr(found.within, key)), axis=-1) < 0).any():
                raise Problem("is not ascending: sort it", f"within.{key}")


def _check_reached(found: _File) -> None:
    """Refuse a level that the map has nowhere: factors of its place would divide by zero."""
    overall = np.sum([course.weight * _array(course.shares).sum(axis=0) for course in found.courses], axis=0)
    if overall.min() <= 0:
        raise Problem(f"level {int(np.argmin(overall))} is at no place: remove it, or give it a share", "courses")


def _check_shape(key: str, values: object, shape: tuple[int, ...]) -> None:
    try:
        given = np.asarray(values, dtype=np.float64).shape
    except ValueError:
        given = ()
    if given != shape:
        raise Problem(f"is not an array of {' × '.join(map(str, shape))} numbers: {_REMEDY}", key)


def encode_map(learned: PlaceMap) -> bytes:
    """Return the text of a map's file."""
    content: dict[str, Json] = {
        "wavebed-map": 1 if learned.lean is None else VERSION,
        "title": learned.title,
        "source": learned.source,
        "duration_s": learned.duration_s,
        "step_s": learned.step_s,
        "edges_mbps": _rounded(learned.edges_mbps, 3),
        "quantiles_mbps": _rounded(learned.quantiles_mbps, 3),
        **(
            {"stay": round(float(learned.stay[0]), 4)}
            if learned.lean is None
            else {
                "groups": learned.groups.tolist(),
                "stay": _rounded(learned.stay, 4),
                "lean": _rounded(learned.lean, 4),
                "tilt_holds": learned.tilt_holds,
            }
        ),
        "tilt": round(learned.tilt, 4),
        "moves": _rounded(learned.moves, 6),
        "transitions": _rounded(learned.transitions, 6),
        "courses": [
            {"weight": round(float(weight), 6), "shares": _rounded(shares, 5)}
            for weight, shares in zip(learned.weights, learned.shares, strict=True)
        ],
    }
    if learned.within is not None:
        content["within"] = {key: _rounded(getattr(learned.within, key), 4) for key in WITHIN_SHAPES}
    return f"{_text(content, '')}\n".encode()


def _rounded(values: NDArray[np.float64], digits: int) -> Json:
    rows: Json = np.round(values, digits).tolist()
    return rows


def _text(value: Json, indent: str) -> str:
    """Write JSON with one row of numbers on each line."""
    inner = f"{indent} "
    if isinstance(value, dict):
        lines = [f"{inner}{json.dumps(key)}: {_text(each, inner)}" for key, each in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and value and isinstance(value[0], list | dict):
        return "[\n" + ",\n".join(f"{inner}{_text(each, inner)}" for each in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_NS_PER_S = 10**9


@dataclass(frozen=True, slots=True, eq=False)
class WalkNumbers:
    """The random numbers of walks, and what they give without the transitions.

    Parameters
    ----------
    course : integer array (walks,)
        Course of each walk.
    places : integer array (walks, seconds)
        Place of each second.
    levels, rates : float array (walks, seconds)
        Uniform numbers that choose the levels, and normal ones that choose the rates within them.
    """

    course: Integers
    places: Integers
    levels: Floats
    rates: Floats


def draw_walks(learned: PlaceMap, seeds: Sequence[int]) -> Floats:
    """Return the rates of new walks, Mbit/s, (seeds, seconds); a seed gives the same walk alone or among others."""
    numbers = walk_numbers(learned, seeds)
    return rates_of_walks(learned, numbers, contexts_of_walks(learned, numbers).level)


def walk_numbers(learned: PlaceMap, seeds: Sequence[int]) -> WalkNumbers:
    """Draw the random numbers of walks; maps that differ in transitions and tilt alone have the same ones."""

    def drawn(stage: str, draw: Callable[[np.random.Generator], Floats]) -> Floats:
        return np.array([draw(generator) for generator in generators(seeds, f"map {stage}")])

    seconds = learned.seconds
    course = chosen(
        np.broadcast_to(learned.weights, (len(seeds), len(learned.weights))), drawn("course", _uniform(1))[:, 0]
    )
    return WalkNumbers(
        course,
        _places(learned, drawn("moves", _uniform(int(np.ceil(seconds / learned.step_s))))),
        drawn("levels", _uniform(seconds)),
        drawn("rates", lambda generator: generator.standard_normal(seconds)),
    )


def contexts_of_walks(learned: PlaceMap, numbers: WalkNumbers) -> Context:
    """Return the contexts of each second, (walks, seconds)."""
    tilts = learned.tilts()
    course, places, drawn = numbers.course, numbers.places, numbers.levels
    ones = np.ones(len(course), dtype=np.int64)
    now = Context(chosen(learned.shares[course, places[:, 0]], drawn[:, 0]), ones, 0 * ones)
    found = [now]
    for second in range(1, places.shape[1]):
        now = next_contexts(learned, now, tilts[course, places[:, second]], drawn[:, second])
        found.append(now)
    return Context(*(np.stack([getattr(each, name) for each in found], axis=1) for name in ("level", "age", "side")))


def rates_of_walks(learned: PlaceMap, numbers: WalkNumbers, level: Integers) -> Floats:
    """Return the rates of walks with these levels, Mbit/s, (walks, seconds)."""
    return rates_within(learned, level, _normal_cdf(_scores(learned, level, numbers.rates)))


def _scores(learned: PlaceMap, level: Integers, noise: Floats) -> Floats:
    """Return the normal scores of the rates within their levels, (walks, seconds)."""
    scores = noise.copy()
    held = level[:, 1:] == level[:, :-1]
    stay = learned.stay[level[:, 1:]] * (held | (learned.lean is None))
    fresh = np.sqrt(1 - stay**2)
    for second in range(1, level.shape[1]):
        scores[:, second] = stay[:, second - 1] * scores[:, second - 1] + fresh[:, second - 1] * noise[:, second]
    if learned.lean is None:
        return scores
    mean, spread = np.moveaxis(learned.lean[turns(level)], -1, 0)
    return np.asarray(mean + spread * scores, dtype=np.float64)


def turns(level: Integers) -> tuple[Integers, Integers]:
    """Return the turn into each second of walks, and the turn after it: 0 down, 1 held, 2 up; (walks, seconds)."""
    turn = np.sign(np.diff(level, axis=-1)) + 1
    edge = np.ones((*level.shape[:-1], 1), dtype=np.int64)
    return np.concatenate((edge, turn), axis=-1), np.concatenate((turn, edge), axis=-1)


def to_pattern(learned: PlaceMap, seed: int) -> Pattern:
    """Return the downlink's pattern of the walk of a seed, in steps of a second or of 100 ms; see `pattern_of`."""
    return pattern_of(learned, seed, draw_walks(learned, [seed])[0])


def pattern_of(learned: PlaceMap, seed: int, rates_mbps: Floats) -> Pattern:
    """Return the pattern of a walk that was drawn with a seed: steps of a second, or of 100 ms if the map has them."""
    rate_bps = np.rint(rates_mbps * 1e6).astype(np.int64)
    if learned.within is not None:
        rate_bps = draw_within(learned.within, rate_bps, seed).ravel()
    length_ns = len(rates_mbps) * _NS_PER_S
    pattern = steps(np.arange(0, length_ns, length_ns // len(rate_bps), dtype=np.int64), length_ns, rate_bps=rate_bps)
    header = (
        ("title", learned.title),
        ("source", f"map {learned.name}: {learned.source}"),
        ("seed", str(seed)),
        ("direction", "down"),
    )
    return replace(pattern, header=header)


def _uniform(count: int) -> Callable[[np.random.Generator], Floats]:
    return lambda generator: generator.random(count)


def chosen(weights: Floats, drawn: Floats) -> Integers:
    """Return a place in each row of weights, by a uniform number of each row."""
    total = np.cumsum(weights, axis=-1)
    places = (total <= drawn[..., None] * total[..., -1:]).sum(axis=-1)
    return np.asarray(np.minimum(places, weights.shape[-1] - 1), dtype=np.int64)


def moved(learned: PlaceMap, place: Integers, move: Integers, drawn: Floats) -> tuple[Integers, Integers]:
    """Return the places after a step, and how many were passed; a walk waits at its last place."""
    move = chosen(learned.moves[move], drawn)
    return np.minimum(place + move, learned.places - 1), move


def next_contexts(learned: PlaceMap, before: Context, tilts: Floats, drawn: Floats) -> Context:
    """Return the contexts of the next second, given the `tilts` of the places there."""
    return advanced(before, chosen(next_chances(learned, before, tilts), drawn), learned.groups)


def next_chances(learned: PlaceMap, before: Context, tilts: Floats) -> Floats:
    """Return weights of the levels of the next second, given the `tilts` of the places there."""
    chances = learned.transitions[before.level, before.age_class, before.side]
    if learned.tilt_holds:
        return np.asarray(chances * tilts, dtype=np.float64)
    return tilted(chances, learned.groups == learned.groups[before.level][..., None], tilts)


def tilted(chances: Floats, same: NDArray[np.bool_], tilts: Floats) -> Floats:
    """Return probabilities with factors on the moves to other groups; those that stay in the group keep theirs."""
    moves = np.where(same, 0.0, chances)
    weighted = moves * tilts
    scale = moves.sum(axis=-1, keepdims=True) / np.maximum(weighted.sum(axis=-1, keepdims=True), 1e-300)
    return np.asarray(np.where(same, chances, weighted * scale), dtype=np.float64)


def _places(learned: PlaceMap, drawn: Floats) -> Integers:
    """Return the place of each second: a walk at changing speed."""
    walks, count = drawn.shape
    places = np.zeros((walks, count), dtype=np.int64)
    move = np.ones(walks, dtype=np.int64)
    for step in range(1, count):
        places[:, step], move = moved(learned, places[:, step - 1], move, drawn[:, step])
    return places[:, (np.arange(learned.seconds) / learned.step_s).astype(np.int64)]


def rates_within(learned: PlaceMap, level: Integers, shares: Floats) -> Floats:
    """Return the rates, Mbit/s, at quantiles `shares` of the rates within each level; arrays of one shape."""
    logs = np.log1p(learned.quantiles_mbps)
    upper = np.clip(np.searchsorted(QUANTILES, shares, side="right"), 1, len(QUANTILES) - 1)
    low, high = np.asarray(QUANTILES)[upper - 1], np.asarray(QUANTILES)[upper]
    below, above = logs[level, upper - 1], logs[level, upper]
    return np.asarray(np.expm1(below + (shares - low) / (high - low) * (above - below)), dtype=np.float64)


def _normal_cdf(scores: Floats) -> Floats:
    """Return Φ; SciPy is not needed to draw."""
    return np.asarray(np.reshape([(1 + erf(score / sqrt(2))) / 2 for score in scores.ravel()], scores.shape))
