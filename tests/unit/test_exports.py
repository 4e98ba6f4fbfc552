"""Trials for other programs: CSV, qlog, flent, and Perfetto."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow.parquet as pq
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
from tests.result_folders import open_run, write_run
from tests.unit.export_example import ZERO_UNIX_NS, made_run

from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.export.flent import export_flent
from wavebed.export.perfetto import export_perfetto
from wavebed.export.qlog import export_qlog
from wavebed.export.trace_file import Lanes, TraceFile
from wavebed.export.trial import NAMES, TimeWindow, export_csv, open_trial, table_csv
from wavebed.result.model import RunRecord, TrialLine, TrialRecord, WorkloadRecord
from wavebed.result.names import CELL_TABLES, TABLES
from wavebed.result.tables import SCHEMAS, write_tables
from wavebed.store.disk import new_partial
from wavebed.store.folder import write_trial
from wavebed.workload.model import Outcome, Series, TimeSpan

if TYPE_CHECKING:
    from pathlib import Path


def test_every_table_is_a_file_that_pandas_reads_as_it_was(tmp_path: Path) -> None:
    trial = open_trial(made_run(tmp_path))
    assert export_csv(trial, tmp_path / "csv") == [name for name in NAMES if name not in CELL_TABLES]
    for name in (*TABLES, "blocks"):
        frame = pd.read_csv(tmp_path / "csv" / f"{name}.csv")
        table = trial.table(name).to_pandas()
        assert list(frame.columns) == list(table.columns)
        pd.testing.assert_frame_equal(_known(frame), _known(table), check_dtype=False)


def _known(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype(object).where(frame.notna(), None)


def test_a_missing_value_is_empty_and_a_list_is_text(tmp_path: Path) -> None:
    trial = open_trial(made_run(tmp_path))
    metrics = table_csv(trial, "metrics").decode().splitlines()
    assert metrics[1] == '"0001-cubic",1,"cubic",7,"valid","ping","rtt",20,"ms","lower","median, ""as ping"""'
    assert metrics[2] == '"0001-cubic",1,"cubic",7,"valid","ping","loss",,"%","lower",""'
    lines = table_csv(trial, "packets").decode().splitlines()
    assert lines[0].endswith('"drop_reason","blocks","transmissions"')
    of_radio = [line for line in lines if line.startswith('"radio.down"')]
    assert of_radio[1].endswith(',12500000,,,,,"0 1",3')
    assert of_radio[3].endswith(',10000000,,,"overflow",,')


def test_a_trial_without_a_packet_log_has_the_other_tables(tmp_path: Path) -> None:
    trial = open_trial(made_run(tmp_path, packet_log=False))
    assert export_csv(trial, tmp_path / "csv") == ["metrics", *TABLES]
    with pytest.raises(UserError, match="no packet log"):
        table_csv(trial, "packets")


def test_one_table_goes_to_standard_output_or_a_file(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    run = str(made_run(tmp_path))
    assert main(["export", run, "--format", "csv", "--table", "cpu"]) == 0
    expected = b'"time_ns","core","busy","softirq"\n10000000,0,0.5,0.1\n20000000,0,0.25,\n'
    assert capfdbinary.readouterr().out == expected
    file = tmp_path / "cpu.csv"
    assert main(["export", run, "--format", "csv", "--table", "cpu", "-o", str(file)]) == 0
    assert file.read_bytes() == expected
    assert main(["export", run, "--format", "csv", "--table", "cores"]) == 2
    assert b"--table: 'cores' is no table: it must be one of metrics, links, " in capfdbinary.readouterr().err


def test_the_folder_is_named_after_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_run(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(run / "trials" / "0001-cubic"), "--format", "csv"]) == 0
    assert (tmp_path / "0001-cubic-csv" / "links.csv").is_file()
    assert capsys.readouterr().err.startswith("0001-cubic-csv: metrics, links, departures, ")


ZERO_MS = ZERO_UNIX_NS // 10**6


def sequence(head: dict[str, object], events: list[dict[str, object]]) -> bytes:
    return b"".join(b"\x1e" + json.dumps(record).encode() + b"\n" for record in (head, *events))


def old(common: dict[str, object], times: list[float]) -> bytes:
    """As quic-go wrote it: qlog 0.3, a JSON text sequence."""
    head = {
        "qlog_version": "0.3", "qlog_format": "JSON-SEQ",
        "trace": {"vantage_point": {"type": "client"}, "common_fields": common},
    }  # fmt: skip
    return sequence(head, [{"time": at, "name": "transport:packet_sent", "data": {"raw": 1}} for at in times])


