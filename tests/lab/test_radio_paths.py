"""Radios, devices, scenes, split bearers, queues and traces keep their bounds, and their accounts close.

Series are in model time: what they show does not depend on the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import l4s
import pytest
from programs import (
    delivered_bytes,
    flood,
    series,
    transfer,
    wait_until_empty,
)

from wavebed.path.api import Path

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    from wavebed.path.lab import Laboratory

STEPS = "# wavebed pattern 1\n# kind = steps\n# duration_s = 60\n"
PACKET = 1500
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


def test_a_scalable_and_a_cubic_flow_are_marked_by_the_dual_queue_of_a_radio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(l4s, "SKIP_S", 0.0)
    found = l4s.measure(l4s.QUEUES["dualpi2"], 8)
    assert found.scalable_marks > 0
    assert 0 < found.scalable_mbit < 50
    # The time of the rows begins before the flows do, so a busy machine takes some of it.
    assert found.cubic_mbit < 50
