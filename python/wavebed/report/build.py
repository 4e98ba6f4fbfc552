"""The report of a run: one HTML page with its style, script and data, which needs no network."""

from __future__ import annotations

import json
import shlex
from base64 import b64encode
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec
from markupsafe import Markup

from wavebed.config.data import number_in, table_in, tables_in
from wavebed.errors import UserError
from wavebed.foreign import MAX_TEXT_BYTES, read_bytes, read_json, read_text
from wavebed.output import write_output
from wavebed.page import asset
from wavebed.page.document import document, filled, soft
from wavebed.page.text import MISSING, amount, figure, longest_word
from wavebed.prepared import prepared
from wavebed.report.cell import cell_figure
from wavebed.report.figures import (
    READ_IN_BURSTS,
    TITLES,
    delay_distributions,
    exceeds_capacity,
    timeline,
    workload_figure,
)
from wavebed.report.first import (
    DrawnBound,
    PrimaryMetric,
    SideValues,
    answer,
    comparison,
    course,
    effect,
    middle_view,
    primary_of,
    sides_of,
    timing,
)
from wavebed.report.metrics import PATH, Row, finding, seeds_text, shown_rows
from wavebed.report.source import MOST_VIEWS, read_results, views
from wavebed.result.names import CHECK_FILE, INCOMPLETE, SCENE_FILE
from wavebed.secret import redacted_table, redacted_toml
from wavebed.stats.intervals import median_interval
from wavebed.store.disk import remove_leftovers
from wavebed.workload.model import Metric

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wavebed.config.data import Json
    from wavebed.report.source import ReportedTrial, Results, View
    from wavebed.result.model import TrialLine, WorkloadRecord

    Table = Mapping[str, Json]

MOST_BYTES = 3_000_000
REPORT_FILE = "report.html"
TEMPLATE = "report/run.html.j2"
FIRST_ROWS = 8
"""Metrics of a workload that are always shown; the others are folded."""
MOST_COLUMNS = 4
"""With more treatments each has a row."""
_LETTER_REM = 0.54
"""Width of a letter of the head."""
IN_VIRTUAL_TIME = Markup(
    "<p>The trials ran in virtual time, in which programs compute in no time. Figures that contain computing are those"
    " of an infinitely fast device.</p>"
)
MEANING = {
    "valid": "counted",
    "suspect": "counted, marked",
    "invalid": "not counted: the engine or the machine, not the path, determined the results",
    "failed": "not counted: a workload failed",
}
_REQUIRED = "The check requires this metric."
_EXCLUDED = ("invalid", "failed")
_VERDICT_MARKS = {"valid": "✓", "suspect": "?", "invalid": "✗", "failed": "✗"}
_OUTCOME_MARKS = {
    "pass": ("valid", "✓ pass"),
    "fail": ("failed", "✗ fail"),
    "inconclusive": ("suspect", "? inconclusive"),
}
PHASES = {"blocked": "blocked", "dns": "DNS", "connect": "connect", "tls": "TLS", "wait": "wait", "receive": "receive"}
"""Phases of a request: class in the style sheet, and label."""
MARKS = {"first contentful paint": "FCP", "largest contentful paint": "LCP", "on load": "onLoad"}
MOST_REQUESTS = 120
MOST_FRAME_BYTES = 20_000
_MOST_SCENE_BYTES = 16 << 20
_JPEG = b"\xff\xd8\xff"


def write_report(run_dir: Path, file: Path | None = None) -> Path:
    """Write the report of a run to `file` (by default ``report.html`` in `run_dir`) and return its path.

    Unfinished trials of a killed run are removed.

    Raises
    ------
    UserError
        If the folder has no run, or the file cannot be written.
    """
    results = read_results(run_dir)
    remove_leftovers(run_dir)
    target = file or run_dir / REPORT_FILE
    write_output(target, small_page(results))
    return target


def small_page(results: Results, most_bytes: int = MOST_BYTES) -> str:
    """Return the page with the most seeds that fit."""
    text = ""
    for most in range(MOST_VIEWS, -1, -1):
        text = page(results, most)
        if len(text.encode()) < most_bytes:
            break
    return text


