"""Scenes from files: what each key becomes, the defaults, and what is shipped."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path

import pytest

from wavebed.cli import main
from wavebed.config.problems import Problem
from wavebed.config.table import fields
from wavebed.errors import UserError
from wavebed.radio.model import RadioSettings, WifiSettings
from wavebed.scene import Scene, load, shipped
from wavebed.scene.model import Array, Box, ReferenceChain, Screen, Timers
from wavebed.scene.reference import reference_page
from wavebed.scene.tables import (
    BaseStationTable,
    CarrierTable,
    FallbackTable,
    ObstacleTable,
    SceneTable,
    UeTable,
)
from wavebed.scene.trajectory import read_trajectory
from wavebed.scene.values import CellLoad

ROOT = Path(__file__).parents[2]

SMALL = """
title = "A street"
anchor = "illustrative"
duration = "10s"
{top}
[carrier]
technology = "nr"
frequency = "28ghz"
bandwidth = "100mhz"
{carrier}
[[base-station]]
name = "mast"
at = [0, 0, 10]
power = "30dbm"
[ue]
start = [50, 0, 1.5]
{rest}
"""


def written(folder: Path, top: str = "", carrier: str = "", rest: str = "") -> Scene:
    file = folder / "street.toml"
    file.write_text(SMALL.format(top=top, carrier=carrier, rest=rest), encoding="utf-8")
    return load(file)


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_scene_loads_and_names_its_anchor(name: str) -> None:
    scene = load(name)
    assert scene.name == name
    assert scene.anchor
    if not scene.anchor.startswith("illustrative"):
        assert name.split("-", maxsplit=1)[0] in {"kau", "cas", "bbr", "loop"}


def test_the_scenes_of_the_studies_are_shipped() -> None:
    studies = {
        *(f"kau-e5g-{scenario}" for scenario in ("1", "2", "3", "4", "lte")),
        *(f"cas-mmwave-{medium}" for medium in ("bench", "iron", "cardboard", "human")),
        *(f"bbr-5g-{device}-{operator}" for device in ("phone", "usb") for operator in ("unicom", "mobile")),
        "street-canyon-bus",
    }
    assert studies <= set(shipped())


@pytest.mark.parametrize(
    "name", ["kau-e5g-1", "kau-e5g-1.toml", "scenes/kau-e5g-1.toml", "scenarios/scenes/kau-e5g-1.toml"]
)
def test_a_shipped_scene_is_found_by_its_name_from_anywhere(name: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(name).name == "kau-e5g-1"


def test_a_file_of_ones_own_comes_before_a_shipped_scene(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kau-e5g-1.toml").write_text(SMALL.format(top="", carrier="", rest=""))
    assert load("kau-e5g-1.toml").title == "A street"


def test_a_small_scene_has_the_stated_defaults(tmp_path: Path) -> None:
    scene = written(tmp_path)
    assert scene.step_s == 0.001
    assert scene.propagation == "umi"
    assert (scene.carrier.numerology, scene.carrier.resource_blocks, scene.carrier.frame) == (3, 66, "DDDSU")
    assert scene.timers == Timers()
    assert scene.base_stations[0].array == Array()
    assert scene.cell_load == (CellLoad(0.0, 0.0),)
    assert (scene.fallback, scene.reference, scene.ue_limit, scene.reflection_loss_db) == (None, None, None, None)
    assert not scene.draws_los
    assert scene.ue.trajectory.position_m == ((50.0, 0.0, 1.5),)


TABLES = (
    SceneTable,
    CarrierTable,
    BaseStationTable,
    Array,
    UeTable,
    ObstacleTable,
    FallbackTable,
    Timers,
    ReferenceChain,
)


@pytest.mark.parametrize("model", TABLES)
def test_every_default_is_read_back_from_what_the_page_says(model) -> None:
    for field in fields(model).values():
        if not field.required and field.default_text.startswith("`"):
            written = field.default_text.strip("`")
            assert field.key.reader(toml_value(written)) == field.default, field.name


def toml_value(written: str) -> object:
    try:
        return tomllib.loads(f"value = {written}")["value"]
    except tomllib.TOMLDecodeError:
        return written


def test_the_slots_of_the_radio_stage_are_those_of_the_carriers(tmp_path: Path) -> None:
    scene = written(
        tmp_path,
        carrier='frame = "DDSU"\nspecial-symbols = [6, 4, 4]',
        rest="""
