"""The metrics of a run over its trials: their rows, the finding in sentences, and the results as text and JSON."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from wavebed.page.text import figure, readable
from wavebed.report.source import headlines, read_results
from wavebed.result.model import COUNTED
from wavebed.stats.intervals import FEWEST, LEVEL, Interval, median_interval, paired_difference
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.report.source import Results
    from wavebed.result.model import TrialLine
    from wavebed.workload.model import Metric

PATH = "path"
"""The workload name of the transport metrics."""
MOST_SENTENCES = 3
KINDS_ORDER = ("web", "video", "call", "voice", "command", "latency", "download", "bulk")
"""Order of the kinds of workloads: user experience first, load last."""
_MOST_SEEDS = 20
_DOTS_WIDE = 150
_DOTS_ROW = 11


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one workload.

    Parameters
    ----------
    metric : Metric
        Its name, unit and definition; its value is one trial's.
    values : dict
        By treatment: block and value of each counted trial with a value.
    absent : dict
        By treatment: number of counted trials without a value.
    factor : float
        What the values were divided by: 1, unless their unit is a larger one than the metric's own.
    """

    metric: Metric
    values: dict[str, list[tuple[int, float]]]
    absent: dict[str, int]
    factor: float = 1.0

    def median(self, treatment: str) -> Interval:
        """Return the median over the trials of a treatment, with its interval."""
        return median_interval([value for _, value in self.values[treatment]])

    def difference(self, first: str, other: str, level: float = LEVEL) -> Interval | None:
        """Return the difference of two treatments paired by seed (Hodges and Lehmann); ``None`` without pairs."""
        base = dict(self.values[first])
        pairs = [(base[block], value) for block, value in self.values[other] if block in base]
        return paired_difference([a for a, _ in pairs], [b for _, b in pairs], level) if pairs else None

    def scaled(self) -> Row:
        """Return the same in a unit for people: many bytes are kB or MB."""
        most = max((abs(value) for pairs in self.values.values() for _, value in pairs), default=0.0)
        unit, factor = readable(self.metric.unit, most)
        if factor == 1:
            return self
        values = {name: [(block, value / factor) for block, value in pairs] for name, pairs in self.values.items()}
        value = None if self.metric.value is None else self.metric.value / factor
        return Row(replace(self.metric, unit=unit, value=value), values, self.absent, factor)

    @property
    def ends(self) -> str:
        """The least and the largest value of all treatments."""
        low, high = self._range
        return f"{figure(low)} to {figure(high)}" if high > low else f"all {figure(low)}"

    @property
    def _range(self) -> tuple[float, float]:
        values = [value for pairs in self.values.values() for _, value in pairs]
        return min(values), max(values)

    def strip(self, treatments: Sequence[str]) -> StripPlot:
        """Return the values of treatments as dots on the scale of all values, a row for each treatment."""
        low, high = self._range
        width = high - low or 1.0
        dots = [
            (treatment, f"{5 + (value - low) / width * (_DOTS_WIDE - 10):.1f}", f"{_DOTS_ROW * (place + 0.5):g}")
            for place, treatment in enumerate(treatments)
            for _, value in self.values[treatment]
        ]
        return StripPlot(_DOTS_WIDE, _DOTS_ROW * len(treatments), f"{len(dots)} values, scale {self.ends}", dots)


class StripPlot(NamedTuple):
    """Dots of values: treatment, x and y of each."""

    wide: int
    high: int
    label: str
    dots: Sequence[tuple[str, str, str]]


def metric_rows(results: Results) -> dict[str, list[Row]]:
    """Return the rows of each workload, of a cell's groups and devices, and of the path under `PATH`, in this order."""
    rows: dict[str, dict[str, Row]] = {}
    for trial in results.counted:
        groups: list[tuple[str, Sequence[Metric]]] = [
            (workload.name, workload.outcome.metrics) for workload in trial.record.workloads
        ]
        for name, metrics in [*groups, *trial.record.devices.items(), (PATH, trial.record.transport)]:
            for metric in metrics:
                blank = Row(metric, {each: [] for each in results.treatments}, dict.fromkeys(results.treatments, 0))
                row = rows.setdefault(name, {}).setdefault(metric.name, blank)
                if metric.value is None:
                    row.absent[trial.line.treatment] += 1
                else:
                    row.values[trial.line.treatment].append((trial.line.block, metric.value))
    of_cell = dict.fromkeys(name for trial in results.counted for name in trial.record.devices)
    single = of_single_devices(results)
    ordered = sorted(of_cell, key=lambda name: name in single)
    order = [*(name for name, _ in results.workloads), *ordered, PATH]
    return {name: list(rows[name].values()) for name in order if name in rows}


MOST_DEVICES = 8
"""With more devices, people are shown the groups alone."""


def of_single_devices(results: Results) -> set[str]:
    """Return the names of the devices of a cell and of their workloads: they may be many."""
    of_devices = [each for each in results.run.record.workloads if "device" in each]
    return {str(each["device"]) for each in of_devices} | {str(each["name"]) for each in of_devices}


def shown_rows(results: Results) -> tuple[dict[str, list[Row]], str]:
    """Return the rows that people are shown, and a sentence about those that they are not."""
    rows = metric_rows(results)
    devices = {str(each["device"]) for each in results.run.record.workloads if "device" in each}
    if len(devices) <= MOST_DEVICES:
        return rows, ""
    single = of_single_devices(results)
    note = f"The tables are of groups. Metrics of each of the {len(devices)} devices are in metrics.parquet."
    return {name: found for name, found in rows.items() if name not in single}, note


