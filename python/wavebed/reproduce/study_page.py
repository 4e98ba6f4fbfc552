"""The page of a reproduced study: published figures beside ours, drawn and in tables, with links to the trials."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING
from urllib.parse import quote

from wavebed.beneath import make_folder
from wavebed.campaign.report.build import figure_of
from wavebed.output import write_output
from wavebed.page import asset
from wavebed.page.charts import drawn
from wavebed.page.document import document, filled, joined
from wavebed.page.tables import MOST_LINES, html_table
from wavebed.report.build import IN_VIRTUAL_TIME
from wavebed.reproduce.judge import SAME
from wavebed.reproduce.study import changes_table, figures_table, further_table, hypotheses_table, models_table
from wavebed.reproduce.study_picture import pictures_of
from wavebed.reproduce.study_text import PICTURES, RULE, study_markdown
from wavebed.reproduce.study_words import again_text, counts_text, explaining_texts
from wavebed.result.model import COUNTED
from wavebed.result.names import REPORT_FILE, TRIALS_FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from markupsafe import Markup

    from wavebed.page.charts import ColumnPicture
    from wavebed.reproduce.studies import Study
    from wavebed.reproduce.study import BegunStudy, PartResults

_TEMPLATE = "reproduce/study_page.html.j2"
_MOST_LINKS = 30
_MOST_SHOWN = 8
_NUMBERS = ("published", "ours", "ratio")
"""Columns with numbers."""


def write_study_page(begun: BegunStudy, study: Study, parts: Sequence[PartResults], folder: Path) -> Path:
    """Write the page into the folder of the study, as HTML and Markdown, and return the first."""
    file = folder / REPORT_FILE
    title = f"{study.title}, done again"
    counts = [
        f"{part.part.title}: {told}."
        for part in parts
        for told in (counts_text(part.beside), *explaining_texts(part.tried))
    ]
    virtual = IN_VIRTUAL_TIME if begun.time == "virtual" else ""
    conclusions, notes = ([line.split("`") for line in lines] for lines in (study.conclusions, study.notes))
    head = filled(_TEMPLATE, "head", title, counts, begun.quick, virtual, conclusions, RULE, notes)
    drawings = {part.part.name: [(each, drawn(each)[0]) for each in pictures_of(part)] for part in parts}
    sections = [_section(part, folder, drawings[part.part.name]) for part in parts]
    make_folder(folder / PICTURES)
    for picture, svg in itertools.chain.from_iterable(drawings.values()):
        write_output(folder / PICTURES / f"{begun.study}-{picture.name}.svg", svg.decode())
    pictures = {part: [picture for picture, _ in of_part] for part, of_part in drawings.items()}
    write_output(file.with_suffix(".md"), study_markdown(begun.study, study, parts, pictures))
    style = asset("campaign.css", "wavebed.campaign.report")
    write_output(file, document(title, joined([head, *sections]), style=style))
    return file


def _section(part: PartResults, folder: Path, drawings: Sequence[tuple[ColumnPicture, bytes]]) -> Markup:
    way = quote(part.results.folder.relative_to(folder).as_posix())
    pictures = [figure_of(picture, picture.caption, svg) for picture, svg in drawings]
    figures, further, models = figures_table(part), further_table(part), models_table(part)
    source, table, of_further = "", html_table(figures, "answers", MOST_LINES), ""
    if part.beside:
        # The links to the trials tell their number.
        head = [name for name in figures.head if name != "n"]
        rows = []
        for each, row in zip(part.beside, figures.rows, strict=True):
            told = dict(zip(figures.head, row, strict=True))
            trials = part.results.run.trials
            lines = [line for line in trials if line.treatment == each.cell and line.verdict in COUNTED]
            rows.append(([(name, told[name]) for name in head], lines))
        trials_folder = f"{way}/{TRIALS_FOLDER}"
        limits = _MOST_LINKS, _MOST_SHOWN
        table = filled(_TEMPLATE, "figures", head, _NUMBERS, rows, trials_folder, *limits, bool(part.tried))
        source = part.source
        of_further = html_table(further, "answers", MOST_LINES) if further.rows else ""
    of_models = html_table(models, "answers", MOST_LINES) if models.rows else ""
    report = f"{way}/{REPORT_FILE}"
    written = filled(_TEMPLATE, "part", part.part.title, source, report, pictures, table, of_further, of_models)
    return written + _hypotheses(part) if part.tried else written


def _hypotheses(part: PartResults) -> Markup:
    table, changes = hypotheses_table(part), changes_table(part)
    name, *others = table.head
    rows = [
        (each.hypothesis, again_text(part.part, each.hypothesis), told[1:])
        for each, told in zip(part.tried, table.rows, strict=True)
    ]
    of_changes = html_table(changes, "answers", MOST_LINES)
    return filled(
        _TEMPLATE, "hypotheses", part.part.title, f"{SAME:g}", part.tried[0].counts, (name, "predicted", *others), rows,
        changes.caption, of_changes,
    )  # fmt: skip
