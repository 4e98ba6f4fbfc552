"""By how much late packets may have delayed an application: one of each direction in each round trip."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wavebed.check.lateness import most_lateness_s
from wavebed.result.model import TrialRecord
from wavebed.result.tables import SCHEMAS
from wavebed.spec.link import ConstantDelay, Delay, Distribution
from wavebed.spec.network import CoalesceOff, Hop, Host, Leg, Network

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.spec.link import DelaySource

MS = 1_000_000
TRIAL = TrialRecord("0001-x", 1, "x", 1, "", 1.0, "suspect")


def hop(name: str, *delays: DelaySource) -> Hop:
    stages = tuple(Delay(each, reorder=False, limit_packets=None) for each in delays)
    return Hop(name, "wired", stages, stages)


def late(folder: Path, rows: Sequence[tuple[int, str, int, int]], *hops: Hop) -> float | None:
    """Return the most lateness with rows of time (ms), direction, segments and lateness (ns)."""
    (folder / "series").mkdir(exist_ok=True)
    columns = list(zip(*((ms, way, n, n, 1500 * n, ns, 0) for ms, way, n, ns in rows), strict=True))
    pq.write_table(pa.table(columns, schema=SCHEMAS["departures"]), folder / "series" / "departures.parquet")
    leg = Leg("server", "client", hops)
    network = Network(1500, False, CoalesceOff(), None, (Host("server"), Host("client")), (leg,))
    return most_lateness_s(replace(TRIAL, resolved={"network": msgspec.to_builtins(network)}), folder)


def test_of_a_round_trip_the_latest_packet_of_each_direction_counts(tmp_path: Path) -> None:
    rows = [
        (0, "server-client.down", 5, 300_000),
        (19, "server-client.down", 5, 700_000),
        (20, "server-client.down", 5, 100_000),
        (95, "server-client.down", 1, 2 * MS),
        (7, "server-client.up", 1, 50_000),
        (8, "server-client.up", 1, 40_000),
    ]
    found = late(tmp_path, rows, hop("core", ConstantDelay(4 * MS)), hop("air", ConstantDelay(6 * MS)))
    assert found == pytest.approx((700_000 + 100_000 + 2 * MS + 50_000) / 1e9)


def test_of_a_path_shorter_than_a_row_as_many_count_as_there_are_round_trips(tmp_path: Path) -> None:
    rows = [(0, "server-client.down", 50, 100_000), (1, "server-client.down", 2, 100_000)]
    assert late(tmp_path, rows, hop("lan", ConstantDelay(100_000))) == pytest.approx((6 + 2) * 100e-6)
    assert late(tmp_path, rows, hop("lan")) == pytest.approx((50 + 2) * 100e-6)


def test_a_delay_that_may_be_nothing_is_none(tmp_path: Path) -> None:
    rows = [(0, "server-client.down", 50, 100_000)]
    spread = Distribution("normal", 10 * MS, 2 * MS)
    assert late(tmp_path, rows, hop("air", spread)) == pytest.approx(50 * 100e-6)


def test_without_path_table_or_packets_it_is_unknown(tmp_path: Path) -> None:
    assert most_lateness_s(TRIAL, tmp_path) is None
    assert most_lateness_s(replace(TRIAL, resolved={"network": {}}), tmp_path) is None
    assert late(tmp_path, [(0, "other.down", 1, 9)], hop("air", ConstantDelay(MS))) is None