def new(common: dict[str, object], times: list[float]) -> bytes:
    """The current draft, one JSON object."""
    events = [{"time": at, "name": "quic:packet_sent", "data": {}} for at in times]
    trace = {"vantage_point": {"type": "server"}, "common_fields": common, "events": events}
    return json.dumps({
        "file_schema": "urn:ietf:params:qlog:file:contained", "serialization_format": "application/qlog+json",
        "traces": [trace, {"error_description": "no file", "uri": "x"}],
    }).encode()  # fmt: skip


def merged(tmp_path: Path, raw: dict[str, bytes]) -> tuple[dict[str, object], list[str]]:
    trial = open_trial(made_run(tmp_path, raw=raw))
    file = tmp_path / "all.qlog"
    found = export_qlog(trial, file)
    document = json.loads(file.read_text())
    assert found.traces == len(document["traces"])
    assert found.events == sum(len(trace["events"]) for trace in document["traces"])
    return document, found.unmoved


def times(trace: dict[str, object]) -> list[float]:
    return [event["time"] for event in trace["events"]]


def test_relative_times_of_two_files_are_moved_to_time_zero(tmp_path: Path) -> None:
    raw = {
        "get/a.sqlog": old({"time_format": "relative", "reference_time": ZERO_MS + 500.25, "ODCID": "aa"}, [0, 1.5]),
        "get/b.qlog": old({"time_format": "relative", "reference_time": ZERO_MS - 100}, [100.5]),
    }
    document, unmoved = merged(tmp_path, raw)
    assert unmoved == []
    assert (document["qlog_version"], document["qlog_format"]) == ("0.3", "JSON")
    first, second = document["traces"]
    assert times(first) == [500.25, 501.75]
    assert times(second) == [0.5]
    assert first["common_fields"] == {"time_format": "relative", "reference_time": ZERO_MS, "ODCID": "aa"}
    assert first["events"][0]["data"] == {"raw": 1}, "events stay as they are"
    assert first["vantage_point"] == {"type": "client"}


def test_absolute_and_delta_times_are_moved_too(tmp_path: Path) -> None:
    raw = {
        "a.qlog": old({}, [ZERO_MS + 3.0, ZERO_MS + 4.0]),
        "b.qlog": old({"time_format": "delta"}, [ZERO_MS + 3.0, 0.5, 2.0]),
    }
    document, _ = merged(tmp_path, raw)
    assert [times(trace) for trace in document["traces"]] == [[3.0, 4.0], [3.0, 3.5, 5.5]]


def test_the_current_draft_keeps_its_form_with_the_epoch_at_time_zero(tmp_path: Path) -> None:
    reference = {"clock_type": "monotonic", "epoch": "unknown", "wall_clock_time": "2026-11-18T11:06:40.250Z"}
    document, unmoved = merged(tmp_path, {"a.qlog": new({"reference_time": reference}, [10.0])})
    assert unmoved == []
    assert document["file_schema"] == "urn:ietf:params:qlog:file:contained"
    trace = document["traces"][0]
    assert times(trace) == [260.0]
    assert trace["common_fields"]["reference_time"] == {"clock_type": "system", "epoch": "2026-11-18T11:06:40.000000Z"}
    assert trace["common_fields"]["time_format"] == "relative_to_epoch"


@pytest.mark.parametrize(
    "common",
    [{"time_format": "relative"}, {"time_format": "relative", "reference_time": 77_000}, {"time_format": "sundial"}],
)
def test_a_file_whose_clock_is_not_known_keeps_its_times_and_is_named(
    tmp_path: Path, common: dict[str, object]
) -> None:
    document, unmoved = merged(tmp_path, {"get/a.sqlog": old(common, [5.0])})
    assert unmoved == ["get/a.sqlog.gz"]
    assert times(document["traces"][0]) == [5.0]
    assert document["traces"][0]["common_fields"] == common


def test_lines_of_json_and_an_incomplete_last_record_are_read(tmp_path: Path) -> None:
    lines = old({}, [ZERO_MS + 1.0]).replace(b"\x1e", b"")
    cut = old({}, [ZERO_MS + 1.0]) + b'\x1e{"time": 17'
    document, _ = merged(tmp_path, {"a.sqlog": lines, "b.sqlog.gz": gzip.compress(cut)})
    assert [times(trace) for trace in document["traces"]] == [[1.0], [1.0]]


