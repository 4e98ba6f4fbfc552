"""The answers of a campaign as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.campaign.harm import harm_json, harm_text, harms
from wavebed.campaign.results import read_campaign_results
from wavebed.page.text import MISSING, figure, signed
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.campaign.results import CampaignAnswer, CampaignResults
    from wavebed.config.data import Json
    from wavebed.stats.verdict import Finding

MOST_ROWS = 60
_REASONS = {
    "too-few": "too few pairs for an interval",
    "not-positive": "a value is not positive: differences, not ratios",
    "no-reference": "the baseline's median is 0: the margin has no value",
    "no-values": "no values",
}


def effect_text(answer: CampaignAnswer) -> str:
    """Return estimate and interval of an answer."""
    return finding_text(answer.finding, answer.question.values.unit)


def finding_text(finding: Finding, unit: str) -> str:
    """Return estimate and interval: a ratio after a multiplication sign, or ``+3.1 ms (1.2 to 5)``."""
    if finding.estimate is None:
        return MISSING
    if finding.scale == "ratio":
        interval = "" if finding.low is None or finding.high is None else f" ({finding.low:.3g} to {finding.high:.3g})"
        return f"×{finding.estimate:.3g}{interval}"
    interval = ""
    if finding.low is not None and finding.high is not None:
        interval = f" ({figure(finding.low)} to {figure(finding.high)})"
    return f"{signed(finding.estimate)}{f' {unit}' if unit else ''}{interval}"


def reason_text(answer: CampaignAnswer) -> str:
    """Return what limits an answer, or nothing."""
    finding = answer.finding
    told = [] if finding.reason is None else [_REASONS.get(finding.reason, finding.reason)]
    if finding.constant:
        told.append("every block has the same difference")
    lost = sum(answer.missing)
    if lost:
        bounds = ""
        if answer.worst is not None and answer.worst.verdict != finding.verdict:
            bounds = f"; {answer.worst.verdict} with these at their worst"
        told.append(f"{lost} value{'s' if lost != 1 else ''} missing{bounds}")
    return ", ".join(told)


def answers_text(folder: Path) -> str:
    """Return the answers of a campaign for people.

    Raises
    ------
    UserError
        If the folder has no campaign, or a file is damaged.
    """
    results = read_campaign_results(folder)
    lines = [_head(results)]
    rows = [["metric", "cell", "against", "verdict", "effect", "pairs", ""]]
    for answer in results.answers[:MOST_ROWS]:
        question = answer.question
        metric = f"{question.values.workload} {question.values.metric}"
        pair = (question.pair.cell, question.pair.baseline)
        pairs = str(answer.finding.count)
        rows.append([metric, *pair, answer.finding.verdict, effect_text(answer), pairs, reason_text(answer)])
    if len(rows) > 1:
        lines += ["", table_text(rows, left=True)]
    answered = {(answer.question.values.workload, answer.question.values.metric) for answer in results.answers}
    for each in results.campaign.primaries:
        if results.ended and (each.workload, each.metric) not in answered:
            lines.append(f"{each.workload} {each.metric}: no trial measured it: is it the name that the report shows?")
    if len(results.answers) > MOST_ROWS:
        lines.append(f"and {len(results.answers) - MOST_ROWS} more: see the report")
    lines += harm_text(harms(results))
    if results.exclusions.code == "differ":
        lines.append("the cells lost different numbers of trials: the missing values may hide a difference")
    return "\n".join(lines)


def _head(results: CampaignResults) -> str:
    ended, planned = len(results.ended), results.run.blocks
    why = f", since {results.campaign.stopped}" if results.campaign.stopped else ""
    state = "" if results.complete else "; intervals of a confidence sequence, valid before the end"
    return f"{results.run.title}: {ended} of {planned} blocks{why}{state}"


def answers_json(folder: Path) -> dict[str, Json]:
    """Return the answers of a campaign for programs.

    Raises
    ------
    UserError
        If the folder has no campaign, or a file is damaged.
    """
    results = read_campaign_results(folder)
    paid = harms(results)
    return {
        "title": results.run.title,
        "folder": str(folder),
        "seed": results.run.seed,
        "blocks": len(results.ended),
        "blocks_planned": results.run.blocks,
        "stopped": results.campaign.stopped,
        "complete": results.complete,
        "replicate": results.campaign.replicate,
        "exclusions": results.exclusions.code,
        "answers": [answer_json(answer) for answer in results.answers],
        **({"harm": harm_json(paid)} if paid else {}),
    }


def answer_json(answer: CampaignAnswer) -> dict[str, Json]:
    """Return an answer for programs."""
    question, finding = answer.question, answer.finding
    return {
        "workload": question.values.workload,
        "metric": question.values.metric,
        "unit": question.values.unit,
        "baseline": question.pair.baseline,
        "cell": question.pair.cell,
        "margin": question.text,
        "verdict": finding.verdict,
        "estimate": finding.estimate,
        "low": finding.low,
        "high": finding.high,
        "scale": finding.scale,
        "level": finding.level,
        "pairs": finding.count,
        "p": finding.p,
        "p_adjusted": finding.adjusted,
        "constant": finding.constant,
        "reason": finding.reason,
        "missing": list(answer.missing),
        "verdict_at_worst": None if answer.worst is None else answer.worst.verdict,
        "method": finding.method.name,
        "formula": finding.method.formula,
        "libraries": dict(finding.method.libraries),
    }
