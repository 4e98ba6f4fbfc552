"""The record of a device: to JSON and back, and what it refuses to read."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import forward_result_example as example
import pytest

from wavebed.errors import UserError
from wavebed.forward.findings import DeviceResult, GoalFinding
from wavebed.forward.plain import to_plain
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
    assert back.transmitter.fixed == frozenset({"rx-gro-hw", "rx-lro"})


def test_a_record_of_schema_1_has_the_names_of_now() -> None:
    result = replace(example.result(), trials=())
    plain = result.to_plain()
    settings = plain.pop("settings")
    assert isinstance(settings, dict)
    assert isinstance(settings["parts"], list)
    settings = {key.replace("loss_rate_", "ladder_"): value for key, value in settings.items()}
    settings["parts"] = [str(part).replace("loss-rate", "ladder") for part in settings["parts"]]
    assert "ladder" in settings["parts"]
    earlier = {**plain, "version": 1, "settings": settings, "ladders": plain.pop("loss_rates")}
    del earlier["loss_rates"]
    assert DeviceResult.from_plain(earlier) == result


def test_a_record_of_another_version_is_refused() -> None:
    plain = example.result().to_plain()
    plain["version"] = 99
    with pytest.raises(UserError, match="version: 99 is not 2"):
        DeviceResult.from_plain(plain)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"device": 5}, "device: expected a text, found int"),
        ({"took_s": "long"}, "took_s: expected a number, found str"),
        ({"extra": 1}, "extra: unknown key"),
        ({"sizes": {}}, "sizes: expected an array, found dict"),
        ({"settings": None}, "settings: expected an object"),
    ],
)
def test_a_record_that_is_none_is_refused_with_the_place(change, said) -> None:
    with pytest.raises(UserError, match=said):
        DeviceResult.from_plain({**example.result().to_plain(), **change})


def test_a_record_without_a_needed_key_is_refused() -> None:
    plain = example.result().to_plain()
    del plain["device"]
    with pytest.raises(UserError, match=r"DeviceResult is missing .*'device'"):
        DeviceResult.from_plain(plain)


def test_numbers_that_json_has_not_are_never_written() -> None:
    with pytest.raises(TypeError, match="no number of JSON"):
        to_plain(math.nan)
    with pytest.raises(TypeError, match="bytes has no plain form"):
        to_plain(b"")


def test_only_what_was_found_is_a_rate() -> None:
    found = example.goal_finding(1, 99.6, 100.0)
    assert found.rate is not None
    assert found.width == pytest.approx(0.004)
    for outcome in ("at_least", "below", "refused"):
        assert replace(found, outcome=outcome).rate is None
    assert GoalFinding(FULL_GOALS[0], "refused").width is None
