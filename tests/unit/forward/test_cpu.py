"""How busy the device's processor is: from /proc, by ssh, SNMP and node_exporter."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from wavebed.config.problems import Problem
from wavebed.errors import WavebedError
from wavebed.forward.cpu import (
    CpuUse,
    LocalMeter,
    Reading,
    Ticks,
    between,
    flag_offload,
    parse_net_rx,
    parse_softnet,
    parse_source,
    parse_stat,
)
from wavebed.forward.cpu_remote import parse_metrics
from wavebed.secret import Secret

if TYPE_CHECKING:
    from pathlib import Path

BEFORE = "cpu  1 2 3 4 5 6 7 8 0 0\ncpu0 100 0 100 800 0 0 0 0 0 0\ncpu1 0 0 0 1000 0 0 0 0 0 0\nbtime 1700000000\n"
# Processor 0: 1000 ticks more, 700 idle or waiting, 200 softirq. Processor 1: 1000 more, 100 idle.
AFTER = "cpu 1 2 3 4\ncpu0 100 0 200 1400 100 0 200 0 50 0\ncpu1 400 0 500 1100 0 0 0 0 0 0\nbtime 1700000000\n"
SOFTIRQS = (
    "                    CPU0       CPU1\n          HI:          1          2\n      NET_RX:       {}        {}\n"
)


def softnet(*rows: tuple[int, int]) -> str:
    lines = []
    for core, (dropped, squeezed) in enumerate(rows):
        columns = [0] * 15
        columns[1], columns[2], columns[12] = dropped, squeezed, core
        lines.append(" ".join(f"{column:08x}" for column in columns))
    return "\n".join(lines) + "\n"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs and pages that stand for a router's are waited for on a busy machine."""
    monkeypatch.setattr("wavebed.forward.cpu_remote.LIMIT_S", 60.0)


def write_proc(folder: Path, stat_text: str, net_rx: tuple[int, int], counters: str) -> None:
    (folder / "net").mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(stat_text)
    (folder / "softirqs").write_text(SOFTIRQS.format(*net_rx))
    (folder / "net" / "softnet_stat").write_text(counters)
    (folder / "uptime").write_text(f"{1000 if stat_text == BEFORE else 1010}.00 1.00\n")


def test_fractions_are_one_minus_idle_of_each_processor_with_guest_time_counted_once(tmp_path: Path) -> None:
    write_proc(tmp_path, BEFORE, (10, 20), softnet((1, 2), (3, 4)))
    meter = LocalMeter(proc=tmp_path)
    meter.start()
    write_proc(tmp_path, AFTER, (15, 27), softnet((2, 2), (3, 9)))
    use = meter.stop()
    assert use.busy == pytest.approx({0: 0.3, 1: 0.9})
    assert use.softirq == pytest.approx({0: 0.2, 1: 0.0})
    assert use.for_trial() == pytest.approx({"busy_max": 0.9, "busy_mean": 0.6, "softirq_max": 0.2})
    assert (use.net_rx, use.dropped, use.squeezed, use.core_count) == (12, 1, 5, 2)


def test_only_the_processors_of_the_device_are_looked_at(tmp_path: Path) -> None:
    write_proc(tmp_path, BEFORE, (10, 20), softnet((1, 2), (3, 4)))
    meter = LocalMeter([1], proc=tmp_path)
    meter.start()
    write_proc(tmp_path, AFTER, (15, 27), softnet((2, 2), (3, 9)))
    use = meter.stop()
    assert use.busy == pytest.approx({1: 0.9})
    assert (use.net_rx, use.dropped, use.squeezed) == (7, 0, 5)


def test_a_processor_that_is_not_there_is_refused(tmp_path: Path) -> None:
    write_proc(tmp_path, BEFORE, (1, 1), softnet((0, 0)))
    with pytest.raises(WavebedError, match="no processor 7"):
        LocalMeter([7], proc=tmp_path).start()


def test_a_fraction_from_less_than_ten_seconds_is_called_short() -> None:
    first = Reading(0.0, {0: Ticks(0, 0, 0)})
    assert not between("x", first, Reading(10.0, {0: Ticks(5, 0, 10)})).doubts
    use = between("x", first, Reading(9.9, {0: Ticks(5, 0, 10)}))
    assert use.short
    assert use.doubts == ("short: looked at for 9.9 s, a load to quote needs 10 s",)


@pytest.mark.parametrize(
    "last",
    [
        Reading(20.0, {0: Ticks(1, 0, 50)}, started_s=100.0),
        Reading(5.0, {0: Ticks(60, 0, 200)}, started_s=100.0),
        Reading(20.0, {0: Ticks(60, 0, 200)}, started_s=200.0),
    ],
)
def test_a_device_that_started_anew_gives_no_fraction(last: Reading) -> None:
    use = between("x", Reading(10.0, {0: Ticks(50, 0, 100)}, started_s=100.0), last)
    assert use.for_trial() == {}
    assert "started anew" in use.doubts[0]


def test_what_a_hypervisor_took_is_a_doubt() -> None:
    use = between("x", Reading(0.0, {0: Ticks(0, 0, 0)}), Reading(10.0, {0: Ticks(50, 0, 100, 20)}))
    assert use.doubts == ("a hypervisor took 20% of processor 0: it counts as busy",)