def page(results: Results, most_views: int) -> str:
    """Return the page with figures of at most `most_views` seeds."""
    record = results.run.record
    title = record.title or record.scenario
    check = _read_check(results.run.folder)
    parts = (
        _head(results, title, check),
        decision_section(results.run.folder),
        _results(results),
        _path(results),
        _over_time(results, most_views),
        _delays(results),
        _verdicts(results),
        _repeat(results),
    )
    licence = asset("uplot/LICENSE")
    script = f"/* uPlot\n{licence}\n*/\n{asset('uplot/uPlot.iife.min.js')}\n{asset('report.js')}"
    return document(title, Markup("\n").join(filter(None, parts)), script, asset("uplot/uPlot.min.css"))


class _Counts(NamedTuple):
    """Trials by treatment and verdict, and what each verdict means."""

    meaning: Mapping[str, str]
    by_treatment: Mapping[str, Mapping[str, int]]


def _head(results: Results, title: str, check: _Check | None) -> Markup:
    """Return the first screen: the answer, the chart that shows it, and where it comes from."""
    record = results.run.record
    seeds = len({line.seed for line in record.trials})
    told = [
        f"{len(record.trials)} trial{'s' if len(record.trials) != 1 else ''}",
        f"{seeds} seed{'s' if seeds != 1 else ''}",
        record.started.replace("T", " ").replace("+00:00", " UTC"),
        f"wavebed {record.versions['wavebed']}" if "wavebed" in record.versions else "",
    ]
    subtitle = ", ".join(filter(None, told)) + "."
    if record.source:
        subtitle += f" Source: {record.source}"
    warnings = []
    if record.ended is None:
        warnings.append(
            "The run has not ended: it was interrupted or is still running. This report has the stored trials."
        )
    if check is None and list(record.command_line[:2]) == ["wavebed", "check"]:
        warnings.append("There is no verdict: the check did not end. Run it again.")
    if check is not None:
        warnings += (
            [f"Timing{check.timing_text.removeprefix('timing')}."] if check.timing_text != "timing: good" else []
        )
    elif any(line.verdict != "valid" for line in record.trials):
        warnings.append(f"Timing: {timing(results)}.")
    required = None if check is None else _deciding(check)
    primary = primary_of(results) if check is None or required is None else _required(results, check, required)
    sentences = [answer(results, primary), effect(results, primary)] if check is None else []
    verdict = "" if check is None else _verdict(check)
    chart = "" if primary is None else first_chart(results, primary, check)
    return filled(TEMPLATE, "head", results, title, subtitle, verdict, sentences, warnings, chart)


def _required(results: Results, check: _Check, required: _Requirement) -> PrimaryMetric | None:
    """Return the metric of a requirement; those that only a check computes, of the path, have the check's values."""
    primary = primary_of(results, required.metric, _REQUIRED)
    if primary is None or primary.rule == _REQUIRED:
        return primary
    blocks = {line.seed: line.block for line in results.run.record.trials}
    values: dict[str, list[tuple[int, float]]] = {name: [] for name in results.treatments}
    for each in check.requirements:
        if each.requirement == required.requirement:
            values[each.treatment] = [
                (blocks[one.seed], one.value) for one in each.values if one.value is not None and one.seed in blocks
            ]
    name = required.metric.removeprefix(f"{PATH}.")
    row = Row(Metric(name, None, required.unit), values, dict.fromkeys(values, 0))
    return PrimaryMetric(PATH, PATH, row.scaled(), _REQUIRED) if any(values.values()) else primary


