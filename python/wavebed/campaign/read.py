"""Read a campaign file: its tables, its factors, its cells as changes of a scenario, its questions."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct, structs

from wavebed.config import values
from wavebed.config.problems import Problem, at, choose, described, one_of, unknown_key
from wavebed.config.reader import Reader, reader
from wavebed.config.table import Key, read_table, table
from wavebed.errors import UserError
from wavebed.foreign import MAX_TEXT_BYTES, is_file, noted_files, read_text, read_toml
from wavebed.path.model import DrawnStart, ScenePattern
from wavebed.path.scenario import read_document
from wavebed.result.model import CellPair, PrimaryRecord, comparisons, margin_text
from wavebed.run.devices import groups_known
from wavebed.run.scenario import AS_DESCRIBED, MAX_TRIALS, described_treatments, key_parts, read_plan
from wavebed.shipped import find
from wavebed.spec.network import MOST_SEED
from wavebed.store.folder import KEEP, Keep
from wavebed.store.metrics import COLUMNS
from wavebed.store.records import PATH_WORKLOAD

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from wavebed.run.scenario import Plan

MOST_ATTEMPTS = 10
_MARGIN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(%|[A-Za-z][A-Za-z/]*)?\s*")


@dataclass(frozen=True, slots=True)
class MarginValue:
    """A margin as it was written: a share with the unit ``%``, or a value in the unit of its metric."""

    value: float
    unit: str

    @property
    def text(self) -> str:
        """The margin for people: ``5%``, ``20 ms``."""
        return margin_text(self.value, self.unit)


@reader("MARGIN", {"type": ["string", "number"]}, lambda margin: margin.text)
def margin(value: object) -> MarginValue:
    """Read a margin."""
    wrong = Problem(f'{described(value)} is not a margin: write "5%", or a value with the unit of the metric: "20 ms"')
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = MarginValue(float(value), "")
    else:
        match = _MARGIN.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise wrong
        found = MarginValue(float(match[1]), match[2] or "")
    if not 0 < found.value < (100 if found.unit == "%" else math.inf):
        raise Problem(f"{described(value)} is out of range: write a margin above 0, and below 100%")
    return found


@reader("{ KEY = VALUE, … }", {"type": "object"})
def changes(value: object) -> Mapping[str, object]:
    """Read a table of changes by dotted key."""
    if not isinstance(value, dict):
        raise Problem(f'{described(value)} is not a table: write {{ "path.rate" = … }}')
    return value


@reader("{ FACTOR = LEVEL, … }", {"type": "object"})
def level_choice(value: object) -> Mapping[str, object]:
    """Read a table of levels, or arrays of levels, by factor."""
    if not isinstance(value, dict):
        raise Problem(f'{described(value)} is not a table: write {{ FACTOR = "LEVEL" }}')
    return value


@reader("[VALUE, …]", {"type": "array", "minItems": 1})
def level_values(value: object) -> tuple[object, ...]:
    """Read the values of a factor."""
    if not isinstance(value, list):
        raise Problem(f"{described(value)} is not an array of values: write [ … , … ]")
    if not value:
        raise Problem("is empty: write the values, one level each")
    return tuple(value)


@reader("[[exclude]]", {"type": "array", "items": {"type": "object"}})
def exclusions(value: object) -> tuple[Mapping[str, object], ...]:
    """Read an array of tables of any keys."""
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise Problem(f"{described(value)} is not an array of tables: write [[exclude]]")
    return tuple(value)


def tables(model: type[Struct], form: str) -> Reader[Any]:
    """Make a reader of an array of tables."""
    each = table(model, form)

    def read(value: object) -> tuple[Struct, ...]:
        if not isinstance(value, list):
            raise Problem(f"{described(value)} is not an array of tables: write {form}")
        found = []
        for index, given in enumerate(value, 1):
            try:
                found.append(read_table(model, given, form))
            except Problem as problem:
                raise Problem(problem.rule, f"[{index}].{problem.key}" if problem.key else f"[{index}]") from None
        return tuple(found)

    return Reader(read, form, lambda: {"type": "array", "items": dict(each.schema())})


class LevelTable(Struct, frozen=True, kw_only=True):
    """``[[factor.level]]``."""

    name: Annotated[str, Key(values.name, "name of the level")]
    set: Annotated[Mapping[str, object], Key(changes, "what it changes, by dotted key")] = {}


class FactorTable(Struct, frozen=True, kw_only=True):
    """``[[factor]]``: a key and its values, or named levels."""

    name: Annotated[str, Key(values.name, "name of the factor")]
    key: Annotated[str | None, Key(values.text, "the key of the scenario that it changes, with dots")] = None
    given: Annotated[tuple[object, ...], Key(level_values, "the values of `key`, one level each", name="values")] = ()
    level: Annotated[
        tuple[LevelTable, ...],
        Key(tables(LevelTable, "[[factor.level]]"), "named levels, each with changes, instead of key and values"),
    ] = ()


class PrimaryTable(Struct, frozen=True, kw_only=True):
    """``[[primary]]``: a metric that the campaign decides."""

    workload: Annotated[str, Key(values.text, "name of the workload, or `path` for metrics of the path")]
    metric: Annotated[str, Key(values.text, "name of the metric, as the report shows it")]
    margin: Annotated[
        MarginValue, Key(margin, "the smallest difference that matters: a share, or a value in the metric's unit")
    ]
    only: Annotated[
        Mapping[str, object],
        Key(
            level_choice,
            "where it is decided: a level, or an array of levels, of some factors",
            absent="in every comparison",
        ),
    ] = {}


class CompareTable(Struct, frozen=True, kw_only=True):
    """``[compare]``."""

    factor: Annotated[str | None, Key(values.text, "factor whose levels are compared", absent="the first factor")] = (
        None
    )
    baseline: Annotated[
        str | None, Key(values.text, "level with which the others are compared", absent="its first level")
    ] = None
    family: Annotated[
        str,
        Key(
            values.word("all", "comparison"),
            "over what false alarms stay below 5 %: `all` comparisons and primary metrics together, or the primary"
            " metrics of each `comparison`",
        ),
    ] = "all"


class StopTable(Struct, frozen=True, kw_only=True):
    """``[stop]``."""

    when: Annotated[
        str,
        Key(
            values.word("blocks", "decided"),
            "`blocks`: after all blocks; `decided`: as soon as every primary metric is decided, by a confidence"
            " sequence, which is valid however often one looks",
        ),
    ] = "blocks"
    least: Annotated[
        int, Key(values.number(1, MAX_TRIALS), "fewest blocks before the campaign may stop", name="least-blocks")
    ] = 6


class CampaignTable(Struct, frozen=True, kw_only=True):
    """``[campaign]``."""

    blocks: Annotated[
        int,
        Key(
            values.number(1, MAX_TRIALS),
            "blocks, or with a stop rule the most: each has one trial of every cell with one seed",
        ),
    ] = 10
    seed: Annotated[
        int | None,
        Key(
            values.number(0, MOST_SEED),
            "seed of the first block; the next block has one more, and so on",
            absent="that of the scenario",
        ),
    ] = None
    attempts: Annotated[
        int,
        Key(
            values.number(1, MOST_ATTEMPTS),
            "most attempts at a trial that is invalid or fails, in its block and with its seed",
        ),
    ] = 3
    keep: Annotated[
        Keep,
        Key(
            values.word(*KEEP),
            "what is kept of each trial beside its metrics: `all`, `series` (no raw outputs) or `metrics` (neither)",
        ),
    ] = "all"


class FileTable(Struct, frozen=True, kw_only=True):
    """A campaign file."""

    scenario: Annotated[
        str, Key(values.text, "the scenario: a file, relative to the campaign file, or the name of a shipped one")
    ]
    title: Annotated[str | None, Key(values.text, "what people read", absent="the name of the file")] = None
    source: Annotated[str | None, Key(values.text, "where the question comes from")] = None
    campaign: Annotated[
        CampaignTable,
        Key(table(CampaignTable, "[campaign]", "[campaign]"), "the design", absent="the defaults of its keys"),
    ] = CampaignTable()
    set: Annotated[
        Mapping[str, object], Key(changes, "changes of the scenario that all cells share, by dotted key")
    ] = {}
    factor: Annotated[tuple[FactorTable, ...], Key(tables(FactorTable, "[[factor]]"), "what the cells differ in")] = ()
    exclude: Annotated[
        tuple[Mapping[str, object], ...],
        Key(
            exclusions,
            "cells that are left out: a level, or an array of levels, of some factors",
        ),
    ] = ()
    primary: Annotated[
        tuple[PrimaryTable, ...], Key(tables(PrimaryTable, "[[primary]]"), "the metrics that are decided")
    ] = ()
    compare: Annotated[
        CompareTable,
        Key(table(CompareTable, "[compare]", "[compare]"), "what is compared", absent="the defaults of its keys"),
    ] = CompareTable()
    stop: Annotated[
        StopTable,
        Key(table(StopTable, "[stop]", "[stop]"), "when the campaign ends", absent="the defaults of its keys"),
    ] = StopTable()


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


@dataclass(frozen=True, slots=True)
class Campaign:
    """A campaign.

    Parameters
    ----------
    file : pathlib.Path
        Its file.
    text : str
        The text of the file.
    table : FileTable
        Its keys.
    factors : tuple of Factor
        In order; the treatments of the scenario first.
    cells : tuple of Cell
        The treatments of `plan`, in the same order.
    compared : tuple of str
        The compared factor, and the level of the first of each pair; empty without factors.
    primaries : tuple of PrimaryRecord
        The metrics that are decided in some comparison.
    plan : Plan
        The trials.
    inputs : tuple of pathlib.Path
        Every file that was read.
    only : mapping
        Levels of the part of the file's campaign that it is, by factor; empty: all of it.
    """

    file: Path
    text: str
    table: FileTable
    factors: tuple[Factor, ...]
    cells: tuple[Cell, ...]
    compared: tuple[str, str]
    primaries: tuple[PrimaryRecord, ...]
    plan: Plan
    inputs: tuple[Path, ...]
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def levels(self) -> dict[str, Mapping[str, str]]:
        """The level of each factor by cell."""
        return {cell.name: cell.levels for cell in self.cells}

    @property
    def comparisons(self) -> list[CellPair]:
        """The pairs of cells that are compared."""
        return comparisons(self.levels, *self.compared)

    @property
    def replicate(self) -> str:
        """What differs between blocks: the ``channel``, the ``start`` in a pattern, or the ``host`` alone.

        It is the channel if every cell has a scene or a map, and the start if every other cell draws its own.
        """
        paths = [each.path for each in self.plan.treatments]
        if all(_has(ScenePattern, path) for path in paths):
            return "channel"
        return "start" if all(_has(ScenePattern, path) or _has(DrawnStart, path) for path in paths) else "host"


def _with_sites(factor: Factor, folder: Path) -> Factor:
    """Return a factor whose levels have the structure of their name in a folder, where it has one, as their site."""
    levels = {}
    for level, changes in factor.levels.items():
        file = folder / f"{level}.json"
        keys = {key for key in changes if key_parts(key)[-1] == "site"} if is_file(file) else set()
        levels[level] = {**changes, **dict.fromkeys(keys, str(file.resolve()))}
    return replace(factor, levels=levels)


def read_campaign(
    file: Path,
    *,
    blocks: int | None = None,
    only: Mapping[str, Sequence[str]] | None = None,
    sites: Path | None = None,
) -> Campaign:
    """Read a campaign file.

    Parameters
    ----------
    blocks : int, optional
        Number of blocks in place of that in the file.
    only : mapping, optional
        The part of it that is wanted: levels by factor. The baseline of the comparison is a part of every part.
    sites : pathlib.Path, optional
        Folder of structures of pages: ``NAME.json`` is the site of the level NAME of a factor of sites.

    Raises
    ------
    UserError
        If anything in it, or in its scenario, is wrong.
    """
    with noted_files() as noted:
        given = read_toml(file, "name a campaign file")
        try:
            table = read_table(FileTable, given, "a campaign file")
            if blocks is not None:
                table = structs.replace(table, campaign=structs.replace(table.campaign, blocks=blocks))
            scenario = scenario_file(table.scenario, file)
            document = at("scenario", read_document, scenario)
            treatments = at("scenario", described_treatments, document)
            factors = factors_of(table.factor, treatments)
            if sites is not None:
                factors = tuple(_with_sites(factor, sites) for factor in factors)
            cells = tuple(cells_of(factors, table.exclude, AS_DESCRIBED))
            of = compared(factors, table.compare.factor, table.compare.baseline)
            primaries = _primaries(table.primary, factors, len(cells))
            factors, cells = part_of(factors, cells, only or {}, of)
            plan = _plan(table, file, scenario, cells)
            _check_workloads(primaries, cells, plan)
            levels = {cell.name: cell.levels for cell in cells}
            pairs = comparisons(levels, *of)
            _check_questions(table, len(pairs))
            asked = tuple(each for each in primaries if any(each.is_asked_of(levels[pair.cell]) for pair in pairs))
        except UserError as error:
            raise UserError(f"{file}: {error}") from None
        text = read_text(file, "name a campaign file", most=MAX_TEXT_BYTES)
    return Campaign(file, text, table, factors, cells, of, asked, plan, tuple(sorted(noted)), only or {})


def _plan(table: FileTable, file: Path, scenario: Path, cells: Sequence[Cell]) -> Plan:
    for key in table.set:
        check_changed(key, "set")
    plan = read_plan(
        scenario,
        overrides=table.set,
        overrides_are="set",
        trials=table.campaign.blocks,
        seed=table.campaign.seed,
        cells=[(cell.name, cell.changes) for cell in cells],
    )
    return replace(plan, title=table.title or file.stem, source=table.source or plan.source)


def campaign_file(given: str) -> Path:
    """Return the campaign file of this name: a file, or the name of a shipped one.

    Raises
    ------
    UserError
        If there is none.
    """
    return find(given, "campaign", "campaigns")


def scenario_file(given: str, campaign: Path) -> Path:
    """Return the file of the scenario that a campaign file names: beside it, or a shipped one.

    Raises
    ------
    Problem
        If there is none.
    """
    return at("scenario", lambda name: find(name, "scenario", beside=campaign.parent), given)


def _primaries(tables: Sequence[PrimaryTable], factors: Sequence[Factor], cells: int) -> list[PrimaryRecord]:
    seen = set()
    found = []
    for index, primary in enumerate(tables, 1):
        where = f"primary[{index}]"
        if (primary.workload, primary.metric) in seen:
            raise Problem("is given twice: leave one out", where)
        seen.add((primary.workload, primary.metric))
        if cells < 2:
            raise Problem("has nothing to compare: add a [[factor]] with two levels or more", where)
        only = {name: sorted(levels) for name, levels in levels_named(primary.only, factors, f"{where}.only").items()}
        found.append(PrimaryRecord(primary.workload, primary.metric, primary.margin.value, primary.margin.unit, only))
    return found


def _check_workloads(primaries: Sequence[PrimaryRecord], cells: Sequence[Cell], plan: Plan) -> None:
    """Check that each primary metric has its workload, in the cells in which it is decided."""
    for index, primary in enumerate(primaries, 1):
        asked = [
            treatment
            for cell, treatment in zip(cells, plan.treatments, strict=True)
            if primary.is_asked_of(cell.levels)
        ]
        known = {workload.name for each in asked for workload in each.workloads} | {PATH_WORKLOAD}
        known |= {name for each in asked for name in groups_known(each.devices, each.workloads, each.background)}
        if asked and primary.workload not in known:
            raise Problem(
                f"{primary.workload!r} is no workload of the scenario: {one_of(primary.workload, sorted(known))}",
                f"primary[{index}].workload",
            )


def _check_questions(table: FileTable, pairs: int) -> None:
    if table.primary and not pairs:
        raise Problem("no two cells differ in the compared factor alone: leave out fewer in [[exclude]]", "primary")
    if table.stop.when != "decided":
        return
    if not table.primary:
        raise Problem('nothing is decided: add [[primary]], or write when = "blocks"', "stop.when")
    if table.stop.least > max(table.campaign.blocks, StopTable().least):
        raise Problem(
            f"{table.stop.least} is more than the {table.campaign.blocks} blocks: write fewer", "stop.least-blocks"
        )


def _has(kind: type[Struct], value: object) -> bool:
    if isinstance(value, kind):
        return True
    if isinstance(value, Struct):
        return any(_has(kind, getattr(value, name)) for name in value.__struct_fields__)
    return isinstance(value, tuple) and any(_has(kind, each) for each in value)
