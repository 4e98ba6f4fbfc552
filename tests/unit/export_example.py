"""A run of one trial of 30 ms with a packet log: a wired hop and a radio, three packets down and one up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from tests.result_folders import open_run, write_run

from wavebed.result.model import RunRecord, TrialLine, TrialRecord, WorkloadRecord
from wavebed.result.tables import SCHEMAS, write_tables
from wavebed.store.disk import new_partial
from wavebed.store.folder import write_trial
from wavebed.workload.model import Event, Metric, Outcome, Series, TimeSpan

if TYPE_CHECKING:
    from pathlib import Path

PACKETS = "time_ns,event,packet,is_copy,first,segments,segment_bytes,last_bytes,flow,block\n"
BLOCKS = (
    "slot_ns,decoded_ns,number,attempt,process,carrier,is_fallback,bytes,failed,misheard,awake_ns,granted_ns,"
    "rate_bps,sinr_db,need_db,turn_ns,turn_last_ns,turn_of\n"
)
ZERO_UNIX_NS = 1_795_000_000_000_000_000
WIRED = """\
1000000,entered,1,0,0,3,1500,700,9,
2000000,entered,2,0,0,1,500,500,9,
9000000,delivered,1,0,0,3,1500,700,9,
10000000,delivered,2,0,0,1,500,500,9,
"""
# Packet 1 is sent in block 0, which fails once, and block 1; its segment 1 in pieces. Packet 2 finds no room.
RADIO = """\
9000000,entered,1,0,0,3,1500,700,9,
10000000,entered,2,0,0,1,500,500,9,
10000000,dropped_overflow,2,0,0,1,500,500,9,
9500000,dequeued,1,0,0,1,1500,1500,9,
9500000,dequeued,1,0,1,1,1500,1500,9,
9500000,dequeued,1,0,2,1,1500,700,9,
10000000,sent,1,0,0,2,1500,1500,9,0
10500000,sent,1,0,1,2,1500,700,9,1
12500000,left,1,0,0,3,1500,700,9,
12500000,delivered,1,0,0,3,1500,700,9,
20000000,entered,3,0,0,1,80,80,5,
"""
UPLINK = """\
1000000,entered,1,0,0,1,60,60,9,
2000000,dequeued,1,0,0,1,60,60,9,
3000000,left,1,0,0,1,60,60,9,
5000000,delivered,1,0,0,1,60,60,9,
"""
RADIO_BLOCKS = """\
10500000,11000000,1,1,1,0,0,1450,0,0,9000000,0,1000000,20.5,18,0,0,-1
10000000,10500000,0,1,0,0,0,2250,1,0,9000000,0,1000000,10,18,9600000,9800000,-1
12000000,12500000,0,2,0,0,0,2250,0,1,9000000,0,1000000,20.5,18,0,0,-1
"""


def write_log(folder: Path, packets: dict[str, str], blocks: dict[str, str]) -> Path:
    """Write the packet log of an engine: rows without header, by link."""
    for name, header, texts in (("packets", PACKETS, packets), ("blocks", BLOCKS, blocks)):
        (folder / name).mkdir(parents=True)
        for link in packets:
            (folder / name / f"{link}.csv").write_text(header + texts.get(link, ""))
    return folder


def made_run(tmp_path: Path, *, packet_log: bool = True, raw: dict[str, bytes] | None = None) -> Path:
    """Write the run, and raw outputs by name, and return its folder."""
    folder = tmp_path / "run"
    record = RunRecord("street", "s.toml", "", {}, [], "2026-11-21T10:00:00Z", 1, 1, {"kernel": "6.1"}, {}, [], [])
    open_run(folder, record, "")
    partial = new_partial(folder, "0001-cubic", "mark")
    log = tmp_path / "log"
    log.mkdir()
    links = {"internet.down": WIRED, "radio.down": RADIO, "radio.up": UPLINK}
    if packet_log:
        write_log(log, links, {"radio.down": RADIO_BLOCKS})
    link_names = SCHEMAS["links"].names
    rows = [
        {**dict.fromkeys(link_names, 0), "time_ms": at, "link": link, "delivered_bytes": 125, "queue_bytes": at * 100}
        for link in links
        for at in range(30)
    ]
    for link in links:
        body = "".join(
            ",".join(str(row[name]) for name in link_names if name != "link") + "\n"
            for row in rows
            if row["link"] == link
        )
        (log / f"{link}.csv").write_text(",".join(name for name in link_names if name != "link") + "\n" + body)
    flow = dict.fromkeys(SCHEMAS["flows"].names)
    flows = [
        {
            **flow, "time_ns": at * 10_000_000, "host": "server", "cookie": 2**63 + 1, "local": "198.18.0.1:5201",
            "remote": "198.18.0.2:40000", "congestion": "cubic", "bytes_acked": 200_000 * at, "cwnd_segments": 10 + at,
            "mss_bytes": 1448, "rtt_us": 20_000,
        }
        for at in range(3)
    ]  # fmt: skip
    text = pa.Table.from_pylist(flows, schema=SCHEMAS["flows"]).to_pandas().to_csv(index=False)
    (log / "flows.csv").write_text(text.replace("False", "false"))
    (log / "cpu.csv").write_text("time_ns,core,busy,softirq\n10000000,0,0.5,0.1\n20000000,0,0.25,\n")
    write_tables(
        partial / "series",
        log,
        capacity=[(0.0, "radio.down", 2_000_000, "los"), (0.015, "radio.down", None, None)],
        samples={"ping": [Series("rtt", "ms", [0.001, 0.012], [20.0, float("nan")])]},
        events={
            "radio.down": [Event("state", 0.0, 0.015, "los"), Event("state", 0.015, 0.03, "handover")],
            "ping": [Event("lost", 0.005, None, "probe 3")],
        },
    )
    for name, content in (raw or {}).items():
        file = partial / "raw" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    outcome = Outcome(
        metrics=[Metric("rtt", 20.0, "ms", "lower", 'median, "as ping"'), Metric("loss", None, "%", "lower", "")]
    )
    trial = TrialRecord(
        "0001-cubic", 1, "cubic", 7, "2026-11-21T10:00:01+00:00", 12.0, "valid",
        workloads=[WorkloadRecord("ping", "latency", TimeSpan(0.0, 0.03, False), outcome)],
        engine={"zero_unix_ns": ZERO_UNIX_NS},
    )  # fmt: skip
    write_trial(folder, partial, trial)
    record.trials.append(TrialLine("0001-cubic", 1, "cubic", 7, "valid"))
    write_run(folder, record)
    return folder
