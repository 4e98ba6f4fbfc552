"""Read a campaign file: its scenario, its cells, its design and its questions.

Everything is read before anything runs, so that a mistake in the last cell is found in the first seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from wavebed.campaign.cells import Cell, Factor, cells_of, check_changed, compared, factors_of, levels_named, part_of
from wavebed.campaign.tables import FileTable, PrimaryTable, StopTable
from wavebed.config.problems import Problem, at
from wavebed.config.table import read_table
from wavebed.errors import UserError
from wavebed.foreign import MAX_TEXT_BYTES, noted_files, read_text, read_toml
from wavebed.path.model import ScenePattern
from wavebed.path.scenario import read_document
from wavebed.result.campaign import Comparison, PrimaryRecord, comparisons
from wavebed.run.scenario import AS_DESCRIBED, described_treatments, read_plan
from wavebed.shipped import find
from wavebed.store.records import PATH_WORKLOAD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.run.scenario import Plan

__all__ = ["Campaign", "campaign_file", "read_campaign", "scenario_file"]


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
    def comparisons(self) -> list[Comparison]:
        """The pairs of cells that are compared."""
        return comparisons(self.levels, *self.compared)

    @property
    def replicate(self) -> str:
        """What differs between blocks: the ``channel`` if every cell has a scene or a map, else the ``host`` alone."""
        return "channel" if all(_has_scene(each.path) for each in self.plan.treatments) else "host"


def read_campaign(
    file: Path, *, blocks: int | None = None, only: Mapping[str, Sequence[str]] | None = None
) -> Campaign:
    """Read a campaign file.

    Parameters
    ----------
    blocks : int, optional
        Number of blocks in place of that in the file.
    only : mapping, optional
        The part of it that is wanted: levels by factor. The baseline of the comparison is a part of every part.

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
        if asked and primary.workload not in known:
            raise Problem(
                f"{primary.workload!r} is no workload of the scenario: write one of {', '.join(sorted(known))}",
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


def _has_scene(value: object) -> bool:
    if isinstance(value, ScenePattern):
        return True
    if isinstance(value, Struct):
        return any(_has_scene(getattr(value, name)) for name in value.__struct_fields__)
    return isinstance(value, tuple) and any(map(_has_scene, value))
