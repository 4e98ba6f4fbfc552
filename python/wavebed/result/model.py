"""The records of a run, as `docs/reference/results.md` describes them; JSON in, JSON out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from wavebed.formats import RESULTS

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
        What differs between blocks: ``channel`` (a realisation for each seed), ``start`` (in the same pattern), or
        ``host`` (the pattern and its start are the same).
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
class CellPair:
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


def comparisons(levels: Mapping[str, Mapping[str, str]], factor: str, baseline: str) -> list[CellPair]:
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
            found.append(CellPair(base, cell, dict(others(cell))))
    return found


if TYPE_CHECKING:
    from wavebed.config.data import Json
    from wavebed.workload.model import Metric, Outcome, TimeSpan
else:
    Json = Any  # any JSON value, for msgspec

SCHEMA = RESULTS.version
Verdict: TypeAlias = Literal["valid", "suspect", "invalid", "failed"]
COUNTED: tuple[Verdict, ...] = ("valid", "suspect")
"""Verdicts of the trials that are part of the statistics."""
EXACT = "exact"
"""Code of the check that a trial in virtual time is the same in each run."""
Text: TypeAlias = Annotated[str, Meta(max_length=1 << 16)]
"""A text of bounded length: a page repeats names many times."""
Integer: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""A signed number of 64 bits, as in TOML and Parquet."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a trial's validity, and the evidence.

    Parameters
    ----------
    name : str
        The condition: ``every packet accounted for``.
    severity : str
        Verdict of the trial if it fails: ``invalid`` or ``suspect``.
    evidence : str
        Figures, one line.
    code : str
        Stable name for programs; empty in older results.
    """

    name: Text
    holds: bool
    severity: Literal["invalid", "suspect"]
    evidence: Text
    code: Text = ""


@dataclass(frozen=True, slots=True)
class WorkloadRecord:
    """A workload in one trial: its span (``None``: it never started), and its results."""

    name: str
    kind: str
    span: TimeSpan | None
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """One trial.

    Parameters
    ----------
    folder : str
        Name of its folder: ``0001-cubic``.
    block : int
        Place of its seed, from 1.
    transport : sequence of Metric
        Metrics of the path and its flows; the metrics of workloads are in `workloads`.
    devices : mapping
        Of a cell: metrics of each device, each group of devices and each group's workload, by name
        (`wavebed.result.devices`).
    engine : mapping
        The summary of the engine.
    resolved : mapping
        Content of the trial's ``spec.json``; in older results only the key ``network``.
    attempt : int
        1, and one more for each repetition with the same seed.
    """

    folder: str
    block: Integer
    treatment: str
    seed: Integer
    started: str
    wall_s: float
    verdict: Verdict
    reasons: Sequence[str] = ()
    checks: Sequence[Check] = ()
    workloads: Sequence[WorkloadRecord] = ()
    transport: Sequence[Metric] = ()
    engine: Mapping[str, Json] = field(default_factory=dict)
    resolved: Mapping[str, Json] = field(default_factory=dict)
    attempt: Integer = 1
    devices: Mapping[str, Sequence[Metric]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrialLine:
    """An attempt at a trial in ``run.json``."""

    folder: Text
    block: Integer
    treatment: Text
    seed: Integer
    verdict: Verdict
    reasons: Sequence[Text] = ()
    attempt: Integer = 1

    @classmethod
    def of(cls, trial: TrialRecord) -> TrialLine:
        """Return the line of a trial."""
        return cls(
            trial.folder, trial.block, trial.treatment, trial.seed, trial.verdict, list(trial.reasons), trial.attempt
        )


@dataclass(slots=True)
class RunRecord:
    """A run: the content of ``run.json``.

    Parameters
    ----------
    campaign : CampaignRecord or None
        Of a campaign; its treatments have the key ``levels`` too.
    aside : list of TrialLine
        Trials of blocks that were begun again after a change of inputs.
    primary : str
        The metric that the run is about, as ``WORKLOAD.METRIC``; empty if its scenario names none.
    """

    title: Text
    source: Text
    scenario: Text
    overrides: Mapping[str, Json]
    command_line: Sequence[Text]
    started: Text
    seed: Integer
    blocks: Integer
    versions: Mapping[str, Text]
    machine: Mapping[str, Text]
    workloads: Sequence[Mapping[str, Json]]
    treatments: Sequence[Mapping[str, Json]]
    trials: list[TrialLine] = field(default_factory=list)
    ended: Text | None = None
    campaign: CampaignRecord | None = None
    aside: list[TrialLine] = field(default_factory=list)
    primary: Text = ""

    @property
    def counted(self) -> dict[str, int]:
        """Number of counted (valid or suspect) trials of each treatment."""
        found = {str(treatment["name"]): 0 for treatment in self.treatments}
        for trial in self.trials:
            found[trial.treatment] += trial.verdict in COUNTED
        return found
