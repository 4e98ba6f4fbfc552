"""Verdicts on the metrics of two folders of results, and regressions beyond a margin."""

from __future__ import annotations

import difflib
import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from wavebed.campaign.read import margin
from wavebed.campaign.results import margin_of
from wavebed.compare.notes import notes_of
from wavebed.config.problems import Problem, at
from wavebed.errors import UserError
from wavebed.report.source import headline
from wavebed.result.model import PrimaryRecord
from wavebed.stats.family import Primary, cliffs_deltas, explore_independent, settle_many, simultaneous_level
from wavebed.stats.harm import Harm, harm_of_pairs, worst_first
from wavebed.stats.intervals import LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wavebed.compare.samples import Folder, Key, Sample
    from wavebed.stats.verdict import Better, Finding, Margin
    from wavebed.workload.model import Metric

OPTION = "--margin"
_LISTED = 6


@dataclass(frozen=True, slots=True)
class Goal:
    """The margin of a primary metric, also as it was written."""

    margin: Margin
    text: str


def goals_of(folders: Sequence[Folder], given: Sequence[str]) -> tuple[dict[Key, Goal], list[str]]:
    """Return the primary metrics, and the names of those that no folder measured.

    They are the primary metrics of the first folder's campaign; a given margin adds one or replaces its margin.

    Parameters
    ----------
    given : sequence of str
        ``WORKLOAD.METRIC=VALUE``, as after the option.

    Raises
    ------
    UserError
        If a margin cannot be read or is in another unit than its metric, or no folder has its metric.
    """
    campaign = folders[0].campaign
    asked: dict[Key, tuple[PrimaryRecord, str]] = {}
    if campaign is not None:
        where = f"{folders[0].path}: primary"
        asked = {(each.workload, each.metric): (each, where) for each in campaign.primaries}
    known = {f"{key[0]}.{key[1]}": key for key in [key for folder in folders for key in folder.series] + list(asked)}
    for text in given:
        each = _read(text, known)
        asked[each.workload, each.metric] = (each, OPTION)
    goals, missing = {}, []
    for key, (each, where) in asked.items():
        units = [folder.series[key].metric.unit for folder in folders if key in folder.series]
        if units:
            goals[key] = Goal(margin_of(each, units[0], where), each.margin_text)
        else:
            missing.append(f"{each.workload} {each.metric}")
    return goals, missing


def _read(text: str, known: dict[str, Key]) -> PrimaryRecord:
    name, sign, value = text.rpartition("=")
    name = name.strip()
    if not sign or not name:
        raise Problem(f'{text!r} is not a margin: write WORKLOAD.METRIC=VALUE, as "file.goodput=5%"', OPTION)
    if name not in known:
        raise Problem(f"no folder has the metric {name!r}: {_hint(name, known)}", OPTION)
    read = at(f"{OPTION} {name}", margin, value.strip())
    workload, metric = known[name]
    return PrimaryRecord(workload, metric, read.value, read.unit)


def _hint(name: str, known: Iterable[str]) -> str:
    listed = list(known)
    near = difflib.get_close_matches(name, listed, 1)
    if near:
        return f"did you mean {near[0]!r}?"
    more = ", …" if len(listed) > _LISTED else ""
    return f"it must be one of {', '.join(listed[:_LISTED])}{more}" if listed else "no trial counts"


Regression: TypeAlias = Literal["yes", "no", "not excluded", "no values"]
_ORDER: tuple[Regression, ...] = ("yes", "no values", "not excluded", "no")
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """An answer on a primary metric, and whether it is a regression."""

    answer: ComparedAnswer
    regression: Regression


@dataclass(frozen=True, slots=True)
class Regressions:
    """The judgement of a folder beside its baseline.

    Parameters
    ----------
    undecided_fails : bool
        Whether a regression that is not excluded is a failure.
    """

    comparison: RunComparison
    judged: Sequence[JudgedAnswer]
    undecided_fails: bool

    @property
    def passed(self) -> bool:
        """Whether there is no regression, and no metric without values."""
        failing = {"yes", "no values", "not excluded"} if self.undecided_fails else {"yes", "no values"}
        return not any(each.regression in failing for each in self.judged)

    def count(self, regression: Regression) -> int:
        """Return the number of comparisons of this kind."""
        return sum(each.regression == regression for each in self.judged)


