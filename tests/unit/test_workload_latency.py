"""What ping and irtt leave becomes probes; probes become figures of an idle and a loaded path."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from wavebed.config.problems import Problem
from wavebed.errors import WavebedError
from wavebed.lab.clock import MachineClock
from wavebed.workload import read_workload
from wavebed.workload.irtt import read_irtt
from wavebed.workload.latency_windows import (
    Probe,
    answered_or_lost,
    delay_metrics,
    loss_metrics,
    mdev,
    variation_metrics,
    window_of,
)
from wavebed.workload.model import Span
from wavebed.workload.ping import read_ping, summary_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.workload.model import Metric

PING = """PING server (198.18.0.1) 56(84) bytes of data.
[1000.150000] 64 bytes from 198.18.0.1: icmp_seq=1 ttl=64 time=50.0 ms
[1000.170000] 64 bytes from 198.18.0.1: icmp_seq=2 ttl=64 time=50.0 ms
[1000.260000] 64 bytes from 198.18.0.1: icmp_seq=4 ttl=64 time=100 ms
[1000.261000] 64 bytes from 198.18.0.1: icmp_seq=4 ttl=64 time=101 ms (DUP!)
[1000.262000] 64 bytes from 198.18.0.1: icmp_seq=5 ttl=64 time=82.0 ms