def test_what_is_no_qlog_is_named(tmp_path: Path) -> None:
    for number, content in enumerate((b"", b"[1]", b"{}", b'\x1e{"qlog_version": "0.3"}\n\x1e7\n\x1e{}\n')):
        folder = tmp_path / str(number)
        folder.mkdir()
        trial = open_trial(made_run(folder, raw={"a.qlog": content}))
        with pytest.raises(UserError, match=r"a\.qlog\.gz: is no qlog file"):
            export_qlog(trial, folder / "x.qlog")


def test_versions_are_not_mixed(tmp_path: Path) -> None:
    trial = open_trial(made_run(tmp_path, raw={"a.qlog": old({}, [1.0]), "b.qlog": new({}, [1.0])}))
    with pytest.raises(UserError, match=r"different versions \(a\.qlog\.gz in 0\.3, b\.qlog\.gz in the current one\)"):
        export_qlog(trial, tmp_path / "x.qlog")


def test_a_trial_without_qlog_says_what_would_write_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made_run(tmp_path)
    assert main(["export", str(run), "--format", "qlog", "-o", str(tmp_path / "x.qlog")]) == 2
    line = capsys.readouterr().err
    assert "no workload has written a qlog file (raw/…/*.qlog, *.sqlog): run a QUIC program that writes them" in line
    assert not (tmp_path / "x.qlog").exists()


def flow_rows(host: str, cookie: int, mbit_s: float) -> list[dict[str, object]]:
    empty = dict.fromkeys(SCHEMAS["flows"].names)
    return [
        {
            **empty,
            "time_ns": sample * 10_000_000,
            "host": host,
            "cookie": cookie,
            "remote": "198.18.0.2:40000",
            "bytes_acked": round(mbit_s * 1e6 / 8 * sample / 100),
        }
        for sample in range(1001)
    ]


def made(tmp_path: Path, flows: list[tuple[str, float]], rtt_ms: float | None, trials: int = 1) -> Path:
    """A run whose trials have flows (host that sends, Mbit/s) for 10 s, and a ping every 200 ms."""
    folder = tmp_path / "run"
    record = RunRecord("street", "s.toml", "", {}, [], "2026-11-21T10:00:00Z", 1, 1, {"kernel": "6.1"}, {}, [], [])
    open_run(folder, record, "")
    for number in range(1, trials + 1):
        name = f"{number:04}-cubic"
        partial = new_partial(folder, name, "mark")
        times = [probe * 0.2 + 0.1 for probe in range(50)]
        pings = {} if rtt_ms is None else {"ping": [Series("rtt", "ms", times, [rtt_ms] * 50)]}
        tables = write_tables(partial / "series", None, capacity=(), samples=pings, events={})
        rows = [row for cookie, (host, rate) in enumerate(flows) for row in flow_rows(host, cookie, rate)]
        pq.write_table(tables["flows"].from_pylist(rows, schema=SCHEMAS["flows"]), partial / "series/flows.parquet")
        trial = TrialRecord(
            name, 1, "cubic", 7, "2026-11-21T10:00:01+00:00", 12.0, "valid",
            workloads=[WorkloadRecord("ping", "latency", TimeSpan(0.0, 10.0, False), Outcome())],
        )  # fmt: skip
        write_trial(folder, partial, trial)
        record.trials.append(TrialLine(name, 1, "cubic", 7, "valid"))
    write_run(folder, record)
    return folder


def test_a_step_without_a_ping_is_null_in_the_file(tmp_path: Path) -> None:
    run = made(tmp_path, [("server", 30.0)], None)
    file = tmp_path / "street.flent.gz"
    export_flent(open_trial(run), file)
    data = json.loads(gzip.decompress(file.read_bytes()))
    assert data["version"] == 4
    assert "Ping (ms) ICMP" not in data["results"]
    assert all(len(values) == len(data["x_values"]) for values in data["results"].values())


def test_a_trial_is_named_where_there_are_several(tmp_path: Path) -> None:
    run = made(tmp_path, [], 40.0, trials=2)
    file = tmp_path / "street.flent.gz"
    with pytest.raises(UserError, match=r"has 2 trials: name one by --trial \(0001-cubic, 0002-cubic\)"):
        export_flent(open_trial(run), file)
    assert export_flent(open_trial(run, "0002-cubic"), file) == "ping"
    assert export_flent(open_trial(run / "trials" / "0001-cubic"), file) == "ping"


