"""The report of a campaign: one HTML page, its figures as PDF and SVG, its tables as CSV, Markdown and LaTeX."""

from __future__ import annotations

import base64
import os
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote

from wavebed.beneath import make_folder
from wavebed.campaign.report.answers import answers_section, answers_table, head
from wavebed.campaign.report.chosen import Chosen
from wavebed.campaign.report.design import design_section
from wavebed.campaign.report.explored import explored_section
from wavebed.campaign.report.picture import drawn
from wavebed.campaign.report.pictures import pictures
from wavebed.campaign.report.summary import summary_section, summary_table
from wavebed.campaign.report.tables import csv_text, latex_text, markdown_text
from wavebed.campaign.report.threats import threats_of, threats_section
from wavebed.campaign.report.trials import trials_section, trials_table
from wavebed.campaign.results import read_campaign_results
from wavebed.errors import UserError
from wavebed.output import write_output
from wavebed.report.document import asset, document
from wavebed.result.names import FIGURES_FOLDER, METRICS_FILE, REPORT_FILE, TABLES_FOLDER
from wavebed.store.disk import remove_leftovers

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.campaign.report.picture import Picture
    from wavebed.campaign.report.tables import Table

MOST_BYTES = 5_000_000
_PACKAGE = "wavebed.campaign.report"


def write_campaign_report(folder: Path, file: Path | None = None) -> Path:
    """Write the report of a campaign and return the page: `file`, or ``report.html`` in `folder`.

    Figures and tables are in ``figures`` and ``tables`` in `folder`. Unfinished trials of a killed
    campaign are removed.

    Raises
    ------
    UserError
        If the folder has no campaign, or a file cannot be written.
    """
    chosen = Chosen(read_campaign_results(folder))
    remove_leftovers(folder)
    target = file or folder / REPORT_FILE
    prefix = _prefix(folder, target)
    tables = [answers_table(chosen.results.answers), summary_table(chosen), trials_table(chosen)]
    tables.append(answers_table(chosen.results.exploration.answers, "exploration"))
    links = {table.name: _write_table(folder, table, prefix) for table in tables}
    figures = _write_pictures(folder, chosen, prefix)
    write_output(target, page(chosen, figures, links, prefix))
    return target


def _prefix(folder: Path, target: Path) -> str:
    """Return the way from the page to the folder: empty, or with a slash at its end."""
    way = os.path.relpath(folder.resolve(), target.resolve().parent)
    return "" if way == "." else quote(way) + "/"


def page(chosen: Chosen, figures: list[tuple[str, str]], links: dict[str, str], prefix: str) -> str:
    """Return the page with the figures that fit.

    Parameters
    ----------
    figures : list of (str, str)
        Each with and without its picture.
    links : dict
        The links to the files of each table.
    """
    threats = threats_of(chosen)
    before = [head(chosen, threats.warnings), answers_section(chosen, links["answers"])]
    after = [
        threats_section(chosen, threats),
        summary_section(chosen, links["summary"]),
        explored_section(chosen, links["exploration"]),
        design_section(chosen, prefix),
        trials_section(chosen, prefix, links["trials"]),
        _files(prefix),
    ]
    title = chosen.results.run.title or chosen.results.run.scenario

    def whole(drawn_: list[str]) -> str:
        body = "\n".join(part for part in (*before, _figures(drawn_), *after) if part)
        return document(title, body, asset("campaign.js", _PACKAGE), asset("campaign.css", _PACKAGE))

    left = MOST_BYTES - len(whole([]).encode()) - 1000
    shown = []
    for with_picture, without in figures:
        fits = len(with_picture) <= left
        shown.append(with_picture if fits else without)
        left -= len(shown[-1].encode())
    return whole(shown)


def _figures(shown: list[str]) -> str:
    if not shown:
        return ""
    return (
        '<section id="figures"><h2>Figures</h2><p class="soft">Each is also a file as wide as a column of a paper'
        f' (3.5 in), legible in grey.</p><div class="pictures">{"".join(shown)}</div></section>'
    )


def _write_pictures(folder: Path, chosen: Chosen, prefix: str) -> list[tuple[str, str]]:
    found = []
    for picture, left_out in pictures(chosen):
        svg, pdf = drawn(picture)
        _write(folder, FIGURES_FOLDER, f"{picture.name}.svg", svg)
        _write(folder, FIGURES_FOLDER, f"{picture.name}.pdf", pdf)
        found.append((_figure(picture, left_out, prefix, svg), _figure(picture, left_out, prefix, None)))
    return found


def _figure(picture: Picture, left_out: str, prefix: str, svg: bytes | None) -> str:
    image = "<p>The picture is left out to keep this page small.</p>"
    if svg is not None:
        data = base64.b64encode(svg).decode()
        image = f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(picture.title)}. {escape(picture.caption)}">'
    name = f"{prefix}{FIGURES_FOLDER}/{picture.name}"
    files = f'<a href="{escape(name)}.pdf">PDF</a> <a href="{escape(name)}.svg">SVG</a>'
    told = " ".join(filter(None, [picture.caption, left_out]))
    return (
        f'<figure class="picture">{image}<figcaption><b>{escape(picture.title)}.</b> {escape(told)} {files}'
        "</figcaption></figure>"
    )


def _write_table(folder: Path, table: Table, prefix: str) -> str:
    """Write a table in all formats and return links to them; a table for programs alone is CSV alone."""
    forms = {"csv": csv_text}
    if table.name in ("answers", "summary"):
        forms |= {"md": markdown_text, "tex": latex_text}
    for form, text in forms.items():
        _write(folder, TABLES_FOLDER, f"{table.name}.{form}", text(table).encode())
    names = {"csv": "CSV", "md": "Markdown", "tex": "LaTeX"}
    links = [f'<a href="{escape(prefix)}{TABLES_FOLDER}/{table.name}.{form}">{names[form]}</a>' for form in forms]
    return f"As a file: {', '.join(links)}."


def _write(folder: Path, inside: str, name: str, data: bytes) -> None:
    try:
        make_folder(folder / inside)
    except OSError as error:
        reason = (error.strerror or "cannot be made").lower()
        raise UserError(f"{folder / inside}: {reason}: make the folder of the results writable") from None
    write_output(folder / inside / name, data)


def _files(prefix: str) -> str:
    way = escape(prefix)
    return (
        '<section id="files"><h2>Files</h2><p>All metrics of all attempts are one table,'
        f' <a href="{way}{METRICS_FILE}">{METRICS_FILE}</a>: a row for each metric of each attempt. Tables are in'
        f' <a href="{way}{TABLES_FOLDER}/">{TABLES_FOLDER}/</a>, figures in <a href="{way}{FIGURES_FOLDER}/">'
        f'{FIGURES_FOLDER}/</a>, the record of the campaign is <a href="{way}run.json">run.json</a>.</p></section>'
    )
