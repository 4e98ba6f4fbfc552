"""The path in virtual time, packet by packet: each leaves when its model says, computed here a second time."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pytest
from tests.lab.programs import fetched_by_two, held_rtts_ns, paced
from tests.lab.test_sampling import rows_of
from tests.lab.workload_trial import run_in_virtual_time
from tests.traces import trace

import wavebed
from wavebed.path.api import Path
from wavebed.pattern import Pattern, read_trace
from wavebed.result.tables import packet_tables

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    import pandas as pd
    from numpy.typing import NDArray

pytestmark = pytest.mark.timeout(1800)

CALLS_NS = 10_000
"""What the system calls of programs and engine take of a round trip, at most: a microsecond each."""
LOGGED_NS = 256
"""The packet log rounds the time of entry down to a multiple of this."""
SLOT_NS = 125_000


class Frame(NamedTuple):
    """The frame `DDDSU` of the preset ``nr-120khz``. Times are in slots; decoding is in ns."""

    down: tuple[int, ...] = (0, 1, 2, 3)
    up: tuple[int, ...] = (3, 4)
    length: int = 5
    prepare: int = 2
    decode_ns: int = 100_000
    request_period: int = 10
    schedule: int = 2
    grant: int = 3


FRAME = Frame()


def next_of(slots: tuple[int, ...], index: int) -> int:
    return next(slot for slot in range(index, index + FRAME.length) if slot % FRAME.length in slots)


def down_ns(at_ns: int) -> int:
    """Return how long a packet of an idle downlink takes that comes at `at_ns`."""
    earliest = math.floor(at_ns / SLOT_NS + FRAME.prepare) + 1
    return (next_of(FRAME.down, earliest) + 1) * SLOT_NS + FRAME.decode_ns - at_ns


def up_ns(at_ns: int) -> int:
    """Return how long a packet of an idle uplink takes: request, grant, data."""
    after = math.floor(at_ns / SLOT_NS) + 1
    first = after // FRAME.request_period
    requests = (next_of(FRAME.up, k * FRAME.request_period) for k in range(first, first + 3))
    request = next(slot for slot in requests if slot >= after)
    granting = next_of(FRAME.down, request + FRAME.schedule)
    return (next_of(FRAME.up, granting + FRAME.grant) + 1) * SLOT_NS + FRAME.decode_ns - at_ns


def summary_of(log: FilePath) -> dict[str, Any]:
    """Return what the laboratory counted."""
    return cast("dict[str, Any]", json.loads((log / "summary.json").read_text()))


def packets_of(log: FilePath, link: str, size: int) -> pd.DataFrame:
    """Return the packets of a link with a length of `size` bytes."""
    packets = packet_tables(log)["packets"].to_pandas()
    return packets[(packets["link"] == link) & (packets["bytes"] == size)]


def test_the_computed_times_are_those_of_the_slot_diagram() -> None:
    # Request in slot 3 (S), grant in slot 5 (D), data in slot 8 (S): `docs/models/radio.md`.
    assert up_ns(2 * SLOT_NS + 1) == 7 * SLOT_NS - 1 + 100_000
    assert up_ns(3 * SLOT_NS) == 16 * SLOT_NS + 100_000
    # Two slots ahead, so slot 3, then slot 5: slot 4 is none of the downlink's.
    assert down_ns(1) == 4 * SLOT_NS - 1 + 100_000
    assert down_ns(SLOT_NS * 3 // 2) == SLOT_NS * 9 // 2 + 100_000
    assert down_ns(SLOT_NS * 5 // 2) == SLOT_NS * 7 // 2 + 100_000


def test_each_packet_of_an_idle_radio_takes_what_its_slots_say(kernel: FilePath, tmp_path: FilePath) -> None:
    path = Path.of(down_rate="3gbit", up_rate="300mbit", radio="nr-120khz", delay="2ms", packet_log=True)
    rtts_ns = cast("list[int]", wavebed.virtual_time(path, held_rtts_ns, 300, log=tmp_path / "log"))
    taken_ns = np.full(300, 2 * 2_000_000)
    for link, computed in (("radio.down", down_ns), ("radio.up", up_ns)):
        packets = packets_of(tmp_path / "log", link, 8 + 28)
        found = [int(released - entered) for entered, released in packets[["entered_ns", "released_ns"]].to_numpy()]
        assert found == [computed(int(at_ns)) for at_ns in packets["entered_ns"]]
        assert len({int(at_ns) % (FRAME.length * SLOT_NS) // SLOT_NS for at_ns in packets["entered_ns"]}) == 5
        taken_ns += np.array(found)
    calls_ns = np.array(rtts_ns) - taken_ns
    assert -2 * LOGGED_NS < calls_ns.min() <= calls_ns.max() < CALLS_NS


WALK_MBIT = (20, 40, 0, 12.5, 30)
"""Second by second, with one without signal; the replay starts at the second one."""


@pytest.mark.parametrize(("kind", "batch"), [("mahimahi", 1), ("seconds-mbit", 1), ("seconds-mbit", 20)])
def test_each_packet_leaves_when_the_trace_says(kind: str, batch: int, kernel: FilePath, tmp_path: FilePath) -> None:
    """`batch` packets come in one GSO packet."""
    if kind == "mahimahi":
        file, start_s = trace("made-up-lte.down", tmp_path), 3
    else:
        file, start_s = tmp_path / "walk.txt", 1
        file.write_text("".join(f"{second}.0\t{mbit}\n" for second, mbit in enumerate(WALK_MBIT, 1)))
    path = Path.of(
        down_trace=str(file), trace_format=kind, start_at=f"{start_s}s", down_queue="droptail:3mb", packet_log=True
    )
    # 52.8 Mbit/s, more than the trace ever has: the queue is never empty until the sender ends.
    came = wavebed.virtual_time(path, paced, 4400, 1472, 3.8, batch, log=tmp_path / "log")
    packets = packets_of(tmp_path / "log", "radio.down", 1500)
    left = packets.dropna(subset="released_ns").sort_values("released_ns")
    assert came == len(left) > 5000
    last_ns = int(packets["entered_ns"].max())
    found = left["released_ns"].to_numpy().astype(np.int64)
    expected = departures_ns(read_trace(file, kind), start_s * 10**9, int(packets["entered_ns"].min()), len(found))
    judged = expected <= last_ns
    assert judged.sum() > 4000
    assert np.abs(found - expected)[judged].max() <= 1
    assert sum(link["unaccounted_segments"] for link in summary_of(tmp_path / "log")["links"]) == 0
    if batch == 1:  # GRO gathers a batch again
        handed_ns = (left["written_ns"] - left["delivered_ns"]).to_numpy()
        assert 0 <= handed_ns.min() <= np.median(handed_ns) < CALLS_NS / 2
        assert handed_ns.max() < 3 * CALLS_NS, "packets of one moment are handed over one by one"


def departures_ns(pattern: Pattern, start_ns: int, first_ns: int, count: int) -> NDArray[np.int64]:
    """Return when packets of 1500 bytes leave a queue that fills at `first_ns`; those after the pattern's end too."""
    if pattern.kind == "opportunities":
        assert pattern.size_bytes is not None
        times = np.repeat(pattern.index - start_ns, pattern.size_bytes // 1500)
        return times[times >= first_ns][:count]
    assert pattern.rate_bps is not None
    edges = np.append(pattern.index, pattern.period) - start_ns
    bits = np.concatenate(([0.0], np.cumsum(np.diff(edges) * pattern.rate_bps / 1e9)))
    wanted = np.interp(first_ns, edges, bits) + 12_000 * np.arange(1, count + 1)
    after_ns = np.iinfo(np.int64).max // 2
    return np.ceil(np.interp(wanted, bits, edges, right=after_ns)).astype(np.int64)


FALL_S = 2.5
FALLING = "# wavebed pattern 1\n# kind = steps\n# duration_s = 6\ntime_s,rate_bps\n0,60000000\n2.5,12000000\n"
BEHIND_A_BUFFER = """
[path]
{direction}-trace = "falling.csv"
{other}-rate = "100mbit"
delay = "10ms"
congestion-control = "cubic"
{direction}-queue = "droptail:20mb"
[[workload]]
kind = "latency"
interval = "20ms"
[[workload]]
kind = "bulk"
direction = "{direction}"
start = "1s"
duration = "4s"
"""


@pytest.mark.parametrize(("direction", "other"), [("down", "up"), ("up", "down")])
def test_a_deep_buffer_at_a_falling_rate_gives_cubic_a_ping_of_hundreds_of_ms(
    direction: str, other: str, kernel: FilePath, tmp_path: FilePath
) -> None:
    (tmp_path / "falling.csv").write_text(FALLING)
    trial = run_in_virtual_time(BEHIND_A_BUFFER.format(direction=direction, other=other), tmp_path)
    rtt = trial.series("rtt", "latency")
    answered = [(at_s, value) for at_s, value in zip(rtt.time_s, rtt.value, strict=True) if value is not None]
    idle_ms = [value for at_s, value in answered if at_s + value / 1e3 < 1]
    assert 20 <= min(idle_ms) <= max(idle_ms) < 20.1
    before_ms = max(value for at_s, value in answered if at_s + value / 1e3 < FALL_S)
    after_ms = max(value for at_s, value in answered if at_s > FALL_S)
    # At a fifth of the rate the packets in the queue wait five times as long. The sender slows down later.
    assert after_ms > max(200, 2 * before_ms)


def test_connections_are_sampled_each_ten_milliseconds(kernel: FilePath, tmp_path: FilePath) -> None:
    path = Path.of(rate="50mbit", delay="10ms", queue="infinite")
    flows = cast("dict[str, int]", wavebed.virtual_time(path, fetched_by_two, 2, log=tmp_path / "log", sample=True))
    assert flows["count"] == 3, "two and iperf3's control"
    assert flows["max_rtt_us"] >= 20_000
    summary = summary_of(tmp_path / "log")
    sampler = summary["sampler"]
    assert (sampler["missed"], sampler["rounds"]) == (0, pytest.approx(100 * summary["duration_s"], abs=1))
    sampled: dict[str, list[int]] = {}
    for row in rows_of(tmp_path / "log/flows.csv"):
        if row["host"] == "server" and row["state"] == "established" and int(row["bytes_acked"]) > 1_000_000:
            sampled.setdefault(row["cookie"], []).append(int(row["time_ns"]))
    assert len(sampled) == 2
    for times in sampled.values():
        assert len(times) > 100
        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert 10e6 - CALLS_NS < min(gaps) <= max(gaps) < 10e6 + CALLS_NS
