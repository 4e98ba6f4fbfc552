"""The report of a campaign: one HTML page, its figures as PDF and SVG, its tables as CSV, Markdown and LaTeX."""

from __future__ import annotations

import base64
import math
import os
import shlex
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np
from markupsafe import Markup

from wavebed.beneath import make_folder
from wavebed.campaign.harm import HEAD, harm_rows, harms
from wavebed.campaign.report.answers import (
    METHODS,
    ChosenResults,
    answers_table,
    borne_tails,
    counted,
    covered,
    effect_words,
    interval_words,
    level_text,
    sentence,
    state_words,
    strength,
    summary,
    summary_head,
    summary_rows,
    summary_table,
    trials_table,
)
from wavebed.campaign.report.first import first_chart
from wavebed.campaign.report.pictures import pictures
from wavebed.campaign.results import metric_title, read_campaign_results
from wavebed.campaign.text import effect_text, reason_text
from wavebed.errors import UserError
from wavebed.experiment.machine_lock import BESIDE
from wavebed.output import write_output
from wavebed.page import asset
from wavebed.page.charts import drawn
from wavebed.page.document import document, filled
from wavebed.page.tables import Table, csv_text, html_table, latex_text, markdown_text
from wavebed.page.text import figure
from wavebed.result.model import COUNTED
from wavebed.result.names import (
    ASIDE_FOLDER,
    CAMPAIGN_FILE,
    FIGURES_FOLDER,
    METRICS_FILE,
    REPORT_FILE,
    TABLES_FOLDER,
    TRIALS_FOLDER,
)
from wavebed.run.times import kept_time
from wavebed.secret import redacted_toml
from wavebed.stats.family import drifts, holm, simultaneous_level
from wavebed.stats.intervals import fewest_pairs
from wavebed.stats.paired import SignedRanks
from wavebed.stats.verdict import needed
from wavebed.store.disk import attempt_name, remove_leftovers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.campaign.results import Matrix
    from wavebed.page.charts import ColumnPicture
    from wavebed.page.tables import TableCell
    from wavebed.result.model import TrialLine
    from wavebed.stats.family import Drift

MOST_BYTES = 5_000_000
TEMPLATE = "campaign/report/campaign.html.j2"
MOST_SENTENCES = 6
MOST_ROWS = 60
"""Rows of the tables of answers and of cells."""
MOST_THREATS = 40
"""Rows of the tables of threats."""
MOST_EXPLORED = 30
MOST_ATTEMPTS = 100
MOST_LEVELS = 40
MOST_LINKS = 2000
"""With more trials the page's script makes the links of the cells that are searched for."""
MOST_TESTED = 60
"""With more cells, drift is tested on the blocks alone."""
MARKS = {"better": "▲", "worse": "▼", "different": "◆", "equivalent": "≈", "equal": "=", "undecided": "?"}
_TRIAL_MARKS = {"valid": "", "suspect": "?", "invalid": "✗", "failed": "✗"}
_ALL_CELLS = "all cells together"
_TRIAL_CODES = {"valid": "", "suspect": "s", "invalid": "i", "failed": "f"}


def write_campaign_report(folder: Path, file: Path | None = None) -> Path:
    """Write the report of a campaign and return the page: `file`, or ``report.html`` in `folder`.

    Figures and tables are in ``figures`` and ``tables`` in `folder`. Unfinished trials of a killed
    campaign are removed.

    Raises
    ------
    UserError
        If the folder has no campaign, or a file cannot be written.
    """
    chosen = ChosenResults(read_campaign_results(folder))
    remove_leftovers(folder)
    target = file or folder / REPORT_FILE
    way = os.path.relpath(folder.resolve(), target.resolve().parent)
    prefix = "" if way == "." else quote(way) + "/"
    tables = [answers_table(chosen.results.answers), summary_table(chosen), trials_table(chosen)]
    tables.append(answers_table(chosen.results.exploration.answers, "exploration"))
    links = {table.name: _write_table(folder, table, prefix) for table in tables}
    figures = _write_pictures(folder, chosen, prefix)
    write_output(target, page(chosen, figures, links, prefix))
    return target


