"""A comparison as JSON and as CSV: the median of every metric and column, and its verdict beside the base."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.compare.samples import EMPTY
from wavebed.output import csv_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wavebed.compare.find import Answer, Column, Comparison
    from wavebed.compare.samples import Key, Sample
    from wavebed.config.data import Json
    from wavebed.workload.model import Metric

__all__ = ["comparison_csv", "comparison_json", "finding_json"]


def comparison_json(comparison: Comparison) -> dict[str, Json]:
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
    return {"runs": list(names), "columns": columns, "metrics": metrics, "notes": list(comparison.notes)}


def comparison_csv(comparison: Comparison) -> str:
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


def finding_json(answer: Answer | None) -> dict[str, Json]:
    """Return the verdict and what it rests on; of the keys of difference and ratio those of one have values."""
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
    comparison: Comparison,
) -> Iterator[tuple[tuple[str, Metric], list[tuple[Column, dict[str, Json]]]]]:
    """Yield every metric with its cell in every column."""
    answers: dict[tuple[str, Key], Answer] = {}
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


def _cells(sample: Sample, answer: Answer | None) -> dict[str, Json]:
    middle = sample.median
    medians: dict[str, Json] = {
        "count": middle.count,
        "median": middle.estimate,
        "low": middle.low,
        "high": middle.high,
    }
    return medians | finding_json(answer)
