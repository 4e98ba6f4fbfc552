"""Formulas of TCP, and metrics of the transport: links and flows."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from wavebed.reproduce.tcp_models import bbr_mbps, cubic_mbps, mathis_mbps, pftk_mbps
from wavebed.result.course import bottlenecks, load_spans
from wavebed.result.tables import SCHEMAS, capacity_table
from wavebed.result.transport import Recovery, bulk_bytes, jain, recoveries, retransmission_fraction, transport_metrics
from wavebed.workload.model import TimeSpan

MBIT = 10**6
LOAD = {"file": TimeSpan(0.0, 10.0, True), "ping": TimeSpan(0.0, 12.0, False)}


def link_rows(link: str, rows: dict[int, dict[str, float]]) -> list[dict[str, object]]:
    """Rows of the table of links; what is not given is 0, a sojourn time is null."""
    empty = dict.fromkeys(SCHEMAS["links"].names, 0) | {"sojourn_mean_ns": None, "sojourn_max_ns": None}
    return [{**empty, "time_ms": at, "link": link, **row} for at, row in sorted(rows.items())]


def steady(start_ms: int, end_ms: int, bits_per_ms: float, sojourn_ms: float = 0.0, queue_bytes: int = 0):
    """A link through which this much goes every millisecond."""
    size = round(bits_per_ms / 8)
    row = {
        "offered_segments": 1,
        "offered_bytes": size,
        "delivered_segments": 1,
        "delivered_bytes": size,
        "queue_bytes": queue_bytes,
        "sojourn_mean_ns": round(sojourn_ms * 1e6),
    }
    return dict.fromkeys(range(start_ms, end_ms), row)


def made(rows: dict[int, dict[str, float]], capacity, link: str = "radio.down") -> dict[str, pa.Table]:
    return {
        "links": pa.Table.from_pylist(link_rows(link, rows), schema=SCHEMAS["links"]),
        "capacity": capacity_table(capacity),
        "flows": SCHEMAS["flows"].empty_table(),
    }


def constant(rate_bps: int | None = 12 * MBIT, link: str = "radio.down"):
    return [(0.0, link, rate_bps, None)]


def with_outage(start_s: float, end_s: float):
    return [*constant(), (start_s, "radio.down", 0, None), (end_s, "radio.down", 12 * MBIT, None)]


def figures(tables, spans=LOAD) -> dict[str, float | None]:
    found = {metric.name: metric.value for metric in transport_metrics(tables, spans)}
    assert not any(value is not None and math.isnan(value) for value in found.values())
    return found


def test_half_of_the_capacity_used_is_half() -> None:
    assert figures(made(steady(0, 10_000, 6_000), constant()))["share of capacity used down"] == pytest.approx(50)


def test_only_what_is_carried_while_there_is_load_counts() -> None:
    spans = {"file": TimeSpan(2.0, 4.0, True)}
    rows = steady(0, 2_000, 12_000) | steady(3_000, 10_000, 12_000)
    assert figures(made(rows, constant()), spans)["share of capacity used down"] == pytest.approx(50)


def test_the_capacity_of_a_pattern_is_the_sum_of_its_steps() -> None:
    capacity = [(0.0, "radio.down", 10 * MBIT, None), (2.5, "radio.down", 2 * MBIT, None)]
    course = bottlenecks(made({}, capacity), LOAD)["down"]
    assert course.possible_bits() == pytest.approx(2.5 * 10 * MBIT + 7.5 * 2 * MBIT)


def test_without_a_rate_limit_nothing_is_said_of_capacity_and_the_queue_is_still_measured() -> None:
    found = figures(made(steady(0, 10_000, 6_000, sojourn_ms=3), constant(None)))
    for name in ("share of capacity used down", "time to ramp up down", "self-inflicted delay p95 down"):
        assert found[name] is None
    assert found["queueing delay p50 down"] == pytest.approx(3)


def test_without_load_there_are_no_metrics() -> None:
    assert transport_metrics(made(steady(0, 100, 100), constant()), {"ping": TimeSpan(0.0, 9.0, False)}) == []


def test_the_link_that_can_carry_least_is_the_bottleneck_of_its_direction() -> None:
    capacity = [*constant(100 * MBIT, "wired.down"), *constant(12 * MBIT), *constant(5 * MBIT, "radio.up")]
    found = bottlenecks(made({}, capacity), LOAD)
    assert {direction: course.link for direction, course in found.items()} == {"down": "radio.down", "up": "radio.up"}


def test_spans_with_load_that_overlap_or_touch_are_one() -> None:
    spans = {
        "a": TimeSpan(1.0, 3.0, True),
        "b": TimeSpan(2.0, 4.0, True),
        "c": TimeSpan(4.0, 5.0, True),
        "d": TimeSpan(7.0, 8.0, True),
        "e": TimeSpan(0.0, 9.0, False),
    }
    assert load_spans(spans) == [(1000, 5000), (7000, 8000)]


def test_a_standing_queue_is_self_inflicted_delay() -> None:
    found = figures(made(steady(0, 10_000, 12_000, sojourn_ms=80, queue_bytes=120_000), constant()))
    assert found["queueing delay p50 down"] == pytest.approx(80)
    assert found["signal delay p95 down"] == pytest.approx(80)
    assert found["omniscient delay p95 down"] == 0
    assert found["self-inflicted delay p95 down"] == pytest.approx(80)


def test_the_queueing_delay_is_that_of_bytes_not_of_milliseconds() -> None:
    # A tenth of the time carries more than half of the bytes, and they waited longer.
    rows = steady(0, 9_000, 1_000, sojourn_ms=1) | steady(9_000, 10_000, 12_000, sojourn_ms=50)
    assert figures(made(rows, constant()))["queueing delay p50 down"] == pytest.approx(50)


def test_what_is_dropped_at_the_queue_did_not_leave_it() -> None:
    # In the last second twelve segments come in each millisecond and eleven of them are dropped.
    crowd = {
        "offered_segments": 12,
        "offered_bytes": 1_500,
        "dropped_overflow_segments": 11,
        "delivered_segments": 1,
        "delivered_bytes": 125,
        "sojourn_mean_ns": 50_000_000,
    }
    rows = steady(0, 9_000, 1_000, sojourn_ms=1) | dict.fromkeys(range(9000, 10000), crowd)
    found = figures(made(rows, constant()))
    assert found["queueing delay p50 down"] == pytest.approx(1)
    assert found["queueing delay p95 down"] == pytest.approx(50)


def test_an_outage_delays_the_omniscient_sender_and_is_not_held_against_the_sender() -> None:
    # 2 s of 10 without capacity; what waits meanwhile leaves at once after it.
    capacity = [
        (0.0, "radio.down", 12 * MBIT, None),
        (4.0, "radio.down", 0, None),
        (6.0, "radio.down", 12 * MBIT, None),
    ]
    waiting = {4_000: {"offered_segments": 1, "offered_bytes": 1_500, "queue_bytes": 1_500}}
    rows = steady(0, 4_000, 12_000) | waiting | steady(6_000, 10_000, 12_000)
    found = figures(made(rows, capacity))
    # The delay grows from 0 to 2 s during a fifth of the time: its 95th percentile is three quarters of the way up.
    assert found["omniscient delay p95 down"] == pytest.approx(1_500, abs=2)
    assert found["omniscient delay p50 down"] == 0
    assert found["signal delay p95 down"] == pytest.approx(1_500, abs=2)
    assert found["self-inflicted delay p95 down"] == pytest.approx(0, abs=2)


def test_a_sender_that_is_silent_in_an_outage_does_not_beat_the_omniscient_one() -> None:
    capacity = [
        (0.0, "radio.down", 12 * MBIT, None),
        (4.0, "radio.down", 0, None),
        (6.0, "radio.down", 12 * MBIT, None),
    ]
    found = figures(made(steady(0, 4_000, 12_000) | steady(6_000, 10_000, 12_000), capacity))
    assert found["self-inflicted delay p95 down"] == 0


def test_a_sender_with_nothing_to_send_is_not_charged_for_its_silence() -> None:
    found = figures(made(steady(0, 1_000, 12_000, sojourn_ms=2), constant()))
    assert found["signal delay p95 down"] == pytest.approx(2)
    assert found["signal delay p50 down"] == 0


def test_on_a_slow_link_the_omniscient_sender_waits_for_its_packet_to_be_sent() -> None:
    # 1.2 Mbit/s: a packet of 1500 bytes every 10 ms.
    found = figures(made(steady(0, 10_000, 1_200), constant(1_200_000)))
    assert found["omniscient delay p95 down"] == pytest.approx(9)


def test_the_ramp_ends_with_the_first_100_ms_in_which_the_capacity_is_used() -> None:
    spans = {"file": TimeSpan(2.0, 10.0, True)}
    # Half of the capacity until 2.5 s after the start, then all of it: 90 % are reached with 80 of 100 ms.
    rows = steady(2_000, 4_500, 6_000) | steady(4_500, 10_000, 12_000)
    assert figures(made(rows, constant()), spans)["time to ramp up down"] == pytest.approx(2.58)


def test_a_capacity_that_is_never_used_has_no_time_to_ramp_up() -> None:
    assert figures(made(steady(0, 10_000, 6_000), constant()))["time to ramp up down"] is None


def test_what_a_radio_repeats_is_not_missed_when_the_ramp_is_judged() -> None:
    rows = steady(0, 10_000, 9_600)
    assert figures(made(rows, constant()))["time to ramp up down"] is None
    with_blocks = {at: {**row, "blocks_sent": 10, "blocks_failed": 2} for at, row in rows.items()}
    assert figures(made(with_blocks, constant()))["time to ramp up down"] == pytest.approx(0.1)


def changing(*states: tuple[float, int, str]):
    return [(time_s, "radio.down", rate, state) for time_s, rate, state in states]


def test_each_change_of_the_radio_has_its_time_to_recover() -> None:
    capacity = changing((0, 12 * MBIT, "LOS"), (3, 0, "OUTAGE"), (4, 12 * MBIT, "LOS"), (8, 6 * MBIT, "NLOS"))
    rows = steady(0, 3_000, 12_000) | steady(5_000, 8_000, 12_000) | steady(8_000, 10_000, 6_000)
    tables = made(rows, capacity)
    course = bottlenecks(tables, LOAD)["down"]
    # After the outage nothing comes for a second; a window is used when 90 of its 100 ms carry traffic.
    assert recoveries(course) == [Recovery(4.0, 1.09), Recovery(8.0, 0.1)]
    found = figures(tables)
    assert found["changes of capacity down"] == 2
    assert found["changes not recovered from down"] == 0
    assert found["time to recover max down"] == pytest.approx(1.09)


def test_a_change_that_is_not_recovered_from_before_the_next_has_no_time() -> None:
    capacity = changing((0, 2 * MBIT, "NLOS"), (3, 12 * MBIT, "LOS"), (5, 2 * MBIT, "NLOS"))
    tables = made(steady(0, 10_000, 2_000), capacity)
    assert recoveries(bottlenecks(tables, LOAD)["down"]) == [Recovery(3.0, None), Recovery(5.0, 0.1)]
    assert figures(tables)["changes not recovered from down"] == 1


def test_a_direction_whose_capacity_was_never_used_has_nothing_to_recover_to() -> None:
    capacity = changing((0, 12 * MBIT, "LOS"), (3, 5 * MBIT, "NLOS"))
    found = figures(made(steady(0, 10_000, 100), capacity))
    assert found["changes of capacity down"] == 1
    assert found["changes not recovered from down"] is None
    assert found["time to recover p50 down"] is None


def test_a_rate_that_changes_by_less_than_two_in_one_state_is_no_change() -> None:
    capacity = changing((0, 12 * MBIT, "LOS"), (3, 7 * MBIT, "LOS"), (5, 12 * MBIT, "LOS"))
    found = figures(made(steady(0, 10_000, 7_000), capacity))
    assert found["changes of capacity down"] == 0
    assert found["time to recover p50 down"] is None
    assert found["changes not recovered from down"] is None


def test_changes_without_load_or_too_short_to_tell_are_left_out() -> None:
    capacity = changing((0, 2 * MBIT, "LOS"), (1, 9 * MBIT, "LOS"), (5, 2 * MBIT, "LOS"), (5.05, 9 * MBIT, "LOS"))
    spans = {"file": TimeSpan(3.0, 10.0, True)}
    course = bottlenecks(made(steady(3_000, 10_000, 9_000), capacity), spans)["down"]
    assert recoveries(course) == [Recovery(5.05, 0.1)]


def flow(
    cookie: int,
    start_s: float,
    end_s: float,
    rate_bytes_s: float,
    *,
    host: str = "server",
    retrans: float = 0.0,
    busy: float = 1.0,
    remote: str = "198.18.0.2:40000",
) -> list[dict[str, object]]:
    """A flow that is sampled every 10 ms; all it sends is acknowledged."""
    rows = []
    for sample in range(round(start_s * 100), round(end_s * 100) + 1):
        lasted = sample / 100 - start_s
        rows.append(
            {
                "time_ns": sample * 10_000_000,
                "host": host,
                "cookie": cookie,
                "local": "198.18.0.1:5201",
                "remote": remote,
                "bytes_sent": round(rate_bytes_s * lasted * (1 + retrans)),
                "bytes_retrans": round(rate_bytes_s * lasted * retrans),
                "bytes_acked": round(rate_bytes_s * lasted),
                "busy_us": round(lasted * busy * 1e6),
            }
        )
    return rows


def made_flows(*flows: list[dict[str, object]]) -> dict[str, pa.Table]:
    rows = [{name: row.get(name) for name in SCHEMAS["flows"].names} for rows in flows for row in rows]
    return {
        "flows": pa.Table.from_pylist(rows, schema=SCHEMAS["flows"]),
        "links": SCHEMAS["links"].empty_table(),
        "capacity": capacity_table([]),
    }


@pytest.mark.parametrize(
    ("shares", "index"),
    [([1, 1, 1, 1], 1.0), ([1, 0, 0, 0], 0.25), ([3, 1], 0.8), ([5], None), ([], None), ([0, 0], None)],
)
def test_jains_index(shares: list[float], index: float | None) -> None:
    assert jain(shares) == index


def test_the_retransmission_fraction_is_over_all_flows() -> None:
    tables = made_flows(flow(1, 0, 2, 1e6, retrans=0.25), flow(2, 0, 2, 1e6))
    assert retransmission_fraction(tables) == pytest.approx(0.25 / 2.25)


def test_retransmissions_are_missing_where_nothing_was_sent_or_the_kernel_does_not_count() -> None:
    assert retransmission_fraction(made_flows()) is None
    unknown = [{**row, "bytes_retrans": None} for row in flow(1, 0, 2, 1e6)]
    assert retransmission_fraction(made_flows(unknown)) is None


def test_connections_within_a_host_do_not_count() -> None:
    inside = [flow(number, 0, 2, 9e6, retrans=1.0, remote=at) for number, at in enumerate(("127.0.0.1:9", "[::1]:9"))]
    assert retransmission_fraction(made_flows(flow(7, 0, 2, 1e6), *inside)) == 0


def test_bulk_flows_share_what_they_delivered_in_their_common_time() -> None:
    # The first has the path to itself for 5 s, at a rate that does not count.
    first = flow(1, 0, 5, 9e6) + [
        {**row, "bytes_acked": 45_000_000 + row["bytes_acked"], "busy_us": 5_000_000 + row["busy_us"]}
        for row in flow(1, 5, 10, 3e6)[1:]
    ]
    tables = made_flows(first, flow(2, 5, 12, 1e6))
    assert bulk_bytes(tables, down=True) == pytest.approx([15e6, 5e6])
    assert bulk_bytes(tables, down=False) == []


def test_a_starved_flow_counts_and_an_idle_one_does_not() -> None:
    tables = made_flows(flow(1, 0, 5, 3e6), flow(2, 0, 5, 0), flow(3, 0, 5, 10, busy=0.01))
    assert bulk_bytes(tables, down=True) == pytest.approx([15e6, 0])


def test_flows_that_never_ran_together_have_no_fairness() -> None:
    assert bulk_bytes(made_flows(flow(1, 0, 4, 1e6), flow(2, 4, 8, 1e6)), down=True) == []


def test_each_direction_has_its_fairness() -> None:
    tables = made_flows(
        flow(1, 0, 4, 3e6), flow(2, 0, 4, 1e6), flow(3, 0, 4, 1e6, host="client"), flow(4, 0, 4, 1e6, host="client")
    )
    found = {metric.name: metric.value for metric in transport_metrics(tables, {"bulk": TimeSpan(0.0, 4.0, True)})}
    assert found == {
        "retransmission share": 0,
        "fairness between flows down": pytest.approx(0.8),
        "fairness between flows up": pytest.approx(1.0),
    }


WIRED = (1e-4, 0.08)
WIRELESS = (0.01, 0.001)


def test_mathis_by_hand() -> None:
    # sqrt(1.5 / 0.0001) = 122.474 segments of 11584 bits in 80 ms.
    assert mathis_mbps(*WIRED) == pytest.approx(17.7343, rel=1e-4)
    # 12.2474 segments in 1 ms.
    assert mathis_mbps(*WIRELESS) == pytest.approx(141.874, rel=1e-4)
    assert mathis_mbps(*WIRED, mss=724) == pytest.approx(17.7343 / 2, rel=1e-4)


def test_cubic_is_cubic_on_a_long_path_and_reno_on_a_short_one() -> None:
    # (0.4 * 3.7 / 1.2)^(1/4) = 1.05383, times (0.08 / 0.0001)^(3/4) = 150.424: 158.521 segments in 80 ms.
    assert cubic_mbps(*WIRED) == pytest.approx(22.9539, rel=1e-4)
    # 1.05383 * 0.1^(3/4) = 0.187 segments, less than Reno's 12.2.
    assert cubic_mbps(*WIRELESS) == mathis_mbps(*WIRELESS)


def test_cubic_windows_by_hand() -> None:
    """Segments at a round trip of 0.1 s; at 0.1 % Reno's window is the larger one."""
    for loss, window in ((1e-3, 38.73), (1e-4, 187.40), (1e-5, 1053.8), (1e-6, 5926.1)):
        assert cubic_mbps(loss, 0.1) * 0.1 / 11584e-6 == pytest.approx(window, rel=1e-3)