def first_chart(results: Results, primary: PrimaryMetric, check: _Check | None = None) -> Markup:
    """Return the chart of the first screen; of a check with the bound of a requirement, and the seeds it judged."""
    required = None if check is None else _deciding(check)
    sides, limit = sides_of(results, primary), None
    if check is not None and required is not None and required.bound is not None and primary.rule == _REQUIRED:
        factor, style = primary.row.factor, results.style
        limit = DrawnBound(required.bound / factor, required.bound_text)
        sides = [
            SideValues(
                each.treatment, style(each.treatment), values, each.value / factor, f"{each.statistic} of {len(values)}"
            )
            for each in check.requirements
            if each.requirement == required.requirement and each.value is not None
            for values in [[one.value / factor for one in each.values if one.value is not None]]
        ] or sides
    title = f"{primary.workload}: {primary.metric.name}"
    drawn = comparison(title, primary.metric, sides, limit)
    view = middle_view(results, primary)
    found = None if view is None else course(results, view, primary)
    captions = [] if found is None or view is None else [f"{view.label}."]
    if found is not None and _has_radio(results) and any(map(exceeds_capacity, found.panels)):
        captions.append("A peak above the capacity is data that waited for a retransmission of the radio.")
    captions += [primary.rule]
    return filled(TEMPLATE, "first", drawn, "" if found is None else found.render(), list(filter(None, captions)))


class _Value(msgspec.Struct):
    seed: int
    value: float | None
    decides: bool


class _Requirement(msgspec.Struct):
    requirement: str
    treatment: str
    outcome: str
    unit: str
    value: float | None
    values: list[_Value]
    reasons: list[str]
    statistic: str | None = None
    comparison: str | None = None
    bound: float | None = None
    seeds: int = 0

    @property
    def metric(self) -> str:
        """The name of its metric, as in ``web.speed index``; empty of the requirement that every trial completes."""
        if not self.statistic or not self.comparison:
            return ""
        before = self.requirement.partition(self.comparison)[0].strip()
        return " ".join(before.removesuffix(self.statistic).split())

    @property
    def bound_text(self) -> str:
        """The comparison and the bound as typed."""
        return f"{self.comparison} {self.requirement.rpartition(self.comparison or '')[2].strip()}"

    @property
    def measured(self) -> str:
        """The statistic with its unit; without one the number of seeds."""
        if self.value is not None:
            return amount(self.value, self.unit)
        return "" if self.statistic or not self.seeds else f"{self.seeds} seeds"


class _Check(msgspec.Struct):
    """What the page shows of the file; `wavebed schema check` has all of it."""

    outcome: str
    requirements: list[_Requirement]
    stopped: str = ""
    timing_text: str = ""
    computing_text: str = ""


def _read_check(folder: Path) -> _Check | None:
    file = folder / CHECK_FILE
    if not file.exists():
        return None
    content = read_json(file, "run the check again", most=MAX_TEXT_BYTES)
    try:
        return msgspec.convert(content, prepared(_Check))
    except msgspec.ValidationError as error:
        raise UserError(f"{file}: {error}: run the check again") from None


def _deciding(check: _Check) -> _Requirement | None:
    """Return the requirement that the first screen shows: one that failed, else one that is open, else the first."""
    measured = [each for each in check.requirements if each.metric]
    return next(
        (each for outcome in ("fail", "inconclusive", "pass") for each in measured if each.outcome == outcome), None
    )


def _has_radio(results: Results) -> bool:
    """Return whether a link retransmits blocks as the radio does."""
    legs = (
        leg for trial in results.trials[:1] for leg in tables_in(table_in(trial.record.resolved, "network"), "legs")
    )
    stages = (stage for leg in legs for hop in tables_in(leg, "hops") for stage in tables_in(hop, "down"))
    return any(stage.get("stage") == "radio" for stage in stages)


def _verdict(check: _Check) -> Markup:
    """Return the outcome of a check in a sentence, and each requirement with what was measured."""
    count = len(check.requirements)
    failed = sum(each.outcome == "fail" for each in check.requirements)
    undecided = sum(each.outcome == "inconclusive" for each in check.requirements)
    if failed:
        sentence = f"{failed} of {count} requirements failed."
    elif undecided:
        sentence = f"{undecided} of {count} requirements could not be decided; none failed."
    else:
        sentence = f"All {count} requirements hold." if count > 1 else "The requirement holds."
    rows = []
    several = len({each.treatment for each in check.requirements}) > 1
    for each in check.requirements:
        name = f"{each.treatment}: {each.requirement}" if several else each.requirement
        why = each.reasons[0] if each.reasons and each.outcome != "pass" else ""
        rows.append((each.outcome, f"{name}:" if each.measured else name, each.measured, why))
    return filled(TEMPLATE, "verdict", check.outcome, _marks_of(check), sentence, rows)


