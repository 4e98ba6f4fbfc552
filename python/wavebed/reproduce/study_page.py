"""The page of a reproduced study: published figures beside ours, drawn and in tables, with links to the trials."""

from __future__ import annotations

import base64
import itertools
import re
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote

from wavebed.beneath import make_folder
from wavebed.campaign.report.picture import drawn
from wavebed.campaign.report.tables import MOST_LINES, html_table
from wavebed.output import write_output
from wavebed.report.document import asset, document
from wavebed.report.path import IN_VIRTUAL_TIME
from wavebed.reproduce.study import figures_table, further_table, hypotheses_section, models_table
from wavebed.reproduce.study_picture import pictures_of
from wavebed.reproduce.study_text import PICTURES, RULE, study_markdown
from wavebed.reproduce.study_words import counts_text, explaining_texts
from wavebed.result.model import COUNTED
from wavebed.result.names import REPORT_FILE, TRIALS_FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.campaign.report.picture import Picture
    from wavebed.campaign.report.tables import Cell
    from wavebed.reproduce.judge import Beside
    from wavebed.reproduce.studies import Study
    from wavebed.reproduce.study import Begun, PartResults

_MOST_LINKS = 30
_MOST_SHOWN = 8
_NUMBERS = ("published", "ours", "ratio")
"""Columns with numbers."""


def write_study_page(begun: Begun, study: Study, parts: Sequence[PartResults], folder: Path) -> Path:
    """Write the page into the folder of the study, as HTML and Markdown, and return the first."""
    file = folder / REPORT_FILE
    few = (
        '<p class="note">A quick run is a first look: few trials of each cell. Without'
        " <code>--quick</code> the cells are repeated.</p>"
        if begun.quick
        else ""
    )
    virtual = IN_VIRTUAL_TIME if begun.time == "virtual" else ""
    title = f"{study.title}, done again"
    counts = "".join(
        f"<p>{escape(part.part.title)}: {escape(told)}.</p>"
        for part in parts
        for told in (counts_text(part.beside), *explaining_texts(part.tried))
    )
    notes = "".join(f"<li>{_coded(note)}</li>" for note in study.notes)
    said = "".join(f"<li>{_coded(line)}</li>" for line in study.conclusions)
    conclusions = f"<section><h2>Conclusions of the recorded run</h2><ul>{said}</ul></section>" if said else ""
    drawings = {part.part.name: [(each, drawn(each)[0]) for each in pictures_of(part)] for part in parts}
    body = (
        f'<header id="results"><h1>{escape(title)}</h1>{counts}{few}{virtual}</header>'
        f"{conclusions}<section><h2>How to read it</h2><p>{RULE}</p><ul>{notes}</ul></section>"
        f"{''.join(_section(part, folder, drawings[part.part.name]) for part in parts)}"
    )
    make_folder(folder / PICTURES)
    for picture, svg in itertools.chain.from_iterable(drawings.values()):
        write_output(folder / PICTURES / f"{begun.study}-{picture.name}.svg", svg.decode())
    pictures = {part: [picture for picture, _ in of_part] for part, of_part in drawings.items()}
    write_output(file.with_suffix(".md"), study_markdown(begun.study, study, parts, pictures))
    write_output(file, document(title, body, "", asset("campaign.css", "wavebed.campaign.report")))
    return file


def _coded(line: str) -> str:
    """Return a line of text with what is in backticks as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(line))


def _section(part: PartResults, folder: Path, drawings: Sequence[tuple[Picture, bytes]]) -> str:
    way = quote(part.results.folder.relative_to(folder).as_posix())
    report = f'<a href="{way}/{REPORT_FILE}">The report of the campaign</a> has all metrics and checks.'
    figures = f'<div class="pictures">{"".join(_picture(*each) for each in drawings)}</div>' if drawings else ""
    if not part.beside:
        table = html_table(figures_table(part), "answers", MOST_LINES)
        head = f"<h2>{escape(part.part.title)}</h2><p>Nothing was published. {report}</p>"
        return f"<section>{head}{figures}{table}{_models(part)}</section>"
    told = figures_table(part)
    # The links to the trials tell their number.
    names = [*(name for name in told.head if name != "n"), "trials"]
    head = "".join(f"<th scope=col{_kind(name)}>{escape(name)}</th>" for name in names)
    rows = "".join(
        _row(part, each, dict(zip(told.head, row, strict=True)), way)
        for each, row in zip(part.beside, told.rows, strict=True)
    )
    table = (
        f'<div class="scroll" tabindex="0"><table class="answers sticky"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
    if part.tried:
        table = f"<details><summary>Figures without any change</summary>{table}</details>"
    return (
        f"<section><h2>{escape(part.part.title)}</h2><p class='soft'>Published: {escape(part.source)}. {report}</p>"
        f"{figures}{table}{_further(part)}{_models(part)}</section>"
        f"{hypotheses_section(part)}"
    )


def _picture(picture: Picture, svg: bytes) -> str:
    data = base64.b64encode(svg).decode()
    return (
        f'<figure class="picture"><img src="data:image/svg+xml;base64,{data}" alt="{escape(picture.title)}">'
        f"<figcaption><b>{escape(picture.title)}.</b> {escape(picture.caption)}</figcaption></figure>"
    )


def _further(part: PartResults) -> str:
    """Return the table of cells of which no number was published, if there are any."""
    table = further_table(part)
    if not table.rows:
        return ""
    return f"<p>Cells of which no number was published:</p>{html_table(table, 'answers', MOST_LINES)}"


def _models(part: PartResults) -> str:
    """Return the table of models of TCP beside ours, if the part has one."""
    table = models_table(part)
    return f"<h3>Models of TCP</h3>{html_table(table, 'answers', MOST_LINES)}" if table.rows else ""


def _kind(name: str) -> str:
    return "" if name in _NUMBERS else " class=text"


def _row(part: PartResults, each: Beside, told: Mapping[str, Cell], way: str) -> str:
    lines = [line for line in part.results.run.trials if line.treatment == each.cell and line.verdict in COUNTED]
    links = " ".join(
        f'<a href="{way}/{TRIALS_FOLDER}/{quote(line.folder)}/">{line.block}</a>' for line in lines[:_MOST_LINKS]
    )
    cells = "".join(f"<td{_kind(name)}>{escape(str(cell))}</td>" for name, cell in told.items() if name != "n")
    if len(lines) > _MOST_SHOWN:
        links = f"<details><summary>{len(lines)}</summary>{links}</details>"
    return f"<tr>{cells}<td class=text>{links}</td></tr>"
