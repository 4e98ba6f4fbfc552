"""The values of the metrics of folders of results, and of samples in a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from wavebed.campaign.harm import kinds_of_devices
from wavebed.errors import UserError
from wavebed.result.model import COUNTED
from wavebed.result.names import METRICS_FILE, METRICS_FOLDER, TRIALS_FOLDER
from wavebed.spec import patterns
from wavebed.stats.intervals import median_interval
from wavebed.store.metrics import factors_of, read_metrics
from wavebed.store.records import PATH_WORKLOAD, read_run, read_trial_metrics
from wavebed.workload.model import Metric

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray

    from wavebed.result.model import CampaignRecord, RunRecord
    from wavebed.stats.intervals import Interval

Key = tuple[str, str]
"""Workload and metric."""
_COLUMNS = ("cell", "seed", "counted", "workload", "metric", "value", "unit", "better", "definition")


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The values of a metric in the counted trials of a treatment.

    Parameters
    ----------
    values : float array, shape (n,)
        Only measured ones.
    seeds : int array, shape (n,)
        Seed of each trial; empty where trials have no seeds.
    """

    values: NDArray[np.float64]
    seeds: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def median(self) -> Interval:
        """The median, and its interval by order statistics."""
        return median_interval(self.values.tolist())

    @property
    def is_constant(self) -> bool:
        """Whether it has at least two values, all the same."""
        return len(self) > 1 and bool((self.values == self.values[0]).all())

    def equals_by_seed(self, other: Sample) -> bool:
        """Return whether both have at least two values, of the same seeds, and each seed the same values."""
        if not 2 <= len(self) == len(other) or not len(self.seeds) == len(other.seeds) == len(self):
            return False
        mine, its = (np.lexsort((each.values, each.seeds)) for each in (self, other))
        return bool((self.seeds[mine] == other.seeds[its]).all() and (self.values[mine] == other.values[its]).all())