def _marks_of(check: _Check) -> dict[str, tuple[str, str]]:
    outcomes = {check.outcome, *(each.outcome for each in check.requirements)}
    return {name: _OUTCOME_MARKS.get(name, ("suspect", f"? {name}")) for name in outcomes}


def decision_section(folder: Path) -> Markup | str:
    """Return each requirement of a check with its outcome, measured against its bound, by seed; empty without a check.

    Raises
    ------
    UserError
        If the decisions of the folder are damaged.
    """
    check = _read_check(folder)
    if check is None:
        return ""
    several = len({each.treatment for each in check.requirements}) > 1
    rows = []
    for each in check.requirements:
        name = f"{each.treatment}: {each.requirement}" if several else each.requirement
        measured = "" if each.value is None else f"{figure(each.value)} {each.unit}".strip()
        values = [(one.seed, "failed" if one.value is None else figure(one.value), one.decides) for one in each.values]
        rows.append((name, each, measured, seeds_text(values)))
    passed = sum(each.outcome == "pass" for each in check.requirements)
    lead = f"{passed} of {len(check.requirements)} requirements hold."
    return filled(TEMPLATE, "decisions", check, lead, _marks_of(check), rows)


def _path(results: Results) -> Markup | str:
    drawn: dict[Markup, list[str]] = {}
    for trial in results.trials:
        row = path_row(trial.record.resolved)
        if row:
            names = drawn.setdefault(row, [])
            if trial.line.treatment not in names:
                names.append(trial.line.treatment)
    if not drawn:
        return ""
    rows = [(row, ", ".join(names)) for row, names in drawn.items()]
    changes = []
    for treatment in results.run.record.treatments:
        values = treatment.get("set")
        if isinstance(values, dict) and values:
            told = ", ".join(f"{key} = {json.dumps(value)}" for key, value in values.items())
            changes.append((str(treatment["name"]), told))
    return filled(TEMPLATE, "path", results, rows, changes, *_scene(results))


def _scene(results: Results) -> tuple[str, str]:
    """Return the map of the scene that the run has drawn, and its caption; empty without one."""
    file = results.run.folder / SCENE_FILE
    if not file.is_file():
        return "", ""
    try:
        drawn = b64encode(read_bytes(file, INCOMPLETE, most=_MOST_SCENE_BYTES)).decode("ascii")
    except UserError:
        return "", ""
    patterns = (table_in(trial.record.resolved, "patterns") for trial in results.trials)
    titles = (table_in(each, name).get("title") for each in patterns for name in each)
    title = next(filter(None, titles), "")
    return drawn, f"The scene {title}, from above, in true scale."


def path_row(resolved: Table) -> Markup:
    """Return hosts and hops of a trial's specification as a list, shown as a row; empty without them.

    A second radio of the client is a row of its own.
    """
    network, patterns = table_in(resolved, "network"), table_in(resolved, "patterns")
    hosts = [str(host.get("name", "")) for host in tables_in(network, "hosts")]
    legs = tables_in(network, "legs")
    if len(hosts) < 2 or not legs:
        return Markup()
    lab = table_in(resolved, "lab")
    if lab.get("kind") == "hosts":
        ends = [(name, str(lab.get(name, ""))) for name in ("server", "client")]
        between = [("wire", "network", [("", "", "as it is: nothing is emulated")])]
        return filled(TEMPLATE, "path_row", "The hosts, server first", ends, [between, []])
    row = len(hosts) - 1
    rows = _row("The path, from server to client", hosts, legs[:row], patterns)
    if legs[row:]:
        rows += _row("The second radio of the client", hosts[-2:], legs[row:], patterns)
    return rows + IN_VIRTUAL_TIME if lab.get("time") == "virtual" else rows


def _row(label: str, hosts: Sequence[str], legs: Sequence[Table], patterns: Table) -> Markup:
    hops = [[_hop(hop, patterns) for hop in tables_in(leg, "hops")] for leg in legs]
    hops += [[]] * (len(hosts) - len(hops))
    return filled(TEMPLATE, "path_row", label, [(name, None) for name in hosts], hops)