def test_what_flent_could_not_plot_is_refused(tmp_path: Path) -> None:
    run = made(tmp_path, [], None)
    with pytest.raises(UserError, match="neither TCP flows nor pings"):
        export_flent(open_trial(run), tmp_path / "a.flent.gz")
    with pytest.raises(UserError, match=r"the ending \.flent\.gz"):
        export_flent(open_trial(run), tmp_path / "a.json")


def test_the_command_says_which_test_it_wrote_on_standard_error(tmp_path: Path, capsys) -> None:
    run = made(tmp_path, [("server", 30.0)], 40.0)
    file = tmp_path / "street.flent.gz"
    assert main(["export", str(run), "-o", str(file)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"{file}: as flent's test tcp_ndown\n"
    assert main(["export", str(tmp_path), "-o", str(file)]) == 2


MS = 1_000_000


@dataclass
class Read:
    """What a trace has, by its own names."""

    tracks: dict[int, tuple[str, int]] = field(default_factory=dict)
    slices: list[tuple[str, str, int, int, dict[str, object], list[int], list[int]]] = field(default_factory=list)
    counters: dict[str, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))
    flows: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))

    def path(self, track: int) -> str:
        """``link radio.down/packets queued``."""
        name, parent = self.tracks[track]
        return f"{self.path(parent)}/{name}" if parent else name

    def on(self, path: str) -> list[tuple[str, float, float]]:
        """Name, begin and end (ms) of the slices and instants of a track."""
        return [(each[1], each[2] / MS, each[3] / MS) for each in self.slices if each[0] == path]


def read(content: bytes) -> Read:
    """Read a trace as Perfetto's importer does, and check the rules of the format."""
    trace = Trace.FromString(content)
    found = Read()
    texts: dict[str, dict[int, str]] = defaultdict(dict)
    open_slices: dict[int, list[object]] = {}
    last_ns = 0
    ended = set()
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            assert descriptor.uuid not in found.tracks
            assert not descriptor.parent_uuid or descriptor.parent_uuid in found.tracks
            found.tracks[descriptor.uuid] = (descriptor.name, descriptor.parent_uuid)
        for entry in packet.interned_data.event_names:
            texts["name"][entry.iid] = entry.name
        for entry in packet.interned_data.debug_annotation_names:
            texts["key"][entry.iid] = entry.name
        for entry in packet.interned_data.debug_annotation_string_values:
            texts["text"][entry.iid] = entry.str.decode()
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        assert packet.timestamp >= last_ns, "times are monotone"
        last_ns = packet.timestamp
        path = found.path(event.track_uuid)
        if event.type == TrackEvent.TYPE_COUNTER:
            found.counters[path].append((packet.timestamp, event.double_counter_value))
            continue
        if event.type == TrackEvent.TYPE_SLICE_END:
            found.slices.append((*open_slices.pop(event.track_uuid), packet.timestamp))
            continue
        arguments = {}
        for note in event.debug_annotations:
            kind = note.WhichOneof("value")
            value = getattr(note, kind)
            arguments[texts["key"][note.name_iid]] = texts["text"][value] if kind == "string_value_iid" else value
        name = texts["name"][event.name_iid]
        for flow in (*event.flow_ids, *event.terminating_flow_ids):
            assert flow not in ended, "nothing follows the end of a flow"
            found.flows[flow].append(name)
        ended.update(event.terminating_flow_ids)
        begun = (path, name, packet.timestamp, arguments, list(event.flow_ids), list(event.terminating_flow_ids))
        if event.type == TrackEvent.TYPE_INSTANT:
            found.slices.append((*begun, packet.timestamp))
        else:
            assert event.track_uuid not in open_slices, "slices of a track do not overlap"
            open_slices[event.track_uuid] = begun
    assert not open_slices, "every slice ends"
    found.slices = [(path, name, begin, end, *rest) for path, name, begin, *rest, end in found.slices]
    return found


def exported(tmp_path: Path, window: TimeWindow | None = None, **options) -> Read:
    trial = open_trial(made_run(tmp_path, **options))
    file = tmp_path / "a.perfetto-trace"
    export_perfetto(trial, file, window or trial.window(None, None))
    return read(file.read_bytes())


