"""A comparison as text for a terminal, as JSON, and as CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.campaign.harm import harm_json, harm_text
from wavebed.compare.find import harms
from wavebed.compare.samples import EMPTY
from wavebed.compare.words import counts_text, effect_text, p_text, reason_text, sample_text, sections
from wavebed.output import csv_rows
from wavebed.page.text import MISSING, signed
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wavebed.compare.find import ComparedAnswer, RunComparison, TreatmentColumn
    from wavebed.compare.samples import Key, Sample
    from wavebed.compare.words import Section
    from wavebed.config.data import Json
    from wavebed.workload.model import Metric

MOST_ROWS = 600


def comparison_text(comparison: RunComparison) -> str:
    """Return a table for each column beside its base, of primary and of other metrics, and the notes."""
    return "\n".join([*_tables(comparison), *harm_text(harms(comparison)), *comparison.notes]).rstrip()


def _tables(comparison: RunComparison) -> Iterator[str]:
    if not comparison.answers:
        yield "no metric was measured by two folders"
    found, more = sections(comparison, MOST_ROWS)
    before = ""
    for section in found:
        if section.column != before:
            yield f"{section.column} beside {section.base}"
        before = section.column
        yield from (f"{section.title}:", table_text(_rows(section)), "")
    if more:
        yield f"and {more} more comparisons: --csv and --json have all"


def _rows(section: Section) -> list[tuple[str, ...]]:
    margin = ("margin",) if section.answers[0].question.goal is not None else ()
    rows = [("metric", section.base, section.column, *margin, "verdict", "difference", "p", "delta", "n", "")]
    for answer in section.answers:
        question, finding = answer.question, answer.finding
        rows.append(
            (
                question.name,
                sample_text(question.a),
                sample_text(question.b),
                *(() if question.goal is None else (question.goal.text,)),
                finding.verdict,
                effect_text(answer),
                p_text(finding.adjusted),
                MISSING if answer.delta is None else signed(answer.delta),
                counts_text(answer),
                reason_text(answer),
            )
        )
    return rows


def comparison_json(comparison: RunComparison) -> dict[str, Json]:
    """Return the comparison as one object."""
    names = [folder.name for folder in comparison.folders]
    bases = {one.treatment: one.name for one in comparison.columns if not one.folder}
    columns: list[Json] = [
        {
            "name": one.name,
            "run": names[one.folder],
            "treatment": one.treatment,
            "base": None if one.base is None else bases[one.base],
        }
        for one in comparison.columns
    ]
    metrics: list[Json] = []
    for metric, cells in _lines(comparison):
        found: dict[str, Json] = {column.name: told for column, told in cells}
        workload, described = metric
        metrics.append(
            {
                "workload": workload,
                "name": described.name,
                "unit": described.unit,
                "better": described.better,
                "columns": found,
            }
        )
    paid = harms(comparison)
    told: dict[str, Json] = {"runs": list(names), "columns": columns, "metrics": metrics}
    return {**told, "notes": list(comparison.notes), **({"harm": harm_json(paid)} if paid else {})}


def comparison_csv(comparison: RunComparison) -> str:
    """Return a row for each metric and column; unknown values are empty."""
    bases = {one.treatment: one.name for one in comparison.columns if not one.folder}
    head = ["workload", "metric", "unit", "better", "run", "treatment", "compared_with"]
    rows: list[Sequence[object]] = [[*head, *_cells(EMPTY, None)]]
    for (workload, metric), cells in _lines(comparison):
        for column, told in cells:
            run = comparison.folders[column.folder].name
            base = None if column.base is None else bases[column.base]
            name = (workload, metric.name, metric.unit, metric.better)
            rows.append([*name, run, column.treatment, base, *told.values()])
    return csv_rows(rows)


def finding_json(answer: ComparedAnswer | None) -> dict[str, Json]:
    """Return the verdict and what it rests on; either the keys of the difference or of the ratio have values."""
    if answer is None:
        return dict.fromkeys(_FINDING)
    question, finding = answer.question, answer.finding
    told: dict[str, Json] = {
        "role": "exploratory" if question.goal is None else "primary",
        "margin": None if question.goal is None else question.goal.text,
        "verdict": finding.verdict,
        f"{finding.scale}": finding.estimate,
        f"{finding.scale}_low": finding.low,
        f"{finding.scale}_high": finding.high,
        "level": finding.level,
        "p": finding.p,
        "p_adjusted": None if question.goal is None else finding.adjusted,
        "cliffs_delta": answer.delta,
        "constant": finding.constant,
        "same_by_seed": answer.same_by_seed,
        "reason": finding.reason,
    }
    return {name: told.get(name) for name in _FINDING}


_FINDING = (
    "role",
    "margin",
    "verdict",
    "difference",
    "difference_low",
    "difference_high",
    "ratio",
    "ratio_low",
    "ratio_high",
    "level",
    "p",
    "p_adjusted",
    "cliffs_delta",
    "constant",
    "same_by_seed",
    "reason",
)


def _lines(
    comparison: RunComparison,
) -> Iterator[tuple[tuple[str, Metric], list[tuple[TreatmentColumn, dict[str, Json]]]]]:
    """Yield every metric with its cell in every column."""
    answers: dict[tuple[str, Key], ComparedAnswer] = {}
    for answer in comparison.answers:
        question = answer.question
        answers[question.column.name, (question.workload, question.metric.name)] = answer
    keys = dict.fromkeys(key for folder in comparison.folders for key in folder.series)
    for key in keys:
        metric = next(folder.series[key].metric for folder in comparison.folders if key in folder.series)
        cells = [
            (
                column,
                _cells(
                    comparison.folders[column.folder].sample(key, column.treatment), answers.get((column.name, key))
                ),
            )
            for column in comparison.columns
        ]
        yield (key[0], metric), cells


def _cells(sample: Sample, answer: ComparedAnswer | None) -> dict[str, Json]:
    middle = sample.median
    medians: dict[str, Json] = {
        "count": middle.count,
        "median": middle.estimate,
        "low": middle.low,
        "high": middle.high,
    }
    return medians | finding_json(answer)
