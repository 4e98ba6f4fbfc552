"""Planned and actual time, every trial, and all that is needed to run the test again."""

from __future__ import annotations

import json
import shlex
from html import escape
from operator import attrgetter
from typing import TYPE_CHECKING

from wavebed.forward.model import to_plain
from wavebed.forward.report.words import cell, frames, percent, section, table, us
from wavebed.forward.result import sizes_text
from wavebed.report.numbers import MISSING, figure

if TYPE_CHECKING:
    from wavebed.forward.folder import ForwardRecord
    from wavebed.forward.model import Trial
    from wavebed.forward.result import DeviceResult

__all__ = ["plan_section", "repeat_section", "trials_section"]

_HEAD = (
    "trial", "purpose", "frame size", "offered, pps", "sent", "received", "lost", "fraction lost", "took, s", "dupl.",
    "reord.", "foreign", "median, µs", "99th, µs", "busiest core", "verdict",
)  # fmt: skip


def plan_section(result: DeviceResult) -> str:
    """Return the section with planned and actual time."""
    if not result.plan:
        return ""
    rows = []
    for part in result.plan:
        late = part.took_s is not None and part.took_s > part.at_most_s
        shown = "did not run" if part.took_s is None else figure(part.took_s)
        rows.append(
            f"<tr><th scope=row>{escape(part.name)}</th>{cell(figure(part.expected_s))}{cell(figure(part.at_most_s))}"
            f"{cell(shown, kind='refused' if late else '')}{cell(str(part.trials))}</tr>"
        )
    planned = sum(part.expected_s for part in result.plan)
    most = sum(part.at_most_s for part in result.plan)
    took = sum(part.took_s or 0.0 for part in result.plan)
    count = sum(part.trials for part in result.plan)
    cells = "".join(cell(text) for text in (figure(planned), figure(most), figure(took), str(count)))
    rows.append(f'<tr class="sum"><th scope=row>all</th>{cells}</tr>')
    head = ["part", "planned, s", "at most, s", "took, s", "trials"]
    return section("plan", "Planned and actual time", table("Planned and actual time", head, rows, "small"))


def trials_section(result: DeviceResult, most: int) -> str:
    """Return the section with the first `most` trials, folded."""
    if not result.trials:
        return ""
    shown = result.trials[:most]
    names = {size.sizes_bytes: sizes_text(size.name) for size in result.sizes}
    rows = [_row(place, trial, names) for place, trial in enumerate(shown)]
    refused = sum(bool(trial.refusals) for trial in result.trials)
    told = f"{len(result.trials)} trials, {refused} invalid."
    if len(shown) < len(result.trials):
        told += f" The first {len(shown)} are shown; all are in series/trials.parquet."
    body = f"<details><summary>Every trial</summary>{table('Every trial', _HEAD, rows, 'every', [1, 15])}</details>"
    return section("trials", "Trials", f'<p class="soft">{told}</p>', body)


def _row(place: int, trial: Trial, names: dict[tuple[int, ...], str]) -> str:
    counters, latency = trial.counters, None if trial.counters is None else trial.counters.latency
    size = names.get(trial.sizes_bytes) or "/".join(map(str, trial.sizes_bytes[:4])) + " B"
    cells = (
        size,
        "full speed" if trial.offered_pps is None else frames(trial.offered_pps),
        frames(trial.sent),
        frames(trial.received),
        frames(trial.lost),
        percent(trial.loss_ratio),
        f"{trial.took_s:.3g}",
        *(frames(None if counters is None else count(counters)) for count in _COUNTS),
        us(None if latency is None else latency.p50_s),
        us(None if latency is None else latency.p99_s),
        percent(trial.cpu.get("busy_max")),
    )
    why = "<br>".join(escape(refusal.reason) for refusal in trial.refusals)
    verdict = f'<td class="text {trial.verdict}">{trial.verdict}{f": {why}" if why else ""}</td>'
    return (
        f"<tr><th scope=row>{place}</th><td class=word>{escape(trial.purpose)}</td>"
        f"{''.join(cell(text) for text in cells)}{verdict}</tr>"
    )


_COUNTS = (attrgetter("duplicates"), attrgetter("reordered"), attrgetter("foreign"))


def repeat_section(record: ForwardRecord) -> str:
    """Return the section: command line, seed, versions, machine, settings."""
    result = record.result
    facts = [
        ("started", result.started),
        ("seed", str(result.settings.seed)),
        ("sent by", result.sender),
        ("received by", result.receiver_kind),
        *record.versions.items(),
        *((f"machine: {name}", str(value)) for name, value in result.machine.items()),
    ]
    lines = "".join(
        f"<tr><th scope=row>{escape(name)}</th><td class=text>{escape(value or MISSING)}</td></tr>"
        for name, value in facts
    )
    command = f"<pre>{escape(shlex.join(record.command_line))}</pre>" if record.command_line else ""
    settings = json.dumps(to_plain(result.settings), indent=1, ensure_ascii=False)
    spec = json.dumps(to_plain(result.frames), indent=1, ensure_ascii=False) if result.frames is not None else ""
    return section(
        "repeat",
        "How to repeat it",
        command,
        f'<div class="scroll"><table class="facts"><tbody>{lines}</tbody></table></div>',
        f"<details><summary>Settings</summary><pre>{escape(settings)}</pre></details>",
        f"<details><summary>Test frames</summary><pre>{escape(spec)}</pre></details>" if spec else "",
    )
