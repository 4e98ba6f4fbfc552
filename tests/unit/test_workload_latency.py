"""Probes: what ping, irtt and fresh connections tell, their windows, and the processes that send them."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.memory_lab import MemoryLab, Program, Script
from tests.virtual_clock import VirtualClock

from wavebed.config.problems import Problem
from wavebed.errors import WavebedError
from wavebed.lab.protocol import MachineClock
from wavebed.workload import read_workload, rpm
from wavebed.workload.model import TimeSpan, TrialContext
from wavebed.workload.parsers import read_irtt, read_ping, summary_line
from wavebed.workload.probing import (
    EchoProbe,
    ProbeWatch,
    answered_or_lost,
    delay_metrics,
    least_values,
    loss_metrics,
    mdev,
    percentile,
    variation_metrics,
    window_of,
)
from wavebed.workload.rpm import (
    EVERY_S,
    Exchange,
    RpmProber,
    foreign_rpm,
    read_exchanges,
    rpm_metrics,
    rpm_series,
    trimmed_mean,
)
from wavebed.workload.serve import Certificate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
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


def probes(delays: Sequence[float | None], every_s: float = 0.1, start_s: float = 0.0) -> list[EchoProbe]:
    return [
        EchoProbe(number, start_s + number * every_s, ms, lost="" if ms is not None else "somewhere")
        for number, ms in enumerate(delays)
    ]


def value(metrics: Sequence[Metric], name: str) -> float | None:
    (found,) = (metric.value for metric in metrics if metric.name == name)
    return found


def rtt(probe: EchoProbe) -> float | None:
    return probe.rtt_ms


def figures(some: Sequence[EchoProbe], loads: Sequence[TimeSpan]) -> list[Metric]:
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
    loads = [TimeSpan(2, 4, is_load=True)]
    assert [window_of(at_s, loads) for at_s in (1.99, 2, 3, 4, 4.5, 5.0, 9)] == [
        "idle", "loaded", "loaded", "loaded", None, "idle", "idle",
    ]  # fmt: skip
    assert window_of(4.5, [*loads, TimeSpan(4.2, 6, is_load=True)]) == "loaded"
    assert window_of(1.0, []) == "idle"


def test_the_increase_is_the_difference_of_the_percentiles_of_both_windows() -> None:
    idle = [40 + index / 100 for index in range(100)]
    loaded = [60 + index for index in range(100)]
    found = figures(probes(idle + loaded), [TimeSpan(9.95, 30, is_load=True)])
    for share in (50, 95, 99):
        assert value(found, f"rtt idle p{share}") == pytest.approx(np.percentile(idle, share))
        assert value(found, f"rtt loaded p{share}") == pytest.approx(np.percentile(loaded, share))
        assert value(found, f"increase p{share}") == pytest.approx(
            np.percentile(loaded, share) - np.percentile(idle, share)
        )
    assert value(found, "rtt loaded average") == pytest.approx(np.mean(loaded))


def test_a_window_of_fewer_than_20_probes_says_nothing() -> None:
    found = figures(probes([40.0] * 30 + [80.0] * 19), [TimeSpan(2.95, 10, is_load=True)])
    assert value(found, "rtt idle p50") == 40
    assert value(found, "rtt loaded p50") is None
    assert value(found, "increase p50") is None
    found = figures(probes([40.0] * 30 + [80.0] * 20), [TimeSpan(2.95, 10, is_load=True)])
    assert value(found, "increase p50") == 40
    assert value(found, "increase p95") == 40


def test_a_window_of_fewer_than_100_probes_has_no_p99() -> None:
    found = figures(probes([40.0] * 100 + [80.0] * 99), [TimeSpan(9.95, 30, is_load=True)])
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
    loads = [TimeSpan(0.35, 0.75, is_load=True)]
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


def test_three_parts_of_20_ms_are_3000_round_trips_per_minute() -> None:
    assert foreign_rpm(20, 20, 20) == pytest.approx(3000)
    assert foreign_rpm(30, 60, 90) == pytest.approx(1000)


def test_the_trimmed_mean_leaves_out_the_largest_five_per_cent() -> None:
    assert trimmed_mean([*[10.0] * 19, 1000.0]) == 10
    assert trimmed_mean([*[10.0] * 38, 500.0, 1000.0]) == 10
    # Fewer than 20 have no whole value to leave out.
    assert trimmed_mean([10.0, 20.0]) == 15


def test_the_parts_of_an_exchange_are_what_lies_between_curls_moments(tmp_path: Path) -> None:
    said = {"time_namelookup": 0.001, "time_connect": 0.041, "time_appconnect": 0.091, "time_starttransfer": 0.151}
    rows = [
        {"start_s": 1.5, "curl": said},
        {"start_s": 2.0, "error": "curl: (28) timed out"},
        {"start_s": 3.0, "error": "ended with the workload"},
    ]
    file = tmp_path / "rpm.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done, failed = read_exchanges(file)
    assert (done.start_s, done.tcp_ms, done.tls_ms, done.http_ms) == pytest.approx((1.5, 40, 50, 60))
    assert (failed.start_s, failed.tcp_ms) == (2.0, None)


def test_each_window_has_its_own_figure_and_failures_are_counted() -> None:
    idle = [Exchange(index / 4, 40, 40, 40) for index in range(12)]
    loaded = [Exchange(3 + index / 4, 80, 80, 80) for index in range(12)]
    failed = [Exchange(6.0, None, None, None)]
    found = {
        metric.name: metric.value for metric in rpm_metrics([*idle, *loaded, *failed], [TimeSpan(2.9, 9, is_load=True)])
    }
    assert found["rpm foreign idle"] == pytest.approx(1500)
    assert found["rpm foreign loaded"] == pytest.approx(750)
    assert found["rpm tls_f loaded"] == pytest.approx(80)
    assert found["rpm failed"] == pytest.approx(4)


def test_few_exchanges_say_nothing() -> None:
    found = {metric.name: metric.value for metric in rpm_metrics([Exchange(0, 40, 40, 40)] * 9, [])}
    assert found["rpm foreign idle"] is None
    assert found["rpm tcp_f idle"] is None
    assert found["rpm failed"] == 0
    assert {metric.value for metric in rpm_metrics([], [])} == {None}


def test_the_definition_says_which_formula_it_is_and_what_it_lacks() -> None:
    for metric in rpm_metrics([], []):
        if metric.name.startswith("rpm foreign"):
            assert "draft-ietf-ippm-responsiveness" in metric.definition
            assert "without L" in metric.definition


def test_a_failed_exchange_is_missing_in_the_series() -> None:
    series = rpm_series([Exchange(0, 40, 41, 42), Exchange(1, None, None, None)])
    assert [one.name for one in series] == ["rpm tcp_f", "rpm tls_f", "rpm http_f"]
    assert list(series[1].value) == [41, None]


CURL_SAID = {"time_namelookup": 0.001, "time_connect": 0.041, "time_appconnect": 0.091, "time_starttransfer": 0.151}


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Script], tuple[RpmProber, MemoryLab]]:
    """Return what begins to probe in a laboratory with this curl."""
    monkeypatch.setattr(rpm, "start_web_server", lambda *_: SimpleNamespace(stop=lambda: None))

    def begun(curl: Script) -> tuple[RpmProber, MemoryLab]:
        lab = MemoryLab({"curl": curl})
        lab.begin()
        context = TrialContext(lab.host("server"), lab.host("client"), tmp_path, lab.clock, 20000, "198.19.1.", 1, 5.0)
        prober = RpmProber(context, 20000, Certificate(tmp_path / "pem", "c2hhMjU2"))
        prober.start()
        return prober, lab

    return begun


def test_an_exchange_begins_every_quarter_of_a_second(begin: Callable[[Script], tuple[RpmProber, MemoryLab]]) -> None:
    prober, lab = begin(Program(0.151, output=json.dumps(CURL_SAID)))
    lab.clock.sleep(10.1)
    prober.end()
    found = prober.exchanges()
    assert [each.start_s for each in found] == pytest.approx([number * EVERY_S for number in range(len(found))])
    assert len(found) == 40  # the one that ran at the end is left out


def test_one_that_takes_longer_is_followed_at_once(begin: Callable[[Script], tuple[RpmProber, MemoryLab]]) -> None:
    prober, lab = begin(Program(2.0, output=json.dumps(CURL_SAID)))
    lab.clock.sleep(7.0)
    prober.end()
    assert [each.start_s for each in prober.exchanges()] == pytest.approx([0, 2, 4], abs=0.06)


def test_a_curl_that_says_nonsense_ends_the_probing_with_a_reason(
    begin: Callable[[Script], tuple[RpmProber, MemoryLab]],
) -> None:
    prober, lab = begin(Program(0.1, output="nonsense"))
    prober.look()
    lab.clock.sleep(1.0)
    with pytest.raises(WavebedError, match="rpm: Expecting value"):
        prober.look()
    with pytest.raises(WavebedError, match="rpm: Expecting value"):
        prober.end()


@pytest.mark.parametrize(("share", "least"), [(50, 2), (90, 10), (95, 20), (99, 100)])
def test_one_value_at_least_is_to_be_expected_above_it(share: int, least: int) -> None:
    assert least_values(share) == least
    values = [float(number) for number in range(least)]
    assert percentile(values[1:], share) is None
    # Linear between order statistics, as numpy and spreadsheets do it.
    assert percentile(values, share) == pytest.approx(share / 100 * (least - 1))


def test_more_may_be_asked_for() -> None:
    assert percentile([1.0] * 19, 50, least=20) is None
    assert percentile([1.0] * 20, 50, least=20) == 1.0
    assert percentile([], 50) is None


class Fake:
    """A prober that is fine until it is said to be dead."""

    def __init__(self, *, dead: bool = False, stuck: bool = False) -> None:
        self.dead, self.stuck, self.ended = dead, stuck, 0

    def look(self) -> None:
        if self.dead:
            raise WavebedError("one ended with 2 before its time")

    def end(self) -> None:
        self.ended += 1
        self.look()
        if self.stuck:
            raise WavebedError("one did not end within 3 s")


@pytest.fixture
def process_clock() -> VirtualClock:
    made = VirtualClock()
    made.begin()
    return made


@pytest.mark.parametrize(("fault", "words"), [("dead", "before its time"), ("stuck", "did not end")])
def test_when_one_fails_the_others_end(process_clock: VirtualClock, fault: str, words: str) -> None:
    bad, good = Fake(dead=fault == "dead", stuck=fault == "stuck"), Fake()
    with pytest.raises(WavebedError, match=words):
        ProbeWatch(process_clock, 5.0, 0.0).keep([bad, good])
    assert (bad.ended, good.ended) == (1, 1)


def test_one_that_dies_is_noticed_before_the_duration_is_over(process_clock: VirtualClock) -> None:
    bad, good = Fake(), Fake()
    process_clock.at(10.0, lambda: setattr(bad, "dead", True))
    with pytest.raises(WavebedError, match="before its time"):
        ProbeWatch(process_clock, 60.0, 0.0).keep([good, bad])
    assert 10 <= process_clock.now_s() <= 10.2
    assert good.ended == 1


def test_it_lasts_as_long_as_it_should(process_clock: VirtualClock) -> None:
    watch, prober = ProbeWatch(process_clock, 12.5, 0.0), Fake()
    assert watch.keep([prober]) == pytest.approx(12.5)
    assert prober.ended == 1
    assert not watch.stopped_early


def test_asked_to_stop_before_it_began_it_ends_at_once(process_clock: VirtualClock) -> None:
    watch, prober = ProbeWatch(process_clock, 60, 0.0), Fake()
    watch.stop()
    watch.stop()
    assert watch.keep([prober]) == 0
    assert prober.ended == 1
    assert watch.stopped_early


def test_its_tail_comes_after_the_word_to_stop(process_clock: VirtualClock) -> None:
    watch, prober = ProbeWatch(process_clock, None, 2.0), Fake()
    process_clock.at(100.0, watch.stop)
    assert watch.keep([prober]) == pytest.approx(102)
    assert not watch.stopped_early
