"""The record of a campaign in ``run.json``: its design and its questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence  # noqa: TC003 - msgspec evaluates the fields
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

__all__ = ["CampaignRecord", "Comparison", "Group", "PrimaryRecord", "comparisons", "margin_text"]

_Text = Annotated[str, Meta(max_length=1 << 16)]
_File = Annotated[str, Meta(max_length=1 << 20)]


@dataclass(frozen=True, slots=True)
class PrimaryRecord:
    """A metric that the campaign decides.

    Parameters
    ----------
    unit : str
        Unit of the margin: ``%`` for a share.
    only : mapping
        Levels, by factor, of the comparisons in which it is decided; empty: all.
    """

    workload: _Text
    metric: _Text
    margin: float
    unit: _Text
    only: Mapping[_Text, Sequence[_Text]] = field(default_factory=dict)

    def is_asked_of(self, levels: Mapping[str, str]) -> bool:
        """Return whether it is decided in the cell with these levels."""
        return all(levels.get(name) in wanted for name, wanted in self.only.items())

    @property
    def margin_text(self) -> str:
        """The margin for people: ``5%``, ``20 ms``."""
        return margin_text(self.margin, self.unit)


def margin_text(value: float, unit: str) -> str:
    """Return a margin for people: ``5%``, ``20 ms``."""
    return f"{value:g}%" if unit == "%" else f"{value:g} {unit}".rstrip()


@dataclass(frozen=True, slots=True)
class Group:
    """Blocks with the same inputs; `changed` says what differs from the group before."""

    changed: Sequence[_Text] = ()


@dataclass(slots=True)
class CampaignRecord:
    """A campaign.

    Parameters
    ----------
    file, text : str
        Its file, and the text of it.
    factors : mapping
        Levels of each factor, in order.
    factor, baseline : str
        The compared factor and the level of the first of each pair; empty without factors.
    family : str
        Over what the error is held: ``all`` comparisons, or each ``comparison``.
    primaries : sequence of PrimaryRecord
        The metrics that are decided.
    stop : str
        ``blocks`` or ``decided``.
    inputs : mapping
        SHA-256 of each file that was read, by its name.
    replicate : str
        What differs between blocks: ``channel`` (a realisation for each seed), or ``host`` (the pattern is the same).
    groups : list of Group
        Groups of blocks by inputs; more than one after accepted changes.
    stopped : str
        The reason of the stop rule, if it ended the campaign.
    only : mapping
        Levels, by factor, of the part of its file's campaign that it is; empty: all of it.
    """

    file: _Text
    text: _File
    factors: Mapping[_Text, Sequence[_Text]]
    factor: _Text
    baseline: _Text
    family: _Text
    primaries: Sequence[PrimaryRecord]
    stop: _Text
    least_blocks: int
    attempts: int
    keep: _Text
    inputs: Mapping[_Text, _Text]
    replicate: _Text = "host"
    groups: list[Group] = field(default_factory=lambda: [Group()])
    stopped: _Text = ""
    only: Mapping[_Text, Sequence[_Text]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two cells that differ in the compared factor alone.

    Parameters
    ----------
    baseline, cell : str
        Names of the two treatments; the second is judged beside the first.
    at : mapping
        Levels of the other factors.
    """

    baseline: str
    cell: str
    at: Mapping[str, str]


def comparisons(levels: Mapping[str, Mapping[str, str]], factor: str, baseline: str) -> list[Comparison]:
    """Return the pairs of cells that are compared; cells without a partner are in none.

    Parameters
    ----------
    levels : mapping
        Level of each factor, by cell.
    """

    def others(cell: str) -> tuple[tuple[str, str], ...]:
        return tuple((name, level) for name, level in levels[cell].items() if name != factor)

    bases = {others(cell): cell for cell, its in levels.items() if its.get(factor) == baseline}
    found = []
    for cell, its in levels.items():
        base = bases.get(others(cell))
        if base is not None and its.get(factor) != baseline:
            found.append(Comparison(base, cell, dict(others(cell))))
    return found