def page(chosen: ChosenResults, figures: list[tuple[Markup, Markup]], links: dict[str, Markup], prefix: str) -> str:
    """Return the page with the figures that fit.

    Parameters
    ----------
    figures : list of (Markup, Markup)
        Each with and without its picture.
    links : dict
        The links to the files of each table.
    prefix : str
        Leads from the page to the folder of results: empty, or with a slash at its end.
    """
    threats = _threats_of(chosen)
    before = [_head(chosen, threats.warnings), _answers(chosen, links["answers"]), _paid(chosen)]
    after = [
        _threats(chosen, threats),
        _cells(chosen, links["summary"]),
        _explored(chosen, links["exploration"]),
        _design(chosen, prefix),
        _trials(chosen, prefix, links["trials"]),
        filled(TEMPLATE, "files", prefix, METRICS_FILE, TABLES_FOLDER, FIGURES_FOLDER),
    ]
    title = chosen.results.run.title or chosen.results.run.scenario
    script, style = (asset(f"campaign.{kind}", "wavebed.campaign.report") for kind in ("js", "css"))

    def whole(shown: list[Markup]) -> str:
        figures_ = filled(TEMPLATE, "figures", shown) if shown else ""
        return document(title, Markup("\n").join(filter(None, (*before, figures_, *after))), script, style)

    left = MOST_BYTES - len(whole([]).encode()) - 1000
    shown = []
    for with_picture, without in figures:
        fits = len(with_picture) <= left
        shown.append(with_picture if fits else without)
        left -= len(shown[-1].encode())
    return whole(shown)


def _write_pictures(folder: Path, chosen: ChosenResults, prefix: str) -> list[tuple[Markup, Markup]]:
    found = []
    for picture, left_out in pictures(chosen):
        svg, pdf = drawn(picture)
        _write(folder, FIGURES_FOLDER, f"{picture.name}.svg", svg)
        _write(folder, FIGURES_FOLDER, f"{picture.name}.pdf", pdf)
        file, told = f"{prefix}{FIGURES_FOLDER}/{picture.name}", " ".join(filter(None, [picture.caption, left_out]))
        found.append((figure_of(picture, told, svg, file), figure_of(picture, told, b"", file)))
    return found


def figure_of(picture: ColumnPicture, told: str, svg: bytes, file: str = "") -> Markup:
    """Return a picture inside a page; empty `svg` leaves it out, and `file` is the address of its files."""
    return filled(TEMPLATE, "picture", picture, told, base64.b64encode(svg).decode(), file)


def _write_table(folder: Path, table: Table, prefix: str) -> Markup:
    """Write a table in all formats and return links to them; a table for programs alone is CSV alone."""
    forms = {"csv": csv_text}
    if table.name in ("answers", "summary"):
        forms |= {"md": markdown_text, "tex": latex_text}
    for form, text in forms.items():
        _write(folder, TABLES_FOLDER, f"{table.name}.{form}", text(table).encode())
    names = {"csv": "CSV", "md": "Markdown", "tex": "LaTeX"}
    return filled(TEMPLATE, "links", f"{prefix}{TABLES_FOLDER}/{table.name}", {form: names[form] for form in forms})


def _write(folder: Path, inside: str, name: str, data: bytes) -> None:
    try:
        make_folder(folder / inside)
    except OSError as error:
        reason = (error.strerror or "cannot be made").lower()
        raise UserError(f"{folder / inside}: {reason}: make the folder of the results writable") from None
    write_output(folder / inside / name, data)


