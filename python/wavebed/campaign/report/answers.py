"""The answers of a campaign: the head of the page, the table of answers, and how they were obtained."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from wavebed.campaign.report.tables import Table, html_table
from wavebed.campaign.report.words import METHODS, covered, level_text, sentence, state_words, summary
from wavebed.campaign.text import effect_text, reason_text
from wavebed.report.names import breakable
from wavebed.stats.family import simultaneous_level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.campaign.decide import Answer
    from wavebed.campaign.report.chosen import Chosen
    from wavebed.campaign.report.tables import Cell

__all__ = ["answers_section", "answers_table", "head"]

MOST_SENTENCES = 6
MOST_ROWS = 60
MARKS = {"better": "▲", "worse": "▼", "different": "◆", "equivalent": "≈", "equal": "=", "undecided": "?"}


def head(chosen: Chosen, warnings: Sequence[str]) -> str:
    """Return title, answers in plain words, and what makes them suspect."""
    results = chosen.results
    record = results.run
    facts = [
        f"campaign, {state_words(results)}",
        f"{len(record.trials)} trials of {len(results.cells)} cell{'s' if len(results.cells) != 1 else ''}",
        record.started.replace("T", " ").replace("+00:00", " UTC"),
        f"wavebed {record.versions['wavebed']}" if "wavebed" in record.versions else "",
    ]
    parts = [
        f"<header><h1>{breakable(record.title or record.scenario)}</h1>",
        f'<p class="soft">{escape("; ".join(filter(None, facts)))}</p></header>',
        *(f'<p class="lead">{breakable(text)}</p>' for text in _lead(chosen)),
    ]
    if results.answers:
        parts.append(f"<p>{escape(covered(results))}</p>")
    if not results.complete:
        parts.append(
            '<p class="warn">The campaign is not complete: it was interrupted or is still running. The intervals are those'
            " of a confidence sequence, which is valid at every look; they narrow with more blocks.</p>"
        )
    parts += [f'<p class="warn">{breakable(text)} <a href="#threats">Details</a></p>' for text in warnings]
    if record.source:
        parts.append(f'<p class="soft">Source: {escape(record.source)}</p>')
    return "".join(parts)


def _lead(chosen: Chosen) -> list[str]:
    answers = chosen.results.answers
    if not chosen.results.campaign.primaries:
        return ["The campaign names no primary metric, so it decides nothing; all findings below are exploratory."]
    if not chosen.results.comparisons:
        return ["The campaign compares no cells; the medians of the primary metrics are below."]
    if not answers:
        return ["No primary metric was measured in a counted trial: there is no answer."]
    if len(answers) <= MOST_SENTENCES:
        return [sentence(answer) for answer in answers]
    told = []
    for metric in chosen.metrics:
        told.append(summary(metric.title, chosen.answers(metric)))
        decided = [each for each in chosen.largest(metric, 1 << 30) if each.finding.settled]
        largest = decided[:1] or chosen.largest(metric, 1)[:1]
        told += [f"The largest effect: {sentence(answer)}" for answer in largest]
    return told[: 2 * MOST_SENTENCES]


def answers_table(answers: Sequence[Answer], name: str = "answers") -> Table:
    """Return the answers as a table with all digits."""
    head_ = ["metric", "cell", "against", "verdict", "estimate", "low", "high", "scale", "unit", "level", "margin"]
    head_ += ["pairs", "p", "p adjusted", "missing", "at the worst", "limits"]
    rows: list[Sequence[Cell]] = []
    for answer in answers:
        question, finding = answer.question, answer.finding
        rows.append(
            [
                f"{question.values.workload}: {question.values.metric}",
                question.pair.cell,
                question.pair.baseline,
                finding.verdict,
                finding.estimate,
                finding.low,
                finding.high,
                finding.scale,
                "" if finding.scale == "ratio" else question.values.unit,
                finding.level,
                question.text,
                finding.count,
                finding.p,
                finding.adjusted,
                sum(answer.missing),
                answer.worst.verdict if answer.worst is not None else "",
                reason_text(answer),
            ]
        )
    return Table(name, "Answers: the effect of a cell beside its baseline, as difference or ratio.", head_, rows)


def shown_table(answers: Sequence[Answer]) -> Table:
    """Return the answers as they are read."""
    rows: list[Sequence[Cell]] = [
        [
            f"{answer.question.values.workload}: {answer.question.values.metric}",
            answer.question.pair.cell,
            answer.question.pair.baseline,
            f"{MARKS[answer.finding.verdict]} {answer.finding.verdict}",
            effect_text(answer),
            answer.question.text,
            answer.finding.count,
            reason_text(answer),
        ]
        for answer in answers
    ]
    return Table("", "Answers", ["metric", "cell", "against", "verdict", "effect", "margin", "pairs", ""], rows)


def answers_section(chosen: Chosen, link: str) -> str:
    """Return the section with the table of answers and their method; `link` is the table as a file."""
    results = chosen.results
    if not results.answers:
        return ""
    per_metric = max(1, MOST_ROWS // max(len(chosen.metrics), 1))
    shown = [answer for metric in chosen.metrics for answer in chosen.largest(metric, per_metric)]
    left = len(results.answers) - len(shown)
    more = f'<p class="soft">{len(shown)} of {len(results.answers)} answers, those of the largest effects.</p>' if left else ""
    table = html_table(shown_table(shown), "answers", MOST_ROWS, _style)
    return (
        f'<section id="results"><h2>Answers</h2><p class="soft">A ratio (×) is the cell\'s value divided by that of its'
        f' baseline, a difference the one minus the other; intervals in brackets. {link}</p>{table}{more}{_method(chosen)}</section>'
    )


def _style(name: str, cell: Cell) -> str:
    return f"verdict {str(cell).partition(' ')[2]}" if name == "verdict" else ""


def _method(chosen: Chosen) -> str:
    results = chosen.results
    campaign, finding = results.campaign, results.answers[0].finding
    per_family = len(chosen.metrics) if campaign.family == "comparison" else len(results.answers)
    together = (
        f"the {per_family} primary metrics of each comparison"
        if campaign.family == "comparison"
        else f"all {per_family} questions"
    )
    level = f"{level_text(results.design.level)} over {together} together"
    if per_family > 1:
        level += f": each interval has at least {level_text(simultaneous_level(results.design.level, per_family))}, or that of its step of Holm's method"
    libraries = ", ".join(f"{name} {version}" for name, version in finding.method.libraries)
    facts = [
        ("method", METHODS.get(finding.method.name, finding.method.name)),
        ("formula", f"{finding.method.name}, version {finding.method.formula}" + (f"; {libraries}" if libraries else "")),
        ("level", level),
        ("blocks", f"{len(results.ended)}; {state_words(results)}"),
        ("an interval covers", covered(results)),
        (
            "verdicts",
            "equivalent: the whole interval is within the margin; better or worse: it excludes no effect; else undecided",
        ),
    ]
    rows = "".join(f"<tr><th scope=row>{escape(name)}</th><td class=text>{escape(text)}</td></tr>" for name, text in facts)
    return f'<h3>How the answers were obtained</h3><div class="scroll"><table class="facts">{rows}</table></div>'