def regressions(comparison: RunComparison, *, undecided_fails: bool = False) -> Regressions:
    """Judge the primary metrics of a comparison of two folders; regressions come first."""
    judged = [JudgedAnswer(answer, regression_of(answer)) for answer in comparison.primaries]
    judged.sort(key=lambda each: _ORDER.index(each.regression))
    return Regressions(comparison, judged, undecided_fails)


def regression_of(answer: ComparedAnswer) -> Regression:
    """Return whether a primary metric is worse than the baseline by more than its margin.

    ``yes`` if the whole interval is beyond the margin, ``no`` if none of it is, ``no values`` if the baseline alone has
    values, else ``not excluded``. Values that do not vary are judged by their difference. Without a better direction,
    a change beyond the margin in either direction is a regression.
    """
    question, finding = answer.question, answer.finding
    if not len(question.b):
        return "no values"
    if finding.verdict in ("equal", "equivalent"):
        return "no"
    low, high = finding.low, finding.high
    if finding.constant and low is None:
        low = high = finding.estimate
    if low is None or high is None or finding.margin is None:
        return "not excluded"
    if finding.level is not None and finding.level < simultaneous_level(LEVEL, answer.together) - _ROUNDING:
        # The interval of a step of Holm's method says no more than on which side of 0 the difference is.
        return "no" if finding.verdict == "better" else "not excluded"
    margin = finding.margin
    if finding.scale == "ratio":
        low, high, margin = math.log(low), math.log(high), math.log(margin)
    if question.better is None:
        return "yes" if low > margin or high < -margin else "not excluded"
    worst, least = (high, low) if question.better == "lower" else (-low, -high)
    return "yes" if least > margin else "no" if worst <= margin else "not excluded"


MOST_EXPLORED = 5000
ONLY = "as-described"


@dataclass(frozen=True, slots=True)
class TreatmentColumn:
    """A treatment of a folder.

    Parameters
    ----------
    name : str
        Of folder and treatment.
    folder : int
        Place of the folder.
    base : str or None
        Treatment of the first folder for comparison: the one of this name, or its only one. ``None`` of the first
        folder itself, and without a partner.
    """

    name: str
    folder: int
    treatment: str
    base: str | None


@dataclass(frozen=True, slots=True)
class Question:
    """A metric of a treatment beside the same metric of its base.

    Parameters
    ----------
    a, b : Sample
        The values of the base, and of the column.
    goal : Goal or None
        Of a primary metric.
    """

    column: TreatmentColumn
    base: str
    workload: str
    metric: Metric
    a: Sample
    b: Sample
    goal: Goal | None

    @property
    def better(self) -> Better | None:
        """The better direction, if there is one."""
        return None if self.metric.better == "neither" else self.metric.better

    @property
    def name(self) -> str:
        """Workload, metric and unit."""
        return f"{self.workload} {self.metric.name}" + (f", {self.metric.unit}" if self.metric.unit else "")