def test_a_processor_that_comes_in_between_is_left_out_and_said() -> None:
    last = Reading(10.0, {0: Ticks(50, 0, 100), 1: Ticks(5, 0, 10)})
    use = between("x", Reading(0.0, {0: Ticks(0, 0, 0)}), last)
    assert use.busy == {0: 0.5}
    assert "came or went" in use.doubts[0]


def test_counters_that_stand_still_give_no_fraction() -> None:
    use = between("x", Reading(0.0, {0: Ticks(5, 0, 10)}), Reading(10.0, {0: Ticks(5, 0, 10)}))
    assert use.for_trial() == {}
    assert use.doubts == ("its counters did not move: nothing is known",)


def test_the_real_files_of_this_machine_are_read_and_a_busy_processor_is_seen() -> None:
    core = min(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    meter = LocalMeter([core])
    os.sched_setaffinity(0, {core})
    try:
        meter.start()
        began_s, worked_s = time.monotonic(), time.thread_time()
        while time.thread_time() < worked_s + 0.5:
            pass
        took_s = time.monotonic() - began_s
        use = meter.stop()
    finally:
        os.sched_setaffinity(0, before)
    # Busy while this thread worked there, however long it had to wait for that. Ticks are 10 ms.
    assert use.busy[core] > 0.8 * 0.5 / took_s
    assert use.net_rx is not None
    assert use.dropped is not None


def test_old_and_odd_files_are_read_for_what_they_say() -> None:
    assert parse_stat("cpu0 1 2 3 4\n")[0] == {0: Ticks(6, 0, 10)}
    assert parse_softnet("00000001 00000002 00000003\n") == ({0: 2}, {0: 3})
    assert parse_softnet("") is None
    assert parse_softnet("nonsense here x\n") is None
    assert parse_net_rx("") is None
    assert parse_net_rx("CPU0 CPU1\nNET_RX: 1\n") is None
    with pytest.raises(WavebedError, match="no line of a processor"):
        parse_stat("intr 5\n")


# ---- ssh: a program of that name that runs the loop on files of the test ----


# ---- SNMP: the answers that Net-SNMP 5.9.3 gives for a Linux machine with two processors ----


# ---- node_exporter: a real server on loopback ----


def test_labels_may_hold_what_quotes_may_hold() -> None:
    lines = list(parse_metrics('node_cpu_seconds_total{a="x,y}\\"z",cpu="1"} 2.5 1700000000\n'))
    assert lines == [("node_cpu_seconds_total", {"a": 'x,y}\\"z', "cpu": "1"}, 2.5)]


# ---- the option and the rule of offload ----


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a place"),
        ("router", "not a place"),
        ("telnet://router", "not a place"),
        ("ssh://", "no host"),
        ("ssh://-oProxyCommand=x", "no host"),
        ("ssh://root:secret@router", "use a key"),
        ("ssh://-x@router", "not the name of a user"),
        ("ssh://router/etc", "after the host"),
        ("ssh://router:99999", "not an address"),
        ("snmp://router", "no community"),
        ("snmp://a%20b@router", "no community"),
        ("http://user:word@router/metrics", "without one"),
    ],
)
def test_a_wrong_option_is_answered_with_one_line(text: str, said: str) -> None:
    with pytest.raises(Problem, match=said) as ended:
        parse_source(text)
    assert "secret" not in str(ended.value)
    assert "\n" not in str(ended.value)


def test_each_option_names_its_place() -> None:
    assert parse_source("local").kind == "local"
    assert parse_source("ssh://root@192.168.1.1")[:4] == ("ssh", "192.168.1.1", None, "root")
    assert parse_source("ssh://[2001:db8::1]:22")[:3] == ("ssh", "2001:db8::1", 22)
    snmp = parse_source("snmp://public@router:1161")
    assert snmp[:4] == ("snmp", "router", 1161, None)
    assert snmp.community == Secret("public")
    assert "public" not in f"{snmp} {snmp!r}"
    assert parse_source("http://router:9100").address == "http://router:9100/metrics"
    assert parse_source("http://router:9100/m").address == "http://router:9100/m"


def use_of(busy_mean: float | None, cores: int | None = 2) -> CpuUse:
    return CpuUse("x", 10.0, busy_mean=busy_mean, core_count=cores)


def test_more_frames_than_a_processor_can_have_forwarded_are_flagged() -> None:
    # 1.488 Mpps at 50 ns each would take 7.4 % of one processor.
    said = flag_offload(use_of(0.01), 1_488_095)
    assert said is not None
    assert "1,488,095 pps at 2.0% of one processor: hardware offload hides it" in said
    # The study's device A: 1.45 Mpps at 29 %.
    assert flag_offload(use_of(0.29, 4), 1_450_000) is None


def test_a_rate_too_low_to_tell_or_an_unknown_fraction_is_not_flagged() -> None:
    assert flag_offload(use_of(0.0), 100_000) is None
    assert flag_offload(use_of(None), 1_488_095) is None
    assert flag_offload(use_of(0.0, None), 1_488_095) is None