def finding(results: Results) -> list[str]:
    """Return a sentence on the main metric of each of the first workloads."""
    rows = metric_rows(results)
    parts = []
    order = sorted(headlines(results), key=lambda head: place_of_kind(dict(results.workloads)[head[0]]))
    for workload, name in order[:MOST_SENTENCES]:
        row = next((row for row in rows.get(workload, ()) if row.metric.name == name), None)
        if row is not None:
            parts.append(_sentence(results, workload, row))
    if not parts:
        return ["No counted trial has a metric; the verdicts below have the reasons."]
    return parts


def place_of_kind(kind: str) -> int:
    """Return the place of a kind of workload among all: the lowest is what a reader asks for first."""
    return KINDS_ORDER.index(kind) if kind in KINDS_ORDER else len(KINDS_ORDER)


def _sentence(results: Results, workload: str, row: Row) -> str:
    unit = f" {row.metric.unit}" if row.metric.unit else ""
    told = []
    counts = {len(row.values[treatment]) for treatment in results.treatments}
    for treatment in results.treatments:
        values = row.values[treatment]
        if not values:
            told.append(f"not measured with {treatment}")
            continue
        who = f" with {treatment}" if len(results.treatments) > 1 else ""
        told.append(f"{figure(row.median(treatment).estimate)}{unit}{who}{_of(len(values)) if len(counts) > 1 else ''}")
    of = _of(counts.pop(), each=len(told) > 1) if len(counts) == 1 else ""
    return f"{workload}: {row.metric.name} {', '.join(told)}{of}{_difference(results, row)}."


def _of(count: int, *, each: bool = False) -> str:
    return f" ({'one trial' if count == 1 else f'median of {count} trials'}{' each' if each else ''})"


def _difference(results: Results, row: Row) -> str:
    """Return text on the paired difference; treatments differ only if its interval excludes 0."""
    if len(results.treatments) != 2:
        return ""
    first, other = results.treatments
    interval = row.difference(first, other)
    if interval is None:
        return ""
    if interval.low is None or interval.high is None:
        return f"; not enough trials to compare ({interval.count} of at least {FEWEST} pairs)"
    bounds = f"95 % interval of the paired difference {figure(interval.low)} to {figure(interval.high)}"
    if interval.low > 0:
        return f"; higher with {other}, {bounds}"
    if interval.high < 0:
        return f"; lower with {other}, {bounds}"
    return f"; no significant difference, {bounds}"


def summary_text(run_dir: Path) -> str:
    """Return a table with a row for every measured metric and a column for every treatment, then the verdicts.

    A cell is the median of the counted trials; with six or more, its 95 % interval is in brackets.

    Raises
    ------
    UserError
        If the folder has no results.
    """
    results = read_results(run_dir)
    lines: list[tuple[str, ...]] = [("", *results.treatments)]
    shown, note = shown_rows(results)
    for workload, rows in shown.items():
        measured = [row for row in rows if any(row.values.values())]
        lines.extend(
            (f"{workload}: {_named(row)}", *(interval_text(row.median(treatment)) for treatment in results.treatments))
            for row in measured
        )
    return "\n".join([table_text(lines), *([note] if note else []), "", *_verdicts(results.run.record.trials)])


def _named(row: Row) -> str:
    return f"{row.metric.name}, {row.metric.unit}" if row.metric.unit else row.metric.name


def interval_text(interval: Interval, write: Callable[[float | None], str] = figure) -> str:
    """Return an estimate, and its interval, if any, in brackets."""
    if interval.low is None or interval.high is None:
        return write(interval.estimate)
    return f"{write(interval.estimate)} [{write(interval.low)}, {write(interval.high)}]"


def _verdicts(trials: Sequence[TrialLine]) -> list[str]:
    counts: dict[tuple[str, str], int] = {}
    for line in trials:
        key = (line.treatment, line.verdict)
        counts[key] = counts.get(key, 0) + 1
    return [
        f"{treatment}: {count} {verdict}{'' if verdict in COUNTED else ', left out'}"
        for (treatment, verdict), count in counts.items()
    ]


def summary_json(run_dir: Path, report: Path | None) -> dict[str, Json]:
    """Return what ``wavebed run --json`` prints: the medians with intervals by workload, metric and treatment.

    Parameters
    ----------
    report : pathlib.Path or None
        Its report; ``None`` if there is none.

    Raises
    ------
    UserError
        If the folder has no results.
    """
    results = read_results(run_dir)
    metrics: list[Json] = []
    for workload, rows in metric_rows(results).items():
        for row in rows:
            by_treatment: dict[str, Json] = {}
            for treatment in results.treatments:
                interval = row.median(treatment)
                by_treatment[treatment] = {
                    "median": interval.estimate,
                    "low": interval.low,
                    "high": interval.high,
                    "level": interval.level,
                    "count": interval.count,
                }
            metrics.append(
                {"workload": workload, "name": row.metric.name, "unit": row.metric.unit, "treatments": by_treatment}
            )
    trials = results.run.record.trials
    verdicts: dict[str, Json] = {}
    for verdict in dict.fromkeys(line.verdict for line in trials):
        verdicts[verdict] = sum(line.verdict == verdict for line in trials)
    return {
        "folder": str(run_dir),
        "trials": len(trials),
        "verdicts": verdicts,
        "metrics": metrics,
        "report": None if report is None else str(report),
    }


def seeds_text(values: Sequence[tuple[int, str, bool]]) -> str:
    """Return seeds with their values, the first ones of many; values that decide nothing are in brackets.

    Parameters
    ----------
    values : sequence of (int, str, bool)
        Seed, value as text, and whether it decides.
    """
    told = [f"{seed}: {text if decides else f'({text})'}" for seed, text, decides in values[:_MOST_SEEDS]]
    left = len(values) - _MOST_SEEDS
    return ", ".join([*told, f"and {left} more"] if left > 0 else told)