def test_pftk_by_hand() -> None:
    # 80 ms * sqrt(2e-4 / 3) = 653.197 us; 280 ms * 3 sqrt(3e-4 / 8) * 1e-4 = 0.514393 us.
    assert pftk_mbps(*WIRED) == pytest.approx(11584 / 653.711, rel=1e-4)
    # 81.6497 us + 201 ms * 3 sqrt(0.03 / 8) * 0.01 * 1.0032 = 370.442 us.
    assert pftk_mbps(*WIRELESS) == pytest.approx(11584 / 452.092, rel=1e-4)


def test_pftk_without_timeouts_is_mathis() -> None:
    assert pftk_mbps(1e-8, 0.08) == pytest.approx(mathis_mbps(1e-8, 0.08), rel=1e-3)


def test_pftk_gains_from_a_shorter_timeout_where_round_trips_are_short() -> None:
    assert pftk_mbps(*WIRELESS, rto_min=0.005) > 4 * pftk_mbps(*WIRELESS)
    assert pftk_mbps(*WIRED, rto_min=0.005) < 1.01 * pftk_mbps(*WIRED)


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"loss": 0.0, "rtt": 1.0}, "loss"),
        ({"loss": 1.1, "rtt": 1.0}, "loss"),
        ({"loss": 0.1, "rtt": 0.0}, "rtt"),
        ({"loss": 0.1, "rtt": 1.0, "mss": 0}, "mss"),
        ({"loss": 0.1, "rtt": 1.0, "rto_min": -1.0}, "rto_min"),
    ],
)
def test_values_out_of_range_are_refused(given: dict[str, float], wrong: str) -> None:
    with pytest.raises(ValueError, match=f"^{wrong}: "):
        pftk_mbps(**given)  # type: ignore[arg-type]


def test_bbr_fills_the_link_but_for_its_probes() -> None:
    # 1448 of 1500 bytes, 99 of 100 packets, 98 of 100 seconds.
    assert bbr_mbps(0.01, 1000) == pytest.approx(1000 * 1448 / 1500 * 0.99 * 0.98)
    assert bbr_mbps(0, 10) > bbr_mbps(0.1, 10)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ((0.2, 10), "loss: 0.2 is no probability below 0.2"),
        ((-0.1, 10), "loss: -0.1 is no probability"),
        ((0.1, 0), "link_mbps: 0 is no rate above 0"),
        ((0.1, 10, 0), "mss: 0 is no size above 0"),
    ],
)
def test_bbr_outside_its_range_is_refused(given: tuple[float, ...], line: str) -> None:
    with pytest.raises(ValueError, match=line):
        bbr_mbps(*given)
