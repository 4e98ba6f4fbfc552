"""A folder of results for the tests of the report. Everything in it is made up by simple formulas."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from tests.result_folders import open_run, write_run

from wavebed.result.model import Check, RunRecord, TrialLine, TrialRecord, WorkloadRecord
from wavebed.result.tables import SCHEMAS, capacity_table, events_table, samples_table
from wavebed.store.disk import new_partial
from wavebed.store.folder import write_trial
from wavebed.workload.model import Event, Metric, Outcome, Series, TimeSpan

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.result.model import Verdict

END_S = 40.0
TREATMENTS = ("cubic", "bbr")
STATES = [
    (0.0, 945e6, "los"),
    (2.1, 318e6, "nlos"),
    (12.0, 0.0, "outage"),
    (12.6, 318e6, "nlos"),
    (22.1, 1005e6, "los"),
]
SPANS = {
    "ping": TimeSpan(0.0, 40.0, False),
    "bulk": TimeSpan(5.0, 20.0, True),
    "download": TimeSpan(23.0, 27.5, True),
    "voice": TimeSpan(0.0, 20.0, False),
    "call": TimeSpan(1.0, 21.0, True),
    "video": TimeSpan(1.0, 38.0, True),
    "web": TimeSpan(30.0, 33.0, True),
    "counter": TimeSpan(34.0, 35.0, False),
}
KINDS = {name: name for name in SPANS} | {"ping": "latency", "counter": "command"}
EVIL = '<script>alert("x")</script>'
SCENARIO = f'title = "{EVIL}"\n[[path.hop]]\nname = "radio"\n'


@dataclass(frozen=True)
class Plan:
    """Which trials the folder has."""

    blocks: int = 3
    treatments: tuple[str, ...] = TREATMENTS
    excluded: bool = True
    title: str = "An example of everything"


def write_example(folder: Path, plan: Plan | None = None) -> Path:
    """Write the folder; one trial is invalid and one failed if the plan says so."""
    plan = plan or Plan()
    record = RunRecord(
        title=plan.title,
        source="made up for the tests",
        scenario="example.toml",
        overrides={"path.radio.queue": "droptail:1000p"},
        command_line=["wavebed", "run", "example.toml", "--trials", str(plan.blocks), "--seed", "1"],
        started="2026-01-02T03:04:05+00:00",
        seed=1,
        blocks=plan.blocks,
        versions={"wavebed": "0.0", "kernel": "Linux 6.1.0", "python": "3.11.2", "iperf3": "3.12"},
        machine={"processor": "an example", "cores": "2", "memory": "8 GB"},
        workloads=[{"name": name, "kind": KINDS[name], "settings": {}} for name in SPANS],
        treatments=[{"name": name, "set": {"path.congestion-control": name}} for name in plan.treatments],
    )
    open_run(folder, record, SCENARIO)
    number = 0
    for block in range(1, plan.blocks + 1):
        for index, treatment in enumerate(plan.treatments):
            number += 1
            trial = _trial(folder, number, block, index, treatment, plan)
            record.trials.append(TrialLine(trial.folder, block, treatment, block, trial.verdict, trial.reasons))
    record.ended = "2026-01-02T03:14:05+00:00"
    write_run(folder, record)
    return folder


def _trial(folder: Path, number: int, block: int, index: int, treatment: str, plan: Plan) -> TrialRecord:
    rng = np.random.default_rng(1000 * block + index)
    name = f"{number:04d}-{treatment}"
    partial = new_partial(folder, name, "mark")
    verdict: Verdict = "valid"
    reasons: list[str] = []
    if plan.excluded and (block, index) == (2, 1):
        verdict, reasons = "invalid", ["processor saturated: 98 % of core 0 for 12.1 s"]
    elif plan.excluded and (block, index) == (3, 0):
        verdict, reasons = "failed", [f"download: curl: (52) empty reply from {EVIL}"]
    elif plan.excluded and (block, index) == (3, 1):
        verdict, reasons = "suspect", ["late by more than a slot: p99 310 µs"]
    failed = verdict == "failed"
    workloads = []
    series, events = {}, {}
    for workload, span in SPANS.items():
        if failed and workload == "download":
            outcome = Outcome("failed", "curl: (52) empty reply")
        else:
            outcome = _outcome(workload, index, rng, partial)
        series[workload] = outcome.series
        events[workload] = outcome.events
        workloads.append(WorkloadRecord(workload, KINDS[workload], span, outcome))
    _write_tables(partial / "series", index, rng, series, events)
    trial = TrialRecord(
        folder=name,
        block=block,
        treatment=treatment,
        seed=block,
        started="2026-01-02T03:04:05+00:00",
        wall_s=45.2,
        verdict=verdict,
        reasons=reasons,
        checks=[
            Check("every packet accounted for", True, "invalid", "4 links, 0 unaccounted"),
            Check("a processor was free", verdict != "invalid", "invalid", "busiest core 61 % over a second"),
            Check("departures in time", verdict != "suspect", "suspect", "p99 41 µs, slot 125 µs"),
        ],
        workloads=workloads,
        transport=[
            Metric("capacity share", 70 + 8 * index + rng.normal(0, 1), "%", "higher", "delivered bytes / capacity"),
            Metric("self-inflicted delay p95", 60 - 35 * index + rng.normal(0, 2), "ms", "lower", "one-way, p95"),
            Metric("recovery time", None, "s", "lower", "after each change of state"),
        ],
        engine={"links": [{"name": "radio.down"}, {"name": "radio.up"}]},
        resolved=_resolved(treatment, block),
    )
    write_trial(folder, partial, trial)
    return trial


def _outcome(workload: str, index: int, rng: np.random.Generator, partial: Path) -> Outcome:
    makers = {
        "ping": _ping,
        "bulk": _bulk,
        "download": _download,
        "voice": _voice,
        "call": _call,
        "video": _video,
    }
    if workload == "web":
        return _web(index, rng, partial / "raw" / "web")
    if workload == "counter":
        return Outcome(metrics=[Metric("lines", float(40 + index), "", "neither", "a count of lines")])
    return makers[workload](index, rng)


def _loaded(time_s: float) -> bool:
    return any(span.is_load and span.start_s <= time_s <= span.end_s for span in SPANS.values())


def _ping(index: int, rng: np.random.Generator) -> Outcome:
    time_s = [round(0.05 * place, 3) for place in range(int(END_S / 0.05))]
    value = [
        None if rng.random() < 0.005 else 22 + rng.gamma(2, 0.3) + (_loaded(t) * (80 - 50 * index) * rng.random())
        for t in time_s
    ]
    metrics = [
        Metric("rtt idle p50", 22.3 + rng.normal(0, 0.1), "ms", "lower", "ICMP"),
        Metric("rtt loaded p95", 90 - 50 * index + rng.normal(0, 4), "ms", "lower", "ICMP"),
        Metric(
            "loaded latency increase p95", 67 - 49 * index + rng.normal(0, 4), "ms", "lower", "p95 loaded − p95 idle"
        ),
        *(Metric(f"probe figure {each}", rng.random() * 10, "ms", "lower", "") for each in range(8)),
    ]
    return Outcome(metrics=metrics, series=[Series("rtt", "ms", time_s, value)])


def _bulk(index: int, rng: np.random.Generator) -> Outcome:
    time_s = [5 + 0.1 * place for place in range(150)]
    value = [290 - 20 * index + 10 * math.sin(t) for t in time_s]
    goodput = 280 + 12 * index + rng.normal(0, 3)
    return Outcome(
        metrics=[Metric("goodput", goodput, "Mbit/s", "higher", "iperf3 end.sum_received")],
        series=[Series("goodput down", "Mbit/s", time_s, value)],
    )


def _download(index: int, rng: np.random.Generator) -> Outcome:
    took = 4.2 - 0.3 * index + rng.normal(0, 0.1)
    return Outcome(
        metrics=[
            Metric("goodput", 200e6 * 8 / took / 1e6, "Mbit/s", "higher", "curl size_download / time_total"),
            Metric("download time", took, "s", "lower", "curl time_total"),
            Metric("bytes", 200e6, "bytes", "higher", "curl size_download"),
        ]
    )


def _voice(index: int, rng: np.random.Generator) -> Outcome:
    time_s = [0.02 * place for place in range(1000)]
    return Outcome(
        metrics=[
            Metric("MOS down", 4.1 + 0.1 * index, "", "higher", "ITU-T G.107 (06/2015)"),
            Metric("R down", 84.0, "", "higher", "G.107"),
        ],
        series=[Series("one-way delay down", "ms", time_s, (11 + rng.gamma(2, 2, 1000)).tolist())],
    )


def _call(index: int, rng: np.random.Generator) -> Outcome:
    time_s = [1.0 + place for place in range(20)]
    return Outcome(
        metrics=[Metric("frozen down", 6.0 - 5 * index, "%", "lower", "totalFreezesDuration")],
        series=[
            Series("frame rate down", "1/s", time_s, [30 if not 12 <= t <= 14 else 4 for t in time_s]),
            Series("bitrate down", "Mbit/s", time_s, [min(2.5, 0.3 + t * 0.2) for t in time_s]),
        ],
        events=[Event("freeze", 12.2, 13.4 - index, "down", 1.0)],
    )


def _video(index: int, rng: np.random.Generator) -> Outcome:
    time_s = [1.0 + 0.25 * place for place in range(148)]
    buffer = [max(0.0, 12 - abs(t - 20) * 0.6 - (8 if 12 < t < 15 else 0)) for t in time_s]
    events = [Event("startup", 1.0, 1.9), Event("stall", 12.9, 14.1 - index * 0.5, "buffer empty")]
    events += [Event("switch", 4.0 + 6 * each, None, f"to {each}") for each in range(4)]
    return Outcome(
        metrics=[
            Metric("stalled time", 1.2 - 0.5 * index, "s", "lower", "waiting to playing"),
            Metric("stalls", 1.0, "", "lower"),
        ],
        series=[
            Series("buffer", "s", time_s, buffer),
            Series("bitrate", "Mbit/s", [1.0, 4.0, 10.0, 16.0, 22.0], [1.15, 3.1, 7.94, 2.1, 7.94]),
        ],
        events=events,
    )


def _web(index: int, rng: np.random.Generator, folder: Path) -> Outcome:
    folder.mkdir()
    film: list[Json] = []
    for place in range(12):
        grey = 255 - 15 * place
        Image.new("RGB", (96, 208), (grey, grey, 255)).save(folder / f"film-{place:03d}.jpg")
        name = None if place < 2 else f"film-{place:03d}.jpg"
        film.append({"file": name, "time_ms": 100.0 * place, "percent": min(100, 9 * place)})
    requests: list[Json] = [
        {
            "origin": f"origin-{place % 3}.example",
            "path": f"/object-{place}?q={EVIL}",
            "kind": "stylesheet" if place < 3 else "image",
            "blocking": place < 3,
            "asked_ms": 20.0 * place,
            "dns_ms": None,
            "connect_ms": [20.0 * place + 1, 20.0 * place + 46] if place < 3 else None,
            "tls_ms": [20.0 * place + 23, 20.0 * place + 46] if place < 3 else None,
            "sent_ms": 20.0 * place + (47 if place < 3 else 3),
            "answered_ms": 20.0 * place + 75,
            "end_ms": None if place == 39 else 20.0 * place + 85 + 4 * place,
            "status": 200,
            "protocol": "h2",
            "connection": place % 3 + 1,
            "bytes": 1000 * (place + 1),
            "failed": place == 39,
        }
        for place in range(40)
    ]
    return Outcome(
        metrics=[
            Metric("largest contentful paint", 640.0, "ms", "lower", "last entry"),
            Metric("speed index", 900 - 60 * index + rng.normal(0, 20), "ms", "lower", "speedline 1.4.3"),
            Metric("on load", 1300 - 60 * index + rng.normal(0, 20), "ms", "lower", "navigation timing"),
        ],
        events=[Event("request", 30.0 + 0.02 * place, 30.1 + 0.02 * place, EVIL) for place in range(40)],
        details={"film": film, "requests": requests, "start_s": 30.0},
    )


def _write_tables(
    folder: Path,
    index: int,
    rng: np.random.Generator,
    series: dict[str, object],
    events: dict[str, object],
) -> None:
    count = int(END_S * 1000)
    time_ms = np.arange(count)
    rate = np.zeros(count)
    for start_s, bps, _ in STATES:
        rate[time_ms >= start_s * 1000] = bps
    carries = np.zeros(count, dtype=bool)
    for span in SPANS.values():
        carries |= span.is_load & (time_ms >= 1000 * span.start_s) & (time_ms <= 1000 * span.end_s)
    carried = np.where(carries, rate * (0.7 + 0.1 * index) * rng.uniform(0.6, 1.2, count) / 8000, 0).astype(np.int64)
    queue = np.where(carries, (1_200_000 - 800_000 * index) * rng.uniform(0.2, 1, count), 0).astype(np.int64)
    tables = {
        "links": pa.concat_tables(
            [
                _filled(
                    "links",
                    count,
                    time_ms=time_ms,
                    link=["radio.down"] * count,
                    delivered_bytes=carried,
                    queue_bytes=queue // 2,
                    queue_peak_bytes=queue,
                ),
                _filled(
                    "links",
                    count,
                    time_ms=time_ms,
                    link=["radio.up"] * count,
                    delivered_bytes=carried // 200,
                    queue_bytes=queue * 0,
                    queue_peak_bytes=queue * 0,
                ),
            ]
        ),
        "capacity": capacity_table(
            (start, link, None if link == "internet.down" else int(bps), None if link == "internet.down" else state)
            for link in ("internet.down", "radio.down", "radio.up")
            for start, bps, state in STATES
        ),
        "flows": _flows(index, rng),
        "samples": samples_table(series),  # type: ignore[arg-type]
        "events": events_table(events),  # type: ignore[arg-type]
        "cpu": SCHEMAS["cpu"].empty_table(),
        "departures": SCHEMAS["departures"].empty_table(),
    }
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")


def _flows(index: int, rng: np.random.Generator) -> pa.Table:
    parts = []
    for number, (start_s, end_s, share) in enumerate([(5, 20, 0.5), (5, 20, 0.5), (23, 27.5, 1.0), (1, 38, 0.05)]):
        for host, acked in (("server", 1.0), ("client", 0.0)):
            count = int((end_s - start_s) * 100)
            at = np.arange(count)
            saw = (
                300 * share * (0.4 + 0.6 * ((at % 400) / 400)) if index == 0 else 220 * share + rng.normal(0, 3, count)
            )
            parts.append(
                _filled(
                    "flows",
                    count,
                    time_ns=((start_s + at / 100) * 1e9).astype(np.int64),
                    host=[host] * count,
                    cookie=np.full(count, 2 * number + (host == "client") + 1),
                    local=["10.0.0.1:80"] * count,
                    remote=["10.0.0.2:5000"] * count,
                    cwnd_segments=saw.astype(np.int64),
                    rtt_us=(22_000 + 50_000 * (1 - index * 0.7) * rng.random(count)).astype(np.int64),
                    bytes_acked=(at * 300_000 * share * acked).astype(np.int64),
                )
            )
    return pa.concat_tables(parts)


def _filled(table: str, count: int, **given: object) -> pa.Table:
    """Return a table in which the columns that are not given are null."""
    columns = [
        pa.array(given[field.name], field.type) if field.name in given else pa.nulls(count, field.type)
        for field in SCHEMAS[table]
    ]
    return pa.table(columns, schema=SCHEMAS[table])


def _resolved(treatment: str, block: int) -> dict[str, Json]:
    file = f"patterns/{'0' * 64}.csv"
    queue: dict[str, Json] = {"kind": "droptail", "limit": {"packets": 1000}}
    bottleneck: Json = {"stage": "bottleneck", "rate": {"kind": "pattern", "file": file}, "queue": queue}
    delay: Json = {"stage": "delay", "delay": {"kind": "constant", "delay_ns": 11_000_000}}
    segments: Json = [
        {"name": "internet", "kind": "wired", "down": [delay], "up": [delay]},
        {"name": "radio", "kind": "radio", "down": [bottleneck], "up": [bottleneck]},
    ]
    return {
        "version": 1,
        "title": "Example",
        "source": "",
        "treatment": {"name": treatment, "changes": {}},
        "block": block,
        "seed": block,
        "network": {
            "mtu": 1500,
            "nat": False,
            "coalesce": {"kind": "off"},
            "packet_memory_bytes": None,
            "hosts": [{"name": "server"}, {"name": "client"}],
            "legs": [{"from": "server", "to": "client", "hops": segments}],
        },
        "patterns": {file: {"source": "trace", "name": "/x/kau-e5g-1.csv", "bytes": 1000}},
        "workloads": [
            {
                "name": "download",
                "kind": "download",
                "start_ns": 0,
                "after": None,
                "limit_ns": 60_000_000_000,
                "server": "server",
                "client": "client",
                "options": {"size": "2mb"},
            }
        ],
    }