def _hop(hop: Table, patterns: Table) -> tuple[str, str, list[tuple[str, str, str]]]:
    """Return class and name of a hop, and what it does in each direction."""
    down, up = (", ".join(_stages(tables_in(hop, side), patterns)) or "nothing" for side in ("down", "up"))
    sides = [("↓↑", "both directions", down)] if down == up else [("↓", "downlink", down), ("↑", "uplink", up)]
    name, kind = str(hop.get("name", "")), str(hop.get("kind", ""))
    return "air" if kind == "radio" else "wire", name if name == kind else f"{name}, {kind}", sides


def _stages(stages: Sequence[Table], patterns: Table) -> Iterator[str]:
    for stage in stages:
        kind = stage.get("stage")
        if kind in ("bottleneck", "radio", "wifi"):
            yield _rate(table_in(stage, "rate"), patterns)
            if kind != "bottleneck":
                yield _radio(stage)
            yield _queue(table_in(stage, "queue"))
        elif kind == "delay":
            delay = table_in(stage, "delay")
            value = delay.get("delay_ns", delay.get("mean_ns"))
            suffix = "" if delay.get("kind") == "constant" else f" on average, {delay.get('kind')}"
            yield f"delay {_ms(value)}{suffix}"
        else:
            yield f"{kind}"


def _rate(rate: Table, patterns: Table) -> str:
    if rate.get("file") is not None:
        file = str(rate["file"])
        origin = table_in(patterns, file)
        if origin:
            name = str(origin.get("name", "")).rpartition("/")[2]
            return f"rate of the scene {name}" if origin.get("source") == "scene" else f"rate by {name}"
        # Results of before specifications were kept name the file, which a converted trace and a scene do not have.
        return "rate by a pattern" if file.startswith("/proc/") else f"rate by {file.rpartition('/')[2]}"
    value = rate.get("rate_bps")
    return f"{figure(value / 1e6)} Mbit/s" if isinstance(value, int | float) else "no rate limit"


def _radio(stage: Table) -> str:
    slots = table_in(stage, "slots")
    words = [] if stage.get("stage") == "radio" else ["802.11ad"]
    if isinstance(slots.get("slot_ns"), int):
        words.append(f"slots of {figure(cast('int', slots['slot_ns']) / 1e3)} µs")
    if slots.get("frame"):
        words.append(f"frame {slots['frame']}")
    if slots.get("harq"):
        words.append("HARQ")
    mode = table_in(stage, "rlc").get("mode")
    if mode:
        words.append(f"RLC {str(mode).upper()}")
    return ", ".join(words) or "radio"


def _queue(queue: Table) -> str:
    limit = table_in(queue, "limit")
    sizes = [_limit(unit, value) for unit, value in limit.items() if isinstance(value, int)]
    return " ".join(["queue", str(queue.get("kind", "")), *sizes])


def _limit(unit: str, value: int) -> str:
    """Return a limit of a queue: a time in ms, a size in MB, or a number of packets."""
    if unit == "time_ns":
        return f"{figure(value / 1e6)} ms"
    return amount(value, unit) if unit == "bytes" else f"{value:,} {unit}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def _ms(value: Json | None) -> str:
    return f"{figure(value / 1e6)} ms" if isinstance(value, int | float) else "as given"


def _results(results: Results) -> Markup:
    """Return the section with a table for each workload."""
    groups, note = shown_rows(results)
    if not groups:
        return filled(TEMPLATE, "no_results")
    notes: dict[str, int] = {}
    kinds = dict(results.workloads)
    sentences = [*(finding(results) if len(kinds) > 1 else []), *([note] if note else [])]
    tables = []
    for name, unscaled in groups.items():
        rows = [row.scaled() for row in unscaled]
        what = (
            "path and transport"
            if name == PATH
            else name
            if kinds.get(name, name) == name
            else f"{name} ({kinds[name]})"
        )
        measured = [row for row in rows if any(row.values.values())]
        for row in measured:
            if row.metric.definition:
                notes.setdefault(row.metric.definition, len(notes) + 1)
        never = ", ".join(row.metric.name for row in rows if not any(row.values.values()))
        more = f"{len(measured) - FIRST_ROWS} more metrics of {what}"
        shown, rest = measured[:FIRST_ROWS], measured[FIRST_ROWS:]
        tables.append((what, _table(results, shown, notes, what), more, _table(results, rest, notes, more), never))
    return filled(TEMPLATE, "results", sentences, _how_to_read(results), tables, notes)


