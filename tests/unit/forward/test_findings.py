"""The record of a device: to JSON and back, and what it refuses to read."""

from __future__ import annotations

import json
import math

import pytest
from msgspec.structs import replace
from tests.unit.forward import result_example as example

from wavebed.errors import UserError
from wavebed.forward.folder import ForwardRecord, run_json
from wavebed.forward.result import DeviceResult
from wavebed.forward.search import GoalFinding
from wavebed.forward.settings import FULL_GOALS


def test_a_record_comes_back_from_json_as_it_was_but_for_samples_and_histograms_of_trials() -> None:
    result = example.result()
    back = DeviceResult.from_plain(json.loads(json.dumps(result.to_plain())))
    assert back.trials[0].counters is not None
    assert back.trials[0].counters.sample == ()
    assert back.trials[0].counters.latency is not None
    assert back.trials[0].counters.latency.counts == ()
    assert back.trials[0].counters.latency.p50_s == 3e-5
    assert back.latency[0].counts == result.latency[0].counts
    assert replace(back, trials=()) == replace(result, trials=())
    assert back.to_plain() == result.to_plain()


def test_sizes_of_frames_stay_numbers() -> None:
    back = DeviceResult.from_plain(json.loads(json.dumps(example.result().to_plain())))
    assert back.trials[0].counters is not None
    assert back.trials[0].counters.sizes == {64: 400_000}
    assert back.transmitter.fixed == ("rx-gro-hw", "rx-lro")


def test_a_record_of_schema_1_has_the_names_of_now() -> None:
    result = replace(example.result(), trials=())
    text = json.dumps({**result.to_plain(), "version": 1})
    for now, earlier in (("loss_rate", "ladder"), ("loss-rate", "ladder"), ("fraction", "share")):
        assert now in text
        text = text.replace(now, earlier)
    assert DeviceResult.from_plain(json.loads(text)) == result


def test_a_record_of_another_version_is_refused() -> None:
    plain = example.result().to_plain()
    plain["version"] = 99
    with pytest.raises(UserError, match="version: 99 is not 2"):
        DeviceResult.from_plain(plain)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"device": 5}, "device: expected `str`, got `int`"),
        ({"took_s": "long"}, "took_s: expected `float`, got `str`"),
        ({"extra": 1}, "unknown field `extra`"),
        ({"sizes": {}}, "sizes: expected `array`, got `object`"),
        ({"settings": None}, "settings: expected `object`, got `null`"),
    ],
)
def test_a_record_that_is_none_is_refused_with_the_place(change, said) -> None:
    with pytest.raises(UserError, match=said):
        DeviceResult.from_plain({**example.result().to_plain(), **change})


def test_a_record_without_a_needed_key_is_refused() -> None:
    plain = example.result().to_plain()
    del plain["device"]
    with pytest.raises(UserError, match="missing required field `device`"):
        DeviceResult.from_plain(plain)


def test_numbers_that_json_has_not_are_never_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        run_json(ForwardRecord(replace(example.result(), took_s=math.nan)))


def test_only_what_was_found_is_a_rate() -> None:
    found = example.goal_finding(1, 99.6, 100.0)
    assert found.rate is not None
    assert found.width == pytest.approx(0.004)
    for outcome in ("at_least", "below", "refused"):
        assert replace(found, outcome=outcome).rate is None
    assert GoalFinding(FULL_GOALS[0], "refused").width is None
