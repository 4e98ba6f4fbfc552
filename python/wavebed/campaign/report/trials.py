"""Links to every trial, and the attempts that do not count or were repeated."""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING

from wavebed.campaign.report.tables import Table, html_table
from wavebed.report.names import breakable
from wavebed.result.model import COUNTED
from wavebed.result.names import ASIDE_FOLDER, TRIALS_FOLDER
from wavebed.store.disk import attempt_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.campaign.report.chosen import Chosen
    from wavebed.campaign.report.tables import Cell
    from wavebed.result.model import TrialLine

MOST_LINKS = 2000
"""With more trials the page's script makes the links of the cells that are searched for."""
MOST_ROWS = 100
_MARKS = {"valid": "", "suspect": "?", "invalid": "✗", "failed": "✗"}
_CODES = {"valid": "", "suspect": "s", "invalid": "i", "failed": "f"}


def trials_table(chosen: Chosen) -> Table:
    """Return a row for each attempt."""
    factors = list(chosen.results.campaign.factors)
    levels = chosen.results.levels
    rows: list[Sequence[Cell]] = [
        [
            f"{TRIALS_FOLDER}/{line.folder}",
            line.treatment,
            *(levels.get(line.treatment, {}).get(factor, "") for factor in factors),
            line.block,
            line.seed,
            line.attempt,
            line.verdict,
            "; ".join(line.reasons),
        ]
        for line in chosen.results.run.trials
    ]
    head = ["folder", "cell", *factors, "block", "seed", "attempt", "verdict", "reasons"]
    return Table("trials", "Every attempt at a trial.", head, rows)


def trials_section(chosen: Chosen, prefix: str, link: str) -> str:
    """Return the section.

    Parameters
    ----------
    prefix : str
        Leads from the page to the folder of results.
    link : str
        The table of all trials as a file.
    """
    results = chosen.results
    lines = results.run.trials
    by_cell: dict[str, list[TrialLine]] = {cell: [] for cell in results.cells}
    for line in lines:
        by_cell.setdefault(line.treatment, []).append(line)
    body = _links(by_cell, prefix) if len(lines) <= MOST_LINKS else _search(by_cell, prefix)
    aside = ""
    if results.run.aside:
        aside = (
            f"<p>{len(results.run.aside)} trials of blocks that were begun again after a change of inputs are in"
            f' <a href="{escape(prefix)}{ASIDE_FOLDER}/">{ASIDE_FOLDER}/</a>; they are in no figure and no answer.</p>'
        )
    return (
        f'<section id="trials"><h2>Trials</h2><p class="soft">A link leads to the folder of a trial: its specification,'
        f" checks, series and raw outputs as far as the campaign keeps them. A number is a block; ? marks a suspect"
        f" trial, ✗ one that does not count. {link}</p>{_attempts(lines)}{aside}{body}</section>"
    )


def _attempts(lines: Sequence[TrialLine]) -> str:
    """Return the attempts that do not count, or repeat one that did not."""
    rows: list[Sequence[Cell]] = [
        [line.folder, str(line.block), str(line.attempt), line.verdict, "; ".join(line.reasons) or "–"]
        for line in lines
        if line.attempt > 1 or line.verdict not in COUNTED
    ]
    if not rows:
        return "<p>Every trial counted at its first attempt.</p>"
    table = Table("", "Repeated attempts", ["attempt at a trial", "block", "attempt", "verdict", "reasons"], rows)
    left = f'<p class="soft">{MOST_ROWS} of {len(rows)}.</p>' if len(rows) > MOST_ROWS else ""
    return f"<h3>Attempts that do not count, and repetitions</h3>{html_table(table, 'answers', MOST_ROWS)}{left}"


def _links(by_cell: dict[str, list[TrialLine]], prefix: str) -> str:
    parts = []
    for cell, lines in by_cell.items():
        links = " ".join(
            f'<a href="{escape(prefix)}{TRIALS_FOLDER}/{escape(line.folder)}/"'
            f' title="{escape(line.folder)}, {line.verdict}">'
            f"{line.block}{_MARKS[line.verdict]}</a>"
            for line in sorted(lines, key=lambda line: (line.block, line.attempt))
        )
        parts.append(f"<li><b>{breakable(cell)}</b> <span>{links or 'no trial'}</span></li>")
    return f'<ul class="trial-links">{"".join(parts)}</ul>'


def _search(by_cell: dict[str, list[TrialLine]], prefix: str) -> str:
    packed = {cell: " ".join(map(_packed, lines)) for cell, lines in by_cell.items()}
    data = json.dumps(
        {"prefix": f"{prefix}{TRIALS_FOLDER}/", "cells": packed}, ensure_ascii=False, separators=(",", ":")
    )
    return (
        '<p class="find"><label>Cells whose names contain <input id="find-cell" type="search"'
        ' autocomplete="off"></label>'
        ' <span id="found-cells" role="status"></span></p><noscript><p>Without script, see the table of all trials.</p>'
        '</noscript><ul class="trial-links" id="trial-links"></ul>'
        f'<script type="application/json" id="trial-list">{data.replace("<", chr(92) + "u003c")}</script>'
    )


def _packed(line: TrialLine) -> str:
    """Return block, number, attempt and verdict of a trial in a few characters, or the name of its folder."""
    number, _, cell = line.folder.partition("-")
    attempt = f".{line.attempt}" if line.attempt > 1 else ""
    if line.folder == attempt_name(f"{number}-{line.treatment}", line.attempt) and cell:
        return f"{line.block}/{number}{attempt}{_CODES[line.verdict]}"
    return f"{line.block}={line.folder}"
