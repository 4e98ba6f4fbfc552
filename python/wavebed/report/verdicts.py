"""Verdicts with their reasons, checks, and the facts to repeat a run."""

from __future__ import annotations

import json
import shlex
from html import escape
from typing import TYPE_CHECKING, cast

from wavebed.errors import UserError
from wavebed.foreign import MAX_TEXT_BYTES, read_text
from wavebed.report.names import breakable
from wavebed.result.names import INCOMPLETE
from wavebed.secret import redacted_table, redacted_toml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.config.data import Json
    from wavebed.report.source import Results, Trial
    from wavebed.result.model import TrialLine

__all__ = ["repeat_section", "verdict_counts", "verdict_section"]

VERDICTS = ("valid", "suspect", "invalid", "failed")
MEANING = {
    "valid": "counted",
    "suspect": "counted, marked",
    "invalid": "not counted: the engine or the machine, not the path, determined the results",
    "failed": "not counted: a workload failed",
}
_SEEDS = (
    "A seed reproduces every random process of the emulated path and so the channel. Kernel timing is not reproducible."
)
_MARKS = {"valid": "✓", "suspect": "?", "invalid": "✗", "failed": "✗"}


def verdict_counts(results: Results) -> str:
    """Return a table with the number of trials of each treatment and verdict."""
    head = "".join(f'<th scope=col title="{MEANING[verdict]}">{verdict}</th>' for verdict in VERDICTS)
    rows = []
    for treatment in results.treatments:
        lines = [line for line in results.run.record.trials if line.treatment == treatment]
        cells = "".join(_count(verdict, sum(line.verdict == verdict for line in lines)) for verdict in VERDICTS)
        key = f'<span class="key {results.style(treatment)}"></span>' if len(results.treatments) > 1 else ""
        rows.append(f"<tr><th scope=row>{key}{breakable(treatment)}</th>{cells}</tr>")
    return (
        f'<div class="scroll"><table class="small counts"><thead><tr><th scope=col>trials</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _count(verdict: str, count: int) -> str:
    return f'<td class="{verdict if count else "none"}">{count}</td>'


def verdict_section(results: Results) -> str:
    """Return the section with the verdict and reasons of each trial, and the checks with their evidence."""
    excluded = [line for line in results.run.record.trials if line.verdict in VERDICTS[2:]]
    lead = (
        f"{len(excluded)} of {len(results.run.record.trials)} trials are excluded from all medians, intervals and"
        f" distributions above: {_per_treatment(results)}."
        if excluded
        else "No trial is excluded."
    )
    by_folder = {trial.line.folder: trial for trial in results.trials}
    errors = {line.folder: error for line, error in results.unreadable}
    rows = "".join(
        _row(line, by_folder.get(line.folder), errors.get(line.folder, "")) for line in results.run.record.trials
    )
    return (
        f'<section id="verdicts"><h2>Verdicts and exclusions</h2><p>{escape(lead)}</p>'
        '<div class="scroll"><table class="trials"><thead><tr><th scope=col>trial</th><th scope=col>treatment</th>'
        "<th scope=col>seed</th><th scope=col>verdict</th><th scope=col>reasons</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>{_checks(results)}</section>"
    )


def _per_treatment(results: Results) -> str:
    told = []
    for treatment in results.treatments:
        verdicts = [line.verdict for line in results.run.record.trials if line.treatment == treatment]
        told.append(f"{sum(each in VERDICTS[2:] for each in verdicts)} of {len(verdicts)} with {treatment}")
    return ", ".join(told)


def _row(line: TrialLine, trial: Trial | None, error: str) -> str:
    reasons = [*line.reasons, *([error] if error else [])]
    if trial is not None:
        for workload in trial.record.workloads:
            reasons += [f"{workload.name}: {doubt}" for doubt in workload.outcome.doubts]
            if workload.outcome.status == "partial":
                reasons.append(f"{workload.name}: partial: {workload.outcome.reason}")
    told = "<br>".join(escape(reason) for reason in dict.fromkeys(reasons)) or "–"
    return (
        f"<tr><th scope=row>{breakable(line.folder)}</th><td class=text>{breakable(line.treatment)}</td>"
        f'<td>{line.seed}</td><td class="text">'
        f'<span class="badge {line.verdict}">{_MARKS[line.verdict]} {line.verdict}</span></td>'
        f"<td class=text>{told}</td></tr>"
    )


def _checks(results: Results) -> str:
    """Return each check once, with its number of passes and the evidence of each trial."""
    names = dict.fromkeys(check.name for trial in results.trials for check in trial.record.checks)
    if not names:
        return ""
    rows = []
    for name in names:
        found = [(trial, check) for trial in results.trials for check in trial.record.checks if check.name == name]
        held = sum(check.holds for _, check in found)
        lines = "".join(
            f'<li class="{"holds" if check.holds else "fails"}"><b>{escape(trial.line.folder)}</b>'
            f" {'✓' if check.holds else '✗'} {escape(check.evidence)}</li>"
            for trial, check in found
        )
        state = "holds" if held == len(found) else "fails"
        rows.append(
            f'<details class="check {state}"><summary>{escape(name)}: passed in {held} of {len(found)} trials;'
            f" a failure makes a trial {escape(found[0][1].severity)}</summary><ul>{lines}</ul></details>"
        )
    return f"<h3>Checks</h3>{''.join(rows)}"


def repeat_section(results: Results) -> str:
    """Return the section with command line, seeds, versions, machine, scenario and resolved path."""
    record = results.run.record
    seeds = ", ".join(str(seed) for seed in dict.fromkeys(line.seed for line in record.trials))
    facts = [
        ("seeds", seeds or "none yet"),
        ("started", record.started),
        ("ended", record.ended or "no: interrupted or still running"),
        ("changed by --set", ", ".join(f"{key} = {json.dumps(value)}" for key, value in record.overrides.items())),
    ]
    facts += [(name, version) for name, version in record.versions.items()]
    facts += [(f"machine: {name}", value) for name, value in record.machine.items()]
    lines = "".join(
        f"<tr><th scope=row>{escape(name)}</th><td class=text>{escape(str(value))}</td></tr>"
        for name, value in facts
        if value
    )
    try:
        file = results.run.folder / "scenario.toml"
        scenario = redacted_toml(read_text(file, INCOMPLETE, most=MAX_TEXT_BYTES, errors="replace"))
    except UserError:
        scenario = ""
    command = shlex.join(record.command_line)
    parts = [
        '<section id="repeat"><h2>How to repeat the run</h2>',
        f"<pre>{escape(command)}</pre>" if command else "",
        f'<p class="soft">{_SEEDS}</p>',
        f'<div class="scroll"><table class="facts"><tbody>{lines}</tbody></table></div>',
        _folded(f"Scenario {record.scenario}", scenario),
    ]
    for name, laboratory in _laboratories(results).items():
        label = f", {name}" if len(results.treatments) > 1 else ""
        parts.append(_folded(f"The path as resolved{label}", json.dumps(laboratory, indent=1, ensure_ascii=False)))
    parts.append("</section>")
    return "".join(parts)


def _laboratories(results: Results) -> dict[str, Mapping[str, Json]]:
    """Return the path of the first trial of each treatment."""
    found: dict[str, Mapping[str, Json]] = {}
    for trial in results.trials:
        found.setdefault(trial.line.treatment, trial.record.resolved)
    return {name: cast("dict[str, Json]", redacted_table(each)) for name, each in found.items() if each}


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>" if text else ""