def closing_rows(folder: Path) -> tuple[list[tuple[str, str]], int]:
    """Return what the command prints at its end: question, answer, effect and timing; and the number of answers.

    Raises
    ------
    UserError
        If the folder has no campaign, or a file is damaged.
    """
    chosen = ChosenResults(read_campaign_results(folder))
    results = chosen.results
    answers = [answer for metric in chosen.metrics for answer in chosen.largest(metric, 1)] if results.answers else []
    effect = "none: nothing is decided"
    if answers:
        first = answers[0]
        interval = interval_words(first)
        effect = f"{effect_words(first)}, {interval or 'no interval'}, {first.finding.count} pairs"
        if len(results.answers) > 1:
            pair = first.question.pair
            effect += f" ({pair.cell} against {pair.baseline}, the largest effect on {first.question.values.title})"
        effect += f": {reason_text(first)}" if reason_text(first) else ""
    lines = results.run.trials
    suspect = _suspect(chosen)
    lost = sum(line.verdict not in COUNTED for line in lines)
    good = "virtual time, exact" if kept_time(folder) == "virtual" else "good"
    reduced = suspect.removesuffix(".").replace("Suspect: ", "reduced, suspect: ", 1)
    timing = reduced if suspect else f"{good}: none of {len(lines) - lost} counted trials is suspect"
    timing = timing if lost < len(lines) else "no trial counts"
    timing += f"; {lost} of {len(lines)} attempts not counted" if lost else ""
    rows = [
        ("question", results.run.title or results.run.scenario),
        ("answer", _lead(chosen)[0]),
        ("effect", effect),
        ("timing", f"{timing}; {state_words(results)}"),
    ]
    return rows, len(results.answers)


def _head(chosen: ChosenResults, warnings: Sequence[str]) -> Markup:
    """Return title, answers in plain words, and what makes them suspect."""
    results = chosen.results
    record = results.run
    told = [
        f"campaign, {state_words(results)}",
        f"{len(record.trials)} trials of {len(results.cells)} cell{'s' if len(results.cells) != 1 else ''}",
        record.started.replace("T", " ").replace("+00:00", " UTC"),
        f"wavebed {record.versions['wavebed']}" if "wavebed" in record.versions else "",
    ]
    title, subtitle = record.title or record.scenario, "; ".join(filter(None, told))
    holds = f"{_level(chosen)} {covered(results)}" if results.answers else ""
    incomplete = not results.complete
    return filled(
        TEMPLATE,
        "head",
        record,
        title,
        subtitle,
        _lead(chosen),
        first_chart(chosen),
        holds,
        _too_few(chosen),
        incomplete,
        warnings,
    )


def _lead(chosen: ChosenResults) -> list[str]:
    answers = chosen.results.answers
    if not chosen.results.campaign.primaries:
        return ["The campaign names no primary metric, so it decides nothing: all findings are exploratory."]
    if not chosen.results.comparisons:
        return ["The campaign compares no cells: the report has the medians of the primary metrics."]
    if not answers:
        return ["No primary metric was measured in a counted trial: there is no answer."]
    if len(answers) == 1:
        return [sentence(answers[0], chosen.results.design.level)]
    told = [counted(answers)]
    if len(answers) <= MOST_SENTENCES:
        return told + [sentence(answer) for answer in answers]
    for metric in chosen.metrics:
        told.append(summary(metric.title, chosen.answers(metric)))
        decided = [each for each in chosen.largest(metric, 1 << 30) if each.finding.settled]
        largest = decided[:1] or chosen.largest(metric, 1)[:1]
        told += [f"The largest effect: {sentence(answer)}" for answer in largest]
    return told[: 2 * MOST_SENTENCES]


def _level(chosen: ChosenResults) -> str:
    """Return over what the level of the intervals holds; nothing for one answer, whose sentence has it."""
    results = chosen.results
    if len(results.answers) == 1:
        return ""
    level, campaign = level_text(results.design.level), results.campaign
    if campaign.family == "all":
        return f"The intervals hold with {level} for all {len(results.answers)} questions together."
    shared = _family_size(chosen)
    metrics = f" for its {shared} primary metrics together" if shared > 1 else ""
    return f"The intervals hold with {level} for each comparison{metrics}, not for all comparisons together."


