"""What the ends of a call counted becomes figures; what was not seen stays missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wavebed.config.problems import Problem
from wavebed.lab.protocol import MachineClock
from wavebed.workload import read_workload
from wavebed.workload.call import call_outcome, camera_film

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.workload.model import Outcome

BEGIN_MS = 1_000_000.0
ENDS = {"cpu": 0.0, "bandwidth": 0.0, "none": 4.0, "other": 0.0}


def clock() -> MachineClock:
    made = MachineClock()
    made.begin(0)
    made._unix_minus_monotonic_ns = round(BEGIN_MS * 1e6)
    return made


def end(frames: list[int], freezes: list[tuple[int, float]] | None = None, **other: Json) -> dict[str, Json]:
    """One end of a call of one sample per second, with a first picture after one second."""
    freezes = freezes or [(0, 0.0)] * len(frames)
    samples: list[Json] = []
    for index, (decoded, (count, lasted)) in enumerate(zip(frames, freezes, strict=True)):
        incoming: dict[str, Json] = {
            "framesDecoded": decoded,
            "freezeCount": count,
            "totalFreezesDuration": lasted,
            "frameHeight": 360,
            "bytesReceived": 120_000 * index,
            "headerBytesReceived": 5_000 * index,
            "packetsReceived": 100 * index,
            "packetsLost": index,
            "jitterBufferDelay": 2.0 * index,
            "jitterBufferEmittedCount": 25 * index,
        }
        outgoing: dict[str, Json] = {
            "framesEncoded": other.get("encoded", 30 * index),
            "qualityLimitationDurations": other.get("limited", dict(ENDS)),
        }
        samples.append(
            {
                "at": BEGIN_MS + 1000.0 * (index + 1),
                "inbound-rtp": incoming,
                "outbound-rtp": outgoing,
                "remote-inbound-rtp": {"roundTripTime": 0.04},
            }
        )
    marks: dict[str, Json] = {
        "begin": BEGIN_MS,
        "connected": BEGIN_MS + 200,
        "firstFrame": BEGIN_MS + 1000,
        "end": BEGIN_MS + 1000.0 * len(frames),
    }
    return {"samples": samples, "marks": marks, "state": "connected"}


def figures(outcome: Outcome) -> dict[str, float | None]:
    return {metric.name: metric.value for metric in outcome.metrics}


def test_each_direction_has_what_its_receiver_counted() -> None:
    smooth, slow = end([0, 30, 60, 90, 120]), end([0, 15, 30, 45, 60])
    outcome = call_outcome(slow, smooth, 30, (clock(), clock()))
    found = figures(outcome)
    assert found["frame rate down"] == 30
    assert found["frame rate up"] == 15
    assert found["freezes down"] == 0
    assert found["bitrate down"] == pytest.approx(1.0)
    assert found["packet loss down"] == pytest.approx(100 * 4 / 404)
    assert found["time to first frame down"] == 1000
    assert found["rtt p50"] == 40
    # Ten readings have no p95.
    assert found["rtt p95"] is None
    buffers = next(series for series in outcome.series if series.name == "jitter buffer down")
    assert list(buffers.value) == pytest.approx([80.0] * 4)
    assert list(buffers.time_s) == pytest.approx([2, 3, 4, 5])
    assert not outcome.doubts


def test_a_freeze_is_an_event_with_a_beginning_and_an_end() -> None:
    frozen = end([0, 30, 45, 75, 105], [(0, 0.0), (0, 0.0), (1, 0.5), (1, 0.5), (1, 0.5)])
    outcome = call_outcome(end([0, 30, 60, 90, 120]), frozen, 30, (clock(), clock()))
    (event,) = outcome.events
    assert (event.name, event.text) == ("freeze", "down")
    assert event.time_s == pytest.approx(2.5)
    assert event.end_s == pytest.approx(3.0)
    assert figures(outcome)["frozen down"] == pytest.approx(100 * 0.5 / 4)
    assert figures(outcome)["freezes up"] == 0


def test_a_picture_that_stands_still_until_the_end_is_frozen() -> None:
    outcome = call_outcome(end([0, 30, 60, 90, 120]), end([0, 30, 60, 60, 60]), 30, (clock(), clock()))
    assert figures(outcome)["freezes down"] == 1
    assert figures(outcome)["frozen down"] == pytest.approx(100 * 2 / 4)


def test_a_call_that_never_connects_has_failed() -> None:
    lonely = end([0, 0])
    lonely["marks"] = {"begin": BEGIN_MS, "end": BEGIN_MS + 2000}
    lonely["state"] = "connecting"
    outcome = call_outcome(end([0, 30]), lonely, 30, (clock(), clock()))
    assert outcome.status == "failed"
    assert "client" in outcome.reason
    assert "connecting" in outcome.reason


def test_a_direction_without_a_picture_has_no_frame_rate() -> None:
    blind = end([0, 0, 0])
    blind["marks"] = {"begin": BEGIN_MS, "connected": BEGIN_MS + 100, "end": BEGIN_MS + 3000}
    outcome = call_outcome(end([0, 30, 60]), blind, 30, (clock(), clock()))
    found = figures(outcome)
    assert "no picture came down" in outcome.doubts
    assert found["frame rate down"] is None
    assert found["freezes down"] is None
    assert found["time to first frame down"] is None


def test_a_call_without_any_picture_has_failed() -> None:
    blind = end([0, 0, 0])
    blind["marks"] = {"begin": BEGIN_MS, "connected": BEGIN_MS + 100, "end": BEGIN_MS + 3000}
    outcome = call_outcome(blind, blind, 30, (clock(), clock()))
    assert (outcome.status, outcome.reason) == ("failed", "the ends connected, but no picture came to either")


def test_the_bitrate_counts_from_the_first_picture() -> None:
    """Its first picture comes after 2 s, when 125 kB of the 500 kB had come."""
    late = end([0, 0, 30, 60, 90])
    late["marks"]["firstFrame"] = BEGIN_MS + 2000  # type: ignore[index, call-overload]
    found = figures(call_outcome(end([0, 30, 60, 90, 120]), late, 30, (clock(), clock())))
    assert found["bitrate down"] == pytest.approx(8 * 375_000 / 3 / 1e6)


def test_a_call_that_the_processor_limited_is_doubtful() -> None:
    busy = end([0, 30, 60], limited={"cpu": 2.0, "bandwidth": 0.0, "none": 8.0, "other": 0.0}, encoded=300)
    outcome = call_outcome(busy, end([0, 30, 60]), 30, (clock(), clock()))
    assert any("processor" in doubt and "down" in doubt and "20%" in doubt for doubt in outcome.doubts)


def test_a_sender_that_makes_few_pictures_without_want_of_bitrate_is_doubtful() -> None:
    slow = end([0, 30, 60], encoded=60)
    assert call_outcome(slow, end([0, 30, 60]), 30, (clock(), clock())).doubts
    thin = end([0, 30, 60], encoded=80, limited={"cpu": 0.0, "bandwidth": 7.0, "none": 1.0, "other": 0.0})
    assert not call_outcome(thin, end([0, 30, 60], encoded=300), 30, (clock(), clock())).doubts


def test_the_cameras_film_is_made_once(tmp_path: Path) -> None:
    film = camera_film(tmp_path, 32, 16, 5)
    data = film.read_bytes()
    assert data.startswith(b"YUV4MPEG2 W32 H16 F5:1")
    assert data.count(b"FRAME\n") == 10
    made = film.stat().st_mtime_ns
    assert camera_film(tmp_path, 32, 16, 5) == film
    assert film.stat().st_mtime_ns == made


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("width", 641, "odd"),
        ("height", 4000, "out of range"),
        ("duration", "1s", "from 2s"),
        ("max-bitrate", 5, "no unit"),
        ("codec", "av1", "unknown key"),
    ],
)
def test_a_wrong_key_is_named_with_its_rule(key: str, value: object, words: str) -> None:
    with pytest.raises(Problem, match=words) as caught:
        read_workload({"kind": "call", key: value})
    assert caught.value.key == key
