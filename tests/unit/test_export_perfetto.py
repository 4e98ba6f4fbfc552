"""Trials as traces of Perfetto, read back by the messages of its own package."""

from __future__ import annotations

import gzip
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
from tests.unit.export_example import made_run

from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.export.perfetto import export_perfetto
from wavebed.export.trace_file import Lanes, TraceFile
from wavebed.export.trial import Window, open_trial

if TYPE_CHECKING:
    from pathlib import Path

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


def exported(tmp_path: Path, window: Window | None = None, **options) -> Read:
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
    assert exported_again(tmp_path, Window(0, 30 * MS)).counters["link radio.down/SINR"] == steps
    later = exported_again(tmp_path, Window(5 * MS, 20 * MS)).counters["link radio.down/SINR"]
    assert later == [(5 * MS, -3.25), (19 * MS, 20.5)]


def test_a_window_has_the_packets_that_are_in_a_link_meanwhile_and_these_whole(tmp_path: Path) -> None:
    trace = exported(tmp_path, Window(12 * MS, 13 * MS))
    assert [each[2:4] for each in trace.slices if each[1] == "queued"] == [(9 * MS, 9_500_000)] * 3
    assert len(trace.on("link radio.down/transport blocks")) == 2, "the blocks of these packets"
    assert trace.on("link internet.down/delivery") == []
    assert trace.counters["link radio.down/queue"] == [(12 * MS, 1100)], "that at its begin"
    later = exported_again(tmp_path, Window(13 * MS, 14 * MS))
    assert [each for each in later.slices if each[1] != "ping" and "state" not in each[0]] == []


def exported_again(tmp_path: Path, window: Window) -> Read:
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
