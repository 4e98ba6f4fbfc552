"""Made-up folders of campaigns of any size, whose effects are known; only a few trials have a folder."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.result_folders import open_run, write_run

from wavebed.result.model import (
    COUNTED,
    CampaignRecord,
    Group,
    PrimaryRecord,
    RunRecord,
    TrialLine,
    TrialRecord,
    WorkloadRecord,
)
from wavebed.result.tables import SCHEMAS, samples_table
from wavebed.store.disk import new_partial
from wavebed.store.folder import write_trial
from wavebed.store.metrics import COLUMNS
from wavebed.workload.model import Metric, Outcome, Series, TimeSpan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.result.model import Verdict

__all__ = ["Wanted", "write_campaign_folder"]

START = "2026-01-02T03:04:05+00:00"


@dataclass(frozen=True)
class Wanted:
    """A campaign to make up.

    Parameters
    ----------
    factors : mapping
        Levels of each factor; the first one is compared, its first level is the baseline.
    effects : mapping
        Factor by which a level multiplies the metric ``download time``; 1 for others.
    more_metrics : int
        Metrics beside the first two, without effects.
    lost : mapping
        Verdicts by (block, cell) of trials that do not count; each is followed by no other attempt.
    repeated : sequence of (int, str)
        Trials whose first attempt was invalid.
    drifts : float
        Change of the first metric in each block, as a fraction.
    folders : int
        Trials that have a folder with series.
    """

    factors: Mapping[str, Sequence[str]] = field(
        default_factory=lambda: {"queue": ("droptail", "codel"), "delay": ("5ms", "20ms", "50ms")}
    )
    effects: Mapping[str, float] = field(default_factory=lambda: {"codel": 0.8, "20ms": 1.3, "50ms": 2.0})
    blocks: int = 12
    planned: int = 12
    more_metrics: int = 3
    lost: Mapping[tuple[int, str], Verdict] = field(default_factory=dict)
    repeated: Sequence[tuple[int, str]] = ()
    drifts: float = 0.0
    folders: int = 0
    stop: str = "blocks"
    stopped: str = ""
    family: str = "all"
    replicate: str = "channel"
    groups: Sequence[Group] = (Group(),)
    machines: Sequence[str] = ("lab-1",)
    title: str = "Queues over delays"
    primaries: Sequence[PrimaryRecord] = (
        PrimaryRecord("download", "download time", 5.0, "%"),
        PrimaryRecord("ping", "rtt loaded p95", 10.0, "ms"),
    )


def write_campaign_folder(folder: Path, wanted: Wanted) -> Path:
    """Write run.json, metrics.parquet, campaign.toml and the folders of the first trials."""
    cells = [
        ("-".join(levels) or "as-described", dict(zip(wanted.factors, levels, strict=True)))
        for levels in itertools.product(*wanted.factors.values())
    ]
    campaign = CampaignRecord(
        file="/lab/queues.toml",
        text='title = "Queues over delays"\n',
        factors=wanted.factors,
        factor=next(iter(wanted.factors), ""),
        baseline=next(iter(next(iter(wanted.factors.values()), [""]))),
        family=wanted.family,
        primaries=wanted.primaries,
        stop=wanted.stop,
        least_blocks=6,
        attempts=3,
        keep="series",
        inputs={"/lab/queues.toml": "0" * 64},
        replicate=wanted.replicate,
        groups=list(wanted.groups),
        stopped=wanted.stopped,
    )
    record = RunRecord(
        title=wanted.title,
        source="made up for the tests",
        scenario="queues.toml",
        overrides={},
        command_line=["wavebed", "campaign", "run", "queues.toml"],
        started=START,
        seed=1,
        blocks=wanted.planned,
        versions={"wavebed": "0.0", "kernel": "6.1.0", "python": "3.11.2", "curl": "8.1"},
        machine={"processor": "an example", "cores": "2", "memory": "8 GB"},
        workloads=[{"name": "download", "kind": "download"}, {"name": "ping", "kind": "latency"}],
        treatments=[{"name": name, "set": {}, "levels": levels} for name, levels in cells],
        campaign=campaign,
    )
    open_run(folder, record, 'title = "Queues"\n', {"campaign.toml": campaign.text})
    record.trials = _lines(wanted, [name for name, _ in cells])
    record.ended = "2026-01-02T05:04:05+00:00"
    write_run(folder, record)
    _write_metrics(folder, wanted, cells, record.trials)
    for line in record.trials[: wanted.folders]:
        _write_trial(folder, wanted, dict(cells)[line.treatment], line)
    return folder


def _lines(wanted: Wanted, cells: Sequence[str]) -> list[TrialLine]:
    lines = []
    rng = np.random.default_rng(7)
    number = 0
    for block in range(1, wanted.blocks + 1):
        for place in rng.permutation(len(cells)).tolist():
            number += 1
            cell = cells[place]
            name, seed = f"{number:04d}-{cell}", block
            if (block, cell) in wanted.repeated:
                reasons = ["departures in time: p99 900 µs, slot 125 µs"]
                lines.append(TrialLine(name, block, cell, seed, "invalid", reasons))
                lines.append(TrialLine(f"{name}.2", block, cell, seed, "valid", [], 2))
                continue
            verdict = wanted.lost.get((block, cell), "valid")
            lines.append(TrialLine(name, block, cell, seed, verdict, [] if verdict == "valid" else ["curl: (28)"]))
    return lines


def _write_metrics(
    folder: Path, wanted: Wanted, cells: Sequence[tuple[str, Mapping[str, str]]], lines: Sequence[TrialLine]
) -> None:
    """Write the table in the form of `wavebed.store.metrics`: words by dictionary."""
    rng = np.random.default_rng(11)
    count, kinds = len(lines), _metrics(wanted)
    names = [name for name, _ in cells]
    place = {name: index for index, name in enumerate(names)}
    cell = np.array([place[line.treatment] for line in lines])
    block = np.array([line.block for line in lines])
    scale = np.array([np.prod([wanted.effects.get(level, 1.0) for level in levels.values()]) for _, levels in cells])
    of_block = rng.normal(0, 0.1, wanted.blocks + 1)
    time_s = 10 * scale[cell] * np.exp(of_block[block] + rng.normal(0, 0.03, count) + wanted.drifts * block)
    rtt_ms = 40 + 30 * scale[cell] + rng.normal(0, 2, count)
    values = np.column_stack([time_s, rtt_ms, *rng.gamma(4, 5, (len(kinds) - 2, count))]).ravel()
    each, metric = np.repeat(np.arange(count), len(kinds)), np.tile(np.arange(len(kinds)), count)
    if len(wanted.groups) > 1:
        group = np.minimum((block - 1) * len(wanted.groups) // wanted.blocks + 1, len(wanted.groups))
    else:
        group = np.ones(count, np.int32)
    verdicts = [line.verdict for line in lines]

    def words(codes: np.ndarray, texts: Sequence[str]) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(texts, pa.string()))

    columns: dict[str, pa.Array] = {
        "block": pa.array(block[each], pa.int32()),
        "group": pa.array(group[each], pa.int32()),
        "machine": words((block[each] - 1) % len(wanted.machines), wanted.machines),
        "cell": words(cell[each], names),
    }
    for factor, levels in wanted.factors.items():
        codes = np.array([levels.index(its[factor]) for _, its in cells])
        columns[factor] = words(codes[cell[each]], levels)
    columns |= {
        "folder": words(each, [line.folder for line in lines]),
        "attempt": pa.array(np.array([line.attempt for line in lines])[each], pa.int32()),
        "seed": pa.array(block[each], pa.int64()),
        "verdict": pa.array(verdicts, pa.string()).dictionary_encode().take(pa.array(each)),
        "counted": pa.array(np.array([verdict in COUNTED for verdict in verdicts])[each]),
        "workload": words(metric, [kind[0] for kind in kinds]),
        "metric": words(metric, [kind[1] for kind in kinds]),
        "value": pa.array(values, pa.float64()),
        "unit": words(metric, [kind[2] for kind in kinds]),
        "better": words(metric, [kind[3] for kind in kinds]),
        "definition": words(metric, [kind[4] for kind in kinds]),
    }
    assert set(COLUMNS) <= set(columns), "the table has every column of a real one"
    table = pa.table({name: _once(column) for name, column in columns.items()})
    pq.write_table(table, folder / "metrics.parquet", compression="zstd")


def _once(column: pa.Array) -> pa.Array:
    """Return a column whose dictionary has no text twice."""
    if not pa.types.is_dictionary(column.type):
        return column
    texts = column.dictionary.to_pylist()
    known = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    codes = np.array([known[text] for text in texts], np.int32)[column.indices.to_numpy()]
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(list(known), pa.string()))


def _metrics(wanted: Wanted) -> list[tuple[str, str, str, str, str]]:
    kinds = [
        ("download", "download time", "s", "lower", "from the request to the last byte"),
        ("ping", "rtt loaded p95", "ms", "lower", "ICMP, while the path has load"),
    ]
    return kinds + [
        ("path", f"figure {number}", "Mbit/s", "higher" if number % 2 else "neither", f"made up, number {number}")
        for number in range(1, wanted.more_metrics + 1)
    ]


def _write_trial(folder: Path, wanted: Wanted, levels: Mapping[str, str], line: TrialLine) -> None:
    rng = np.random.default_rng(line.block)
    partial = new_partial(folder, line.folder, "mark")
    scale = float(np.prod([wanted.effects.get(level, 1.0) for level in levels.values()]))
    time_ms = np.arange(2000)
    queue = (20_000 * scale * (1 + np.sin(time_ms / 300)) * rng.uniform(0.5, 1, 2000)).astype(np.int64)
    given = {
        "time_ms": time_ms,
        "link": ["radio.down"] * 2000,
        "delivered_bytes": (2000 / scale * rng.uniform(0.5, 1.5, 2000)).astype(np.int64),
        "queue_bytes": queue // 2,
        "queue_peak_bytes": queue,
    }
    at_s = [0.05 * place for place in range(40)]
    rtt = Series("rtt", "ms", at_s, [20 + 10 * scale + rng.normal(0, 1) for _ in at_s])
    tables = {name: schema.empty_table() for name, schema in SCHEMAS.items()}
    tables["links"] = pa.table(
        [pa.array(given[each.name], each.type) if each.name in given else pa.nulls(2000, each.type)
         for each in SCHEMAS["links"]], schema=SCHEMAS["links"],
    )  # fmt: skip
    tables["samples"] = samples_table({"ping": [rtt]})
    for name, table in tables.items():
        pq.write_table(table, partial / "series" / f"{name}.parquet", compression="zstd")
    outcome = Outcome(metrics=[Metric("download time", 10 * scale, "s", "lower")])
    workloads = [WorkloadRecord("download", "download", TimeSpan(0.0, 2.0, True), outcome)]
    record = TrialRecord(
        line.folder, line.block, line.treatment, line.seed, START, 2.5, line.verdict, line.reasons, [], workloads
    )
    write_trial(folder, partial, record, "series")
