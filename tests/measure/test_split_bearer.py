"""A split bearer under real traffic: both carriers together, and one of them while the other has failed."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from wavebed.path.api import Path

if TYPE_CHECKING:
    from pathlib import Path as FilePath


HEAD = "# wavebed pattern 1\n# kind = steps\n# duration_s = 60\ntime_s,rate_bps,state,fallback_rate_bps\n"
FAILURE_MS, BACK_MS = 3000, 5076


def pattern(mbps: int, other_mbps: int) -> str:
    rate, other = mbps * 10**6, other_mbps * 10**6
    rows = [(0, rate, "los"), (3, 0, "handover"), (3.07, other, "fallback"), (5, 0, "handover"), (5.076, rate, "los")]
    return HEAD + "".join(f"{time_s},{bps},{state},{other}\n" for time_s, bps, state in rows)


def test_a_flow_uses_both_carriers_and_goes_on_with_one(tmp_path: FilePath) -> None:
    (tmp_path / "down.csv").write_text(pattern(100, 40))
    (tmp_path / "up.csv").write_text(pattern(50, 20))
    radio = {"preset": "nr-120khz", "fallback": "lte", "bearer": "split"}
    traces = {f"{direction}_trace": str(tmp_path / f"{direction}.csv") for direction in ("down", "up")}
    with Path.of(**traces, radio=radio, delay="5ms").up(log=tmp_path) as lab:
        lab.server.start(["iperf3", "-s", "-1"], stdout=-1)
        lab.server.wait_for_port(5201)
        argv = ["iperf3", "-c", "server", "-R", "-t", "6", "-C", "cubic"]
        lab.client.run(argv, capture_output=True, check=True, timeout=30)
    assert lab.summary is not None
    links = lab.summary["links"]
    assert isinstance(links, list)
    assert all(link["unaccounted_segments"] == 0 for link in links)
    with (tmp_path / "radio.down.csv").open() as file:
        delivered = [(int(row["time_ms"]), int(row["delivered_bytes"])) for row in csv.DictReader(file)]

    def mbps(from_ms: int, to_ms: int) -> float:
        return sum(size for time_ms, size in delivered if from_ms <= time_ms < to_ms) * 8e-3 / (to_ms - from_ms)

    # Ten of 1510 bytes are the radio's own. The path holds some 300 packets in 25 ms: cubic, whose slow start may end
    # with 16 segments, has them after 60 round trips, 1.5 s.
    assert 125 < mbps(2500, FAILURE_MS) < 139.2
    assert 33 < mbps(FAILURE_MS + 500, BACK_MS) < 40