def _how_to_read(results: Results) -> str:
    verdicts = [trial.line.treatment for trial in results.counted]
    most = max((verdicts.count(treatment) for treatment in results.treatments), default=0)
    text = "Median of the counted trials, with its 95 % interval from order statistics (Thompson 1936) below."
    if most and median_interval([0.0] * most).low is None:
        text += " With fewer than 6 trials there is no interval (–)."
    if len(results.treatments) > 1:
        text += (
            f" Differences to {results.treatments[0]} are paired by seed (same channel): Hodges and Lehmann's estimate"
            " with Wilcoxon's interval, bold if that excludes 0."
        )
    return text


def _table(results: Results, rows: Sequence[Row], notes: Mapping[str, int], caption: str) -> Markup | str:
    if not rows:
        return ""
    if len(results.treatments) > MOST_COLUMNS:
        return filled(TEMPLATE, "long_metrics", results, rows, notes, caption)
    # Room for the longest word of each name; the columns are the same in all tables.
    words = [_LETTER_REM * longest_word(treatment) for treatment in results.treatments]
    widths = [10.0, 4.6]
    for word in words:
        widths += [max(6.8, word + 2.6), 2.7]
    widths += [max(7.4, max(word, words[0]) + 1.4) for word in words[1:]]
    widths.append(11.0)
    wide = sum(widths)
    columns = [f"{100 * width / wide:.1f}" for width in widths]
    return filled(TEMPLATE, "metrics", results, rows, notes, caption, f"{wide:.1f}", columns)


def _over_time(results: Results, most_views: int) -> Markup:
    chosen, count = views(results, most_views) if most_views else ([], len(results.trials))
    left_out = said = ""
    if not chosen:
        left_out = "they would make the page too large" if count else "no trial has series"
    elif count > len(chosen):
        said = f" {len(chosen)} of {count} seeds are drawn, spread over the results; the table above has all seeds."
    drawn = [(view.label, _marks(view), timeline(results, view).render(), _workloads(results, view)) for view in chosen]
    return filled(TEMPLATE, "over_time", results, drawn, left_out, said)


def _marks(view: View) -> str:
    marked = [trial.line for trial in view.trials if trial.line.verdict != "valid"]
    return ", ".join(f"{line.treatment} is {line.verdict}" for line in marked)


def _workloads(results: Results, view: View) -> list[tuple[str, Markup]]:
    """Return heading and panels of each workload of a view."""
    found = list(_cells(results, view))
    for name, kind in [*results.workloads, ("modem", "modem")]:
        own = workload_figure(results, view, name, kind)
        panels = (own.render() if own is not None else Markup()) + (_web(results, view, name) if kind == "web" else "")
        if panels:
            what = TITLES.get(kind, kind)
            heading = name if name in (kind, what) else f"{name}, {what}"
            note = READ_IN_BURSTS.get(kind, "")
            found.append((heading[:1].upper() + heading[1:], (soft(note) if note else Markup()) + panels))
    return found


def _cells(results: Results, view: View) -> Iterator[tuple[str, Markup]]:
    """Yield heading and figure of the cell of each trial of a view."""
    for trial in view.trials:
        found = cell_figure(trial)
        if found is not None:
            of_treatment = f", {trial.line.treatment}" if len(results.treatments) > 1 else ""
            yield f"Who had the slots{of_treatment}", found.render()


