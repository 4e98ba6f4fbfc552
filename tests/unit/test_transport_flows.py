"""Retransmissions and fairness, of hand-made flows whose answer is known."""

from __future__ import annotations

import pyarrow as pa
import pytest

from wavebed.result.flows import bulk_bytes, jain, retransmission_fraction
from wavebed.result.tables import SCHEMAS, capacity_table
from wavebed.result.transport import transport_metrics
from wavebed.workload.model import Span


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


def made(*flows: list[dict[str, object]]) -> dict[str, pa.Table]:
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
    tables = made(flow(1, 0, 2, 1e6, retrans=0.25), flow(2, 0, 2, 1e6))
    assert retransmission_fraction(tables) == pytest.approx(0.25 / 2.25)


def test_retransmissions_are_missing_where_nothing_was_sent_or_the_kernel_does_not_count() -> None:
    assert retransmission_fraction(made()) is None
    unknown = [{**row, "bytes_retrans": None} for row in flow(1, 0, 2, 1e6)]
    assert retransmission_fraction(made(unknown)) is None


def test_connections_within_a_host_do_not_count() -> None:
    inside = [flow(number, 0, 2, 9e6, retrans=1.0, remote=at) for number, at in enumerate(("127.0.0.1:9", "[::1]:9"))]
    assert retransmission_fraction(made(flow(7, 0, 2, 1e6), *inside)) == 0


def test_bulk_flows_share_what_they_delivered_in_their_common_time() -> None:
    # The first has the path to itself for 5 s, at a rate that does not count.
    first = flow(1, 0, 5, 9e6) + [
        {**row, "bytes_acked": 45_000_000 + row["bytes_acked"], "busy_us": 5_000_000 + row["busy_us"]}
        for row in flow(1, 5, 10, 3e6)[1:]
    ]
    tables = made(first, flow(2, 5, 12, 1e6))
    assert bulk_bytes(tables, down=True) == pytest.approx([15e6, 5e6])
    assert bulk_bytes(tables, down=False) == []


def test_a_starved_flow_counts_and_an_idle_one_does_not() -> None:
    tables = made(flow(1, 0, 5, 3e6), flow(2, 0, 5, 0), flow(3, 0, 5, 10, busy=0.01))
    assert bulk_bytes(tables, down=True) == pytest.approx([15e6, 0])


def test_flows_that_never_ran_together_have_no_fairness() -> None:
    assert bulk_bytes(made(flow(1, 0, 4, 1e6), flow(2, 4, 8, 1e6)), down=True) == []


def test_each_direction_has_its_fairness() -> None:
    tables = made(
        flow(1, 0, 4, 3e6), flow(2, 0, 4, 1e6), flow(3, 0, 4, 1e6, host="client"), flow(4, 0, 4, 1e6, host="client")
    )
    found = {metric.name: metric.value for metric in transport_metrics(tables, {"bulk": Span(0.0, 4.0, True)})}
    assert found == {
        "retransmission share": 0,
        "fairness between flows down": pytest.approx(0.8),
        "fairness between flows up": pytest.approx(1.0),
    }
