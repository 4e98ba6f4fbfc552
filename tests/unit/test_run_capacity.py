"""The course of a link in the laboratory's time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from wavebed.run.capacity import capacity_steps
from wavebed.spec.network import Network

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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