def _web(results: Results, view: View, name: str) -> Markup:
    """Return filmstrip and waterfall of each trial of a view."""
    parts = Markup()
    for index, trial in enumerate(view.trials):
        record = trial.workload(name)
        if record is None:
            continue
        details = record.outcome.details
        body = _film(trial, name, tables_in(details, "film"))
        body += _waterfall(tables_in(details, "requests"), _moments(record))
        if body and len(results.treatments) > 1:
            treatment = trial.line.treatment
            body = filled(TEMPLATE, "of_treatment", results.style(treatment), treatment, body, index == 0)
        parts += body
    return parts


def _film(trial: ReportedTrial, name: str, frames: Sequence[Table]) -> Markup:
    if not frames:
        return Markup()
    folder = trial.folder / "raw" / name
    shown = [
        (
            f"{figure(number_in(each, 'time_ms'))} ms",
            figure(number_in(each, "percent")),
            _picture(folder, each.get("file")),
        )
        for each in frames
    ]
    return filled(TEMPLATE, "film", shown)


def _picture(folder: Path, name: Json) -> str:
    """Return a picture in base 64; empty without one, or if it is not a small JPEG."""
    if not isinstance(name, str) or Path(name).name != name:
        return ""
    try:
        data = read_bytes(folder / name, INCOMPLETE, most=MOST_FRAME_BYTES)
    except UserError:
        return ""
    return b64encode(data).decode() if data.startswith(_JPEG) else ""


def _waterfall(requests: Sequence[Table], moments: Mapping[str, float]) -> Markup:
    if not requests:
        return Markup()
    shown = requests[:MOST_REQUESTS]
    phases = [_phases(request) for request in shown]
    end_ms = max([*(end for each in phases for _, _, end in each), *moments.values(), 1.0])
    rows = [_request(*pair, end_ms) for pair in zip(shown, phases, strict=True)]
    used = {phase for each in phases for phase, _, _ in each}
    key = [(style, text) for style, text in PHASES.items() if style in used]
    marks = [(mark, ms, f"{100 * ms / end_ms:.2f}") for mark, ms in moments.items()]
    return filled(TEMPLATE, "waterfall", key, marks, figure(end_ms), rows, len(requests) - len(shown))


def _request(request: Table, phases: Sequence[tuple[str, float, float]], end_ms: float) -> tuple[object, ...]:
    size = number_in(request, "bytes")
    bars = [(style, f"{100 * at / end_ms:.2f}", f"{100 * (to - at) / end_ms:.2f}") for style, at, to in phases]
    told = ", ".join(f"{PHASES[style]} {figure(to - at)} ms" for style, at, to in phases)
    address = f"{request.get('origin', '')}{request.get('path', '')}"
    status, asked_ms = request.get("status"), number_in(request, "asked_ms")
    tip = f"{address}: {request.get('kind', '')}, status {status}, from {figure(asked_ms)} ms: {told}"
    protocol, connection = (str(request.get(name) or MISSING) for name in ("protocol", "connection"))
    failed = bool(request.get("failed"))
    return failed, tip, address, None if size is None else size / 1e3, protocol, connection, bars


def _phases(request: Table) -> list[tuple[str, float, float]]:
    """Return the phases of a request with start and end (ms); gaps are called blocked."""
    asked, sent, answered, end = (number_in(request, f"{name}_ms") for name in ("asked", "sent", "answered", "end"))
    if asked is None:
        return []
    spans = []
    connect, tls = _pair(request, "connect_ms"), _pair(request, "tls_ms")
    if connect is not None and tls is not None:
        connect = (connect[0], tls[0])
    for style, span in (("dns", _pair(request, "dns_ms")), ("connect", connect), ("tls", tls)):
        if span is not None:
            spans.append((style, max(span[0], asked), span[1]))
    if sent is not None and (answered or end) is not None:
        spans.append(("wait", sent, answered if answered is not None else end or sent))
    if answered is not None and end is not None:
        spans.append(("receive", answered, end))
    out: list[tuple[str, float, float]] = []
    at = asked
    for style, begin, stop in spans:
        if begin > at:
            out.append(("blocked", at, begin))
        if stop > begin:
            out.append((style, begin, stop))
        at = max(at, stop)
    return out


