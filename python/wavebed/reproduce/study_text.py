"""The comparison with a study as text, Markdown and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.page.tables import markdown_text
from wavebed.reproduce.judge import TOLERANCE
from wavebed.reproduce.study import (
    changes_table,
    figures_table,
    further_table,
    hypotheses_table,
    models_table,
    predictions_table,
)
from wavebed.reproduce.study_words import explaining_texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.config.data import Json
    from wavebed.page.charts import ColumnPicture
    from wavebed.page.tables import Table
    from wavebed.reproduce.judge import Beside, Tried
    from wavebed.reproduce.studies import Study
    from wavebed.reproduce.study import PartResults

PICTURES = "pictures"
"""Folder of the pictures, beside the page."""

RULE = (
    "A figure is reproduced if the whole interval of our median (95 %, order statistics, each figure by itself) is"
    f" within {100 * TOLERANCE:g} % of the published figure, or within its reading error where that is larger. It is"
    " not if none of the interval is. Fewer than 6 trials have no interval. A ratio is that of two trials of one block."
)


def study_text(parts: Sequence[PartResults]) -> str:
    """Return a table for each part, how many figures have which verdict, and the hypotheses."""
    blocks = []
    for part in parts:
        figures = figures_table(part)
        blocks.append("\n".join([part.part.title, "", *_lines(figures), "", figures.caption]))
        further = further_table(part)
        if further.rows:
            blocks.append("\n".join([f"{part.part.title}: no number was published", "", *_lines(further)]))
        if part.tried:
            blocks.append("\n".join([f"{part.part.title}: hypotheses", "", *_lines(hypotheses_table(part))]))
    return "\n\n".join(blocks)


def _lines(table: Table) -> list[str]:
    rows = [[str(cell) for cell in row] for row in (table.head, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def study_markdown(
    name: str, study: Study, parts: Sequence[PartResults], pictures: Mapping[str, Sequence[ColumnPicture]]
) -> str:
    """Return the comparison as a page of documentation, with links to the pictures of each part."""
    blocks = [f"# {study.title}", f"*This page is written by `wavebed reproduce {name}`.*"]
    if study.conclusions:
        blocks += ["## Conclusions", _list(study.conclusions)]
    blocks += ["## Method", RULE, _list(study.notes)]
    for part in parts:
        run = part.results.run
        machine = ", ".join(f"{key} {value}" for key, value in run.machine.items())
        versions = ", ".join(f"{key} {run.versions[key]}" for key in ("wavebed", "kernel") if key in run.versions)
        ended = len(part.results.ended)
        counted = f"{ended} block{'s' if ended > 1 else ''} from seed {run.seed}, begun {run.started}"
        published = f"Published: {part.source}. " if part.beside else ""
        made = f"{published}Ours: {counted}; {machine}; {versions}."
        again = f"Again: `wavebed reproduce {name} --part {part.part.name}`"
        figures = changes_table(part) if part.tried else figures_table(part)
        drawn = [
            f"![{picture.title}: {picture.caption}]({PICTURES}/{name}-{picture.name}.svg)"
            for picture in pictures.get(part.part.name, ())
        ]
        blocks += [f"## {part.part.title}", f"{made} {again}", *drawn, markdown_text(figures).rstrip()]
        further = further_table(part)
        if further.rows:
            blocks += ["Cells of which no number was published:", _bare(further)]
        models = models_table(part)
        if models.rows:
            blocks += ["### Models of TCP", markdown_text(models).rstrip()]
        if part.tried:
            fitted, held_out = part.tried[0].counts
            over = f"{fitted} fitted and {held_out} held-out figures"
            told = f"Distances are means of abs(ln(ours / published)) over {over}."
            blocks += [
                "### Hypotheses",
                told,
                *(f"{each}." for each in explaining_texts(part.tried)),
                _bare(hypotheses_table(part)),
                _bare(predictions_table(part)),
            ]
    return "\n\n".join(blocks) + "\n"


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _bare(table: Table) -> str:
    return markdown_text(table).strip()


def study_json(parts: Sequence[PartResults]) -> dict[str, Json]:
    """Return the comparison of each part, and its hypotheses."""
    found: dict[str, Json] = {part.part.name: [_figure_json(each) for each in part.beside] for part in parts}
    hypotheses: dict[str, Json] = {
        part.part.name: [_tried_json(each) for each in part.tried] for part in parts if part.tried
    }
    return {**found, "hypotheses": hypotheses} if hypotheses else found


def _figure_json(each: Beside) -> dict[str, Json]:
    return {
        **each.published.levels,
        "workload": each.published.workload,
        "metric": each.published.metric,
        "unit": each.published.unit,
        "figure": each.published.figure,
        "published": each.published.value,
        "reading_error": each.published.error,
        "at_least": each.published.at_least,
        "ours": each.ours.estimate,
        "low": each.ours.low,
        "high": each.ours.high,
        "level": each.ours.level,
        "trials": each.ours.count,
        "ratio": each.ratio,
        "verdict": each.verdict,
        "order": each.order,
    }


def _tried_json(each: Tried) -> dict[str, Json]:
    return {
        "hypothesis": each.hypothesis.label,
        "claim": each.hypothesis.claim,
        "distance_fitted": each.fitted,
        "distance_held_out": each.held_out,
        "inside": each.inside,
        "outside": each.outside,
        "prediction": each.hypothesis.prediction,
        "expected": each.hypothesis.expected,
        "found": each.found,
        "commit": each.hypothesis.commit,
        "figures": [_figure_json(figure) for figure in each.beside],
    }
