"""The first screen of a report: the answer in sentences, and one chart with the primary metric and the radio."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING, NamedTuple

from wavebed.config.data import table_in
from wavebed.page.document import filled
from wavebed.page.plots import Bar, Strip, TimeFigure
from wavebed.page.text import amount, capital, nice_ticks, tick_text
from wavebed.report.figures import (
    MARGIN,
    bad_events,
    busiest_direction,
    carried_panel,
    main_series_panel,
    radio_strip,
    shades_of,
    window,
)
from wavebed.report.metrics import KINDS_ORDER, PATH, metric_rows, place_of_kind
from wavebed.report.source import View, headlines, same_channel, whole
from wavebed.spec.network import group_of
from wavebed.stats.family import simultaneous_level
from wavebed.stats.intervals import FEWEST, LEVEL, fewest_pairs, median_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from markupsafe import Markup

    from wavebed.report.metrics import Row
    from wavebed.report.source import ReportedTrial, Results
    from wavebed.stats.intervals import Interval
    from wavebed.workload.model import Metric

TEMPLATE = "report/run.html.j2"
FAILED_CHECK = "check failed: "
MOST_CAUSES = 2
LATE = ("gaps", "late", "late-packets", "stolen")
"""Codes of the checks that a machine fails which is too slow."""
MOST_SIDES = 8
"""Treatments of the chart; the table has all of them."""


@dataclass(frozen=True, slots=True)
class PrimaryMetric:
    """The metric that a run is about.

    Parameters
    ----------
    kind : str
        Of its workload; `PATH` for a metric of the path.
    rule : str
        Why it is this metric, in a sentence.
    """

    workload: str
    kind: str
    row: Row
    rule: str

    @property
    def metric(self) -> Metric:
        """Its name, unit and definition."""
        return self.row.metric


def primary_of(results: Results, wanted: str = "", rule: str = "") -> PrimaryMetric | None:
    """Return the primary metric of a run; ``None`` if no counted trial has a metric.

    Parameters
    ----------
    wanted : str
        ``WORKLOAD.METRIC``, or the metric alone; by default what the scenario names.
    rule : str
        Who wants it, in a sentence.
    """
    kinds = dict(results.workloads) | {PATH: PATH}
    groups = metric_rows(results)
    wanted, rule = (wanted, rule) if wanted else (results.run.record.primary, "The scenario names this metric.")
    for workload, rows in groups.items():
        for row in rows:
            if wanted in (f"{workload}.{row.metric.name}", row.metric.name) and any(row.values.values()):
                return PrimaryMetric(workload, kinds.get(workload, workload), row.scaled(), rule)
    order = sorted(headlines(results), key=lambda head: place_of_kind(kinds[head[0]]))
    for workload, name in order:
        row = next(row for row in groups[workload] if row.metric.name == name)
        if any(row.values.values()):
            shown, row = _of_group(groups, workload, row)
            if wanted:
                rule = f"{wanted} has no value in a counted trial: this metric is shown instead."
            else:
                kinds_text = ", ".join(KINDS_ORDER)
                rule = f"No primary metric is named: wavebed took the first of {kinds_text}. run.primary names another."
            return PrimaryMetric(shown, kinds[workload], row.scaled(), rule if wanted or len(order) > 1 else "")
    return None


def _of_group(groups: Mapping[str, Sequence[Row]], workload: str, row: Row) -> tuple[str, Row]:
    """Return the worst device of a group with the same workload, ``phone.call`` for ``phone-1.call``, or the row."""
    device, _, own = workload.partition(".")
    name = f"{group_of(device)}.{own}"
    worst = next((each for each in groups.get(name, ()) if each.metric.name == f"worst {row.metric.name}"), None)
    return (workload, row) if worst is None else (name, worst)


def answer(results: Results, primary: PrimaryMetric | None) -> str:
    """Return what came out, in a sentence."""
    if primary is None:
        return nothing_counts(results)
    row, unit, what = primary.row, primary.metric.unit, _what(results, primary)
    medians = {name: row.median(name) for name in results.treatments if row.values[name]}

    def told(name: str) -> str:
        return amount(medians[name].estimate, unit)

    if len(results.treatments) == 1:
        (name,) = medians
        count = len(row.values[name])
        return f"{what}: {told(name)}{f', the median of {count} trials' if count > 1 else ''}."
    missing = [name for name in results.treatments if name not in medians]
    without = f" No value: {', '.join(missing)}." if missing else ""
    if len(medians) == 1:
        (name,) = medians
        return f"{what}: {told(name)} with {name}.{without}"
    first, other = compared(row, list(medians))
    gain = (medians[other].estimate or 0.0) - (medians[first].estimate or 0.0)
    way = _way(row.difference(first, other, _level(len(medians))))
    if way == ("higher" if gain > 0 else "lower"):
        return f"{what} is {way} with {other}: {told(other)}, against {told(first)} with {first}.{without}"
    between = ", " if len(medians) == 2 else " to "
    return f"{what}: {told(first)} with {first}{between}{told(other)} with {other}.{without}"


def compared(row: Row, names: Sequence[str]) -> tuple[str, str]:
    """Return the two treatments that the first screen compares: the lowest and highest medians of more than two."""
    if len(names) == 2:
        return names[0], names[1]
    ranked = sorted(names, key=lambda name: row.median(name).estimate or 0.0)
    return ranked[0], ranked[-1]


def _level(count: int) -> float:
    """Return the level of a difference of two among `count` treatments, so that all pairs together hold at 95 %."""
    return simultaneous_level(LEVEL, comb(count, 2))


def nothing_counts(results: Results) -> str:
    """Return why no trial has a result, in a sentence."""
    lines = results.run.record.trials
    line = next((line for line in lines if line.reasons), None)
    if line is None:
        return "No trial has ended yet: there is no answer." if not lines else "No counted trial has a metric."
    what = "The trial does not count" if len(lines) == 1 else f"No trial counts. {line.folder}"
    return f"{what}: {line.reasons[0].removeprefix(FAILED_CHECK)}."


def effect(results: Results, primary: PrimaryMetric | None) -> str:
    """Return how large the difference is, and how sure, in a sentence."""
    if primary is None:
        checks = (check for trial in results.trials for check in trial.record.checks)
        if any(check.code in LATE and check.severity == "invalid" and not check.holds for check in checks):
            return "The machine was too slow for this path: end other programs, or use --virtual-time."
        return "No value counts."
    row, unit = primary.row, primary.metric.unit
    names = [name for name in results.treatments if row.values[name]]
    if len(results.treatments) == 1:
        return _spread(row.median(names[0]), unit)
    if len(names) < 2:
        return "There is nothing to compare with."
    first, other = compared(row, names)
    level = _level(len(names))
    interval = row.difference(first, other, level)
    if interval is None:
        return f"No seed has a value of both {first} and {other}."
    told = f"{other} − {first} is {amount(interval.estimate, unit, sign=True)}"
    if interval.low is None or interval.high is None:
        pairs = "1 pair of trials is" if interval.count == 1 else f"{interval.count} pairs of trials are"
        return f"{told}; {pairs} too few to decide, {fewest_pairs(level)} are needed."
    bounds = f"{amount(interval.low, '', sign=True)} to {amount(interval.high, unit, sign=True)}"
    covers = "95 %" if len(names) == 2 else f"95 % for all {comb(len(names), 2)} comparisons"
    sure = "" if _way(interval) else ", which is not significant"
    return f"{told} ({covers}: {bounds}; {interval.count} pairs){sure}."


def _spread(interval: Interval, unit: str) -> str:
    if interval.count == 1:
        return "One trial shows one case; --trials N shows how it varies."
    if interval.low is None or interval.high is None:
        return f"{interval.count} trials are too few for an interval; {FEWEST} are needed."
    return f"The 95 % interval of the median is {amount(interval.low, '')} to {amount(interval.high, unit)}."


def _way(interval: Interval | None) -> str:
    if interval is None or interval.low is None or interval.high is None:
        return ""
    return "higher" if interval.low > 0 else "lower" if interval.high < 0 else ""


def _what(results: Results, primary: PrimaryMetric) -> str:
    """Return the metric as the beginning of a sentence: ``Download time``, ``RTT loaded p95 of latency``."""
    name = primary.metric.name
    alone = len(results.workloads) == 1 or primary.workload in name
    return capital(name) if alone else f"{capital(name)} of {primary.workload}"


def timing(results: Results) -> str:
    """Return whether the machine kept the time of the path, and how many trials suffered, in a few words."""
    lines = results.run.record.trials
    if not lines:
        return "no trial has ended"
    bad = [line for line in lines if line.verdict != "valid"]
    if not bad:
        virtual = any(table_in(trial.record.resolved, "lab").get("time") == "virtual" for trial in results.trials)
        return f"{'virtual time, exact' if virtual else 'good'}: {_of(len(lines), len(lines), 'valid')}"
    lost = [line for line in bad if line.verdict != "suspect"]
    said = _of(len(lost), len(lines), "not counted") if lost else f"reduced: {_of(len(bad), len(lines), 'suspect')}"
    reasons = [reason for line in lost or bad for reason in line.reasons[:1]]
    checks = dict.fromkeys(
        each.removeprefix(FAILED_CHECK).partition(": ")[0] for each in reasons if each.startswith(FAILED_CHECK)
    )
    others = dict.fromkeys(each for each in reasons if not each.startswith(FAILED_CHECK))
    why = [f"not met: {', '.join(list(checks)[:MOST_CAUSES])}"] if checks else []
    why += list(others)[: MOST_CAUSES - len(why)]
    return f"{said} ({'; '.join(why)})" if why else said


def closing_rows(results: Results) -> list[tuple[str, str]]:
    """Return what a command prints at its end: question, answer, effect and timing."""
    primary, record = primary_of(results), results.run.record
    return [
        ("question", record.title or record.scenario),
        ("answer", answer(results, primary)),
        ("effect", effect(results, primary)),
        ("timing", timing(results)),
    ]


def _of(count: int, total: int, what: str) -> str:
    return f"{count} of {total} trial{'s' if total != 1 else ''} {'is' if count == 1 else 'are'} {what}"


class SideValues(NamedTuple):
    """The values of one treatment, to be drawn beside the others.

    Parameters
    ----------
    middle : float
        The value that the bar and the number show: a median, or the statistic of a requirement.
    below : str
        A remark below the number: how sure it is.
    """

    name: str
    style: str
    values: Sequence[float]
    middle: float
    below: str


class DrawnBound(NamedTuple):
    """A bound on the metric, which is drawn across the treatments."""

    value: float
    text: str


def sides_of(results: Results, primary: PrimaryMetric) -> list[SideValues]:
    """Return the values of each treatment of a run."""
    return [
        side(name, results.style(name), [value for _, value in primary.row.values[name]])
        for name in results.treatments
        if primary.row.values[name]
    ]


def side(name: str, style: str, values: Sequence[float]) -> SideValues:
    """Return the values of a treatment, at least one, with their median and its interval."""
    interval = median_interval(list(values))
    below = "1 trial" if len(values) == 1 else f"{len(values)} trials"
    if interval.low is not None and interval.high is not None:
        below = f"{amount(interval.low, '')} to {amount(interval.high, '')}"
    return SideValues(name, style, values, interval.estimate or 0.0, below)


def comparison(title: str, metric: Metric, sides: Sequence[SideValues], limit: DrawnBound | None = None) -> Markup:
    """Return treatments below each other on one scale from zero: a bar to the middle, and a dot for each trial.

    Parameters
    ----------
    title : str
        What is measured.
    """
    shown = sides[:MOST_SIDES]
    every = [value for each in shown for value in (*each.values, each.middle)] + ([limit.value] if limit else [])
    ticks = nice_ticks(min([0.0, *every]), max(every, default=1.0))
    low, high = ticks[0], ticks[-1]

    def place(value: float) -> str:
        return f"{100 * (value - low) / (high - low):.2f}"

    rows = []
    for each in shown:
        left, right = sorted((each.middle, 0.0))
        bar = place(left), f"{100 * (right - left) / (high - low):.2f}"
        rows.append((each, bar, [place(value) for value in each.values], amount(each.middle, metric.unit)))
    marks = [(place(tick), tick_text(tick)) for tick in ticks]
    bound = (place(limit.value), limit.text) if limit else None
    left_out = len(sides) - len(shown)
    named = len(sides) > 1
    return filled(TEMPLATE, "sides", title, metric, rows, marks, bound, left_out, named)


def middle_view(results: Results, primary: PrimaryMetric, wanted: Sequence[str] = ()) -> View | None:
    """Return the trials of the seed whose result is in the middle; ``None`` if no trial has series.

    Parameters
    ----------
    wanted : sequence of str
        The treatments to draw; all by default.
    """
    names = wanted or results.treatments
    blocks: dict[int, list[ReportedTrial]] = {}
    for (block, treatment), trial in {(each.line.block, each.line.treatment): each for each in results.counted}.items():
        if treatment in names:
            blocks.setdefault(block, []).append(trial)  # of several attempts the last one
    most = max(map(len, blocks.values()), default=0)
    value: Mapping[int, float] = dict(primary.row.values.get(names[0], ()))
    # Blocks of all treatments first, then those whose result is nearest to the middle.
    full = [block for block, trials in blocks.items() if len(trials) == most]
    ranked = sorted(full, key=lambda block: value.get(block, float("inf")))
    middle = (len(ranked) - 1) // 2
    for place in sorted(range(len(ranked)), key=lambda place: abs(place - middle)):
        block = ranked[place]
        trials = sorted(whole(blocks[block], keep=True), key=lambda trial: names.index(trial.line.treatment))
        if trials:
            label = f"Seed {trials[0].line.seed}"
            if len(ranked) > 1:
                label += f", the middle one of {len(ranked)} by this metric"
            return View(label, trials)
    return None


def course(results: Results, view: View, primary: PrimaryMetric) -> TimeFigure | None:
    """Return the primary metric's series over time, and below it the radio; ``None`` if there is neither."""
    name, kind = primary.workload, primary.kind
    series = None if kind == PATH else main_series_panel(results, view, name, kind, primary.metric.name)
    ends = {primary.metric.name.rpartition(" ")[2]} & {"down", "up"}
    direction = next(iter(ends)) if ends else busiest_direction(view.trials)
    spans = [record.span for trial in view.trials if (record := trial.workload(name)) is not None and record.span]
    start_s, end_s = 0.0, window(view.trials)
    if spans and kind != "latency":
        start_s, end_s = min(each.start_s for each in spans), max(each.end_s for each in spans)
        margin_s = max(MARGIN * (end_s - start_s), 0.01)
        start_s, end_s = max(0.0, start_s - margin_s), end_s + margin_s
    radio = None
    if direction is not None:
        radio = carried_panel(results, same_channel(view.trials), direction, start_s, end_s, 130 if series else 230)
    panels = [panel for panel in (series, radio) if panel is not None and panel.lines]
    if not panels:
        return None
    shades: list[Bar] = shades_of(view.trials)
    strips: list[Strip] = [*radio_strip(shades), *bad_events(results, view, name)]
    return TimeFigure(f"{primary.metric.name} and the radio over time", start_s, end_s, panels, strips, shades)
