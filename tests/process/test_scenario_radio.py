"""A radio, a limit of the UE, a scene and a map of places reach the laboratory file as the scenario says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.unit.test_placemap import PLACES, SECONDS, STEP_S, file, learned, scenario  # noqa: F401
from tests.unit.test_scenario_radio import AIR, HEAD, PLAIN, SCENE, laboratory, links, pattern_of, stages  # noqa: F401

from wavebed.cli import main
from wavebed.path.api import Path

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    import pytest


def test_a_trace_brings_no_radio_where_that_is_off(laboratory: Any) -> None:
    for text, options in (('trace = "air.csv"\nradio = "off"\n', {}), ('trace = "air.csv"\n', {"radio": "off"})):
        assert stages(links(laboratory(text, **options))[0]) == ["bottleneck"]


def test_block_errors_without_a_radio_are_pointed_out(tmp_path: FilePath, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "unnamed.csv"
    file.write_text(AIR.replace("# radio = nr-120khz\n", ""))
    assert main(["shell", "--trace", str(file), "--print-laboratory"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["network"]["legs"][0]["hops"][0]["down"][0]["stage"] == "bottleneck"
    assert shown.err.splitlines() == [
        f"wavebed: note: {file}: block errors have no effect without a radio: its rate is carried as it stands"
    ]


def test_the_pattern_of_a_study_is_drawn_with_the_seed_and_played_in_both_directions(laboratory: Any) -> None:
    texts = {seed: pattern_of(Path.of(scene="kau-e5g-1", mode="study", seed=seed), "down") for seed in ("1", "2")}
    assert texts["1"] != texts["2"]
    rows = [line.split(",") for line in texts["1"].splitlines() if line[0].isdigit()]
    assert [round(float(time_s)) for time_s, _ in rows] == [0, 2, 22]
    assert pattern_of(Path.of(scene="kau-e5g-1", mode="study", seed="1"), "up") == texts["1"]
    down, up = links(laboratory(SCENE, mode="study", queue="droptail:1000p"))
    for chain in (down, up):
        assert (chain[-1]["stage"], chain[-1]["queue"]["limit"]) == ("bottleneck", {"packets": 1000})


def test_a_drawn_start_is_a_whole_second_of_the_range_and_the_same_for_both_links(laboratory: Any) -> None:
    begins = set()
    for seed in range(8):
        down, up = links(laboratory(SCENE, start_at="3s..5s", seed=str(seed)))
        (begin_ns,) = {stage["rate"]["start_ns"] for stage in (*down, *up) if stage["rate"]["kind"] == "pattern"}
        begins.add(begin_ns)
    assert begins == {3 * 10**9, 4 * 10**9, 5 * 10**9}


def test_a_scene_without_its_radio_is_a_bottleneck_with_a_queue_for_its_peak(laboratory: Any) -> None:
    down, _ = links(laboratory(SCENE + 'radio = "off"\ndelay = "50ms"\n'))
    assert stages(down)[0] == "bottleneck"
    assert down[0]["queue"]["limit"]["packets"] > 1000


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
