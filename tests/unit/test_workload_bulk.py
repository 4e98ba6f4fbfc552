"""The keys of `bulk`, and what is made of iperf3's output."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.config.problems import Problem
from wavebed.workload import read_workload
from wavebed.workload.bulk import Bulk, BulkFlows, goodput_series
from wavebed.workload.parsers import read_end, shortfall


def bulk(**keys: object) -> Bulk:
    workload = read_workload({"kind": "bulk", **{key.replace("_", "-"): value for key, value in keys.items()}})
    assert isinstance(workload, Bulk)
    return workload


def interval(socket: int, start: float, end: float, size: int, *, sender: bool, **more: object) -> dict[str, object]:
    return {"socket": socket, "start": start, "end": end, "bytes": size, "omitted": False, "sender": sender, **more}


def document(*streams: dict[str, object], **more: object) -> str:
    start = {"timestamp": {"timesecs": 1000}, "connected": [{"local_host": "a", "local_port": 1}]}
    return json.dumps({"start": start, "intervals": [{"streams": list(streams)}], "end": {}, **more})


def test_by_default_one_stream_flows_down_for_ten_seconds() -> None:
    assert bulk().client_options() == ["-t", "10", "-P", "1", "-R"]


def test_keys_become_options_of_iperf3() -> None:
    assert bulk(duration="2s", streams=4, direction="both", congestion_control="bbr").client_options() == [
        *("-t", "2", "-P", "4", "--bidir", "-C", "bbr")
    ]
    assert bulk(direction="up", protocol="udp", rate="5mbit").client_options() == [
        *("-t", "10", "-P", "1", "-u", "-b", "5000000")
    ]


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"duration": "1500ms"}, "duration: '1500ms' is not a duration for iperf3: write whole seconds"),
        ({"duration": "0s"}, "duration: '0s' is not a duration for iperf3"),
        ({"streams": 0}, "streams: 0 is out of range"),
        ({"direction": "left"}, "direction: 'left' is not a choice"),
        ({"protocol": "udp"}, "rate: is missing: UDP needs the rate"),
        ({"rate": "5mbit"}, "rate: is for UDP"),
        ({"protocol": "udp", "rate": "5mbit", "congestion_control": "bbr"}, "congestion-control: is for TCP"),
        ({"congestion_control": "no; such"}, "congestion-control: 'no; such' is not a name"),
        ({"duration": 10}, "duration: 10 has no unit"),
        ({"duration": "2s", "settle": "2s"}, "settle: is not below the duration of 2s"),
        ({"stream": 4}, "stream: unknown key: did you mean 'streams'?"),
    ],
)
def test_a_wrong_value_is_said_with_its_key(keys: dict[str, object], line: str) -> None:
    with pytest.raises(Problem) as caught:
        bulk(**keys)
    assert str(caught.value).startswith(line)


def test_streams_are_kept_apart_by_socket_and_role() -> None:
    end = read_end(
        document(
            interval(5, 0, 0.1, 1000, sender=True, retransmits=2, rtt=40000, snd_cwnd=14480),
            interval(7, 0, 0.1, 500, sender=False),
            interval(9, 0, 0.1, 700, sender=False, packets=9, lost_packets=1, jitter_ms=0.5),
        )
    )
    assert [[each.bytes for each in stream] for stream in end.sent] == [[1000]]
    assert [[each.bytes for each in stream] for stream in end.received] == [[500], [700]]
    assert (end.sent[0][0].retransmits, end.sent[0][0].rtt_us, end.sent[0][0].cwnd_bytes) == (2, 40000, 14480)
    assert (end.received[1][0].packets, end.received[1][0].lost, end.received[1][0].jitter_ms) == (9, 1, 0.5)
    assert end.begun_unix_s == 1000


def test_retransmissions_are_a_series_of_segments_per_second() -> None:
    end = read_end(
        document(
            interval(5, 0, 0.1, 1000, sender=True, retransmits=2),
            interval(5, 0.1, 0.3, 1000, sender=True, retransmits=0),
            interval(7, 0, 0.1, 500, sender=False),
        )
    )
    again = [
        each
        for each in BulkFlows("down", end.sent, end.received, "cubic").series(10, only=True)
        if each.unit != "Mbit/s"
    ]
    assert [(each.name, each.unit) for each in again] == [("retransmits", "segments/s")]
    assert again[0].value == pytest.approx([20, 0])


def test_warnings_before_the_report_and_what_is_not_a_number_are_survived() -> None:
    report = document(interval(5, 0, 0.1, 1000, sender=True, rtt=12345)).replace("12345", "-nan")
    end = read_end(f"warning: this is {{odd}}\n{report}\n")
    assert end.error == ""
    assert end.sent[0][0].rtt_us is None


def test_a_round_trip_of_zero_is_missing_and_an_interval_of_no_length_is_none() -> None:
    end = read_end(
        document(interval(5, 0, 0.1, 10, sender=True, rtt=0, snd_cwnd=0), interval(5, 0.1, 0.1, 10, sender=True))
    )
    assert [(each.rtt_us, each.cwnd_bytes) for each in end.sent[0]] == [(None, None)]


def test_what_is_no_report_is_an_error() -> None:
    assert read_end("").error == "iperf3 printed nothing"
    assert read_end("iperf3: error - unable to connect\n").error == "iperf3: error - unable to connect"
    assert read_end(document(error="the server is busy")).error == "the server is busy"


def test_streams_that_are_missing_or_end_early_are_a_shortfall() -> None:
    streams = [interval(socket, start, start + 1, 10, sender=False) for socket in (5, 7) for start in range(socket - 3)]
    received = read_end(document(*streams)).received
    assert shortfall(received[:1], 1, 2) == ""
    assert shortfall(received, 2, 2.4) == ""
    assert shortfall(received, 2, 4) == "2.0 of 4 s"
    assert shortfall(received, 3, 2) == "2 of 3 streams"
    assert shortfall([], 1, 2) == "0 of 1 streams"


@given(st.text(max_size=300) | st.text(max_size=100).map(lambda inner: '{"start": {' + inner + "}}"))
def test_no_output_breaks_the_reader(text: str) -> None:
    read_end(text)


def test_goodput_after_it_settled_counts_the_intervals_from_then_on() -> None:
    sizes = [1_000_000, 1_000_000, 500_000, 250_000]
    rows = [interval(5, number, number + 1, size, sender=False) for number, size in enumerate(sizes)]
    received = read_end(json.dumps({"start": {}, "intervals": [{"streams": [row]} for row in rows], "end": {}}))
    flows = BulkFlows.of("down", {"client": received, "server": read_end(document())})
    options = bulk(duration="4s", settle="2s").options
    found = {each.name: each.value for each in flows.metrics(options, only=True)}
    assert found["goodput"] == pytest.approx(5.5)
    assert found["goodput after 2s"] == pytest.approx(3.0)


def test_a_short_last_interval_makes_no_peak_of_goodput() -> None:
    series = goodput_series("goodput", [(0.0, 0.1, 12_500), (0.1, 0.2, 25_000), (0.2, 0.2001, 12_500)], 1.0)
    assert series.value == pytest.approx([1.0, 8 * 37_500 / 0.1001 / 1e6])
    assert series.time_s == pytest.approx([1.05, 1.15005])
    assert goodput_series("goodput", [(0.0, 0.1, 12_500), (0.1, 0.16, 7_500)], 0.0).value == pytest.approx([1.0, 1.0])
