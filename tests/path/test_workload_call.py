"""A call on a good path runs freely; on a thin one it takes what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from workload_harness import KNOWN_PATH, metrics, run_workload

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.alone


def test_a_call_on_a_good_path_does_not_freeze(tmp_path: Path) -> None:
    outcome, _ = run_workload({"kind": "call", "duration": "3s"}, KNOWN_PATH, tmp_path)
    found = metrics(outcome)
    assert outcome.status == "ok", outcome.reason
    rtt = found["rtt p50"]
    assert rtt is not None
    assert rtt >= 40
    for direction in ("down", "up"):
        assert found[f"packet loss {direction}"] == pytest.approx(0, abs=1)
        first = found[f"time to first frame {direction}"]
        # ICE, DTLS and the first picture take round trips; Chromium itself takes the rest.
        assert first is not None
        assert 60 < first < 3000
    # A machine without the time for a call says so.
    if outcome.doubts:
        pytest.skip(f"inconclusive: {'; '.join(outcome.doubts)}")
    # RTCP counts in 1/65536 s, and the ends answer when their event loops come to it.
    assert rtt < 60
    for direction in ("down", "up"):
        assert found[f"resolution {direction}"] == 360
        assert (found[f"frozen {direction}"] or 0) < 20
        assert (found[f"frame rate {direction}"] or 0) >= 15


def test_a_call_takes_no_more_than_a_thin_path_has(tmp_path: Path) -> None:
    path = {**KNOWN_PATH, "rate": "300kbit", "queue": "droptail:10kb"}
    outcome, _ = run_workload({"kind": "call", "duration": "3s"}, path, tmp_path)
    found = metrics(outcome)
    assert outcome.status == "ok", outcome.reason
    for direction in ("down", "up"):
        bitrate = found[f"bitrate {direction}"]
        assert bitrate is not None
        assert 0.03 < bitrate < 0.3
    rtt = found["rtt p50"]
    assert rtt is not None
    assert rtt > 44