--- server ping statistics ---
6 packets transmitted, 4 received, +1 duplicates, 33.3333% packet loss, time 120ms
rtt min/avg/max/mdev = 50.000/76.600/101.000/24.300 ms
"""


def clock(zero_unix_s: float = 1000.0) -> MachineClock:
    made = MachineClock()
    made.begin(0)
    made._unix_minus_monotonic_ns = round(zero_unix_s * 1e9)
    return made


def probes(delays: Sequence[float | None], every_s: float = 0.1, start_s: float = 0.0) -> list[Probe]:
    return [
        Probe(number, start_s + number * every_s, ms, lost="" if ms is not None else "somewhere")
        for number, ms in enumerate(delays)
    ]


def value(metrics: Sequence[Metric], name: str) -> float | None:
    (found,) = (metric.value for metric in metrics if metric.name == name)
    return found


def rtt(probe: Probe) -> float | None:
    return probe.rtt_ms


def figures(some: Sequence[Probe], loads: Sequence[Span]) -> list[Metric]:
    return delay_metrics(some, loads, "rtt", rtt, increase="increase", definition="by hand")


def test_a_probe_of_ping_was_sent_one_round_trip_before_its_answer_came() -> None:
    found = read_ping(PING, clock(), 0.1, 0.02)
    assert [probe.rtt_ms for probe in found] == [50, 50, None, 100, 82, None]
    assert [probe.lost for probe in found] == ["", "", "somewhere", "", "", "somewhere"]
    # The third between its neighbours; the sixth one pace after the fifth.
    assert [probe.sent_s for probe in found] == pytest.approx([0.1, 0.12, 0.14, 0.16, 0.18, 0.20])


def test_sequence_numbers_of_ping_go_on_beyond_16_bits() -> None:
    lines = [
        f"[{1000 + index / 10:.6f}] 64 bytes from x: icmp_seq={sequence} ttl=64 time=1.00 ms"
        for index, sequence in enumerate([1, 30000, 60000, 65535, 1, 0])
    ]
    found = read_ping("\n".join(lines), clock(), 0.0, 0.1)
    assert [probe.number for probe in found if probe.rtt_ms is not None] == [1, 30000, 60000, 65535, 65536, 65537]


def test_without_an_answer_the_probes_of_ping_are_where_its_interval_puts_them() -> None:
    text = "PING server\n\n--- server ping statistics ---\n3 packets transmitted, 0 received, 100% packet loss\n"
    found = read_ping(text, clock(), 2.0, 0.5)
    assert [(probe.sent_s, probe.rtt_ms) for probe in found] == [(2.0, None), (2.5, None), (3.0, None)]
    assert summary_line(text) == ""
    assert summary_line(PING).endswith("24.300 ms")


def test_a_killed_ping_leaves_the_answers_that_it_printed() -> None:
    assert len(read_ping(PING[: PING.index("[1000.26")], clock(), 0.0, 0.02)) == 2
    assert read_ping("", clock(), 0.0, 0.02) == []


def trip(number: int, lost: str = "false", **delays: int) -> dict[str, object]:
    stamps = {"client": {"send": {"wall": (1000 + number) * 10**9}, "receive": {}}}
    return {"seqno": number, "lost": lost, "timestamps": stamps, "delay": delays}


def test_irtt_gives_the_delay_and_the_loss_of_each_direction(tmp_path: Path) -> None:
    trips = [trip(0, rtt=40_500_000, send=20_200_000, receive=20_300_000), trip(1, "true_up"), trip(2, "true_down")]
    file = tmp_path / "irtt.json"
    file.write_text(json.dumps({"round_trips": trips}))
    first, second, third = read_irtt(file, clock())
    assert (first.sent_s, first.rtt_ms, first.up_ms, first.down_ms) == pytest.approx((0, 40.5, 20.2, 20.3))
    assert (second.sent_s, second.rtt_ms, second.lost) == (1.0, None, "up")
    assert third.lost == "down"


@pytest.mark.parametrize("text", ["", "{", "{}", '{"round_trips": [{"seqno": 1}]}'])
def test_a_broken_result_of_irtt_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "irtt.json"
    file.write_text(text)
    with pytest.raises(WavebedError, match="irtt left no readable result"):
        read_irtt(file, clock())


def test_what_was_in_flight_at_the_end_is_neither_lost_nor_answered() -> None:
    some = probes([50, None, 200, None, None], every_s=0.1)
    # Told to end at 0.55 s: the one sent at 0.3 s had its 200 ms, that of 0.4 s had not.
    assert [probe.number for probe in answered_or_lost(some, 0.55)] == [0, 1, 2, 3]


def test_a_path_that_answers_nothing_has_lost_what_was_sent_a_second_before_the_end() -> None:
    assert len(answered_or_lost(probes([None] * 20), 1.95)) == 10


def test_a_path_is_loaded_while_a_load_runs_and_idle_a_second_after_it() -> None:
    loads = [Span(2, 4, is_load=True)]
    assert [window_of(at_s, loads) for at_s in (1.99, 2, 3, 4, 4.5, 5.0, 9)] == [
        "idle", "loaded", "loaded", "loaded", None, "idle", "idle",
    ]  # fmt: skip
    assert window_of(4.5, [*loads, Span(4.2, 6, is_load=True)]) == "loaded"
    assert window_of(1.0, []) == "idle"


def test_the_increase_is_the_difference_of_the_percentiles_of_both_windows() -> None:
    idle = [40 + index / 100 for index in range(100)]
    loaded = [60 + index for index in range(100)]
    found = figures(probes(idle + loaded), [Span(9.95, 30, is_load=True)])
    for share in (50, 95, 99):
        assert value(found, f"rtt idle p{share}") == pytest.approx(np.percentile(idle, share))
        assert value(found, f"rtt loaded p{share}") == pytest.approx(np.percentile(loaded, share))
        assert value(found, f"increase p{share}") == pytest.approx(
            np.percentile(loaded, share) - np.percentile(idle, share)
        )
    assert value(found, "rtt loaded average") == pytest.approx(np.mean(loaded))


def test_a_window_of_fewer_than_20_probes_says_nothing() -> None:
    found = figures(probes([40.0] * 30 + [80.0] * 19), [Span(2.95, 10, is_load=True)])
    assert value(found, "rtt idle p50") == 40
    assert value(found, "rtt loaded p50") is None
    assert value(found, "increase p50") is None
    found = figures(probes([40.0] * 30 + [80.0] * 20), [Span(2.95, 10, is_load=True)])
    assert value(found, "increase p50") == 40
    assert value(found, "increase p95") == 40


def test_a_window_of_fewer_than_100_probes_has_no_p99() -> None:
    found = figures(probes([40.0] * 100 + [80.0] * 99), [Span(9.95, 30, is_load=True)])
    assert value(found, "rtt idle p99") == 40
    assert value(found, "rtt loaded p95") == 80
    assert value(found, "rtt loaded p99") is None
    assert value(found, "increase p99") is None


def test_mdev_is_that_of_ping() -> None:
    values = [40.1, 42.5, 39.0, 60.2]
    mean = sum(values) / 4
    assert mdev(values) == pytest.approx(math.sqrt(sum(each * each for each in values) / 4 - mean * mean))
    assert mdev([]) is None


def test_loss_is_counted_in_each_window_and_missing_without_probes() -> None:
    some = probes([40, None, 40, 40, None, None, 40, 40])
    loads = [Span(0.35, 0.75, is_load=True)]
    found = loss_metrics(some, loads, "probe loss", lambda probe: probe.rtt_ms is None, "by hand")
    assert value(found, "probe loss") == pytest.approx(100 * 3 / 8)
    assert value(found, "probe loss idle") == pytest.approx(25)
    assert value(found, "probe loss loaded") == pytest.approx(50)
    nothing = loss_metrics(some, [], "probe loss", lambda probe: probe.rtt_ms is None, "by hand")
    assert value(nothing, "probe loss loaded") is None


def test_delay_variation_is_between_neighbours_alone() -> None:
    delays: list[float | None] = [20.0, 23.0] * 20
    delays[10] = None
    found = variation_metrics(probes(delays), [], "ipdv", rtt, "by hand")
    assert value(found, "ipdv idle") == pytest.approx(3)
    assert value(found, "ipdv loaded") is None


def test_latency_goes_on_until_the_others_have_ended_and_is_no_load() -> None:
    workload = read_workload({"kind": "latency"})
    assert workload.endless
    assert workload.tail_s == 1.0
    assert not workload.is_load
    assert not read_workload({"kind": "latency", "duration": "5s"}).endless


def test_larger_probes_are_expected_to_move_more_bytes() -> None:
    sizes = {"72b": 86, "1200b": 1214}  # with Ethernet
    for size, frame in sizes.items():
        workload = read_workload({"kind": "latency", "probe": "udp", "udp-size": size, "interval": "10ms"})
        assert workload.expected_bytes(1e9, 5.0) == pytest.approx(2 * frame * 500)


@pytest.mark.parametrize(
    ("key", "given", "words"),
    [
        ("probe", "tcp", "not a choice"),
        ("interval", "1ms", "from 2ms to 10s"),
        ("interval", 20, "no unit"),
        ("duration", "other", "number"),
        ("duration", 5, "others"),
        ("tail", "2m", "unit"),
        ("udp-size", "71b", "out of range: write 72b to 1500b"),
        ("udp-size", "2kb", "out of range"),
        ("hosts", "x", "unknown key"),
    ],
)
def test_a_wrong_key_is_named_with_its_rule(key: str, given: object, words: str) -> None:
    with pytest.raises(Problem, match=words) as caught:
        read_workload({"kind": "latency", key: given})
    assert caught.value.key == key
