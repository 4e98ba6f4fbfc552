"""Voice on a known path has the rating that the E-model gives for its delay and loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from workload_harness import KNOWN_PATH, metrics, run_workload

from wavebed.workload.emodel import CODECS, rate

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.alone


def test_voice_on_a_good_path_is_rated_as_the_model_rates_its_delay(tmp_path: Path) -> None:
    outcome, _ = run_workload({"kind": "voice", "duration": "2s"}, KNOWN_PATH, tmp_path)
    found = metrics(outcome)
    assert outcome.status == "ok"
    for direction in ("down", "up"):
        assert found[f"packet loss {direction}"] == 0
        # 20 ms of delay; a busy machine adds some.
        assert 20 <= (found[f"one-way delay {direction} p50"] or 0) < 26
        # 20 ms of speech, the least delay of the path, 60 ms of buffer.
        ear_ms = found[f"mouth-to-ear delay {direction}"]
        assert 100 <= (ear_ms or 0) < 106
        # A busy machine may make a packet late; the rating must say so, by the model and by nothing else.
        burst = outcome.details[direction]["BurstR"]  # type: ignore[index, call-overload]
        expected = rate(CODECS["g711"], ear_ms or 0.0, found[f"late {direction}"] or 0.0, burst)
        assert found[f"R factor {direction}"] == pytest.approx(expected.r)
        assert found[f"MOS {direction}"] == pytest.approx(expected.mos)


def test_voice_suffers_delay_and_loss_of_each_direction_apart(tmp_path: Path) -> None:
    path = {**KNOWN_PATH, "down_delay": "200ms", "up_loss": "5%"}
    outcome, _ = run_workload({"kind": "voice", "codec": "g711-without-plc", "duration": "4s"}, path, tmp_path)
    found = metrics(outcome)
    # 200 packets: three standard deviations of 5 % are 4.6 points.
    assert found["packet loss up"] == pytest.approx(5, abs=4.6)
    assert found["packet loss down"] == 0
    assert 200 <= (found["one-way delay down p50"] or 0) < 206
    up, down = found["R factor up best buffer"], found["R factor down"]
    assert up is not None
    assert down is not None
    # 280 ms cost 12.5 points, and what a busy machine makes late some more.
    assert down < 93.2 - 12
    # A loss of 0.4 % at least costs 8 points without concealment, whatever the buffer.
    assert up < 93.2 - 8 + 0.1
    assert 1 <= (found["MOS up"] or 0) <= 4.4
