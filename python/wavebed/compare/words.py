"""The words of a comparison: samples, effects, and what limits a verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from wavebed.campaign.text import finding_text
from wavebed.page.text import MISSING, figure, signed
from wavebed.report.metrics import interval_text
from wavebed.stats.intervals import FEWEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.compare.find import ComparedAnswer, RunComparison
    from wavebed.compare.samples import Sample

_EXPLORATORY = "Exploratory, each metric by itself: among 20 without a difference, one is a false alarm"


class Section(NamedTuple):
    """A table of answers on one column; `base` is the name of the column for comparison."""

    column: str
    base: str
    title: str
    answers: Sequence[ComparedAnswer]


def sections(comparison: RunComparison, most: int) -> tuple[list[Section], int]:
    """Return the tables of a comparison with at most `most` answers, and the number of the others."""
    bases = {column.treatment: column.name for column in comparison.columns if not column.folder}
    found, left = [], most
    for name, answers in comparison.by_column.items():
        base = bases[answers[0].question.base]
        for title, is_primary in ((_primary_title(comparison), True), (_EXPLORATORY, False)):
            mine = [answer for answer in answers if (answer.question.goal is not None) == is_primary][:left]
            left -= len(mine)
            if mine:
                found.append(Section(name, base, title, mine))
    return found, len(comparison.answers) - most + left


def _primary_title(comparison: RunComparison) -> str:
    held = "all of them" if comparison.family == "all" else "those of each treatment"
    return f"Primary metrics; false alarms over {held} at most 5 %"


def sample_text(sample: Sample) -> str:
    """Return the median and its interval."""
    return interval_text(sample.median)


def counts_text(answer: ComparedAnswer) -> str:
    """Return the number of values of both."""
    return f"{len(answer.question.a)}, {len(answer.question.b)}"


def effect_text(answer: ComparedAnswer) -> str:
    """Return the difference or ratio with its interval; values that do not vary have none."""
    finding = answer.finding
    if finding.verdict == "equal":
        return MISSING
    shown = replace(finding, low=None, high=None) if finding.constant else finding
    return finding_text(shown, answer.question.metric.unit)


def p_text(p: float | None) -> str:
    """Return a p value: two digits, or below which it is."""
    if p is None:
        return MISSING
    return "<0.001" if p < 0.001 else f"{p:.2g}"


def reason_text(answer: ComparedAnswer) -> str:
    """Return what a verdict rests on where it is not an interval, and what limits it; or nothing."""
    question, finding = answer.question, answer.finding
    first, other = len(question.a), len(question.b)
    if not first or not other:
        return f"no values of {'the first' if not first else 'the second'}"
    if question.a.is_constant and question.b.is_constant:
        value, unit = float(question.a.values[0]), f" {question.metric.unit}" if question.metric.unit else ""
        apart = float(question.b.values[0]) - value
        told = f"equal: {figure(value)}{unit}" if apart == 0 else f"different by {signed(apart)}{unit}"
        return f"{told} in all {first} and {other} values"
    if answer.same_by_seed:
        return f"equal at each of {first} seeds"
    if finding.low is None:
        if min(first, other) < FEWEST:
            return f"too few values for an interval: at least {FEWEST}"
        return f"too few values for an interval at the level of {answer.together} comparisons together"
    if finding.reason == "not-positive":
        return "a value is not positive: differences, not ratios"
    if finding.reason == "no-reference":
        return "the first median is 0: the margin has no value"
    return ""
