"""The map of places: its file, the walks that are drawn from it, and where it is taken as a scene."""

from __future__ import annotations

import json

from tests.unit.test_placemap import PLACES, SECONDS, STEP_S, file, learned, scenario  # noqa: F401

from wavebed.cli import main


def test_a_scenario_takes_a_map_as_the_scene_of_its_downlink(scenario):
    hop = scenario('up-rate = "20mbit"\ntrace-end = "hold"\n')
    (down,), (up,) = hop["down"], hop["up"]
    assert down["stage"] == up["stage"] == "bottleneck"
    assert down["rate"]["kind"] == "pattern"
    assert down["rate"]["end"] == "hold"
    assert up["rate"] == {"kind": "constant", "rate_bps": 20_000_000}


def test_the_uplink_of_a_map_has_no_limit_of_its_own(scenario):
    assert scenario("")["up"] == []


def test_a_trial_of_a_map_says_where_its_pattern_is_from(file, tmp_path, capsys):
    scenario = tmp_path / "scenario.toml"
    scenario.write_text('title = "t"\nsource = "s"\n[path]\nscene = "place.json"\n[[workload]]\nkind = "bulk"\n')
    assert main(["resolve", str(scenario)]) == 0
    (origin,) = json.loads(capsys.readouterr().out)["patterns"].values()
    assert (origin["source"], origin["name"], origin["mode"], origin["direction"]) == ("scene", "place", "map", "down")
