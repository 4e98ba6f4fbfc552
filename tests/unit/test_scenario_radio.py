"""A radio, a limit of the UE and a scene reach the laboratory file as the scenario and the options say."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import pytest

from wavebed.errors import UserError
from wavebed.path.api import Path
from wavebed.radio.presets import RadioSettings
from wavebed.spec.types import BottleneckStage, PatternRate, RadioStage, WifiStage

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = "# wavebed pattern 1\n# kind = steps\n# duration_s = 2\n"
PLAIN = HEAD + "time_s,rate_bps\n0,1000000\n1,9000000\n"
AIR = (
    HEAD + "# radio = nr-120khz\n# direction = down\ntime_s,rate_bps,bler,state\n0,1000000,0.1,los\n1,9000000,0,nlos\n"
)
STREET = """
title = "A street"
anchor = "illustrative"
duration = "100ms"
[carrier]
technology = "nr"
frequency = "28ghz"
bandwidth = "100mhz"
numerology = 3
[[base-station]]
name = "mast"
at = [0, 0, 10]
power = "30dbm"
[ue]
start = [50, 0, 1.5]
[fallback]
propagation = "uma"
[fallback.carrier]
technology = "lte"
frequency = "1.8ghz"
bandwidth = "20mhz"
[fallback.base-station]
name = "roof"
at = [-100, 50, 25]
power = "46dbm"
"""


@pytest.fixture
def laboratory(tmp_path: FilePath) -> Callable[..., dict[str, Any]]:
    (tmp_path / "plain.csv").write_text(PLAIN)
    (tmp_path / "air.csv").write_text(AIR)
    (tmp_path / "lte.csv").write_text(AIR.replace("nr-120khz", "lte"))
    (tmp_path / "unnamed.csv").write_text(AIR.replace("# radio = nr-120khz\n", ""))
    (tmp_path / "wrong.csv").write_text(AIR.replace("nr-120khz", "6g"))

    def read(text: str, **options: object) -> dict[str, Any]:
        file = tmp_path / "scenario.toml"
        file.write_text("[path]\n" + text)
        return Path.load(file, **options).laboratory()

    return read


def links(laboratory: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    hop = laboratory["network"]["legs"][0]["hops"][0]
    return hop["down"], hop["up"]


def stages(link: list[Any]) -> list[str]:
    return [stage["stage"] for stage in link]


def test_a_radio_takes_the_place_of_the_bottleneck_in_both_links(laboratory: Any) -> None:
    down, up = links(laboratory('rate = "100mbit"\nup-rate = "20mbit"\nradio = "nr-30khz"\ndelay = "5ms"\n'))
    assert stages(down) == stages(up) == ["radio", "delay"]
    assert (down[0]["direction"], up[0]["direction"]) == ("down", "up")
    assert up[0]["rate"] == {"kind": "constant", "rate_bps": 20_000_000}
    assert down[0]["slots"]["slot_ns"] == 500_000
    assert (down[0]["grants"], up[0]["grants"]["first_bytes"]) == (None, 512)


def test_a_link_without_a_rate_has_no_radio(laboratory: Any) -> None:
    down, up = links(laboratory('down-rate = "100mbit"\nradio = "lte"\n'))
    assert (stages(down), up) == (["radio"], [])


def test_wifi_has_its_own_stage(laboratory: Any) -> None:
    down, _ = links(laboratory('rate = "1gbit"\nradio = { preset = "802.11ad", retries = "off" }\n'))
    assert (down[0]["stage"], down[0]["retries"], down[0]["aggregate_frames"]) == ("wifi", 0, 64)


@pytest.mark.parametrize(
    ("queue", "down", "up"),
    [
        ('queue = "droptail:64kb"', {"kind": "droptail", "limit": {"bytes": 64_000}}, 64_000),
        ('queue = "drophead"', {"kind": "drophead", "limit": {"bytes": 20 << 20}}, 20 << 20),
        ('up-queue = "droptail:64kb"', {"kind": "droptail", "limit": {"bytes": 20 << 20}}, 64_000),
    ],
)
def test_the_queue_is_the_buffer_of_the_user(laboratory: Any, queue: str, down: object, up: int) -> None:
    links_of = links(laboratory(f'rate = "100mbit"\nradio = "nr-120khz"\n{queue}\n'))
    assert links_of[0][0]["queue"] == down
    assert links_of[1][0]["queue"]["limit"] == {"bytes": up}


def test_overhead_replaces_the_headers_of_the_preset(laboratory: Any) -> None:
    down, up = links(laboratory('rate = "100mbit"\nradio = "nr-120khz"\nup-overhead = 24\n'))
    assert (down[0]["overhead_bytes"], up[0]["overhead_bytes"]) == (10, 24)


def test_the_device_stands_after_the_radio_in_a_downlink_and_before_it_in_an_uplink(laboratory: Any) -> None:
    down, up = links(
        laboratory(
            'rate = "1gbit"\nradio = "nr-120khz"\ndelay = "1ms"\n'
            'ue-limit = { packets-per-second = 60000, queue = "droptail:50p" }\n'
        )
    )
    assert stages(down) == ["radio", "bottleneck", "delay"]
    assert stages(up) == ["bottleneck", "radio", "delay"]
    assert down[1]["rate"] == up[0]["rate"] == {"kind": "packets", "packets_per_s": 60_000}


def test_a_device_stands_without_a_radio_too(laboratory: Any) -> None:
    down, up = links(laboratory("ue-limit = { down-packets-per-second = 1000 }\n"))
    assert (stages(down), up) == (["bottleneck"], [])
    assert (
        laboratory("ue-limit = { packets-per-second = 1000 }\n", ue_limit="off")["network"]["legs"][0]["hops"][0][
            "down"
        ]
        == []
    )


def test_a_trace_brings_the_radio_of_its_header(laboratory: Any, tmp_path: FilePath) -> None:
    down, up = links(laboratory('trace = "air.csv"\n'))
    assert stages(down) == stages(up) == ["radio"]
    assert down[0]["slots"]["slot_ns"] == 125_000
    assert down[0]["bler"] is None, "the pattern's column"
    expected = {"kind": "pattern", "file": str(tmp_path / "air.csv"), "end": "repeat", "start_ns": 0}
    assert down[0]["rate"] == expected


def test_a_table_without_a_preset_changes_the_radio_below(laboratory: Any) -> None:
    down, _ = links(laboratory('trace = "air.csv"\nradio = { harq = "off" }\n', radio='{buffer = "4mib"}'))
    assert down[0]["slots"]["harq"] is None
    assert down[0]["slots"]["slot_ns"] == 125_000
    assert down[0]["queue"]["limit"] == {"bytes": 4 << 20}


def test_a_table_with_a_preset_starts_anew(laboratory: Any) -> None:
    text = 'rate = "10mbit"\nradio = { preset = "nr-120khz", harq = "off" }\n'
    down, _ = links(laboratory(text, radio={"preset": "lte"}))
    assert down[0]["slots"]["slot_ns"] == 1_000_000
    assert down[0]["slots"]["harq"]["processes"] == 8


BOTH = AIR.replace("state\n", "state,fallback_rate_bps\n").replace("los\n", "los,5000000\n")


def test_a_split_bearer_takes_a_trace_of_both_carriers(laboratory: Any, tmp_path: FilePath) -> None:
    (tmp_path / "both.csv").write_text(BOTH)
    split = 'radio = { fallback = "lte", bearer = "split", up-split-threshold = "6400b" }\n'
    down, up = links(laboratory('trace = "both.csv"\n' + split))
    assert (down[0]["split"]["threshold_bytes"], up[0]["split"]["threshold_bytes"]) == (0, 6400)
    assert (down[0]["split"]["grants"], up[0]["split"]["grants"]["schedule_slots"]) == (None, 4)
    assert links(laboratory('trace = "both.csv"\nradio = { fallback = "lte" }\n'))[0][0]["split"] is None
    assert links(laboratory('trace = "both.csv"\n' + split, radio='{bearer = "switched"}'))[0][0]["split"] is None


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('trace = "air.csv"\n', "needs a trace with the column 'fallback_rate_bps'"),
        ('rate = "1gbit"\n', "needs a trace with the column 'fallback_rate_bps'"),
        ('scene = "kau-e5g-1"\n', "needs a scene with a fallback carrier"),
        ('scene = "kau-e5g-1"\nmode = "reference"\n', "needs a scene with a fallback carrier"),
    ],
)
def test_a_split_bearer_needs_the_rates_of_both_carriers(laboratory: Any, text: str, rule: str) -> None:
    with pytest.raises(UserError, match=rf'scenario\.toml: path\.radio: bearer = "split" {rule}'):
        laboratory(text + 'radio = { preset = "nr-120khz", fallback = "lte", bearer = "split" }\n')


SCENE = 'scene = "kau-e5g-1"\n'


def test_a_split_bearer_of_a_scene_has_the_rates_of_both_carriers(laboratory: Any, tmp_path: FilePath) -> None:
    scene = tmp_path / "street.toml"
    scene.write_text(STREET)
    text = 'scene = "street.toml"\n'
    plain, _ = links(laboratory(text))
    assert plain[0]["split"] is None
    for radio in ('radio = { bearer = "split" }\n', ""):
        down, up = links(laboratory(text + radio))
        assert down[0]["split"]["grants"] is None
        assert up[0]["split"]["threshold_bytes"] is None
        scene.write_text(STREET + '[radio]\nbearer = "split"\n')


def scene_radio() -> RadioSettings:
    from wavebed.scene import load

    radio = load("kau-e5g-1").radio
    assert isinstance(radio, RadioSettings)
    return radio


def pattern_of(laboratory_of: Path, direction: str, seed: int | None = None) -> str:
    """Return the text that the engine would read for one link."""
    from wavebed.path.laboratory import resolve_network
    from wavebed.path.traces import Traces
    from wavebed.spec.network import links

    traces = Traces()
    try:
        link = dict(links(resolve_network(laboratory_of.model, traces)))[f"radio.{direction}"]
        rate = next(stage.rate for stage in link if isinstance(stage, RadioStage | WifiStage | BottleneckStage))
        assert isinstance(rate, PatternRate)
        return FilePath(rate.file).read_text(encoding="utf-8")
    finally:
        traces.close()


def test_a_scene_gives_both_links_their_pattern_and_their_radio() -> None:
    path = Path.of(scene="kau-e5g-1", seed="3")
    down, up = links(path.laboratory())
    assert down[0]["stage"] == up[0]["stage"] == "radio"
    assert down[0]["rate"]["kind"] == up[0]["rate"]["kind"] == "pattern"
    preset = scene_radio().preset
    for direction in ("down", "up"):
        text = pattern_of(path, direction)
        assert f"# radio = {preset}\n" in text
        assert f"# direction = {direction}\n" in text
        assert "# seed = 3\n" in text
        assert "# mode = 3gpp\n" in text


def test_a_scene_follows_the_seed_and_the_mode_of_the_path() -> None:
    patterns = {pattern_of(Path.of(scene="kau-e5g-1", seed=str(seed)), "down") for seed in (1, 1, 2)}
    assert len(patterns) == 2
    assert "# mode = reference\n" in pattern_of(Path.of(scene="kau-e5g-1", mode="reference"), "down")


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("5s..3s", "'5s..3s' ends before it begins: write the first second first"),
        ("0s..1500ms", "'0s..1500ms': the moment is a whole second: write whole seconds, as in 0s..20s"),
        ("0s..", "is not a time"),
    ],
)
def test_a_wrong_range_of_starts_is_said(given: str, rule: str) -> None:
    with pytest.raises(UserError, match=rule):
        Path.of(scene="kau-e5g-1", start_at=given)


def test_a_scene_of_no_study_has_no_pattern_of_one() -> None:
    with pytest.raises(UserError, match="'street-canyon-bus' reproduces no study: write 3gpp"):
        Path.of(scene="street-canyon-bus", mode="study")


def test_options_override_a_scene(laboratory: Any) -> None:
    down, up = links(laboratory(SCENE, up_rate="10mbit", radio={"buffer": "1mib"}, ue_limit={"packets-per-second": 9}))
    assert down[0]["rate"]["kind"] == "pattern"
    assert up[-1]["rate"] == {"kind": "constant", "rate_bps": 10_000_000}
    assert up[0]["rate"] == {"kind": "packets", "packets_per_s": 9}
    assert down[0]["queue"]["limit"] == {"bytes": 1 << 20}
    down, _ = links(laboratory(SCENE, rate="10mbit"))
    assert (down[0]["stage"], down[0]["rate"]["kind"]) == ("radio", "constant")
    down, _ = links(laboratory('rate = "10mbit"\nradio = "lte"\n', scene="kau-e5g-1", trace_end="hold", start_at="2s"))
    assert (down[0]["rate"]["kind"], down[0]["rate"]["end"], down[0]["rate"]["start_ns"]) == (
        "pattern",
        "hold",
        2 * 10**9,
    )
    assert down[0]["slots"]["slot_ns"] == scene_radio().slots.slot_ns


def test_a_scene_is_named_relative_to_the_scenario(laboratory: Any, tmp_path: FilePath) -> None:
    shipped = FilePath(__file__).resolve().parents[2] / "scenarios" / "scenes" / "kau-e5g-1.toml"
    (tmp_path / "mine.toml").write_text(shipped.read_text(encoding="utf-8"), encoding="utf-8")
    assert stages(links(laboratory('scene = "mine.toml"\n'))[0])[0] == "radio"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('radio = "lte"\n', "path.radio: requires rate, trace or scene: add one of them"),
        ('rate = "1mbit"\nradio = "5g"\n', "path.radio: '5g' is not a choice"),
        ('rate = "1mbit"\nradio = { harq = "off" }\n', "path.radio.preset: is missing"),
        ('rate = "1mbit"\nradio = "lte"\nrate-mode = "sampled"\n', "path.radio: cannot serve a sampled rate"),
        ('rate = "1mbit"\nradio = "lte"\noutage = "drop"\n', "path.radio: keeps its buffer in an outage"),
        ('rate = "1mbit"\nradio = "lte"\nqueue-unit = "superpacket"\n', "path.radio: queues wire segments"),
        ('trace = "air.csv"\nrate-mode = "sampled"\n', "path.trace: cannot serve a sampled rate"),
        ('trace = "wrong.csv"\n', "path.trace: header key radio: '6g' is not a choice"),
        ('down-trace = "air.csv"\nup-trace = "lte.csv"\n', "path.up-trace: the downlink's pattern is of radio"),
        ('scene = "kau-e5g-1"\nrate = "1mbit"\n', "path.rate: a scene gives both links their rate"),
        ('mode = "3gpp"\n', "path.mode: requires scene: add it"),
        ('scene = "no-such-scene"\n', "path.scene: "),
        (
            'rate = "1mbit"\nradio = { preset = "lte", discard = "1s" }\nqueue = "fq_codel"\n',
            "path.queue: has no single",
        ),
        ("ue-limit = 5\n", "path.ue-limit: 5 is not a table"),
    ],
)
def test_what_does_not_fit_is_refused(laboratory: Any, text: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        laboratory(text)
    assert str(refused.value).partition("scenario.toml: ")[2].startswith(message)


def test_a_scene_of_no_study_has_no_reference_mode(laboratory: Any) -> None:
    with pytest.raises(UserError, match=r"path\.mode: the scene 'street-canyon-bus' reproduces no study: write 3gpp"):
        laboratory('scene = "street-canyon-bus"\nmode = "reference"\n')


def test_a_later_off_and_a_table_after_it_name_no_radio(laboratory: Any) -> None:
    with pytest.raises(UserError, match=r"^--radio: there is no radio to change"):
        laboratory('rate = "1mbit"\nradio = "off"\n', radio='{harq = "off"}')