[fallback]
propagation = "uma"
cell-load = "40%"
[fallback.carrier]
technology = "lte"
frequency = "1.8ghz"
bandwidth = "20mhz"
[fallback.base-station]
name = "roof"
at = [0, 50, 25]
power = "46dbm"
[radio]
buffer = "1mib"
""",
    )
    assert isinstance(scene.radio, RadioSettings)
    assert (scene.radio.slots.slot_ns, scene.radio.slots.frame) == (125_000, "DDSU")
    assert scene.radio.slots.special_symbols == (6, 4, 4)
    assert scene.radio.fallback is not None
    assert (scene.radio.fallback.slot_ns, scene.radio.fallback.frame) == (1_000_000, "")
    assert scene.radio.down.queue.limit is not None
    assert scene.radio.down.queue.limit.bytes == 2**20
    assert scene.fallback is not None
    assert (scene.fallback.carrier.resource_blocks, scene.fallback.cell_load) == (100, 0.4)


def test_an_802_11ad_carrier_has_the_wifi_stage() -> None:
    assert isinstance(load("cas-mmwave-iron").radio, WifiSettings)


def test_a_usb_modem_is_limited_in_packets_and_a_phone_is_not() -> None:
    modem, phone = load("bbr-5g-usb-unicom"), load("bbr-5g-phone-unicom")
    assert modem.ue_limit is not None
    assert modem.ue_limit.down_packets_per_s == 29500
    assert phone.ue_limit is None
    assert len(modem.fitted) == len(phone.fitted) == 1


def test_legs_follow_each_other() -> None:
    legs: list[object] = [
        {"stay": "2s"},
        {"go-to": [3.0, 4.0], "speed": "1m/s"},
        {"stay-until": "10s"},
        {"go-to": [3.0, 4.0, 2.0], "until": "12s"},
    ]
    trajectory = read_trajectory(legs, (0.0, 0.0, 1.0), 12.0)
    assert trajectory.time_s == (0.0, 2.0, 7.0, 10.0, 12.0)
    assert trajectory.position_m[2:] == ((3.0, 4.0, 1.0), (3.0, 4.0, 1.0), (3.0, 4.0, 2.0))


def test_a_leg_that_ends_after_the_scene_is_refused() -> None:
    with pytest.raises(Problem, match=r"^0: ends at 3 s, beyond the duration of 2 s"):
        read_trajectory([{"stay": "3s"}], (0.0, 0.0, 0.0), 2.0)


def test_obstacles_have_the_size_and_the_loss_of_their_kind(tmp_path: Path) -> None:
    scene = written(
        tmp_path,
        rest="""
[[obstacle]]
name = "somebody"
kind = "person"
at = [20, 5]
[[obstacle]]
name = "window"
kind = "glass"
at = [20, 8]
width = 2
height = 1
bottom = 1
heading = "90deg"
[[obstacle]]
name = "wall"
kind = "building"
from = [40, 9]
to = [30, 6]
height = 4
present = [["1s", "2s"], ["3s", "10s"]]
""",
    )
    person, window, wall = scene.obstacles
    assert person.shape == Screen((20.0, 5.0, 0.0), 0.3, 1.7, None)
    assert person.transmission_loss_db == math.inf
    assert window.shape == Screen((20.0, 8.0, 1.0), 2.0, 1.0, 90.0)
    assert window.transmission_loss_db == pytest.approx(2 + 0.2 * 28)
    assert wall.shape == Box((30.0, 6.0, 0.0), (40.0, 9.0, 4.0))
    assert wall.present_s == ((1.0, 2.0), (3.0, 10.0))
    assert wall.decides_los
    assert not person.decides_los


def test_others_use_their_share_from_given_times_on(tmp_path: Path) -> None:
    assert written(tmp_path, top='cell-load = "30%"').cell_load == (CellLoad(0.0, 0.3),)
    stepped = written(tmp_path, top='cell-load = [["0s", "10%"], ["5s", "60%"]]')
    assert stepped.cell_load == (CellLoad(0.0, 0.1), CellLoad(5.0, 0.6))


def test_a_base_station_may_stand_on_a_roof(tmp_path: Path) -> None:
    scene = written(
        tmp_path,
        rest='[[obstacle]]\nname = "house"\nkind = "building"\nfrom = [-5, -5]\nto = [5, 5]\nheight = 10\n',
    )
    assert scene.obstacles[0].name == "house"


def test_a_handset_may_come_in_where_a_box_is_not_there_yet(tmp_path: Path) -> None:
    gate = '[[obstacle]]\nname = "gate"\nkind = "box"\nfrom = [49, -1]\nto = [51, 1]\nheight = 3\npresent = {}\n'
    with pytest.raises(UserError, match=r"obstacle.gate: the UE is inside it at 2.000 s"):
        written(tmp_path, rest=gate.format('[["2s", "4s"]]'))
    way = 'trajectory = [{ go-to = [60, 0], speed = "10m/s" }]\n'
    written(tmp_path, rest=way + gate.format('[["2s", "4s"]]'))


def test_scenario_4_of_kau_e5g_passes_every_box_within_centimetres() -> None:
    scene = load("kau-e5g-4")
    line = 75.0
    faces = sorted(obstacle.shape.high_m[0] for obstacle in scene.obstacles if isinstance(obstacle.shape, Box))
    assert [round(line - face, 3) for face in faces] == [0.6] + [0.05] * 11, "one stands right in front of another"


def test_the_reference_page_is_up_to_date() -> None:
    stored = (ROOT / "docs/reference/scene.md").read_text(encoding="utf-8")
    assert stored == reference_page(), "run: python -m wavebed.scene.reference docs/reference/scene.md"


def test_every_key_of_the_schema_is_on_the_page() -> None:
    page = reference_page()
    assert "<!--" not in page
    assert "| `outage-within` |" in page


def test_a_folder_does_not_hide_what_is_shipped_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("kau-e5g-1", "demo"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    assert load("kau-e5g-1").name == "kau-e5g-1"
    assert main(["resolve", "demo"]) == 0
    assert json.loads(capsys.readouterr().out)["title"].startswith("A web page and ping")
