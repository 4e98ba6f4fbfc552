"""Verdicts on the metrics of folders of results, each beside the first folder.

Trials of two folders are independent samples even with equal seeds, because day, machine or version differ between all
of them. What trials of one seed have in common then widens the intervals; it does not raise false alarms.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wavebed.compare.margins import goals_of
from wavebed.compare.notes import notes_of
from wavebed.errors import UserError
from wavebed.stats.family import Primary
from wavebed.stats.many import cliffs_deltas, explore_independent, settle_many

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wavebed.compare.margins import Goal
    from wavebed.compare.samples import Folder, Key, Sample
    from wavebed.stats.verdict import Better, Finding
    from wavebed.workload.model import Metric

__all__ = ["ONLY", "Answer", "Column", "Comparison", "Question", "compare_folders"]

MOST_EXPLORED = 5000
ONLY = "as-described"


@dataclass(frozen=True, slots=True)
class Column:
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
    """A metric of a treatment beside that of its base.

    Parameters
    ----------
    a, b : Sample
        The values of the base, and of the column.
    goal : Goal or None
        Of a primary metric.
    """

    column: Column
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
class Answer:
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
class Comparison:
    """Folders of results beside the first of them.

    Parameters
    ----------
    columns : sequence of Column
        All treatments of all folders.
    answers : sequence of Answer
        By column, primary metrics first.
    notes : sequence of str
        Other differences between the folders, and what is not compared.
    """

    folders: Sequence[Folder]
    columns: Sequence[Column]
    answers: Sequence[Answer]
    notes: Sequence[str]

    @property
    def family(self) -> str:
        """Over what false alarms are held: ``all`` comparisons of primary metrics, or those of each ``comparison``."""
        return _family(self.folders)

    @property
    def primaries(self) -> list[Answer]:
        """The answers on primary metrics."""
        return [answer for answer in self.answers if answer.question.goal is not None]

    @property
    def by_column(self) -> dict[str, list[Answer]]:
        """The answers on each column that has any, by its name."""
        found: dict[str, list[Answer]] = {}
        for answer in self.answers:
            found.setdefault(answer.question.column.name, []).append(answer)
        return found


def compare_folders(folders: Sequence[Folder], margins: Sequence[str] = (), *, explore: bool = True) -> Comparison:
    """Compare folders of results with the first of them.

    Parameters
    ----------
    margins : sequence of str
        ``WORKLOAD.METRIC=VALUE``: primary metrics beside those of the first folder's campaign.
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
    return Comparison(folders, columns, answers, [*notes, *_replicas(folders, answers)])


def _family(folders: Sequence[Folder]) -> str:
    return "all" if folders[0].campaign is None else folders[0].campaign.family


def _columns(folders: Sequence[Folder]) -> Iterator[Column]:
    first = folders[0].treatments
    known = frozenset(first)
    for number, folder in enumerate(folders):
        for treatment in folder.treatments:
            base = None
            if number:
                base = treatment if treatment in known else first[0] if len(first) == 1 else None
            name = folder.name if treatment == ONLY else f"{folder.name}: {treatment}"
            yield Column(name, number, treatment, base)


def _alone(folders: Sequence[Folder], columns: Sequence[Column]) -> Iterator[str]:
    """Say which treatments have no partner."""
    first = folders[0]
    for column in columns:
        if column.folder and column.base is None:
            yield f"{column.name}: {first.name} has no treatment of this name, so there is no difference"
    for number, folder in enumerate(folders[1:], 1):
        used = {column.base for column in columns if column.folder == number}
        alone = [treatment for treatment in first.treatments if treatment not in used]
        yield from (f"{first.name}: {name}: {folder.name} has no treatment of this name" for name in alone)


def _question(folders: Sequence[Folder], column: Column, key: Key, goal: Goal | None) -> Question | None:
    """Return the question on a metric; ``None`` if neither treatment has a value."""
    a, b = folders[0].sample(key, column.base), folders[column.folder].sample(key, column.treatment)
    if column.base is None or not (len(a) or len(b)):
        return None
    series = folders[0].series.get(key) or folders[column.folder].series[key]
    return Question(column, column.base, series.workload, series.metric, a, b, goal)


def _questions(folders: Sequence[Folder], column: Column, goals: Mapping[Key, Goal]) -> list[Question]:
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
    """Return how a metric of a folder differs from that of the first, so that values do not compare; or nothing."""
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
    folders: Sequence[Folder], columns: Sequence[Column], goals: Mapping[Key, Goal]
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


def _settled(families: Sequence[Sequence[Question]]) -> list[Answer]:
    samples = [[_primary(question) for question in family] for family in families]
    found = zip(families, samples, settle_many(samples), strict=True)
    return [
        answer
        for family, mine, findings in found
        for answer in _answers(family, findings, cliffs_deltas(mine), len(family))
    ]


def _explored(questions: Sequence[Question]) -> list[Answer]:
    samples = [_primary(question) for question in questions]
    return _answers(questions, explore_independent(samples), cliffs_deltas(samples), 1)


def _primary(question: Question) -> Primary:
    margin = None if question.goal is None else question.goal.margin
    return Primary(question.a.values.tolist(), question.b.values.tolist(), margin, question.better)


def _answers(
    questions: Sequence[Question], findings: Sequence[Finding], deltas: Sequence[float | None], together: int
) -> list[Answer]:
    answers = []
    for question, finding, delta in zip(questions, findings, deltas, strict=True):
        same = question.a.equals_by_seed(question.b)
        if same:
            found = replace(finding, verdict="equal", low=None, high=None, level=None, constant=True, reason=None)
        else:
            found = finding
        answers.append(Answer(question, found, delta, together, same))
    return answers


def _replicas(folders: Sequence[Folder], answers: Sequence[Answer]) -> Iterator[str]:
    by_folder: dict[int, list[Answer]] = {}
    for answer in answers:
        by_folder.setdefault(answer.question.column.folder, []).append(answer)
    for mine in by_folder.values():
        if all(answer.same_by_seed for answer in mine):
            name = folders[mine[0].question.column.folder].name
            yield f"{name} is a replica of {folders[0].name}: every seed has the same value of every compared metric"
