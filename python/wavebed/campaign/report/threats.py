"""What could make the answers wrong: drift, exclusions, repeated attempts, changed inputs, other runs beside it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from wavebed.campaign.report.tables import Table, html_table
from wavebed.campaign.report.words import METHODS
from wavebed.campaign.text import effect_text
from wavebed.experiment.machine_lock import BESIDE
from wavebed.report.names import breakable
from wavebed.report.numbers import figure
from wavebed.result.model import COUNTED
from wavebed.stats.family import drifts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.campaign.report.chosen import Chosen
    from wavebed.campaign.report.tables import Cell
    from wavebed.campaign.results import Matrix
    from wavebed.stats.family import Drift

MOST_TESTED = 60
"""With more cells, drift is tested on the blocks alone."""
MOST_ROWS = 40
_ALL = "all cells together"


@dataclass(frozen=True, slots=True)
class Threats:
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


def threats_of(chosen: Chosen) -> Threats:
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
    return Threats(found, warnings)


def _moves(found: Drift) -> bool:
    return found.code in ("rising", "falling")


def _drifts(chosen: Chosen, metric: Matrix) -> dict[str, Drift]:
    """Test each cell; with many cells the median over them, each value as a deviation from its cell's median."""
    if len(chosen.results.cells) <= MOST_TESTED:
        rows = {cell: metric.values[chosen.row(cell)] for cell in chosen.results.cells}
        return drifts({cell: row[np.isfinite(row)].tolist() for cell, row in rows.items()})
    measured = metric.values[metric.counts > 0]
    off = measured - np.nanmedian(measured, axis=1)[:, None]
    off = off[:, np.isfinite(off).any(axis=0)]
    return drifts({_ALL: np.nanmedian(off, axis=0).tolist()})


def threats_section(chosen: Chosen, found: Threats) -> str:
    """Return the section."""
    return (
        '<section id="threats"><h2>Threats to validity</h2>'
        f"{_drift(found)}{_excluded(chosen)}{_suspects(chosen)}{_repeated(chosen)}{_groups(chosen)}{_machines(chosen)}"
        "</section>"
    )


def _suspect(chosen: Chosen) -> str:
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


def _suspects(chosen: Chosen) -> str:
    text = _suspect(chosen) or "No counted trial is suspect."
    return f"<h3>Suspect trials</h3><p>{escape(text)}</p>"


def _drift(found: Threats) -> str:
    rows: list[Sequence[Cell]] = []
    tested = 0
    for metric, by_cell in found.drifts:
        tested += sum(each.p is not None for each in by_cell.values())
        rows += [
            [metric.title, cell, each.code, each.tau, _per_block(each, metric.unit), each.adjusted]
            for cell, each in by_cell.items()
            if _moves(each)
        ]
    text = (
        f"{METHODS['mann-kendall']}, adjusted by Holm over the cells: {tested} tests,"
        f" {len(rows)} with drift. Pairs are within a block, so a drift that all cells share cancels in a comparison."
    )
    table = Table("", "Drift", ["metric", "cell", "drift", "tau", "change in a block", "p adjusted"], rows)
    return f"<h3>Drift</h3><p>{escape(text)}</p>" + (html_table(table, "small", MOST_ROWS) if rows else "")


def _per_block(found: Drift, unit: str) -> str:
    return f"{figure(found.slope)} {unit}".strip()


def _excluded(chosen: Chosen) -> str:
    results = chosen.results
    tested = results.exclusions
    lost = [(cell, count, of) for cell, count, of in results.lost if count]
    if not lost:
        text = "Every cell has a counted trial in every block that has ended."
        return f"<h3>Exclusions</h3><p>{text}</p>"
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
    rows: list[Sequence[Cell]] = [[cell, count, of] for cell, count, of in sorted(lost, key=lambda each: -each[1])]
    table = html_table(Table("", "Exclusions", ["cell", "without a counted trial", "blocks"], rows), "small", MOST_ROWS)
    return f"<h3>Exclusions</h3><p>{breakable(text)}</p>{table}{_more(len(rows))}{_worst(chosen)}"


def _worst(chosen: Chosen) -> str:
    """Return the answers with missing values at their worst."""
    rows: list[Sequence[Cell]] = []
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
    if not rows:
        return ""
    text = (
        "Worst case: the missing values of a comparison are set to the least and the largest value seen, first against"
        " the cell, then for it; the interval reaches over both."
    )
    head = ["metric", "cell", "against", "complete pairs", "at the worst", "missing"]
    table = html_table(Table("", "Worst case", head, rows), "answers", MOST_ROWS)
    return f"<p>{escape(text)}</p>{table}{_more(len(rows))}"


def _more(count: int) -> str:
    return f'<p class="soft">{MOST_ROWS} of {count} rows.</p>' if count > MOST_ROWS else ""


def _repeated(chosen: Chosen) -> str:
    trials = chosen.results.run.trials
    again = sum(line.attempt > 1 for line in trials)
    uncounted = sum(line.verdict not in COUNTED for line in trials)
    limit = chosen.results.campaign.attempts
    text = (
        f"{len(trials)} attempts at trials: {uncounted} invalid or failed, {again} repeated with the same seed (at most"
        f" {limit} attempts). All are listed under Trials."
    )
    return f"<h3>Repeated attempts</h3><p>{escape(text)}</p>"


def _groups(chosen: Chosen) -> str:
    groups = chosen.results.campaign.groups
    if len(groups) < 2:
        return "<h3>Inputs</h3><p>All blocks had the same files, programs and kernel.</p>"
    import pyarrow.compute as pc

    metrics = chosen.results.metrics
    parts = []
    for number, group in enumerate(groups, 1):
        blocks = sorted(set(metrics.filter(pc.field("group") == number).column("block").to_pylist()))
        told = f"blocks {blocks[0]} to {blocks[-1]}" if blocks else "no block has ended"
        changed = "".join(f"<li>{breakable(line)}</li>" for line in group.changed)
        parts.append(f"<li>Group {number}: {told}{f'<ul>{changed}</ul>' if changed else ''}</li>")
    text = "Inputs changed and were accepted. Every block is of one group, so that pairs have the same inputs."
    return f"<h3>Inputs</h3><p>{text}</p><ul>{''.join(parts)}</ul>"


def _machines(chosen: Chosen) -> str:
    import pyarrow.compute as pc

    trials = chosen.results.run.trials
    beside = [line for line in trials if any(BESIDE in reason for reason in line.reasons)]
    text = f"In {len(beside)} of {len(trials)} attempts another run measured on the same machine."
    machines = [str(name) for name in pc.unique(chosen.results.metrics.column("machine")).to_pylist()]
    if len(machines) > 1:
        text += (
            f" The blocks ran on {len(machines)} machines: {', '.join(machines[:12])}. Each block is of one machine."
        )
    return f"<h3>Machines and neighbours</h3><p>{breakable(text)}</p>"
