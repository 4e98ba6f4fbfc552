"""Checks of a trial: the engine, backlogs, capacity, processors, and that a run is whole."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from wavebed.result.model import Check, WorkloadRecord
from wavebed.result.tables import SCHEMAS
from wavebed.result.transport import processor_metrics
from wavebed.run.checks import (
    Steps,
    backlog_check,
    capacity_steps,
    engine_checks,
    partial_check,
    processor_check,
    verdict,
)
from wavebed.spec.types import Network
from wavebed.workload.model import Outcome, TimeSpan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.workload.model import Status


LINK: dict[str, Json] = {
    "name": "radio.down",
    "offered_segments": 1000,
    "delivered_segments": 1000,
    "dropped_segments": {},
    "unaccounted_segments": 0,
}
DEPARTURE: dict[str, Json] = {
    "name": "server-client.down",
    "refused_segments": 0,
}
HOST: dict[str, Json] = {"name": "client", "device_dropped_packets": 0, "udp_receive_buffer_errors": 0}


def engine(**changes: Json) -> dict[str, Json]:
    link, departure, host = dict(LINK), dict(DEPARTURE), dict(HOST)
    for part in (link, departure, host):
        part.update({key: value for key, value in changes.items() if key in part})
    return {
        "links": [link],
        "departures": [departure],
        "hosts": [host],
        "sampler": changes.get("sampler"),
        "checks": [
            {
                "code": "gaps",
                "name": "engine kept running",
                "holds": "stood_still" not in changes,
                "severity": changes.get("stood_still", "suspect"),
                "evidence": "the engine stood still for up to 60.0 ms at 1.2 s",
            }
        ],
        "missing": changes.get("missing", []),
    }


def judged(summary: dict[str, Json], *workloads: WorkloadRecord) -> tuple[str, list[str]]:
    return verdict(engine_checks(summary), workloads)


def record(outcome: Outcome) -> WorkloadRecord:
    return WorkloadRecord("download", "download", TimeSpan(0, 1, is_load=True), outcome)


def test_a_quiet_trial_is_valid_and_says_why() -> None:
    assert judged(engine(), record(Outcome())) == ("valid", [])
    assert all(check.evidence for check in engine_checks(engine()))
    codes = [check.code for check in engine_checks(engine())]
    assert all(codes)
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize(
    ("summary", "expected", "reason"),
    [
        (engine(unaccounted_segments=-2), "invalid", "2 unaccounted for"),
        (engine(refused_segments=1), "invalid", "1 refused by devices"),
        (engine(device_dropped_packets=3), "invalid", "3 lost at devices"),
        (engine(dropped_segments={"packet_memory": 1200}), "suspect", "1,200 segments dropped at the packet memory"),
        (engine(udp_receive_buffer_errors=2), "suspect", "2 UDP datagrams"),
        (engine(stood_still="suspect"), "suspect", "60.0 ms at 1.2 s"),
        (engine(stood_still="invalid"), "invalid", "60.0 ms at 1.2 s"),
        (engine(sampler={"rounds": 80, "missed": 20}), "suspect", "20 of 100 TCP_INFO sampling rounds"),
        (
            engine(missing=["series: cannot write radio.down.csv: No space left on device: rows are missing"]),
            "suspect",
            "No space left on device",
        ),
        (engine(missing=["client: no counters: No such file"]), "suspect", "no counters"),
        ({}, "invalid", "without a summary"),
    ],
)
def test_each_condition_has_its_severity_and_its_evidence(summary: dict[str, Json], expected: str, reason: str) -> None:
    found, reasons = judged(summary, record(Outcome()))
    assert found == expected
    assert any(reason in line for line in reasons)


def test_what_the_path_and_the_programs_themselves_spoil_is_no_doubt() -> None:
    dropped: dict[str, Json] = {"corrupted_header": 40, "malformed": 3, "loss": 7, "overflow": 9}
    assert judged(engine(dropped_segments=dropped), record(Outcome())) == ("valid", [])


def test_one_lost_datagram_in_ten_thousand_is_no_doubt() -> None:
    assert judged(engine(udp_receive_buffer_errors=1), record(Outcome())) == ("valid", [])


def test_a_laboratory_that_ended_by_itself_says_why() -> None:
    (check,) = engine_checks({}, "a remark\nwavebed-core: the link engine ended unexpectedly (status 101)\n")
    assert check.evidence.endswith("without a summary: the link engine ended unexpectedly (status 101)")


def test_a_workload_that_failed_comes_before_an_engine_that_was_late() -> None:
    found, reasons = judged(engine(stood_still="invalid"), record(Outcome("failed", "nginx went away")))
    assert found == "failed"
    assert reasons[0] == "download: nginx went away"


def test_a_partial_result_counts_and_a_doubt_of_a_workload_marks_the_trial() -> None:
    assert judged(engine(), record(Outcome("partial", "stopped at its limit of 40 s"))) == ("valid", [])
    assert judged(engine(), record(Outcome(doubts=["frames were dropped"])))[0] == "suspect"


def test_processors_that_were_busy_now_and_then_are_no_doubt() -> None:
    assert processor_check([1.0] * 2 + [0.5] * 8).holds
    assert not processor_check([1.0] * 3 + [0.5] * 7).holds
    assert processor_check([]).holds


def test_fewer_than_ten_intervals_are_not_judged() -> None:
    assert processor_check([1.0] * 9).holds
    assert "9 intervals of 0.1 s (fewer than 10 are not judged)" in processor_check([1.0] * 9).evidence
    assert not processor_check([1.0] * 10).holds
    (few,) = [each for each in engine_checks(engine(sampler={"rounds": 8, "missed": 1})) if each.code == "samplers"]
    assert few.holds


def test_what_does_not_hold_is_named() -> None:
    assert verdict([Check("engine on time", False, "suspect", "late")], [])[1] == ["check failed: engine on time: late"]


PATTERN = """# wavebed pattern 1
# kind = steps
# duration_s = 3
time_s,rate_bps,state
0,100,los
1,50,nlos
2,100,los
"""


def network(down: Sequence[dict[str, object]], up: Sequence[dict[str, object]]) -> Network:
    """Return a network of one hop, whose links have bottlenecks with these rates."""
    links = [
        [{"stage": "bottleneck", "rate": rate, "queue": {"kind": "infinite"}} for rate in rates] for rates in (down, up)
    ]
    hop = {
        "from": "server",
        "to": "client",
        "hops": [{"name": "a", "kind": "radio", "down": links[0], "up": links[1]}],
    }
    known = {
        "mtu": 1500,
        "nat": False,
        "coalesce": {"kind": "off"},
        "packet_memory_bytes": None,
        "hosts": [{"name": "server"}, {"name": "client"}],
        "legs": [hop],
    }
    return msgspec.convert(known, Network)


def course(tmp_path: Path, rate: dict[str, object], text: str = PATTERN, until_ns: int = 7_000_000_000) -> list[object]:
    file = tmp_path / "pattern.csv"
    file.write_text(text)
    (steps,) = capacity_steps(network([{"file": str(file), **rate}], []))
    return [(time_s, rate_bps, state) for time_s, _, rate_bps, state in steps.until(until_ns).rows()]


def test_a_pattern_that_repeats_goes_on_without_a_step_where_nothing_changes(tmp_path: Path) -> None:
    assert course(tmp_path, {"kind": "pattern", "end": "repeat", "start_ns": 0}) == [
        (0.0, 100, "los"),
        (1.0, 50, "nlos"),
        (2.0, 100, "los"),
        (4.0, 50, "nlos"),
        (5.0, 100, "los"),
    ]


def test_time_begins_where_the_scenario_says(tmp_path: Path) -> None:
    assert course(
        tmp_path, {"kind": "pattern", "end": "repeat", "start_ns": 1_500_000_000}, until_ns=3_000_000_000
    ) == [
        (0.0, 50, "nlos"),
        (0.5, 100, "los"),
        (2.5, 50, "nlos"),
    ]


@pytest.mark.parametrize(("end", "last"), [("hold", (2.0, 100, "los")), ("stop", (3.0, 0, "los"))])
def test_what_follows_the_end(tmp_path: Path, end: str, last: tuple[float, int, str]) -> None:
    assert course(tmp_path, {"kind": "pattern", "end": end, "start_ns": 0})[-1] == last


def test_opportunities_are_summed_over_a_tenth_of_a_second(tmp_path: Path) -> None:
    head = "# wavebed pattern 1\n# kind = opportunities\n# duration_s = 0.2\ntime_s,bytes\n"
    text = head + "0.01,1000\n0.05,1000\n0.15,500\n"
    rate: dict[str, object] = {"kind": "opportunities", "end": "repeat", "start_ns": 0}
    assert course(tmp_path, rate, text, 200_000_000) == [(0.0, 160_000, None), (0.1, 40_000, None)]


@pytest.mark.parametrize(("duration_s", "rate_bps"), [(0.001, 12_000_000), (0.15, 240_000)])
def test_the_last_window_of_opportunities_is_as_short_as_the_pattern(
    tmp_path: Path, duration_s: float, rate_bps: int
) -> None:
    rows = "0.0005,1500\n" if duration_s < 0.1 else "0.05,3000\n0.12,1500\n"
    text = f"# wavebed pattern 1\n# kind = opportunities\n# duration_s = {duration_s}\ntime_s,bytes\n{rows}"
    rate: dict[str, object] = {"kind": "opportunities", "end": "repeat", "start_ns": 0}
    assert course(tmp_path, rate, text, 300_000_000) == [(0.0, rate_bps, None)]


def test_a_constant_rate_is_one_step_and_states_are_spans() -> None:
    rate: dict[str, object] = {"kind": "constant", "rate_bps": 5}
    down, up = capacity_steps(network([rate], [rate]))
    assert list(up.until(10**9).rows()) == [(0.0, "a.up", 5, None)]
    assert list(down.spans(1.0)) == []


def test_states_are_spans_until_the_end(tmp_path: Path) -> None:
    file = tmp_path / "pattern.csv"
    file.write_text(PATTERN)
    (down,) = capacity_steps(network([{"kind": "pattern", "file": str(file), "end": "hold", "start_ns": 0}], []))
    assert list(down.until(5 * 10**9).spans(5.0)) == [(0.0, 1.0, "los"), (1.0, 2.0, "nlos"), (2.0, 5.0, "los")]


@pytest.mark.parametrize("limit_first", [True, False])
def test_the_packet_rate_of_a_ue_hides_neither_rate_nor_states(tmp_path: Path, limit_first: bool) -> None:
    file = tmp_path / "pattern.csv"
    file.write_text(PATTERN)
    rates: list[dict[str, object]] = [
        {"kind": "packets", "packets_per_s": 60_000},
        {"kind": "pattern", "file": str(file), "end": "hold", "start_ns": 0},
    ]
    (up,) = capacity_steps(network([], rates if limit_first else rates[::-1]))
    assert next(up.until(5 * 10**9).rows()) == (0.0, "a.up", 100, "los")
    assert up.packets_per_s == 60_000


def test_a_link_with_nothing_but_a_packet_rate_has_no_rate_in_bits() -> None:
    (down,) = capacity_steps(network([{"kind": "packets", "packets_per_s": 100}], []))
    assert list(down.until(10**9).rows()) == [(0.0, "a.down", None, None)]


def tables(*busy: tuple[float, float]) -> dict[str, pa.Table]:
    """Two processors in intervals of 100 ms."""
    rows = [
        {"time_ns": (number + 1) * 100_000_000, "core": core, "busy": each, "softirq": 0.0}
        for number, both in enumerate(busy)
        for core, each in enumerate(both)
    ]
    return {"cpu": pa.Table.from_pylist(rows, schema=SCHEMAS["cpu"])}


def test_busy_time_of_all_processors_counts_under_load_only() -> None:
    series = tables((1.0, 1.0), (0.5, 0.25), (1.0, 0.0), (1.0, 1.0))
    found = {each.name: each for each in processor_metrics(series, {"bulk": TimeSpan(0.1, 0.3, True)}, 5e8)}
    assert found["processor time"].value == pytest.approx(0.175)
    assert found["processor time per GB"].value == pytest.approx(0.35)
    assert {each.better for each in found.values()} == {"lower"}


def test_nothing_delivered_has_no_ratio() -> None:
    (_, ratio) = processor_metrics(tables((1.0, 1.0), (1.0, 1.0)), {"bulk": TimeSpan(0.0, 0.2, True)}, 0.0)
    assert ratio.value is None


@pytest.mark.parametrize(
    ("series", "spans"),
    [
        ({}, {"bulk": TimeSpan(0.0, 1.0, True)}),
        ({"cpu": SCHEMAS["cpu"].empty_table()}, {"bulk": TimeSpan(0.0, 1.0, True)}),
        (tables((1.0, 1.0), (1.0, 1.0)), {"ping": TimeSpan(0.0, 1.0, False)}),
    ],
)
def test_without_a_series_or_without_load_there_is_nothing(
    series: dict[str, pa.Table], spans: dict[str, TimeSpan]
) -> None:
    assert list(processor_metrics(series, spans, 1e9)) == []


def whole_record(status: Status, reason: str = "") -> WorkloadRecord:
    return WorkloadRecord("bulk", "bulk", TimeSpan(0.0, 1.0, is_load=True), Outcome(status, reason))


def test_a_partial_workload_makes_its_trial_suspect() -> None:
    partial = whole_record("partial", "stopped at its limit of 5 s")
    found, reasons = verdict([partial_check([whole_record("ok"), partial])], [partial])
    assert found == "suspect"
    assert reasons == ["check failed: every workload is complete: bulk: stopped at its limit of 5 s"]


def test_a_trial_whose_workloads_are_whole_is_valid() -> None:
    assert verdict([partial_check([whole_record("ok")])], [whole_record("ok")]) == ("valid", [])


def steps(rate_bps: int) -> Steps:
    return Steps("radio.down", np.zeros(1, np.int64), np.array([rate_bps], np.int64), np.full(1, -1, np.int8))


def rows(
    rate_bps: int,
    *,
    size_bytes: int = 1500,
    overhead_bytes: int = 0,
    still_ms: range = range(0),
    first_ms: int = 0,
    queue_bytes: int = 100_000,
) -> pd.DataFrame:
    """Return two seconds of a full queue, from which a unit leaves whenever the rate allows, but for `still_ms`."""
    every_ms = (size_bytes + overhead_bytes) * 8 * 1000 / rate_bps
    times = np.floor(np.arange(first_ms, 2000, every_ms)).astype(int)
    time_ms, count = np.unique(np.append(0, times[~np.isin(times, still_ms)]), return_counts=True)
    frame = pd.DataFrame({"time_ms": time_ms, "link": "radio.down", "delivered_segments": count})
    frame["delivered_bytes"] = count * size_bytes
    frame["dropped_loss_segments"] = 0
    frame["dropped_corrupted_header_segments"] = 0
    frame["queue_bytes"] = queue_bytes
    return frame


def judged_backlog(links: pd.DataFrame, course: Steps) -> Check:
    return backlog_check(pa.Table.from_pandas(links, preserve_index=False), course)


def backlog(rate_bps: int, **how: int | range) -> Check:
    return judged_backlog(rows(rate_bps, **how), steps(rate_bps))  # type: ignore[arg-type]


@pytest.mark.parametrize("rate_bps", [300_000, 2_000_000, 50_000_000, 1_000_000_000])
def test_a_link_that_delivers_at_its_rate_holds(rate_bps: int) -> None:
    check = backlog(rate_bps)
    assert check.holds, check.evidence
    assert "windows of 0.2 s" in check.evidence


def test_super_packets_that_leave_at_once_are_no_shortfall() -> None:
    assert backlog(10_000_000, size_bytes=64_000).holds


@pytest.mark.parametrize("rate_bps", [2_000_000, 100_000_000])
def test_a_link_that_stands_still_beside_its_full_queue_does_not_hold(rate_bps: int) -> None:
    check = backlog(rate_bps, still_ms=range(800, 1600))
    assert not check.holds
    assert check.severity == "suspect"


def test_a_queue_that_is_nearly_empty_says_nothing() -> None:
    check = backlog(100_000_000, still_ms=range(800, 1600), queue_bytes=3000)
    assert check.holds
    assert "never full" in check.evidence


def test_headers_of_lower_layers_use_the_rate() -> None:
    found = rows(10_000_000, size_bytes=200, overhead_bytes=40)
    assert not judged_backlog(found, steps(10_000_000)).holds
    assert judged_backlog(found, replace(steps(10_000_000), overhead_bytes=40)).holds


def test_what_is_still_on_its_way_does_not_lack() -> None:
    found = rows(10_000_000, first_ms=600)
    assert not judged_backlog(found, steps(10_000_000)).holds
    check = judged_backlog(found, replace(steps(10_000_000), delay_ns=600_000_000))
    assert check.holds
    assert "windows of 0.2 s" in check.evidence


def test_the_queue_of_a_ue_at_its_packet_rate_is_no_shortfall() -> None:
    found = rows(12_000_000)  # 1000 packets of 1500 bytes in a second
    assert not judged_backlog(found, steps(50_000_000)).holds
    assert judged_backlog(found, replace(steps(50_000_000), packets_per_s=1000)).holds


def test_a_queue_that_is_in_turn_that_of_the_ue_and_of_the_rate_is_no_shortfall() -> None:
    """Half of each window has packets of 1250 bytes at the rate, the other half small ones at the limit of the UE."""
    found = rows(8_000_000, size_bytes=1000)
    small = found["time_ms"] % 200 >= 100
    found.loc[~small, "delivered_bytes"] = found.loc[~small, "delivered_segments"] * 1250
    found.loc[small, "delivered_bytes"] = found.loc[small, "delivered_segments"] * 100
    assert judged_backlog(found, replace(steps(10_000_000), packets_per_s=1000)).holds


def test_a_link_that_is_still_beside_both_full_queues_does_not_hold() -> None:
    found = rows(12_000_000, still_ms=range(800, 1600))
    assert not judged_backlog(found, replace(steps(50_000_000), packets_per_s=1000)).holds
