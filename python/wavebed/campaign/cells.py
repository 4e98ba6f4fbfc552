"""The cells of a campaign: the cross product of the levels of its factors, without exclusions."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from wavebed.config.problems import Problem, at, choose, described, unknown_key
from wavebed.run.change import key_parts
from wavebed.store.metrics import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.campaign.tables import FactorTable

__all__ = ["Cell", "Factor", "cells_of", "compared", "factors_of", "levels_named", "part_of"]

MOST_CELLS = 10_000
_LONGEST_NAME = 120
_UNNAMED = re.compile(r"[^a-z0-9.]+")


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor, and the changes of each of its levels by dotted key."""

    name: str
    levels: Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Cell:
    """A combination of levels: a treatment.

    Parameters
    ----------
    levels : mapping
        Level of each factor.
    changes : mapping
        Values by dotted key.
    """

    name: str
    levels: Mapping[str, str]
    changes: Mapping[str, object]


def factors_of(tables: Sequence[FactorTable], treatments: Mapping[str, Mapping[str, object]]) -> tuple[Factor, ...]:
    """Return the factors of a campaign; the treatments of its scenario are the first one.

    Parameters
    ----------
    treatments : mapping
        Changes of each treatment of the scenario by name; empty if it has none.

    Raises
    ------
    Problem
        If a factor is wrong.
    """
    found = [Factor("treatment", treatments)] if treatments else []
    for index, given in enumerate(tables, 1):
        factor = _factor(given, f"factor[{index}]")
        if factor.name in COLUMNS:
            raise Problem(
                f"{factor.name!r} is a column of metrics.parquet: choose another name", f"factor[{index}].name"
            )
        if any(factor.name == other.name for other in found):
            raise Problem(f"{factor.name!r} is taken: choose another name", f"factor[{index}].name")
        found.append(factor)
    return tuple(found)


def _factor(given: FactorTable, where: str) -> Factor:
    if bool(given.level) == bool(given.given):
        raise Problem("has neither or both: write key and values, or [[factor.level]]", where)
    if given.level:
        if given.key is not None:
            raise Problem("belongs to values, and named levels have their own set: leave it out", f"{where}.key")
        levels = {level.name: level.set for level in given.level}
        if len(levels) < len(given.level):
            raise Problem("two levels have one name: choose another for one", f"{where}.level")
        for index, level in enumerate(given.level, 1):
            for key in level.set:
                check_changed(key, f"{where}.level[{index}].set")
        return Factor(given.name, levels)
    if given.key is None:
        raise Problem('is missing: write key = "path.…"', f"{where}.key")
    check_changed(given.key, f"{where}.key")
    named = {label(value): {given.key: value} for value in given.given}
    if len(named) < len(given.given):
        raise Problem("two values have one label: use [[factor.level]] with names", f"{where}.values")
    return Factor(given.name, named)


def check_changed(key: str, where: str) -> None:
    """Check that a campaign may change a key of its scenario.

    Raises
    ------
    Problem
        If it is no key, or belongs to the whole campaign.
    """
    try:
        parts = key_parts(key)
    except Problem as problem:
        raise Problem(f"{described(key)} {problem.rule}", where) from None
    if parts[0] == "run" or parts == ("path", "seed"):
        raise Problem(f"{key} belongs to the whole campaign: write blocks and seed in [campaign]", where)


def label(value: object) -> str:
    """Return the name of a value: ``bbr``, ``20ms``, ``true``, ``droptail-1000p``."""
    text = _UNNAMED.sub("-", str(value).lower()).strip("-.")
    return text or "empty"


def cells_of(factors: Sequence[Factor], exclusions: Sequence[Mapping[str, object]], as_described: str) -> list[Cell]:
    """Return the cells; the last factor varies fastest.

    Parameters
    ----------
    as_described : str
        Name of the only cell of a campaign without factors.

    Raises
    ------
    Problem
        If an exclusion is wrong, two factors change one key, or there are no cells or too many.
    """
    if not factors:
        if exclusions:
            raise Problem("there is no factor: add [[factor]]", "exclude[1]")
        return [Cell(as_described, {}, {})]
    count = 1
    for factor in factors:
        count *= len(factor.levels)
    if count > MOST_CELLS * 10:
        raise Problem(f"the levels make {count} combinations: at most {MOST_CELLS} cells can run", "factor")
    excluded = [_exclusion(given, factors, f"exclude[{index}]") for index, given in enumerate(exclusions, 1)]
    _check_keys(factors)
    cells = []
    for combination in itertools.product(*(factor.levels.items() for factor in factors)):
        levels = {factor.name: level for factor, (level, _) in zip(factors, combination, strict=True)}
        if not any(all(levels[name] in left_out for name, left_out in each.items()) for each in excluded):
            changes = {key: value for _, set_ in combination for key, value in set_.items()}
            cells.append(Cell("-".join(levels.values()), levels, changes))
    if not cells:
        raise Problem("the exclusions leave no cell: remove one", "exclude")
    if len(cells) > MOST_CELLS:
        raise Problem(f"the levels make {len(cells)} cells: at most {MOST_CELLS} can run", "factor")
    return _with_short_names(cells)