def _too_few(chosen: ChosenResults) -> list[str]:
    """Return how many answers have no interval, and how many pairs one needs."""
    results = chosen.results
    few = [answer.finding.count for answer in results.answers if answer.finding.reason == "too-few"]
    if not few:
        return []
    told = f"{len(few)} of {len(results.answers)} answers have no interval: {min(few)} to {max(few)} pairs are too few"
    if isinstance(results.design, SignedRanks):
        needed = fewest_pairs(simultaneous_level(results.design.level, _family_size(chosen)))
        told += f"; at the level of all answers together an interval needs {needed}"
    return [f"{told}."]


def _family_size(chosen: ChosenResults) -> int:
    """Return the number of answers that share the error; the most of a comparison, where each has its own."""
    answers = chosen.results.answers
    if chosen.results.campaign.family == "all":
        return len(answers)
    return max(Counter(answer.question.pair.cell for answer in answers).values(), default=0)


def _answers(chosen: ChosenResults, links: Markup) -> Markup | str:
    """Return the section with a table of answers for each metric, and their method."""
    results = chosen.results
    if not results.answers:
        return ""
    most = max(6, MOST_ROWS // len(chosen.metrics))
    tables = []
    for metric in chosen.metrics[:MOST_ROWS]:
        rows, every = chosen.largest(metric, most), chosen.answers(metric)
        if rows:
            left = ""
            if len(every) > most:
                left = f"{summary(metric.title, every)} The {most} largest effects are listed."
            tables.append((metric.title, metric.better, rows[0].question.text, rows, left))
    words = {"effect": effect_words, "interval": interval_words, "reason": reason_text}
    against = f"{results.campaign.factor} {results.campaign.baseline}"
    return filled(TEMPLATE, "answers", against, links, tables, MARKS, words, _method(chosen))


def _method(chosen: ChosenResults) -> list[tuple[str, str]]:
    results = chosen.results
    finding = results.answers[0].finding
    per_family = _family_size(chosen)
    level = _level(chosen) or f"{level_text(results.design.level)}"
    if per_family > 1:
        least = level_text(simultaneous_level(results.design.level, per_family))
        level += f" Each interval has at least {least} (Bonferroni), or that of its step of Holm's method."
    libraries = ", ".join(f"{name} {version}" for name, version in finding.method.libraries)
    return [
        ("method", METHODS.get(finding.method.name, finding.method.name)),
        (
            "formula",
            f"{finding.method.name}, version {finding.method.formula}" + (f"; {libraries}" if libraries else ""),
        ),
        ("level", level),
        ("blocks", f"{len(results.ended)}; {state_words(results)}"),
        ("an interval covers", covered(results)),
        (
            "verdicts",
            "equivalent: the interval is within the margin; better or worse: it excludes no effect; else undecided",
        ),
    ]


@dataclass(frozen=True, slots=True)
class _Threats:
    """What was found.

    Parameters
    ----------
    drifts : sequence of (Matrix, mapping)
        Of each primary metric, the drift by cell.
    warnings : sequence of str
        Sentences for the head of the page.
    """

    drifts: Sequence[tuple[Matrix, dict[str, Drift]]]
    warnings: Sequence[str]


def _threats_of(chosen: ChosenResults) -> _Threats:
    """Return what could make the answers wrong."""
    found = [(metric, _drifts(chosen, metric)) for metric in chosen.metrics]
    warnings = []
    drifting = [metric.title for metric, by_cell in found if any(_moves(each) for each in by_cell.values())]
    if drifting:
        warnings.append(f"Drift: the values rise or fall with the order of the blocks ({', '.join(drifting)}).")
    results = chosen.results
    if results.exclusions.code == "differ":
        warnings.append("Exclusions differ between cells: missing trials may hide or make a difference.")
    weaker = [
        answer
        for answer in results.answers
        if answer.worst is not None and answer.worst.verdict != answer.finding.verdict
    ]
    if weaker:
        warnings.append(
            f"Missing values: {len(weaker)} of {len(results.answers)} answers would have another verdict with them at"
            " their worst."
        )
    if len(results.campaign.groups) > 1:
        warnings.append(
            f"Inputs changed: the blocks are of {len(results.campaign.groups)} groups with different inputs."
        )
    suspect = _suspect(chosen)
    if suspect:
        warnings.append(f"{suspect} The machine may have been too busy, or too slow for the path.")
    beside = sum(any(BESIDE in reason for reason in line.reasons) for line in results.run.trials)
    if beside:
        warnings.append(f"Other runs measured on the machine at the same time in {beside} trials.")
    return _Threats(found, warnings)


def _moves(found: Drift) -> bool:
    return found.code in ("rising", "falling")


def _drifts(chosen: ChosenResults, metric: Matrix) -> dict[str, Drift]:
    """Test each cell; with many cells the median over them, each value as a deviation from its cell's median."""
    if len(chosen.results.cells) <= MOST_TESTED:
        rows = {cell: metric.values[chosen.row(cell)] for cell in chosen.results.cells}
        return drifts({cell: row[np.isfinite(row)].tolist() for cell, row in rows.items()})
    measured = metric.values[metric.counts > 0]
    off = measured - np.nanmedian(measured, axis=1)[:, None]
    off = off[:, np.isfinite(off).any(axis=0)]
    return drifts({_ALL_CELLS: np.nanmedian(off, axis=0).tolist()})


@dataclass(frozen=True, slots=True)
class _Excluded:
    """What the page says of missing trials: the cells that lost some, and the answers with them at their worst."""

    text: str
    lost: Markup | str = ""
    count: int = 0
    worst: Markup | str = ""
    worst_count: int = 0


def _threats(chosen: ChosenResults, found: _Threats) -> Markup:
    rows: list[Sequence[TableCell]] = []
    tested = 0
    for metric, by_cell in found.drifts:
        tested += sum(each.p is not None for each in by_cell.values())
        rows += [
            [metric.title, cell, each.code, each.tau, f"{figure(each.slope)} {metric.unit}".strip(), each.adjusted]
            for cell, each in by_cell.items()
            if _moves(each)
        ]
    drift = (
        f"{METHODS['mann-kendall']}, adjusted by Holm over the cells: {tested} tests,"
        f" {len(rows)} with drift. Pairs are within a block, so a drift that all cells share cancels in a comparison."
    )
    table = Table("", "Drift", ["metric", "cell", "drift", "tau", "change in a block", "p adjusted"], rows)
    drifting = html_table(table, "small", MOST_THREATS) if rows else ""
    trials = chosen.results.run.trials
    again = sum(line.attempt > 1 for line in trials)
    uncounted = sum(line.verdict not in COUNTED for line in trials)
    repeated = (
        f"{len(trials)} attempts at trials: {uncounted} invalid or failed, {again} repeated with the same seed (at most"
        f" {chosen.results.campaign.attempts} attempts). All are listed under Trials."
    )
    suspects = _suspect(chosen) or "No counted trial is suspect."
    excluded, groups, machines = _excluded(chosen), _groups(chosen), _machines(chosen)
    return filled(TEMPLATE, "threats", MOST_THREATS, drift, drifting, excluded, suspects, repeated, groups, machines)


def _suspect(chosen: ChosenResults) -> str:
    """Return how many counted trials are suspect, and which checks failed how often; empty if none is."""
    counted = [line for line in chosen.results.run.trials if line.verdict in COUNTED]
    suspect = [line for line in counted if line.verdict == "suspect"]
    if not suspect:
        return ""
    checks = Counter(_check(reason) for line in suspect for reason in line.reasons)
    named = ", ".join(f"{name} {count}" for name, count in checks.most_common(4))
    return f"Suspect: {len(suspect)} of {len(counted)} counted trials ({named})."


def _check(reason: str) -> str:
    """Return the name of the check in a reason."""
    return reason.removeprefix("check failed: ").partition(":")[0]


def _excluded(chosen: ChosenResults) -> _Excluded:
    results = chosen.results
    tested = results.exclusions
    lost = [(cell, count, of) for cell, count, of in results.lost if count]
    if not lost:
        return _Excluded("Every cell has a counted trial in every block that has ended.")
    groups = (
        ", ".join(f"{name} {count} of {of}" for name, count, of in tested.excluded)
        if len(tested.excluded) <= 12
        else ""
    )
    missing = sum(count for _, count, _ in lost)
    text = f"{missing} trial{'s' if missing != 1 else ''} of the design {'are' if missing != 1 else 'is'} missing."
    if tested.p is not None:
        text += (
            f" {METHODS.get(tested.method.name, tested.method.name)}: p = {figure(tested.p)}, so the fractions"
            f" {'differ' if tested.code == 'differ' else 'do not differ significantly'}"
            f" between {results.exclusions_between}{f': {groups}' if groups else ''}."
        )
    rows: list[Sequence[TableCell]] = [[cell, count, of] for cell, count, of in sorted(lost, key=lambda each: -each[1])]
    table = Table("", "Exclusions", ["cell", "without a counted trial", "blocks"], rows)
    worst = _worst(chosen)
    head = ["metric", "cell", "against", "complete pairs", "at the worst", "missing"]
    of_worst = html_table(Table("", "Worst case", head, worst), "answers", MOST_THREATS) if worst else Markup()
    return _Excluded(text, html_table(table, "small", MOST_THREATS), len(rows), of_worst, len(worst))


def _worst(chosen: ChosenResults) -> list[Sequence[TableCell]]:
    """Return the answers with missing values at their worst."""
    rows: list[Sequence[TableCell]] = []
    for answer in chosen.results.answers:
        if answer.worst is not None:
            bounds = "–"
            if answer.worst.low is not None and answer.worst.high is not None:
                bounds = f"{figure(answer.worst.low)} to {figure(answer.worst.high)}"
            question = answer.question
            rows.append(
                [
                    question.values.title,
                    question.pair.cell,
                    question.pair.baseline,
                    f"{effect_text(answer)}: {answer.finding.verdict}",
                    f"{bounds}: {answer.worst.verdict}",
                    sum(answer.missing),
                ]
            )
    return rows


def _groups(chosen: ChosenResults) -> list[tuple[str, Sequence[str]]]:
    """Return the blocks of each group with its inputs, and what changed in them; nothing if all had the same."""
    groups = chosen.results.campaign.groups
    if len(groups) < 2:
        return []
    import pyarrow.compute as pc

    metrics = chosen.results.metrics
    parts = []
    for number, group in enumerate(groups, 1):
        blocks = sorted(set(metrics.filter(pc.field("group") == number).column("block").to_pylist()))
        told = f"blocks {blocks[0]} to {blocks[-1]}" if blocks else "no block has ended"
        parts.append((f"Group {number}: {told}", group.changed))
    return parts


def _machines(chosen: ChosenResults) -> str:
    import pyarrow.compute as pc

    trials = chosen.results.run.trials
    beside = [line for line in trials if any(BESIDE in reason for reason in line.reasons)]
    text = f"In {len(beside)} of {len(trials)} attempts another run measured on the same machine."
    machines = [str(name) for name in pc.unique(chosen.results.metrics.column("machine")).to_pylist()]
    if len(machines) > 1:
        text += (
            f" The blocks ran on {len(machines)} machines: {', '.join(machines[:12])}. Each block is of one machine."
        )
    return text


def _cells(chosen: ChosenResults, links: Markup) -> Markup:
    shares = borne_tails(chosen.metrics)
    metrics = []
    for metric in chosen.metrics:
        cells = chosen.cells(metric, MOST_ROWS)
        rows = [row[2:] for row in summary_rows(chosen, metric, cells, shares)]
        table = html_table(Table("", metric.title, summary_head(shares)[2:], rows), "summary", MOST_ROWS)
        metrics.append((metric, table, len(cells) if len(cells) < int((metric.counts > 0).sum()) else 0))
    few = (
        f"The tail of 90 % is given from {needed(0.9)} values, of 95 % from {needed(0.95)}, of 99 % from"
        f" {needed(0.99)}: with fewer, no value of the sample bounds it."
    )
    return filled(TEMPLATE, "cells", few, links, metrics, len(chosen.results.cells))


def _paid(chosen: ChosenResults) -> Markup | str:
    """Return the section on the harm to the devices of a cell; empty without any."""
    found = harms(chosen.results)
    if not found:
        return ""
    rows = harm_rows(found)
    table = html_table(Table("", "Harm", HEAD, rows), "answers", MOST_ROWS)
    text = (
        "Harm is the part of its main result that a device loses beside the baseline: 100 % is all of it, below 0 it"
        " gains (Ware, Mukerjee, Seshan, Sherry 2019). Each row is the median over the blocks, with its 95 % interval,"
        " by itself: with many rows some intervals exclude 0 by chance."
    )
    return filled(TEMPLATE, "paid", text, table, f"{MOST_ROWS} of {len(rows)}." if len(rows) > MOST_ROWS else "")


def _explored(chosen: ChosenResults, links: Markup) -> Markup | str:
    """Return the section; empty if nothing was explored."""
    found = chosen.results.exploration
    if not found.total:
        return ""
    level = chosen.results.design.level
    outside = [answer for answer in found.answers if answer.finding.verdict in ("better", "worse", "different")]
    ranked = sorted(
        outside, key=lambda answer: (answer.finding.p if answer.finding.p is not None else 1.0, -strength(answer))
    )
    error = 1 - level
    text = (
        f"Exploratory: {found.total} comparisons in metrics that are not primary, each by itself at {100 * level:g} %."
        f" With {found.total} comparisons some are false alarms: about {error * found.total:.2g} are expected if"
        " nothing differs. They suggest questions for a new campaign; they answer none."
    )
    if len(found.answers) < found.total:
        text += (
            f" Only the {len(found.answers)} with the largest differences relative to their spread were computed, so"
            " that most of these stand out by selection."
        )
    survive = sum(
        p <= error
        for p in holm([answer.finding.p if answer.finding.p is not None else 1.0 for answer in found.answers])
    )
    text += f" Intervals that exclude no effect: {len(outside)}"
    text += (
        f"; {survive} would remain after Holm's adjustment over the computed ones."
        if len(found.answers) == found.total
        else "."
    )
    rows: list[Sequence[TableCell]] = [
        [
            answer.question.values.title,
            answer.question.pair.cell,
            answer.question.pair.baseline,
            answer.finding.verdict,
            effect_text(answer),
            answer.finding.count,
            answer.finding.p,
        ]
        for answer in ranked
    ]
    head = ["metric", "cell", "against", "interval says", "effect", "pairs", "p"]
    table = html_table(Table("", "Exploratory findings", head, rows), "answers", MOST_EXPLORED) if rows else ""
    left = len(rows) > MOST_EXPLORED
    return filled(TEMPLATE, "explored", text, links, len(rows), table, MOST_EXPLORED, left)


def _design(chosen: ChosenResults, prefix: str) -> Markup:
    results = chosen.results
    record, campaign = results.run, results.campaign
    product = math.prod(map(len, campaign.factors.values()))
    cells = f"{len(results.cells)} of {product} combinations" + (
        f"; {product - len(results.cells)} excluded" if len(results.cells) < product else ""
    )
    last = record.seed + max(len(results.ended), 1) - 1
    margins = "; ".join(
        f"{metric_title(each.workload, each.metric)}, margin {each.margin_text}" for each in campaign.primaries
    )
    facts = [
        ("cells", cells),
        ("compared", f"{campaign.factor}, with {campaign.baseline}" if campaign.factor else "nothing"),
        ("primary metrics", margins or "none"),
        (
            "blocks",
            f"{record.blocks} planned, {len(results.ended)} ended; each has one trial of every cell, in random order",
        ),
        (
            "seeds",
            f"{record.seed} to {last}, one for each block; the order of the cells is drawn from seed {record.seed}",
        ),
        (
            "stop rule",
            "after all blocks"
            if campaign.stop == "blocks"
            else f"when every primary metric is decided, not before {campaign.least_blocks} blocks",
        ),
        ("attempts", f"at most {campaign.attempts} at a trial that is invalid or fails"),
        ("kept", {"all": "metrics, series, raw outputs", "series": "metrics and series"}.get(campaign.keep, "metrics")),
        ("started", record.started),
        ("ended", record.ended or "not yet, or interrupted"),
        *record.versions.items(),
        *((f"machine: {name}", str(value)) for name, value in record.machine.items()),
    ]
    factors = [
        (
            name,
            ", ".join(levels[:MOST_LEVELS]),
            f" and {len(levels) - MOST_LEVELS} more" if len(levels) > MOST_LEVELS else "",
        )
        for name, levels in campaign.factors.items()
    ]
    command, text = shlex.join(record.command_line), redacted_toml(campaign.text)
    return filled(TEMPLATE, "design", campaign, factors, facts, command, prefix + CAMPAIGN_FILE, text)


def _trials(chosen: ChosenResults, prefix: str, links: Markup) -> Markup:
    """Return the section with links to every trial, and the attempts that do not count or repeat one that did not."""
    results = chosen.results
    lines = results.run.trials
    by_cell: dict[str, list[TrialLine]] = {cell: [] for cell in results.cells}
    for line in lines:
        by_cell.setdefault(line.treatment, []).append(line)
    rows: list[Sequence[TableCell]] = [
        [line.folder, str(line.block), str(line.attempt), line.verdict, "; ".join(line.reasons) or "–"]
        for line in lines
        if line.attempt > 1 or line.verdict not in COUNTED
    ]
    table = Table("", "Repeated attempts", ["attempt at a trial", "block", "attempt", "verdict", "reasons"], rows)
    attempts = html_table(table, "answers", MOST_ATTEMPTS) if rows else ""
    left = f"{MOST_ATTEMPTS} of {len(rows)}." if len(rows) > MOST_ATTEMPTS else ""
    aside, folder = f"{prefix}{ASIDE_FOLDER}", f"{prefix}{TRIALS_FOLDER}"
    packed = None
    if len(lines) > MOST_LINKS:
        packed = {
            "prefix": f"{folder}/",
            "cells": {cell: " ".join(map(_packed, each)) for cell, each in by_cell.items()},
        }
    else:
        by_cell = {cell: sorted(each, key=lambda line: (line.block, line.attempt)) for cell, each in by_cell.items()}
    return filled(
        TEMPLATE, "trials", links, attempts, left, results.run.aside, aside, by_cell, folder, packed, _TRIAL_MARKS
    )


def _packed(line: TrialLine) -> str:
    """Return block, number, attempt and verdict of a trial in a few characters, or the name of its folder."""
    number, _, cell = line.folder.partition("-")
    attempt = f".{line.attempt}" if line.attempt > 1 else ""
    if line.folder == attempt_name(f"{number}-{line.treatment}", line.attempt) and cell:
        return f"{line.block}/{number}{attempt}{_TRIAL_CODES[line.verdict]}"
    return f"{line.block}={line.folder}"
