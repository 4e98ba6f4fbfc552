"""Voice: delay and loss of each direction are rated apart, as the E-model rates them."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.lab.workload_trial import Trial, run_scenario

from wavebed.workload.emodel import CODECS, rate

CODEC = "g711-without-plc"


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Voice over a path with a long delay down and a lossy link up."""
    text = f"""
[path]
rate = "20mbit"
down-delay = "200ms"
up-delay = "10ms"
up-loss = "20%"
queue = "droptail:50kb"
[[workload]]
kind = "voice"
codec = "{CODEC}"
duration = "4s"
"""
    return run_scenario(text, tmp_path_factory.mktemp("voice"))


@pytest.mark.parametrize(("direction", "least_ms"), [("down", 200), ("up", 10)])
def test_a_direction_has_its_own_delay(voice: Trial, direction: str, least_ms: float) -> None:
    assert voice.outcome().status == "ok", voice.outcome().reason
    found = voice.metrics()
    delays = [value for value in voice.series(f"one-way delay {direction}").value if value is not None]
    assert least_ms <= min(delays) < 10 * least_ms
    assert found[f"one-way delay {direction} p50"] >= least_ms
    # 20 ms of speech and 60 ms of buffer.
    assert found[f"mouth-to-ear delay {direction}"] == pytest.approx(20 + 60 + min(delays))


def test_lost_packets_are_the_drops_of_the_link(voice: Trial) -> None:
    packets = cast("dict[str, Any]", voice.outcome().details["up"])["packets"]
    lost = voice.metrics()["packet loss up"] * packets / 100
    dropped = voice.engine("links", "radio.up")["dropped_segments"]["loss"]
    # Packets of the last second are undetermined; the handshake of irtt loses segments too.
    assert 0 < lost <= dropped + 0.01
    assert dropped <= lost + 60
    assert voice.metrics()["packet loss down"] == 0


@pytest.mark.parametrize("direction", ["down", "up"])
def test_the_rating_is_that_of_the_model_for_delay_loss_and_bursts(voice: Trial, direction: str) -> None:
    found = voice.metrics()
    detail = cast("dict[str, Any]", voice.outcome().details[direction])
    missing = 100 * detail["lost or late"] / detail["packets"]
    expected = rate(CODECS[CODEC], found[f"mouth-to-ear delay {direction}"], missing, detail["BurstR"])
    assert found[f"R factor {direction}"] == pytest.approx(expected.r)
    assert found[f"MOS {direction}"] == pytest.approx(expected.mos)
    # 280 ms cost 12.5 points; a loss of 0.4 % costs 8 points without concealment.
    assert found[f"R factor {direction}"] < 93.2 - 8