def _with_short_names(cells: list[Cell]) -> list[Cell]:
    names = {cell.name for cell in cells}
    if len(names) == len(cells) and max(map(len, names)) <= _LONGEST_NAME:
        return cells
    width = len(str(len(cells)))
    return [Cell(f"cell-{number:0{width}d}", cell.levels, cell.changes) for number, cell in enumerate(cells, 1)]


def _check_keys(factors: Sequence[Factor]) -> None:
    changed: dict[tuple[str, ...], str] = {}
    for factor in factors:
        for key in dict.fromkeys(key for set_ in factor.levels.values() for key in set_):
            other = changed.setdefault(key_parts(key), factor.name)
            if other != factor.name:
                raise Problem(
                    f"factors {other!r} and {factor.name!r} both change {key}: leave it out of one of them", "factor"
                )


def _exclusion(given: Mapping[str, object], factors: Sequence[Factor], where: str) -> dict[str, set[str]]:
    if not given:
        raise Problem("is empty and would leave out every cell: name a factor and its level", where)
    return levels_named(given, factors, where)


def levels_named(given: Mapping[str, object], factors: Sequence[Factor], where: str) -> dict[str, set[str]]:
    """Return the levels that a table names, by factor: each value is a level or an array of levels.

    Raises
    ------
    Problem
        If there is no such factor or level, or an array is empty.
    """
    known = {factor.name: factor for factor in factors}
    found = {}
    for name, value in given.items():
        if name not in known:
            raise Problem(unknown_key(name, known).rule, f"{where}.{name}")
        choice = partial(choose, choices=known[name].levels)
        given_levels = value if isinstance(value, list) else [value]
        if not given_levels:
            raise Problem("is empty: name a level, or leave it out", f"{where}.{name}")
        found[name] = {at(f"{where}.{name}", choice, _level(each)) for each in given_levels}
    return found


def _level(value: object) -> object:
    if isinstance(value, dict | list):
        return value
    return value if isinstance(value, str) and label(value) != value else label(value)


def part_of(
    factors: Sequence[Factor], cells: Sequence[Cell], only: Mapping[str, Sequence[str]], of: tuple[str, str]
) -> tuple[tuple[Factor, ...], tuple[Cell, ...]]:
    """Return the factors and cells that a part of a campaign has; those that are left keep their names.

    Parameters
    ----------
    only : mapping
        Levels that are wanted, by factor; factors that it does not name: all.
    of : tuple of str
        The compared factor and its baseline, which stays.

    Raises
    ------
    Problem
        If there is no such factor or level, or no cell is left.
    """
    wanted = {name: set(levels) for name, levels in levels_named(only, factors, "--only").items()}
    if of[0] in wanted:
        wanted[of[0]].add(of[1])
    left = [cell for cell in cells if all(cell.levels[name] in levels for name, levels in wanted.items())]
    if not left:
        raise Problem("leaves no cell of the campaign: name other levels", "--only")
    used = {name: {cell.levels[name] for cell in left} for name in (factor.name for factor in factors)}
    kept = [
        Factor(each.name, {level: set_ for level, set_ in each.levels.items() if level in used[each.name]})
        for each in factors
    ]
    return tuple(kept), tuple(left)


def compared(factors: Sequence[Factor], factor: str | None, baseline: str | None) -> tuple[str, str]:
    """Return the compared factor, and the level of the first of each pair; empty without factors.

    Parameters
    ----------
    factor, baseline : str or None
        As given; by default the first factor, and its first level.

    Raises
    ------
    Problem
        If there is no such factor or level.
    """
    if not factors:
        for key, given in (("factor", factor), ("baseline", baseline)):
            if given is not None:
                raise Problem(f"there is no factor for {described(given)}: add [[factor]]", f"compare.{key}")
        return "", ""
    chosen = factors[0]
    if factor is not None:
        known = {each.name: each for each in factors}
        chosen = known[at("compare.factor", lambda name: choose(name, known), factor)]
    first = next(iter(chosen.levels))
    if baseline is not None:
        first = at("compare.baseline", lambda level: choose(level, chosen.levels), baseline)
    return chosen.name, first
