"""The packet at which a repetition stops, and whether the repetition is the same up to there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest

from wavebed.check.late import find_stop, first_late, first_unlike
from wavebed.errors import UserError
from wavebed.result.tables import LOG_SCHEMAS
from wavebed.run.stopped import State

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.spec.types import Network

MS = 1_000_000
LEG = SimpleNamespace(hops=[SimpleNamespace(name="wire"), SimpleNamespace(name="radio")])
NETWORK = cast("Network", SimpleNamespace(legs=[LEG]))


def _rows(direction: str, number: int, entered_ms: float, took_ms: float | None, reason: str = "") -> list[dict]:
    """Return the rows of a packet on both links; without `took_ms` it is dropped on the second one, 1 ms later."""
    links = ["wire", "radio"] if direction == "down" else ["radio", "wire"]
    entered = round(entered_ms * MS)
    common = {"packet": number, "is_copy": False, "first": 0, "segments": 1, "bytes": 100 + number, "flow": 7}
    second = {"link": f"{links[1]}.{direction}", "entered_ns": entered + MS, **common}
    if took_ms is None:
        second |= {"dropped_ns": entered + 2 * MS, "drop_reason": reason}
    else:
        second |= {"delivered_ns": entered + round(took_ms * MS), "written_ns": entered + round(took_ms * MS)}
    first = {"link": f"{links[0]}.{direction}", "entered_ns": entered, "delivered_ns": entered + MS, **common}
    return [first, second]


def _log(*packets: list[dict]) -> pa.Table:
    rows = sorted((row for rows in packets for row in rows), key=lambda row: (row["link"], row["entered_ns"]))
    return pa.Table.from_pylist(rows, schema=LOG_SCHEMAS["packets"])


LOG = _log(
    _rows("up", 1, 0, 10),
    _rows("down", 1, 1, 20),
    _rows("down", 2, 30, 55),
    _rows("down", 3, 40, None, "overflow"),
    _rows("down", 4, 50, 80),
    _rows("up", 2, 200, 10),
)


def test_without_a_bound_it_is_the_first_packet_that_was_dropped() -> None:
    for requirements in ([], ["bulk.goodput every > 5 mbit"], ["path.dropped down every = 0 segments"]):
        found = first_late(LOG, NETWORK, requirements)
        assert (found.at_ns, found.link, found.packet) == (42 * MS, "radio.down", 3)
        assert "103 bytes towards the client" in found.text()
        assert found.text().endswith("dropped at radio.down: overflow")


def test_a_bound_on_a_delay_is_that_of_each_packet() -> None:
    found = first_late(LOG, NETWORK, ["voice.one-way delay p95 every < 50 ms"])
    assert (found.at_ns, found.packet) == (80 * MS, 2), "30 ms + 50 ms: it is still on its way"
    assert "still on its way 50 ms later" in found.text()
    assert first_late(LOG, NETWORK, ["voice.one-way delay p95 every < 60 ms"]).packet == 4


def test_a_bound_on_a_round_trip_leaves_the_shortest_way_back_out() -> None:
    found = first_late(LOG, NETWORK, ["latency.rtt max every < 60 ms"])
    assert (found.at_ns, found.packet) == (80 * MS, 2), "60 ms less the 10 ms of the way back"


def test_where_none_is_late_or_lost_it_is_the_slowest() -> None:
    found = first_late(_log(_rows("up", 1, 0, 10), _rows("down", 1, 5, 20)), NETWORK, [])
    assert (found.at_ns, found.packet, found.link) == (25 * MS, 1, "radio.down")
    assert "the longest way of all" in found.text()
    with pytest.raises(UserError, match="has no packet"):
        first_late(_log(), NETWORK, [])


def test_a_trial_without_a_packet_log_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no packet log: .*path.packet-log=true"):
        find_stop(tmp_path, NETWORK, [])


def test_two_logs_are_compared_up_to_the_moment() -> None:
    rows, unlike = first_unlike(LOG, LOG, 42 * MS)
    assert (rows, unlike) == (7, "")
    later = _log(_rows("up", 1, 0, 10), _rows("down", 1, 1, 20.5), _rows("down", 2, 30, 55))
    assert first_unlike(LOG, later, 20 * MS) == (3, "")
    _, unlike = first_unlike(LOG, later, 42 * MS)
    assert unlike == "row 1 of radio.down: delivered_ns 21500000 here, 21000000 there"


def test_the_state_is_a_table_of_links_and_the_connections_of_each_host() -> None:
    link = {"name": "radio.down", "queued_segments": 3, "queued_bytes": 4500, "rate_bps": 3_600_000, "loss": 0.01}
    dead = {"name": "radio.up", "queued_segments": 0, "queued_bytes": 0, "rate_bps": 0, "sinr_db": -3.0}
    state = State([link, dead], 1.0001, {"client": "ESTAB 0 0\n\t cubic\x1b[2J", "server": ""}, 1.002)
    lines = "\n".join(state.lines(1.0)).splitlines()
    assert lines[0] == "links 0.100 ms later:"
    assert "3 packets, 4500 B, 10.0 ms" in lines[2]
    assert "outage -3.0 dB" in lines[3]
    assert lines[4:7] == ["connections 2.000 ms later:", "client:", "  ESTAB 0 0"]
    assert lines[-1] == "server: none"
    assert "\x1b" not in "\n".join(lines)
