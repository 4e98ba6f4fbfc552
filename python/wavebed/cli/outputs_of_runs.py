"""The outputs about runs: medians, campaigns, checks and comparisons."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from wavebed.check.judge import Outcome
from wavebed.check.result import Timing
from wavebed.reproduce.studies import Expected
from wavebed.result.model import Verdict
from wavebed.workload.model import Better


class Median(Struct, forbid_unknown_fields=True):
    """The median over the counted trials of a treatment, in the metric's unit, with its interval at `level`."""

    median: float | None
    low: float | None
    high: float | None
    level: float | None
    count: int


class MetricMedians(Struct, forbid_unknown_fields=True):
    """A metric, and its medians by treatment."""

    workload: str
    name: str
    unit: str
    treatments: dict[str, Median]


class IdentityOutput(Struct, forbid_unknown_fields=True):
    """A repetition in virtual time beside its `first` run: the first difference, and the inputs that differ."""

    first: str
    identical: bool
    compared: list[str]
    difference: str | None
    inputs: list[str]


class RunOutput(Struct, forbid_unknown_fields=True):
    """The results of a run; `report` is null if it could not be written, `identity` is of `rerun` in virtual time."""

    folder: str
    trials: int
    verdicts: dict[Verdict, int]
    metrics: list[MetricMedians]
    report: str | None
    identity: IdentityOutput | None = None


class ReportOutput(Struct, forbid_unknown_fields=True):
    """The file of a report."""

    report: str


class JudgedMetric(Struct, forbid_unknown_fields=True):
    """A metric of live and of replayed trials; medians are in `unit`, `estimate`, `low` and `high` on `scale`."""

    workload: str
    metric: str
    unit: str
    over: str
    live_median: float | None
    replayed_median: float | None
    trials: list[int]
    scale: Literal["difference", "ratio"]
    estimate: float | None
    low: float | None
    high: float | None
    level: float | None
    margin: float | None
    verdict: str


class JudgedOutput(Struct, forbid_unknown_fields=True):
    """The judgement of a recording; `margin` is a fraction."""

    margin: float
    metrics: list[JudgedMetric]


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


class HarmOutput(Struct, forbid_unknown_fields=True):
    """What a device of a cell loses of its result, as a part of it; 1 is all, below 0 it gains."""

    workload: str
    metric: str
    baseline: str
    cell: str
    harm: float | None
    low: float | None
    high: float | None
    pairs: int


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
    harm: list[HarmOutput] = []


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


class SeedValue(Struct, forbid_unknown_fields=True):
    """The value of a seed, in the unit of its requirement; null of a failed seed.

    A value does not decide if the machine of its trial was late, or if no packet crossed the path.
    """

    seed: int
    value: float | None
    decides: bool


class RequirementOutput(Struct, forbid_unknown_fields=True):
    """A requirement and its decision; numbers are in `unit`, the interval is the statistic's at `level`."""

    requirement: str
    treatment: str
    outcome: Outcome
    statistic: str | None
    comparison: str | None
    unit: str
    bound: float | None
    value: float | None
    low: float | None
    high: float | None
    level: float | None
    seeds: int
    seeds_for_interval: int | None
    values: list[SeedValue]
    reasons: list[str]


class CheckedTrial(Struct, forbid_unknown_fields=True):
    """A trial of a check; the decisions allow for `delayed_s` and `computed_s`.

    Parameters
    ----------
    delayed_s : float
        Upper bound on the delay that the engine added to the application.
    computed_s : float or None
        How long the programs computed on the host, in virtual time; ``None``: in real time, or not counted.
    """

    folder: str
    treatment: str
    seed: int
    state: Literal["measured", "failed", "inconclusive"]
    delayed_s: float
    computed_s: float | None
    reasons: list[str]


class CheckOutput(Struct, forbid_unknown_fields=True):
    """The decisions of a check."""

    outcome: Outcome
    title: str
    seeds: list[int]
    stopped: str
    timing: Timing
    timing_text: str
    computing_text: str
    requirements: list[RequirementOutput]
    trials: list[CheckedTrial]
    folder: str
    report: str | None


class FindingOutput(Struct, forbid_unknown_fields=True):
    """A verdict and its reasons. Of `difference` (in the metric's unit) and `ratio` one has values."""

    role: str | None
    margin: str | None
    verdict: str | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    level: float | None
    p: float | None
    p_adjusted: float | None
    cliffs_delta: float | None
    constant: bool | None
    same_by_seed: bool | None
    reason: str | None


class ComparedCell(FindingOutput, forbid_unknown_fields=True):
    """The median of a metric in a column, in its unit, and the verdict beside the base."""

    count: int
    median: float | None
    low: float | None
    high: float | None


class ComparedColumn(Struct, forbid_unknown_fields=True):
    """A treatment of a run; `base` is the column that it is compared with."""

    name: str
    run: str
    treatment: str
    base: str | None


class ComparedMetric(Struct, forbid_unknown_fields=True):
    """A metric, with its value in each column."""

    workload: str
    name: str
    unit: str
    better: Better
    columns: dict[str, ComparedCell]


class CompareOutput(Struct, forbid_unknown_fields=True):
    """Folders beside the first one."""

    runs: list[str]
    columns: list[ComparedColumn]
    metrics: list[ComparedMetric]
    notes: list[str]
    harm: list[HarmOutput] = []


class BaselineFolder(Struct, forbid_unknown_fields=True):
    """One of two folders."""

    folder: str
    trials: int
    trials_counted: int
    seeds: str
    ended: bool
    facts: dict[str, str]


class BaselineAnswer(FindingOutput, forbid_unknown_fields=True):
    """A primary metric beside the baseline; medians are in `unit`."""

    workload: str
    metric: str
    unit: str
    better: Better
    treatment: str
    baseline_treatment: str
    baseline_count: int
    baseline_median: float | None
    new_count: int
    new_median: float | None
    regression: str
    method: str
    formula: int
    libraries: dict[str, str]


class BaselineOutput(Struct, forbid_unknown_fields=True):
    """A folder beside its baseline."""

    passed: bool
    undecided_fails: bool
    comparisons: int
    regressions: int
    without_values: int
    not_excluded: int
    baseline: BaselineFolder
    new: BaselineFolder
    answers: list[BaselineAnswer]
    notes: list[str]


class NamedOutput(Struct, forbid_unknown_fields=True):
    """A shipped scenario and the question that it answers, or the path that it is."""

    name: str
    question: str


class ScenariosOutput(Struct, forbid_unknown_fields=True):
    """The shipped scenarios, and the other names that a command takes in place of a file."""

    scenarios: list[NamedOutput]
    campaigns: list[str]
    timelines: list[str]
    traces: list[str]


class ScenarioOutput(Struct, forbid_unknown_fields=True):
    """A shipped scenario. Without workloads it is a path alone; null: the number of trials is not in its file."""

    name: str
    question: str
    title: str
    source: str
    workloads: list[str]
    treatments: list[str]
    trials: int | None
