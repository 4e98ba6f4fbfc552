"""The records of a run, as `docs/reference/results.md` describes them; JSON in, JSON out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from wavebed.formats import RESULTS
from wavebed.result.campaign import CampaignRecord

if TYPE_CHECKING:
    from wavebed.config.data import Json
    from wavebed.workload.model import Metric, Outcome, Span
else:
    Json = Any  # any JSON value, for msgspec

__all__ = ["COUNTED", "EXACT", "SCHEMA", "Check", "RunRecord", "Text", "TrialLine", "TrialRecord", "Verdict"]
__all__ += ["WorkloadRecord"]

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
    span: Span | None
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
        Metrics of the path and its flows; those of workloads are in `workloads`.
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

    @property
    def counted(self) -> dict[str, int]:
        """Number of counted (valid or suspect) trials of each treatment."""
        found = {str(treatment["name"]): 0 for treatment in self.treatments}
        for trial in self.trials:
            found[trial.treatment] += trial.verdict in COUNTED
        return found
