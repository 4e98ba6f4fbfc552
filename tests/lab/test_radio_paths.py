"""Radios, devices, scenes, split bearers, queues and traces keep their bounds, and their accounts close.

Series are in model time: what they show does not depend on the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import l4s
import numpy as np
import pytest
from programs import (
    LIMIT_S,
    delivered_bytes,
    flood,
    most_bytes,
    rtts_ms,
    series,
    transfer,
    wait_until_empty,
)
from tests.traces import trace

from wavebed.path.api import Path
from wavebed.pattern import read_trace

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    from wavebed.path.lab import Laboratory

STEPS = "# wavebed pattern 1\n# kind = steps\n# duration_s = 60\n"
PACKET = 1500
SLOTS = 8
"""In a millisecond at 120 kHz."""
RADIO_SHARE = 1500 / 1510
"""Ten bytes of each packet are the radio's own."""


def closed_books(lab: Laboratory) -> list[dict[str, Any]]:
    assert lab.summary is not None
    links = cast("list[dict[str, Any]]", lab.summary["links"])
    for link in links:
        gone = link["delivered_segments"] + sum(link["dropped_segments"].values()) + link["queued_segments"]
        assert link["offered_segments"] + link["duplicated_segments"] == gone
        assert link["unaccounted_segments"] == 0
    return links


@pytest.mark.parametrize(
    ("radio", "least_ms"),
    [
        # Preparing, a slot and decoding, there and back.
        ({"preset": "nr-15khz", "grants": "off"}, 2 * (2.0 + 1.0 + 0.1)),
        ({"preset": "lte", "grants": "off"}, 2 * (2.0 + 1.0 + 1.5)),
        # Up: two slots to the grant, two to the granted slot, that slot, decoding. The first grant holds one datagram.
        ({"preset": "nr-15khz", "grants": {"first": "94b"}}, (2 + 2 + 1 + 0.1) + (2 + 1 + 0.1)),
    ],
)
def test_no_round_trip_is_shorter_than_the_slots_it_needs(radio: dict[str, object], least_ms: float) -> None:
    with Path.of(rate="100mbit", radio=radio).up() as lab:
        assert min(rtts_ms(lab, count=10)) >= least_ms
    closed_books(lab)


def test_a_device_passes_at_most_its_packets_per_second(tmp_path: FilePath) -> None:
    with Path.of(ue_limit={"packets-per-second": 2000, "queue": "droptail:50p"}).up(log=tmp_path) as lab:
        flood(lab, 1000, 1000)
        wait_until_empty(lab)
        transfer(lab, 400_000)
    down = closed_books(lab)[0]
    assert down["dropped_segments"]["overflow"] > 0
    (rows,) = [series(tmp_path, link.stem) for link in tmp_path.glob("*.down.csv") if "departures" not in link.name]
    counts = [0] * (rows[-1]["time_ms"] + 1)
    for row in rows:
        counts[row["time_ms"]] += row["delivered_segments"]
    assert 20 <= most_bytes(counts, 10) <= 21


@pytest.mark.parametrize("scene", ["kau-e5g-1", "kau-e5g-lte", "cas-mmwave-bench", "bbr-5g-usb-mobile"])
def test_a_shipped_scene_carries_a_transfer(scene: str) -> None:
    with Path.of(scene=scene, seed="7").up() as lab:
        transfer(lab, 1_000_000)
    assert closed_books(lab)[0]["delivered_bytes"] > 1_000_000


def test_a_split_bearer_uses_both_carriers_and_goes_on_with_one(tmp_path: FilePath) -> None:
    head = STEPS + "time_s,rate_bps,state,fallback_rate_bps\n"
    rows = [(0, 10, "los"), (1, 0, "handover"), (1.07, 4, "fallback"), (2, 0, "handover"), (2.076, 10, "los")]
    (tmp_path / "down.csv").write_text(
        head + "".join(f"{at},{mbps}000000,{state},4000000\n" for at, mbps, state in rows)
    )
    (tmp_path / "up.csv").write_text(head + "0,5000000,los,2000000\n")
    radio = {"preset": "nr-120khz", "fallback": "lte", "bearer": "split"}
    traces: dict[str, object] = {f"{way}_trace": str(tmp_path / f"{way}.csv") for way in ("down", "up")}
    with Path.of(**traces, radio=radio, delay="5ms", down_queue="droptail:10mb").up(wait=True, log=tmp_path) as lab:
        lab.begin()
        # 3.3 MB are more than both carriers carry in two seconds.
        flood(lab, 2200, PACKET - 28)
        wait_until_empty(lab)
    links = closed_books(lab)
    assert sum(links[0]["dropped_segments"].values()) == 0
    ended_ms = series(tmp_path)[-1]["time_ms"] + 1
    delivered = delivered_bytes(tmp_path, 0, ended_ms)
    # Where packets wait all the time each carrier is full. Ordering holds some back, so windows are long.
    queued_ms = {row["time_ms"] for row in series(tmp_path) if row["queue_bytes"]}
    shares = {
        name: sum(delivered[first_ms : first_ms + 500]) / (mbps * 62_500 * RADIO_SHARE)
        for name, mbps, first_ms in (("one", 4, 1300), ("both", 14, 2400))
        if queued_ms >= set(range(1000, first_ms + 500))
    }
    print(shares)
    assert shares
    for name, share in shares.items():
        assert 0.96 < share < 1.04, name