@dataclass(frozen=True, slots=True)
class ComparedAnswer:
    """The answer to a question.

    Parameters
    ----------
    delta : float or None
        Cliff's delta, P(b > a) - P(b < a).
    together : int
        Comparisons in the family of a primary metric, over which false alarms are held; 1 for exploratory ones.
    same_by_seed : bool
        Every seed has the same value in both.
    """

    question: Question
    finding: Finding
    delta: float | None
    together: int
    same_by_seed: bool


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Folders of results beside the first of them.

    Parameters
    ----------
    columns : sequence of TreatmentColumn
        All treatments of all folders.
    answers : sequence of ComparedAnswer
        By column, primary metrics first.
    notes : sequence of str
        Other differences between the folders, and what is not compared.
    """

    folders: Sequence[Folder]
    columns: Sequence[TreatmentColumn]
    answers: Sequence[ComparedAnswer]
    notes: Sequence[str]

    @property
    def family(self) -> str:
        """Family with one limit of false alarms: ``all`` comparisons of primary metrics, or each ``comparison``."""
        return _family(self.folders)

    @property
    def primaries(self) -> list[ComparedAnswer]:
        """The answers on primary metrics."""
        return [answer for answer in self.answers if answer.question.goal is not None]

    @property
    def by_column(self) -> dict[str, list[ComparedAnswer]]:
        """The answers on each column that has any, by its name."""
        found: dict[str, list[ComparedAnswer]] = {}
        for answer in self.answers:
            found.setdefault(answer.question.column.name, []).append(answer)
        return found


def compare_folders(folders: Sequence[Folder], margins: Sequence[str] = (), *, explore: bool = True) -> RunComparison:
    """Compare folders of results with the first of them.

    Parameters
    ----------
    margins : sequence of str
        ``WORKLOAD.METRIC=VALUE``: primary metrics besides the ones of the first folder's campaign.
    explore : bool
        Whether the other metrics are compared too.

    Raises
    ------
    UserError
        If a margin is wrong, or a primary metric has two units.
    """
    goals, missing = goals_of(folders, margins)
    columns = list(_columns(folders))
    compared = [column for column in columns if column.base is not None]
    notes = [*notes_of(folders), *_alone(folders, columns)]
    notes += [f"{name} is a primary metric, and no folder has a value of it" for name in missing]
    families = [_questions(folders, column, goals) for column in compared]
    if _family(folders) == "all":
        families = [list(itertools.chain.from_iterable(families))]
    answers = _settled(families)
    if explore:
        others, told = _others(folders, compared, goals)
        answers += _explored(others)
        notes += told
    place = {column.name: number for number, column in enumerate(columns)}
    answers.sort(key=lambda answer: place[answer.question.column.name])
    return RunComparison(folders, columns, answers, [*notes, *_replicas(folders, answers)])


def harms(comparison: RunComparison) -> list[Harm]:
    """Return the harm to the main metric of each device's workload, seed by seed; none without a cell."""
    found = []
    kinds = {name: kind for folder in comparison.folders for name, kind in folder.of_devices.items()}
    names: dict[str, list[str]] = {}
    for answer in comparison.answers:
        names.setdefault(answer.question.workload, []).append(answer.question.metric.name)
    main = {name: headline(kind, names[name]) for name, kind in kinds.items() if name in names}
    for answer in comparison.answers:
        question = answer.question
        if question.better is None or main.get(question.workload) != question.metric.name:
            continue
        alone, together = (
            dict(zip(each.seeds.tolist(), each.values.tolist(), strict=False)) for each in (question.a, question.b)
        )
        first = comparison.folders[0].name
        base = first if question.base == ONLY else f"{first}: {question.base}"
        interval = harm_of_pairs(alone, together, question.better)
        found.append(Harm(question.workload, question.metric.name, base, question.column.name, interval))
    return worst_first(found)


def _family(folders: Sequence[Folder]) -> str:
    return "all" if folders[0].campaign is None else folders[0].campaign.family


def _columns(folders: Sequence[Folder]) -> Iterator[TreatmentColumn]:
    first = folders[0].treatments
    known = frozenset(first)
    for number, folder in enumerate(folders):
        for treatment in folder.treatments:
            base = None
            if number:
                base = treatment if treatment in known else first[0] if len(first) == 1 else None
            name = folder.name if treatment == ONLY else f"{folder.name}: {treatment}"
            yield TreatmentColumn(name, number, treatment, base)


def _alone(folders: Sequence[Folder], columns: Sequence[TreatmentColumn]) -> Iterator[str]:
    """Say which treatments have no partner."""
    first = folders[0]
    for column in columns:
        if column.folder and column.base is None:
            yield f"{column.name}: {first.name} has no treatment of this name, so there is no difference"
    for number, folder in enumerate(folders[1:], 1):
        used = {column.base for column in columns if column.folder == number}
        alone = [treatment for treatment in first.treatments if treatment not in used]
        yield from (f"{first.name}: {name}: {folder.name} has no treatment of this name" for name in alone)