def test_a_packet_goes_through_queue_blocks_and_repetitions_to_its_delivery(tmp_path: Path) -> None:
    trace = exported(tmp_path)
    radio = "link radio.down"
    assert trace.on(f"{radio}/packets queued")[:3] == [("queued", 9, 9.5)] * 3
    assert trace.on(f"{radio}/transport blocks") == [
        ("transport block, failed", 10, 10.5),
        ("transport block", 10.5, 11),
    ]
    assert trace.on(f"{radio}/HARQ retransmissions") == [("retransmission", 12, 12.5)]
    assert trace.on(f"{radio}/in-order delivery") == [("waits for earlier packets", 11, 12.5)]
    assert trace.on(f"{radio}/delivery") == [("delivery", 12.5, 12.5)] * 3
    assert trace.on(f"{radio}/drops") == [("dropped: overflow", 10, 10)]
    chains = sorted(trace.flows.values(), key=lambda chain: (len(chain), chain))
    assert chains == [
        ["queued", "dropped: overflow"],
        ["queued", "sent", "delivery"],
        ["queued", "transport block", "waits for earlier packets", "delivery"],
        ["queued", "transport block, failed", "retransmission", "delivery"],
        ["queued", "transport block, failed", "transport block", "retransmission", "delivery"],
    ]


def test_a_slice_says_what_it_is_of(tmp_path: Path) -> None:
    trace = exported(tmp_path)
    block = next(each for each in trace.slices if each[1] == "retransmission")
    assert block[4] == {
        "block": 0, "transmission": 2, "bytes": 2250, "HARQ process": 0, "carrier": 0, "channel rate (Mbit/s)": 1.0,
        "SINR (dB)": 20.5, "SINR for 10 % errors (dB)": 18.0, "feedback": "wrong",
    }  # fmt: skip
    queued = next(each for each in trace.slices if each[0] == "link radio.down/packets queued")
    assert queued[4] == {"packet": 1, "first segment": 0, "segments": 1, "bytes": 1500}


def test_a_link_without_a_queue_has_deliveries_only(tmp_path: Path) -> None:
    trace = exported(tmp_path)
    paths = {each[0] for each in trace.slices if each[0].startswith("link internet.down")}
    assert paths == {"link internet.down/delivery"}
    assert trace.on("link internet.down/delivery") == [("delivery", 1, 9), ("delivery", 2, 10)]


def test_a_link_without_blocks_has_the_time_of_its_server(tmp_path: Path) -> None:
    trace = exported(tmp_path)
    on = [trace.on(f"link radio.up/{name}") for name in ("packets queued", "transmission", "delivery")]
    assert on == [[("queued", 1, 2)], [("sent", 2, 3)], [("delivery", 3, 5)]]


def test_states_workloads_and_events_are_slices(tmp_path: Path) -> None:
    trace = exported(tmp_path)
    assert trace.on("link radio.down/state") == [("los", 0, 15), ("handover", 15, 30)]
    assert trace.on("workload ping/run") == [("ping", 0, 30)]
    assert trace.on("workload ping/lost") == [("probe 3", 5, 5)]


def test_counters_have_queue_rates_tcp_and_samples(tmp_path: Path) -> None:
    counters = exported(tmp_path).counters
    assert counters["link radio.down/capacity"] == [(0, 2.0)]
    assert counters["link radio.down/queue"][:3] == [(MS, 0), (2 * MS, 100), (3 * MS, 200)]
    assert counters["link radio.down/delivered"] == [(0, 1.0)], "125 bytes in each millisecond: it does not change"
    tcp = "TCP of server: 198.18.0.1:5201 to 198.18.0.2:40000, cubic"
    assert counters[f"{tcp}/cwnd"] == [(0, 14480), (10 * MS, 15928), (20 * MS, 17376)]
    assert counters[f"{tcp}/RTT"] == [(0, 20.0)]
    assert counters["workload ping/rtt"] == [(MS, 20.0)], "a missing sample is not 0"
    assert counters["processors/processor 0"] == [(0, 50.0), (10 * MS, 25.0)]


SINR = """# wavebed pattern 1
# kind = steps
# duration_s = 0.02
time_s,rate_bps,sinr_db,need_db
0,1000000,20.5,18
0.004,1000000,-3.25,-4
"""