def _moments(workload: WorkloadRecord) -> dict[str, float]:
    """Return the marks of the page in order of time."""
    values = {metric.name: metric.value for metric in workload.outcome.metrics}
    found = {short: value for name, short in MARKS.items() if (value := values.get(name)) is not None}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _pair(table: Table, key: str) -> tuple[float, float] | None:
    value = table.get(key)
    if not isinstance(value, list) or len(value) != 2:
        return None
    first, last = value
    return (float(first), float(last)) if isinstance(first, int | float) and isinstance(last, int | float) else None


def _delays(results: Results) -> Markup | str:
    charts = delay_distributions(results)
    return filled(TEMPLATE, "delays", charts) if charts else ""


def _verdicts(results: Results) -> Markup:
    """Return the section with the verdict and reasons of each trial, and the checks with their evidence."""
    lines = results.run.record.trials
    excluded = [line for line in lines if line.verdict in _EXCLUDED]
    lead = "No trial is excluded."
    if excluded:
        told = []
        for treatment in results.treatments:
            verdicts = [line.verdict for line in lines if line.treatment == treatment]
            told.append(f"{sum(each in _EXCLUDED for each in verdicts)} of {len(verdicts)} with {treatment}")
        lead = (
            f"{len(excluded)} of {len(lines)} trials are excluded from all medians, intervals and distributions above:"
            f" {', '.join(told)}."
        )
    by_folder = {trial.line.folder: trial for trial in results.trials}
    errors = {line.folder: error for line, error in results.unreadable}
    trials = [
        (line, _VERDICT_MARKS[line.verdict], _reasons(line, by_folder.get(line.folder), errors.get(line.folder)))
        for line in lines
    ]
    checks = []
    for name in dict.fromkeys(check.name for trial in results.trials for check in trial.record.checks):
        own = [(trial, check) for trial in results.trials for check in trial.record.checks if check.name == name]
        checks.append((name, own, sum(check.holds for _, check in own)))
    found = Counter((line.treatment, str(line.verdict)) for line in lines)
    counts = _Counts(
        MEANING, {each: {verdict: found[each, verdict] for verdict in MEANING} for each in results.treatments}
    )
    return filled(TEMPLATE, "verdicts", filled(TEMPLATE, "counts", results, counts), lead, trials, checks)


def _reasons(line: TrialLine, trial: ReportedTrial | None, error: str | None) -> list[str]:
    reasons = [*line.reasons, *([error] if error else [])]
    for workload in trial.record.workloads if trial is not None else ():
        reasons += [f"{workload.name}: {doubt}" for doubt in workload.outcome.doubts]
        if workload.outcome.status == "partial":
            reasons.append(f"{workload.name}: partial: {workload.outcome.reason}")
    return list(dict.fromkeys(reasons))


def _repeat(results: Results) -> Markup:
    """Return the section with command line, seeds, versions, machine, scenario and resolved path."""
    record = results.run.record
    pairs = [
        ("seeds", ", ".join(str(seed) for seed in dict.fromkeys(line.seed for line in record.trials)) or "none yet"),
        ("started", record.started),
        ("ended", record.ended or "no: interrupted or still running"),
        ("changed by --set", ", ".join(f"{key} = {json.dumps(value)}" for key, value in record.overrides.items())),
        *record.versions.items(),
        *((f"machine: {name}", str(value)) for name, value in record.machine.items()),
    ]
    try:
        file = results.run.folder / "scenario.toml"
        scenario = redacted_toml(read_text(file, INCOMPLETE, most=MAX_TEXT_BYTES, errors="replace"))
    except UserError:
        scenario = ""
    # The path of the first trial of each treatment.
    resolved: dict[str, Mapping[str, Json]] = {}
    for trial in results.trials:
        resolved.setdefault(trial.line.treatment, trial.record.resolved)
    paths = []
    for name, each in resolved.items():
        if each:
            label = f", {name}" if len(results.treatments) > 1 else ""
            shown = json.dumps(cast("dict[str, Json]", redacted_table(each)), indent=1, ensure_ascii=False)
            paths.append((f"The path as resolved{label}", shown))
    known = [(name, value) for name, value in pairs if value]
    return filled(TEMPLATE, "repeat", shlex.join(record.command_line), known, record.scenario, scenario, paths)
