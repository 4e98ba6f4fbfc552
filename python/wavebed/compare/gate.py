"""The judgement of a folder beside its baseline, as text, JSON and Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.compare.notes import seeds_text
from wavebed.compare.text import finding_json
from wavebed.compare.words import counts_text, effect_text, p_text, reason_text, sample_text
from wavebed.page.tables import markdown_escaped, markdown_table
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from wavebed.compare.find import JudgedAnswer, Regressions
    from wavebed.compare.samples import Folder
    from wavebed.config.data import Json

MOST_ROWS = 60
_HEAD = ("metric", "treatment", "baseline", "new", "margin", "regression", "verdict", "difference", "p", "n", "")


def regressions_text(found: Regressions) -> str:
    """Return a table of the primary metrics, the notes, and the result in the last line."""
    lines = [table_text([_HEAD, *map(_row, found.judged[:MOST_ROWS])])]
    if len(found.judged) > MOST_ROWS:
        lines.append(f"and {len(found.judged) - MOST_ROWS} more: --json has all")
    return "\n".join([*lines, "", *found.comparison.notes, result_text(found)])


def result_text(found: Regressions) -> str:
    """Return the result in a line."""
    parts = [
        (found.count("yes"), "beyond the margin"),
        (found.count("no values"), "without values"),
        (found.count("not excluded"), "where a regression is not excluded"),
    ]
    told = ", ".join(f"{count} {what}" for count, what in parts if count)
    result = "passed" if found.passed else "failed"
    count = len(found.judged)
    return f"{result}: {count} comparison{'' if count == 1 else 's'} of primary metrics: {told or 'no regression'}"


def _row(judged: JudgedAnswer) -> tuple[str, ...]:
    answer = judged.answer
    question, finding = answer.question, answer.finding
    return (
        question.name,
        question.column.treatment,
        sample_text(question.a),
        sample_text(question.b),
        "" if question.goal is None else question.goal.text,
        judged.regression,
        finding.verdict,
        effect_text(answer),
        p_text(finding.adjusted),
        counts_text(answer),
        reason_text(answer),
    )


def regressions_json(found: Regressions) -> dict[str, Json]:
    """Return the judgement as one object."""
    baseline, new = found.comparison.folders
    answers: list[Json] = [_answer_json(each) for each in found.judged]
    return {
        "passed": found.passed,
        "undecided_fails": found.undecided_fails,
        "comparisons": len(found.judged),
        "regressions": found.count("yes"),
        "without_values": found.count("no values"),
        "not_excluded": found.count("not excluded"),
        "baseline": _folder_json(baseline),
        "new": _folder_json(new),
        "answers": answers,
        "notes": list(found.comparison.notes),
    }


def _answer_json(judged: JudgedAnswer) -> dict[str, Json]:
    question, method = judged.answer.question, judged.answer.finding.method
    first, other = question.a.median, question.b.median
    return {
        "workload": question.workload,
        "metric": question.metric.name,
        "unit": question.metric.unit,
        "better": question.metric.better,
        "treatment": question.column.treatment,
        "baseline_treatment": question.base,
        "baseline_count": first.count,
        "baseline_median": first.estimate,
        "new_count": other.count,
        "new_median": other.estimate,
        "regression": judged.regression,
        **finding_json(judged.answer),
        "method": method.name,
        "formula": method.formula,
        "libraries": dict(method.libraries),
    }


def _folder_json(folder: Folder) -> dict[str, Json]:
    lost, planned = _trials(folder)
    return {
        "folder": str(folder.path),
        "trials": planned,
        "trials_counted": planned - lost,
        "seeds": seeds_text(folder),
        "ended": folder.has_ended,
        "facts": dict(folder.facts),
    }


def _trials(folder: Folder) -> tuple[int, int]:
    return sum(lost for lost, _ in folder.lost.values()), sum(planned for _, planned in folder.lost.values())


def regressions_markdown(found: Regressions) -> str:
    """Return the judgement as Markdown for a pull request."""
    baseline, new = found.comparison.folders
    rows = [[*map(markdown_escaped, _row(judged))] for judged in found.judged[:MOST_ROWS]]
    for row, judged in zip(rows, found.judged, strict=False):
        if judged.regression in ("yes", "no values"):
            row[5] = f"**{row[5]}**"
    lines = [f"**wavebed compare: {markdown_escaped(result_text(found))}**", "", *markdown_table(_HEAD, rows)]
    if len(found.judged) > MOST_ROWS:
        lines += ["", f"and {len(found.judged) - MOST_ROWS} more"]
    lines += ["", "<details><summary>Folders, machines and versions</summary>", "", *_folders(baseline, new), ""]
    lines += [f"- {markdown_escaped(note)}" for note in found.comparison.notes]
    return "\n".join([*lines, "", "</details>", ""])


def _folders(baseline: Folder, new: Folder) -> list[str]:
    told = []
    for folder in (baseline, new):
        lost, planned = _trials(folder)
        told.append({"folder": str(folder.path), "trials counted": f"{planned - lost} of {planned}"})
        told[-1] |= {"seeds": seeds_text(folder), **folder.facts}
    names = dict.fromkeys([*told[0], *told[1]])
    rows = [[name, *(each.get(name, "none") for each in told)] for name in names]
    return markdown_table(("", "baseline", "new"), [[*map(markdown_escaped, row)] for row in rows])