EMPTY = Sample(np.empty(0), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """A metric and its samples by treatment; the value of `metric` belongs to no trial."""

    workload: str
    metric: Metric
    samples: Mapping[str, Sample]


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of results.

    Parameters
    ----------
    path : pathlib.Path
        As it was named.
    name : str
        Its name beside the other folders.
    facts : mapping
        Title, changes, machine and versions.
    inputs : frozenset of str
        SHA-256 of the patterns, empty if they are not known.
    treatments : sequence of str
        In the order of the scenario.
    lost : mapping
        By treatment: trials without a counted attempt, and all trials.
    seeds : frozenset of int
        Of all trials.
    unreadable : int
        Counted trials of older results that cannot be read.
    has_ended : bool
        Whether the run has ended.
    campaign : CampaignRecord or None
        Of a campaign.
    series : mapping
        By workload and metric, in the order of their first appearance, the path's metrics last. Metrics without a value
        are left out.
    of_devices : mapping
        The kind of each workload that a device of a cell runs, by name.
    """

    path: Path
    name: str
    facts: Mapping[str, str]
    inputs: frozenset[str]
    treatments: Sequence[str]
    lost: Mapping[str, tuple[int, int]]
    seeds: frozenset[int]
    unreadable: int
    has_ended: bool
    campaign: CampaignRecord | None
    series: Mapping[Key, MetricSeries]
    of_devices: Mapping[str, str] = field(default_factory=dict)

    def sample(self, key: Key, treatment: str | None) -> Sample:
        """Return the values of a metric and treatment."""
        series = self.series.get(key)
        return EMPTY if series is None or treatment is None else series.samples.get(treatment, EMPTY)


def read_samples(path: Path, name: str) -> Folder:
    """Read the values of a run or campaign: from ``metrics.parquet`` or its parts, or of older results from its trials.

    Raises
    ------
    UserError
        If the folder has no run of a scenario, or a file is damaged.
    """
    record = read_run(path)
    if (path / METRICS_FILE).exists() or any((path / METRICS_FOLDER).glob("*.parquet")):
        frame, unreadable = read_metrics(path, factors_of(record), _COLUMNS).to_pandas(), 0
    else:
        frame, unreadable = _of_trials(path, record)
    series = sorted(_series(frame), key=lambda each: each.workload == PATH_WORKLOAD)
    named = [str(treatment["name"]) for treatment in record.treatments]
    treatments = list(dict.fromkeys([*named, *(line.treatment for line in record.trials)]))
    return Folder(
        path=path,
        name=name,
        facts=_facts(record),
        inputs=frozenset(file.name.partition(".")[0] for file in (path / patterns.FOLDER).glob("*")),
        treatments=treatments,
        lost=_lost(record, treatments),
        seeds=frozenset(line.seed for line in record.trials),
        unreadable=unreadable,
        has_ended=record.ended is not None,
        campaign=record.campaign,
        series={(each.workload, each.metric.name): each for each in series},
        of_devices=kinds_of_devices(record.workloads),
    )


def _facts(record: RunRecord) -> dict[str, str]:
    told = {
        "scenario": record.title,
        "changes of the scenario": ", ".join(record.overrides) or "none",
        "processor": record.machine.get("processor", "not known"),
        "cores": record.machine.get("cores", "not known"),
    }
    if record.campaign is not None:
        told["difference between blocks"] = record.campaign.replicate
    return {**told, **record.versions}


def _lost(record: RunRecord, treatments: Sequence[str]) -> dict[str, tuple[int, int]]:
    counted: dict[str, dict[int, bool]] = {name: {} for name in treatments}
    for line in record.trials:
        blocks = counted[line.treatment]
        blocks[line.block] = blocks.get(line.block, False) or line.verdict in COUNTED
    return {name: (list(blocks.values()).count(False), len(blocks)) for name, blocks in counted.items()}


def _of_trials(path: Path, record: RunRecord) -> tuple[pd.DataFrame, int]:
    """Return the metrics of the counted trials, and how many of these cannot be read."""
    import pandas as pd

    rows, unreadable = [], 0
    for line in record.trials:
        if line.verdict not in COUNTED:
            continue
        try:
            found = read_trial_metrics(path / TRIALS_FOLDER / line.folder)
        except UserError:
            unreadable += 1
            continue
        rows += [
            (line.treatment, line.seed, True, workload, each.name, each.value, each.unit, each.better, each.definition)
            for workload, each in found
        ]
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype({"value": "float64", "counted": "bool"}), unreadable


def _series(frame: pd.DataFrame) -> Iterator[MetricSeries]:
    """Yield the metrics of a table in the order of their first appearance."""
    frame = frame[frame["counted"] & frame["value"].notna()]
    if frame.empty:
        return
    workloads, workload = _codes(frame["workload"])
    metrics, metric = _codes(frame["metric"])
    treatments, treatment = _codes(frame["cell"])
    which = workload * len(metrics) + metric
    values, seeds = frame["value"].to_numpy(np.float64), frame["seed"].to_numpy(np.int64)
    units, betters, definitions = (frame[name].to_numpy(object) for name in ("unit", "better", "definition"))
    both = which * len(treatments) + treatment
    order = np.argsort(both, kind="stable")
    starts = np.flatnonzero(np.diff(both[order], prepend=-1))
    samples: dict[int, dict[str, Sample]] = {}
    for rows in np.split(order, starts[1:]):
        mine = samples.setdefault(int(which[rows[0]]), {})
        mine[treatments[treatment[rows[0]]]] = Sample(values[rows], seeds[rows])
    for row in np.sort(np.unique(which, return_index=True)[1]).tolist():
        better = cast("Literal['higher', 'lower', 'neither']", str(betters[row]))
        named = Metric(metrics[metric[row]], None, str(units[row]), better, str(definitions[row]))
        yield MetricSeries(workloads[workload[row]], named, samples[int(which[row])])


def _codes(column: pd.Series[str]) -> tuple[Sequence[str], NDArray[np.int64]]:
    words = column.astype("category").cat
    return [str(each) for each in words.categories], np.asarray(words.codes, dtype=np.int64)