@pytest.mark.parametrize("harq", ["off", "on"])
def test_two_congestion_controls_with_one_seed_meet_the_same_block_errors(tmp_path: FilePath, harq: str) -> None:
    radio: dict[str, object] = {"preset": "nr-120khz", "frame": "fdd", "bler": "10%"}
    if harq == "off":
        # RLC repeats a tenth of all blocks, soon enough for TCP not to notice.
        radio |= {"harq": "off", "rlc": {"reassembly": "2ms", "poll": "5ms"}}
    found = []
    for control in ("cubic", "bbr"):
        path = Path.of(down_rate="20mbit", up_rate="20mbit", radio=radio, delay="2ms", seed="5")
        with path.up(wait=True, log=tmp_path / control) as lab:
            server = lab.server.start(["iperf3", "-s", "-1"], stdout=-1)
            lab.server.wait_for_port(5201, LIMIT_S)
            lab.begin()
            argv = ["iperf3", "-c", "server", "-R", "-n", "4M", "-C", control]
            lab.client.run(argv, capture_output=True, check=True, timeout=LIMIT_S)
            server.wait(LIMIT_S)
        closed_books(lab)
        rows = series(tmp_path / control)
        found.append({row["time_ms"]: row["blocks_failed"] for row in rows if row["blocks_sent"] == SLOTS})
    # Where both flows used all slots, they met the same ones.
    both = found[0].keys() & found[1].keys()
    same = sum(found[0][at] == found[1][at] for at in both)
    print(f"harq {harq}: {len(both)} ms, {same} alike, {sum(found[0][at] for at in both)} blocks failed")
    assert sum(found[0][at] for at in both) > 10
    # With HARQ a random number is that of slot and process: which process is free depends on what was sent before.
    assert same == len(both) if harq == "off" else same >= 0.9 * len(both)


@pytest.mark.parametrize("direction", ["down", "up"])
def test_a_deep_buffer_at_a_falling_rate_delays_cubic_ten_times_as_long_as_a_shallow_one(
    direction: str, tmp_path: FilePath
) -> None:
    (tmp_path / "falling.csv").write_text(STEPS + "time_s,rate_bps\n0,20000000\n0.5,4000000\n")
    longest_ms = {}
    for buffer in ("20mib", "16kib"):
        log = tmp_path / buffer
        radio = {"preset": "nr-30khz", f"{direction}-buffer": buffer}
        other = {"down": "up", "up": "down"}[direction]
        rates: dict[str, object] = {f"{direction}_trace": str(tmp_path / "falling.csv"), f"{other}_rate": "20mbit"}
        with Path.of(**rates, radio=radio, delay="5ms", congestion_control="cubic").up(log=log) as lab:
            server = lab.server.start(["iperf3", "-s", "-1"], stdout=-1)
            lab.server.wait_for_port(5201, LIMIT_S)
            # Four flows: slow start may end with 16 segments each.
            words = ["-R"] if direction == "down" else []
            lab.client.run(
                ["iperf3", "-c", "server", "-P", "4", "-n", "1200K", *words],
                capture_output=True,
                check=True,
                timeout=LIMIT_S,
            )
            server.wait(LIMIT_S)
        closed_books(lab)
        rows = series(log, f"radio.{direction}")
        longest_ms[buffer] = max(row["sojourn_max_ns"] for row in rows) / 1e6
        print(direction, buffer, longest_ms[buffer], max(row["queue_peak_bytes"] for row in rows))
    # 16 KiB are 33 ms at the low rate; a slot, and blocks under way.
    assert longest_ms["16kib"] < 36
    assert longest_ms["20mib"] > 5 * longest_ms["16kib"]


def test_a_scalable_and_a_cubic_flow_are_marked_by_the_dual_queue_of_a_radio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(l4s, "SKIP_S", 0.0)
    found = l4s.measure(l4s.QUEUES["dualpi2"], 3)
    assert found.scalable_marks > 0
    assert 0 < found.scalable_mbit < 50
    assert 0 < found.cubic_mbit < 50


def test_a_replayed_trace_is_never_exceeded_and_is_used_up_while_packets_wait(tmp_path: FilePath) -> None:
    start_s, window_ms = 3, 100
    file = trace("made-up-lte.down", tmp_path)
    pattern = read_trace(file, "mahimahi")
    options: dict[str, object] = {"trace_format": "mahimahi", "start_at": f"{start_s}s", "down_queue": "droptail:30mb"}
    with Path.of(down_trace=str(file), **options).up(wait=True, log=tmp_path / "log") as lab:
        lab.begin()
        flood(lab, 5000, PACKET - 28)
        wait_until_empty(lab)
    down = closed_books(lab)[0]
    assert down["delivered_segments"] == 5000
    rows = series(tmp_path / "log")
    windows = rows[-1]["time_ms"] // window_ms + 1
    delivered = (
        np.array(delivered_bytes(tmp_path / "log", 0, windows * window_ms)).reshape(windows, window_ms).sum(axis=1)
    )
    assert pattern.size_bytes is not None
    edges_ns = (start_s * 1000 + np.arange(windows + 1) * window_ms) * 10**6
    total = np.concatenate(([0], np.cumsum(pattern.size_bytes)))
    allowed = np.diff(total[np.searchsorted(pattern.index, edges_ns % pattern.period, side="left")])
    assert (delivered <= allowed + PACKET).all(), (delivered, allowed)
    waiting = {row["time_ms"] for row in rows if row["queue_bytes"] > PACKET}
    busy = [at for at in range(windows) if waiting >= set(range(at * window_ms - 1, (at + 1) * window_ms))]
    assert busy
    assert (delivered[busy] >= allowed[busy] - PACKET).all(), (delivered[busy], allowed[busy])