def _question(folders: Sequence[Folder], column: TreatmentColumn, key: Key, goal: Goal | None) -> Question | None:
    """Return the question on a metric; ``None`` if neither treatment has a value."""
    a, b = folders[0].sample(key, column.base), folders[column.folder].sample(key, column.treatment)
    if column.base is None or not (len(a) or len(b)):
        return None
    series = folders[0].series.get(key) or folders[column.folder].series[key]
    return Question(column, column.base, series.workload, series.metric, a, b, goal)


def _questions(folders: Sequence[Folder], column: TreatmentColumn, goals: Mapping[Key, Goal]) -> list[Question]:
    """Return the questions on the primary metrics of a column."""
    found = []
    for key, goal in goals.items():
        question = _question(folders, column, key, goal)
        if question is not None:
            unlike = _unlike(folders, key, column.folder)
            if unlike:
                raise UserError(
                    f"{folders[column.folder].path}: {unlike}: compare results of one version of the metric"
                )
            found.append(question)
    return found


def _unlike(folders: Sequence[Folder], key: Key, number: int) -> str:
    """Return how a metric of a folder differs from the first folder's, so that values do not compare; or nothing."""
    mine, first = folders[number].series.get(key), folders[0].series.get(key)
    if mine is None or first is None:
        return ""
    for what, its, base in (
        ("in", mine.metric.unit, first.metric.unit),
        ("with a better direction", mine.metric.better, first.metric.better),
    ):
        if its != base:
            return f"{' '.join(key)} is {what} {its or 'no unit'}, and {what} {base or 'no unit'} in {folders[0].name}"
    return ""


def _others(
    folders: Sequence[Folder], columns: Sequence[TreatmentColumn], goals: Mapping[Key, Goal]
) -> tuple[list[Question], list[str]]:
    """Return the questions on other metrics that two folders measured, and notes on those that are left out."""
    found, notes = [], []
    for number in range(1, len(folders)):
        shared = [key for key in folders[0].series if key in folders[number].series and key not in goals]
        unlike = {key: why for key in shared if (why := _unlike(folders, key, number))}
        notes += [f"{folders[number].name}: {why}: not compared" for why in unlike.values()]
        for column in columns:
            if column.folder == number:
                asked = [_question(folders, column, key, None) for key in shared if key not in unlike]
                found += [each for each in asked if each is not None and len(each.a) and len(each.b)]
    if len(found) > MOST_EXPLORED:
        left = len(found) - MOST_EXPLORED
        notes.append(f"{left} exploratory comparisons are left out: at most {MOST_EXPLORED} are made")
    return found[:MOST_EXPLORED], notes


def _settled(families: Sequence[Sequence[Question]]) -> list[ComparedAnswer]:
    samples = [[_primary(question) for question in family] for family in families]
    found = zip(families, samples, settle_many(samples), strict=True)
    return [
        answer
        for family, mine, findings in found
        for answer in _answers(family, findings, cliffs_deltas(mine), len(family))
    ]


def _explored(questions: Sequence[Question]) -> list[ComparedAnswer]:
    samples = [_primary(question) for question in questions]
    return _answers(questions, explore_independent(samples), cliffs_deltas(samples), 1)


def _primary(question: Question) -> Primary:
    margin = None if question.goal is None else question.goal.margin
    return Primary(question.a.values.tolist(), question.b.values.tolist(), margin, question.better)


def _answers(
    questions: Sequence[Question], findings: Sequence[Finding], deltas: Sequence[float | None], together: int
) -> list[ComparedAnswer]:
    answers = []
    for question, finding, delta in zip(questions, findings, deltas, strict=True):
        same = question.a.equals_by_seed(question.b)
        if same:
            found = replace(finding, verdict="equal", low=None, high=None, level=None, constant=True, reason=None)
        else:
            found = finding
        answers.append(ComparedAnswer(question, found, delta, together, same))
    return answers


def _replicas(folders: Sequence[Folder], answers: Sequence[ComparedAnswer]) -> Iterator[str]:
    by_folder: dict[int, list[ComparedAnswer]] = {}
    for answer in answers:
        by_folder.setdefault(answer.question.column.folder, []).append(answer)
    for mine in by_folder.values():
        if all(answer.same_by_seed for answer in mine):
            name = folders[mine[0].question.column.folder].name
            yield f"{name} is a replica of {folders[0].name}: every seed has the same value of every compared metric"
