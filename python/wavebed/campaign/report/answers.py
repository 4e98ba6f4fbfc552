"""The answers of a campaign: the head of the page, the table of answers, and how they were obtained."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import TYPE_CHECKING

from wavebed.campaign.report.tables import Table
from wavebed.campaign.report.words import (
    METHODS,
    covered,
    effect_words,
    interval_words,
    level_text,
    sentence,
    state_words,
    summary,
)
from wavebed.campaign.text import reason_text
from wavebed.report.names import breakable
from wavebed.stats.family import simultaneous_level
from wavebed.stats.intervals import fewest_pairs
from wavebed.stats.paired import SignedRanks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.campaign.report.chosen import Chosen
    from wavebed.campaign.report.tables import Cell
    from wavebed.campaign.results import Answer, Matrix

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
        *(f'<p class="lead">{escape(text)}</p>' for text in _lead(chosen)),
    ]
    if results.answers:
        parts.append(f"<p>{escape(_level(chosen))} {escape(covered(results))}</p>")
    parts += [f'<p class="warn">{escape(text)}</p>' for text in _too_few(chosen)]
    if not results.complete:
        parts.append(
            '<p class="warn">The campaign is not complete: it was interrupted or is still running. The intervals are'
            " those of a confidence sequence, which is valid at every look; they narrow with more blocks.</p>"
        )
    parts += [f'<p class="warn">{escape(text)} <a href="#threats">Details</a></p>' for text in warnings]
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
        return [sentence(answer, chosen.results.design.level if len(answers) == 1 else None) for answer in answers]
    told = []
    for metric in chosen.metrics:
        told.append(summary(metric.title, chosen.answers(metric)))
        decided = [each for each in chosen.largest(metric, 1 << 30) if each.finding.settled]
        largest = decided[:1] or chosen.largest(metric, 1)[:1]
        told += [f"The largest effect: {sentence(answer)}" for answer in largest]
    return told[: 2 * MOST_SENTENCES]


def _level(chosen: Chosen) -> str:
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


def _too_few(chosen: Chosen) -> list[str]:
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


def _family_size(chosen: Chosen) -> int:
    """Return the number of answers that share the error; the most of a comparison, where each has its own."""
    answers = chosen.results.answers
    if chosen.results.campaign.family == "all":
        return len(answers)
    return max(Counter(answer.question.pair.cell for answer in answers).values(), default=0)


def answers_table(answers: Sequence[Answer], name: str = "answers") -> Table:
    """Return the answers as a table with all digits."""
    head_ = ["metric", "cell", "against", "verdict", "estimate", "low", "high", "scale", "unit", "level", "margin"]
    head_ += ["pairs", "p", "p adjusted", "missing", "at the worst", "limits"]
    rows: list[Sequence[Cell]] = []
    for answer in answers:
        question, finding = answer.question, answer.finding
        rows.append(
            [
                question.values.title,
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


def answers_section(chosen: Chosen, link: str) -> str:
    """Return the section with a table of answers for each metric, and their method; `link` is the table as a file."""
    results = chosen.results
    if not results.answers:
        return ""
    most = max(6, MOST_ROWS // len(chosen.metrics))
    tables = "".join(_table(chosen, metric, most) for metric in chosen.metrics[:MOST_ROWS])
    campaign = results.campaign
    return (
        '<section id="results"><h2>Answers</h2><p class="soft">Each cell beside the same with'
        f" {escape(campaign.factor)} {escape(campaign.baseline)}: a ratio is its value divided by that of the baseline,"
        f" a difference is its value minus that of the baseline. {link}</p>{tables}{_method(chosen)}</section>"
    )


def _table(chosen: Chosen, metric: Matrix, most: int) -> str:
    answers = chosen.largest(metric, most)
    if not answers:
        return ""
    arrow = {"lower": " ↓ lower is better", "higher": " ↑ higher is better"}.get(metric.better, "")
    every = chosen.answers(metric)
    left = (
        f'<p class="soft">{summary(metric.title, every)} The {most} largest effects are listed.</p>'
        if len(every) > most
        else ""
    )
    head_ = "".join(f"<th scope=col class=text>{name}</th>" for name in ("cell", "verdict", "effect"))
    rows = "".join(map(_row, answers))
    return (
        f'<h3>{escape(metric.title)}<span class="soft">{arrow}, margin {escape(answers[0].question.text)}</span></h3>'
        f'<div class="scroll"><table class="answers"><caption class="hidden">{escape(metric.title)}</caption>'
        f"<thead><tr>{head_}"
        "<th scope=col>pairs</th><th scope=col class=text>limits</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>{left}"
    )


def _row(answer: Answer) -> str:
    pair, finding = answer.question.pair, answer.finding
    interval = interval_words(answer)
    return (
        f"<tr><th scope=row class=text>{breakable(pair.cell)}"
        f"<span class=under>against {breakable(pair.baseline)}</span></th>"
        f'<td class="text verdict {finding.verdict}">{MARKS[finding.verdict]} {finding.verdict}</td>'
        f"<td class=text>{escape(effect_words(answer))}"
        f"<span class=under>{escape(interval or 'no interval')}</span></td>"
        f"<td>{finding.count}</td><td class=text>{escape(reason_text(answer)) or '–'}</td></tr>"
    )


def _method(chosen: Chosen) -> str:
    results = chosen.results
    finding = results.answers[0].finding
    per_family = _family_size(chosen)
    level = _level(chosen) or f"{level_text(results.design.level)}"
    if per_family > 1:
        least = level_text(simultaneous_level(results.design.level, per_family))
        level += f" Each interval has at least {least} (Bonferroni), or that of its step of Holm's method."
    libraries = ", ".join(f"{name} {version}" for name, version in finding.method.libraries)
    facts = [
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
    rows = "".join(
        f"<tr><th scope=row>{escape(name)}</th><td class=text>{escape(text)}</td></tr>" for name, text in facts
    )
    return f'<h3>How the answers were obtained</h3><div class="scroll"><table class="facts">{rows}</table></div>'
