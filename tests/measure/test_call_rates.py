"""A call on a good path runs freely; on a thin one it takes what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lab.workload_trial import run_scenario
from tests.measure.known_path import KNOWN_PATH, QUEUE, RATE

if TYPE_CHECKING:
    from pathlib import Path

CALL = '[[workload]]\nkind = "call"\nduration = "3s"\n'


def test_a_call_on_a_good_path_does_not_freeze(tmp_path: Path) -> None:
    trial = run_scenario(KNOWN_PATH + CALL, tmp_path)
    outcome, found = trial.outcome(), trial.metrics()
    assert outcome.status == "ok", outcome.reason
    for direction in ("down", "up"):
        assert found[f"packet loss {direction}"] == pytest.approx(0, abs=1)
        # ICE, DTLS and the first picture take round trips; Chromium itself takes the rest.
        assert 60 < found[f"time to first frame {direction}"] < 3000
    # A machine without the time for a call says so.
    if outcome.doubts:
        pytest.skip(f"inconclusive: {'; '.join(outcome.doubts)}")
    # RTCP counts in 1/65536 s, and the ends answer when their event loops come to it.
    assert 40 <= found["rtt p50"] < 60
    for direction in ("down", "up"):
        assert found[f"resolution {direction}"] == 360
        assert found[f"frozen {direction}"] < 20
        assert found[f"frame rate {direction}"] >= 15


def test_a_call_takes_no_more_than_a_thin_path_has(tmp_path: Path) -> None:
    path = KNOWN_PATH.replace(RATE, 'rate = "300kbit"\n').replace(QUEUE, 'queue = "droptail:10kb"\n')
    trial = run_scenario(path + CALL, tmp_path)
    found = trial.metrics()
    assert trial.outcome().status == "ok", trial.outcome().reason
    for direction in ("down", "up"):
        assert 0.03 < found[f"bitrate {direction}"] < 0.3
    assert found["rtt p50"] > 44
