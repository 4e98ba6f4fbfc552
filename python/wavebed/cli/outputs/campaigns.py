"""The outputs of campaigns and of studies that are repeated."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from wavebed.reproduce.studies import Expected
from wavebed.result.model import Verdict

__all__ = ["CampaignOutput", "PlanOutput", "StatusOutput", "StudyOutput"]


class AnswerOutput(Struct, forbid_unknown_fields=True):
    """A comparison of a cell with its baseline; a difference is in `unit`, a ratio has none."""

    workload: str
    metric: str
    unit: str
    baseline: str
    cell: str
    margin: str
    verdict: str
    estimate: float | None
    low: float | None
    high: float | None
    scale: Literal["difference", "ratio"]
    level: float | None
    pairs: int
    p: float | None
    p_adjusted: float | None
    constant: bool
    reason: str | None
    missing: list[int]
    verdict_at_worst: str | None
    method: str
    formula: int
    libraries: dict[str, str]


class CampaignOutput(Struct, forbid_unknown_fields=True):
    """The answers of a campaign."""

    title: str
    folder: str
    seed: int
    blocks: int
    blocks_planned: int
    stopped: str
    complete: bool
    replicate: str
    exclusions: str
    answers: list[AnswerOutput]
    report: str | None


class CellOutput(Struct, forbid_unknown_fields=True):
    """A cell of a plan."""

    name: str
    levels: dict[str, str]
    expected_s: float


class QuestionOutput(Struct, forbid_unknown_fields=True):
    """A comparison of a plan, and the blocks that it needs, as a pilot says."""

    baseline: str
    cell: str
    workload: str
    metric: str
    margin: str
    blocks_needed: int | None
    reason: str | None


class PlanOutput(Struct, forbid_unknown_fields=True):
    """The plan of a campaign."""

    title: str
    cells: list[CellOutput]
    blocks: int
    trials: int
    seed: int
    expected_s: float
    disk_bytes: int
    replicate: str
    first_block: list[str]
    comparisons: int
    blocks_needed: int | None
    questions: list[QuestionOutput]


class StatusOutput(Struct, forbid_unknown_fields=True):
    """The progress of a run or campaign; `left_s` is null where nothing runs or it is not known."""

    title: str
    state: Literal["running", "ended", "interrupted", "killed"]
    reason: str
    trials: int
    stored: int
    attempts: int
    blocks_ended: int
    verdicts: dict[Verdict, int]
    resumed: int
    step: str | None
    current: str | None
    blocks: list[int]
    left_s: float | None


class StudyFigure(Struct):
    """A published figure beside ours, in `unit`. Its other keys are the factors of the study, with their levels."""

    workload: str
    metric: str
    unit: str
    figure: str
    published: float
    reading_error: float
    at_least: bool
    ours: float | None
    low: float | None
    high: float | None
    level: float | None
    trials: int
    ratio: float | None
    verdict: str
    order: str | None


class StudyHypothesis(Struct, forbid_unknown_fields=True):
    """A hypothesis about the differences to a study."""

    hypothesis: str
    claim: str
    distance_fitted: float | None
    distance_held_out: float | None
    inside: int
    outside: int
    prediction: str
    expected: Expected | None
    found: Expected | None
    commit: str
    figures: list[StudyFigure]


class StudyOutput(Struct):
    """A study that was repeated. Each part of it is a key more, with a list of figures."""

    folder: str
    report: str
    hypotheses: dict[str, list[StudyHypothesis]] = field(default_factory=dict)