def test_the_sinr_is_that_of_the_stored_pattern_from_its_start_on(tmp_path: Path) -> None:
    (tmp_path / "walk.csv").write_text(SINR)
    path = '[path]\ntrace = "walk.csv"\nstart-at = "1ms"\nradio = "nr-30khz"\n'
    (tmp_path / "s.toml").write_text(f'{path}[[workload]]\nkind = "latency"\nduration = "30ms"\n')
    run = made_run(tmp_path)
    assert main(["resolve", str(tmp_path / "s.toml"), "-o", str(run / "spec.json")]) == 0
    (run / "spec.json").rename(run / "trials" / "0001-cubic" / "spec.json")
    steps = [(0, 20.5), (3 * MS, -3.25), (19 * MS, 20.5), (23 * MS, -3.25)]
    assert exported_again(tmp_path, TimeWindow(0, 30 * MS)).counters["link radio.down/SINR"] == steps
    later = exported_again(tmp_path, TimeWindow(5 * MS, 20 * MS)).counters["link radio.down/SINR"]
    assert later == [(5 * MS, -3.25), (19 * MS, 20.5)]


def test_a_window_has_the_packets_that_are_in_a_link_meanwhile_and_these_whole(tmp_path: Path) -> None:
    trace = exported(tmp_path, TimeWindow(12 * MS, 13 * MS))
    assert [each[2:4] for each in trace.slices if each[1] == "queued"] == [(9 * MS, 9_500_000)] * 3
    assert len(trace.on("link radio.down/transport blocks")) == 2, "the blocks of these packets"
    assert trace.on("link internet.down/delivery") == []
    assert trace.counters["link radio.down/queue"] == [(12 * MS, 1100)], "that at its begin"
    later = exported_again(tmp_path, TimeWindow(13 * MS, 14 * MS))
    assert [each for each in later.slices if each[1] != "ping" and "state" not in each[0]] == []


def exported_again(tmp_path: Path, window: TimeWindow) -> Read:
    file = tmp_path / "b.perfetto-trace"
    export_perfetto(open_trial(tmp_path / "run"), file, window)
    return read(file.read_bytes())


def test_what_a_trace_says_of_itself_is_what_it_has(tmp_path: Path) -> None:
    trial = open_trial(made_run(tmp_path))
    file = tmp_path / "a.perfetto-trace.gz"
    found = export_perfetto(trial, file, trial.window(None, None))
    content = gzip.decompress(file.read_bytes())
    trace = read(content)
    assert (found.segments, found.blocks) == (4 + 5 + 1, 3)
    assert found.events == len(trace.slices) + sum(map(len, trace.counters.values()))
    assert found.bytes == file.stat().st_size


def test_a_trace_that_would_be_too_large_is_refused_and_nothing_written(tmp_path: Path) -> None:
    trial = open_trial(made_run(tmp_path))
    file = tmp_path / "a.perfetto-trace"
    with pytest.raises(UserError, match=r"0 s to 0\.03 s has more than 20 events: choose a shorter part by --from"):
        export_perfetto(trial, file, trial.window(None, None), 20)
    assert not file.exists()


def test_a_part_outside_the_trial_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"1 s to 0\.03 s is no part of the trial, which ends at 0\.03 s"):
        open_trial(made_run(tmp_path)).window(10**9, None)


def test_the_command_says_what_it_wrote_and_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.perfetto-trace"
    run = made_run(tmp_path, packet_log=False)
    assert main(["export", str(run), "--format", "perfetto", "--to", "20ms", "-o", str(file)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    missing, told = captured.err.splitlines()
    assert missing.startswith("wavebed export: the trial has no packet log, so the trace has no packets")
    assert told.startswith(f"{file}: 0 s to 0.02 s, 0 wire segments, 0 radio blocks, ")
    assert read(file.read_bytes()).on("workload ping/run") == [("ping", 0, 30)]
    assert main(["export", str(run), "--from", "1s", "-o", str(tmp_path / "a.flent.gz")]) == 2
    assert capsys.readouterr().err == "wavebed: --from: fits --format perfetto only: add that, or leave it out\n"


def test_overlapping_slices_take_as_few_tracks_as_they_need() -> None:
    trace = TraceFile(100, "too many")
    group = trace.group("link")
    lanes = Lanes(trace, "queue", group)
    for begin, end in ((0, 10), (1, 5), (5, 6), (5, 20), (10, 11)):
        lanes.slice((begin, end), "queued")
    found = read(trace.content())
    assert list(found.tracks.values()) == [("link", 0), ("queue", 1), ("queue", 1), ("queue", 1)]
    assert len(found.on("link/queue")) == 5
