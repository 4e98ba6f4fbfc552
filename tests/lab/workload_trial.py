"""Run one trial of a scenario as `wavebed run` does: in a guest of virtual time, or in the time of this machine."""

from __future__ import annotations

import gzip
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow.parquet as pq

import wavebed
from wavebed.lab.tools import cache_folder
from wavebed.run.design import ordered
from wavebed.run.resolve import Resolver
from wavebed.run.scenario import read_plan
from wavebed.run.trial import run_trial
from wavebed.workload.model import Event, Series

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Lab
    from wavebed.result.model import TrialRecord, WorkloadRecord
    from wavebed.run.play import RunningWorkload
    from wavebed.run.scenario import Plan
    from wavebed.store.load import Run
    from wavebed.workload.model import Outcome, TimeSpan, TrialContext

    Look = Callable[[Lab, Sequence[RunningWorkload]], None]


KNOWN_PATH = """
[path]
rate = "100mbit"
delay = "20ms"
queue = "droptail:500kb"
congestion-control = "cubic"
"""
"""Its queue is one bandwidth-delay product, 333 packets."""
CONSERVATION = ("no-summary", "unaccounted", "missing")
"""Codes of the checks that hold on any machine, however late it is."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The record of a trial, and the folder of its raw outputs and series."""

    record: TrialRecord
    folder: Path

    def outcome(self, name: str = "") -> Outcome:
        """Return the outcome of a workload, by default of the first."""
        return next(each.outcome for each in self.record.workloads if name in ("", each.name))

    def span(self, name: str = "") -> TimeSpan:
        """Return when a workload ran."""
        span = next(each.span for each in self.record.workloads if name in ("", each.name))
        assert span is not None
        return span

    def metrics(self, name: str = "") -> dict[str, Any]:
        """Return the values of a workload's metrics by name."""
        return {metric.name: metric.value for metric in self.outcome(name).metrics}

    def series(self, series: str, workload: str = "") -> Series:
        """Return a series of a workload."""
        return next(each for each in self.outcome(workload).series if each.name == series)

    def raw(self, name: str) -> str:
        """Return a raw output; that of a stored trial is compressed."""
        file = self.folder / "raw" / name
        return (
            file.read_text()
            if file.exists()
            else gzip.decompress(file.with_name(f"{file.name}.gz").read_bytes()).decode()
        )

    def engine(self, kind: str, name: str) -> dict[str, Any]:
        """Return the engine's counters of one of its ``links``, ``hosts`` or ``departures``."""
        rows = cast("list[dict[str, Any]]", self.record.engine[kind])
        return next(row for row in rows if row["name"] == name)

    def first_packet_s(self) -> float:
        """Return the start of the millisecond in which the first packet entered a link, seconds."""
        rows = pq.read_table(self.folder / "series" / "links.parquet").to_pylist()
        return min(cast("int", row["time_ms"]) for row in rows if row["offered_segments"]) / 1e3


def run_scenario(text: str, folder: Path, look: Look = lambda *_: None, *, seed: int | None = None) -> Trial:
    """Run the first trial of a scenario; `look` is called a few times a second while workloads run."""
    folder.mkdir(exist_ok=True)
    scenario = folder / "scenario.toml"
    scenario.write_text(text)
    plan = read_plan(scenario, seed=seed)
    for workload in plan.treatments[0].workloads:
        workload.prepare(cache_folder())
    slot = ordered(plan.treatments, 1, plan.seed)[0]
    partial = folder / "trial"
    partial.mkdir()
    with closing(Resolver(plan, None)) as resolver, resolver.resolved(slot) as resolved:
        record = run_trial(slot, resolved, partial, look)
    return _judged(plan, Trial(record, partial))


def run_in_virtual_time(text: str, folder: Path, *, seed: int = 1) -> Trial:
    """Run the first trial of a scenario in a guest, whose times are the same on any machine."""
    folder.mkdir(exist_ok=True)
    scenario = folder / "scenario.toml"
    scenario.write_text(text)
    words = ["run", str(scenario), "--virtual-time", "--trials", "1", "--seed", str(seed), "-o", str(folder / "run")]
    done = subprocess.run([sys.executable, "-m", "wavebed", *words], capture_output=True, text=True, check=False)
    assert (folder / "run/trials").is_dir(), done.stderr
    run = cast("Run", wavebed.load(folder / "run"))
    (line,) = run.record.trials
    record = run.trial(line.folder)
    assert {check.code for check in record.checks if not check.holds} <= {"partial"}, record.reasons
    samples, events = (run.arrow(name).to_pylist() for name in ("samples", "events"))
    record = replace(record, workloads=[_with_tables(each, samples, events) for each in record.workloads])
    return _judged(read_plan(scenario, seed=seed), Trial(record, run.path(line.folder)))


def _with_tables(
    workload: WorkloadRecord, samples: list[dict[str, Any]], events: list[dict[str, Any]]
) -> WorkloadRecord:
    """Return a stored workload with its series and events, which are rows of tables."""
    parts: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in samples:
        if row["workload"] == workload.name:
            parts.setdefault((row["series"], row["unit"]), []).append(row)
    series = [
        Series(name, unit, [row["time_s"] for row in rows], [row["value"] for row in rows])
        for (name, unit), rows in parts.items()
    ]
    own = [
        Event(row["name"], row["time_s"], row["end_s"], row["text"] or "", row["value"])
        for row in events
        if row["workload"] == workload.name
    ]
    return replace(workload, outcome=replace(workload.outcome, series=series, events=own))


def _judged(plan: Plan, trial: Trial) -> Trial:
    """Return a trial whose packets are accounted for, and whose metrics are known ones."""
    failed = [check.evidence for check in trial.record.checks if not check.holds and check.code in CONSERVATION]
    assert not failed, failed
    for workload, reported in zip(plan.treatments[0].workloads, trial.record.workloads, strict=True):
        found = {(metric.name, metric.unit) for metric in reported.outcome.metrics}
        known = {(metric.name, metric.unit) for metric in workload.known_metrics()}
        assert workload.prints_metrics or found <= known, found - known
    return trial


def until_done(action: Callable[[Lab, TrialContext], bool]) -> Look:
    """Return a `look` that calls an action on the first workload until the action returns true."""
    done = False

    def look(lab: Lab, running: Sequence[RunningWorkload]) -> None:
        nonlocal done
        done = done or action(lab, running[0].context)

    return look


def link_now(lab: Lab, name: str) -> dict[str, Any]:
    """Return the counters of a link of a laboratory that runs."""
    return next(link for link in cast("list[dict[str, Any]]", lab.show()["links"]) if link["name"] == name)
