"""The tables of a campaign file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping  # noqa: TC003 - msgspec evaluates the fields
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from wavebed.config import values
from wavebed.config.problems import Problem, described
from wavebed.config.reader import Reader, reader
from wavebed.config.table import Key, read_table, table
from wavebed.result.campaign import margin_text
from wavebed.run.scenario import MAX_TRIALS
from wavebed.spec.network import MOST_SEED
from wavebed.store.folder import KEEP, Keep

if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "CampaignTable",
    "CompareTable",
    "FactorTable",
    "FileTable",
    "LevelTable",
    "MarginValue",
    "PrimaryTable",
    "StopTable",
]

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
