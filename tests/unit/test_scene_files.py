"""Scenes: files, and exact geometry."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.docs.scene_guide import scene_of_the_guide

from wavebed.cli import main
from wavebed.config.problems import Problem
from wavebed.config.table import fields
from wavebed.errors import UserError
from wavebed.radio.presets import RadioSettings, WifiSettings
from wavebed.scene import SceneModel, load, shipped
from wavebed.scene.geometry import (
    blocked,
    displacement,
    heading_deg,
    inside,
    intervals,
    los,
    positions,
    present,
    spans_of,
)
from wavebed.scene.model import Array, Box, Obstacle, ReferenceChain, SceneModel, Screen, Timers, Trajectory
from wavebed.scene.read import read_trajectory
from wavebed.scene.reference import reference_page
from wavebed.scene.tables import (
    BaseStationTable,
    CarrierTable,
    ObstacleTable,
    SceneFallbackTable,
    SceneTable,
    UeTable,
)
from wavebed.scene.values import CellLoad

if TYPE_CHECKING:
    from wavebed.scene.tables import Vector


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


def written(folder: Path, top: str = "", carrier: str = "", rest: str = "") -> SceneModel:
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
    SceneFallbackTable,
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


BASE = load("kau-e5g-1")


def scene(mast: Vector, way: Trajectory, *obstacles: Obstacle, duration_s: float = 10.0) -> SceneModel:
    station = replace(BASE.base_stations[0], position_m=mast)
    ue = replace(BASE.ue, trajectory=way)
    return replace(BASE, base_stations=(station,), ue=ue, obstacles=obstacles, duration_s=duration_s, reference=None)


def house(
    low: Vector, high: Vector, trajectory: Trajectory | None = None, present_s: tuple[tuple[float, float], ...] = ()
):
    return Obstacle("house", "building", Box(low, high), trajectory, present_s)


def walk(start: Vector, end: Vector, end_s: float = 10.0) -> Trajectory:
    return Trajectory((0.0, end_s), (start, end))


def seen_to_cross(mast: np.ndarray, phone: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Another way to decide: clip the ray by the box, for each moment."""
    way = phone - mast
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = (low - mast) / way, (high - mast) / way
    entry = np.nanmax(np.minimum(one, other), axis=1).clip(min=0)
    leave = np.nanmin(np.maximum(one, other), axis=1).clip(max=1)
    return entry < leave


def test_a_track_moves_evenly_and_stands_before_and_after() -> None:
    trajectory = Trajectory((0.0, 2.0, 4.0), ((0.0, 0.0, 1.0), (0.0, 0.0, 1.0), (3.0, 4.0, 1.0)))
    found = positions(trajectory, np.array([-1.0, 1.0, 3.0, 9.0]))
    assert found.tolist() == [[0, 0, 1], [0, 0, 1], [1.5, 2, 1], [3, 4, 1]]
    assert displacement(trajectory, np.array([3.0])).tolist() == [[1.5, 2, 0]]
    assert displacement(None, np.array([3.0])).tolist() == [[0, 0, 0]]


def test_the_user_looks_where_the_last_movement_led() -> None:
    trajectory = Trajectory((0.0, 2.0, 4.0, 6.0, 8.0), ((0, 0, 1), (0, 0, 1), (0, 5, 1), (0, 5, 1), (-5, 5, 1)))
    ue = replace(BASE.ue, trajectory=trajectory)
    assert heading_deg(ue, np.array([0.0, 3.0, 5.0, 7.0, 9.0])).tolist() == [90, 90, 90, 180, 180]
    assert heading_deg(replace(ue, heading_deg=30.0), np.array([0.0, 7.0])).tolist() == [30, 30]
    still = replace(ue, trajectory=Trajectory((0.0,), ((0, 0, 1),)))
    assert heading_deg(still, np.array([0.0])).tolist() == [0]


def test_something_is_there_from_the_beginning_of_a_period_until_before_its_end() -> None:
    plate = Obstacle("plate", "metal", Screen((0, 0, 0), 1, 1), present_s=((1.0, 2.0), (3.0, 4.0)))
    assert present(plate, np.array([0.9, 1.0, 1.9, 2.0, 3.5, 4.0])).tolist() == [False, True, True, False, True, False]


def test_a_house_hides_the_handset_between_the_rays_through_its_corners() -> None:
    place = scene((0, 0, 3), walk((100, -50, 1), (100, 50, 1)), house((40, 0, 0), (50, 10, 20)))
    # rays through (50, 0) and (40, 10) reach x = 100 at y = 0 and y = 25; 10 m/s
    assert intervals(place, "3gpp") == (
        ("LOS", 0.0, pytest.approx(5.0)),
        ("NLOS", pytest.approx(5.0), pytest.approx(7.5)),
        ("LOS", pytest.approx(7.5), 10.0),
    )


def test_a_ray_passes_over_a_low_house_unless_height_is_ignored() -> None:
    place = scene((0, 0, 30), walk((100, -50, 1), (100, 50, 1)), house((40, 0, 0), (50, 10, 10)))
    assert spans_of(intervals(place, "3gpp"), "NLOS") == []
    assert spans_of(intervals(place, "reference"), "NLOS") == [(pytest.approx(5.0), pytest.approx(7.5))]


def test_walking_away_from_a_wall_brings_the_mast_back_above_its_edge() -> None:
    # The edge (x = 10, z = 12) is on the ray from (0, 0, 20) to z = 2 where 8/10 = 18/x, at x = 22.5.
    place = scene((0, 0, 20), walk((12, 0, 2), (32, 0, 2)), house((8, -50, 0), (10, 50, 12)))
    assert spans_of(intervals(place, "3gpp"), "NLOS") == [(0.0, pytest.approx(5.25))]


def test_a_house_that_moves_hides_as_seen_from_itself() -> None:
    tram = house((40, -60, 0), (50, -50, 20), Trajectory((0.0, 10.0), ((0, 0, 0), (0, 100, 0))))
    place = scene((0, 0, 3), Trajectory((0.0,), ((100, 0, 1),)), tram)
    assert spans_of(intervals(place, "3gpp"), "NLOS") == [(pytest.approx(5.0), pytest.approx(6.0))]


def test_a_house_hides_only_while_it_is_there() -> None:
    gate = house((40, -5, 0), (50, 5, 20), present_s=((2.0, 3.0), (6.0, 6.5)))
    place = scene((0, 0, 3), Trajectory((0.0,), ((100, 0, 1),)), gate)
    assert spans_of(intervals(place, "3gpp"), "NLOS") == [(2.0, 3.0), (6.0, 6.5)]


def test_a_ray_along_a_wall_is_free() -> None:
    place = scene((0, 0, 3), Trajectory((0.0,), ((100, 0, 1),)), house((40, 0, 0), (50, 5, 20)))
    assert spans_of(intervals(place, "3gpp"), "NLOS") == []


def test_each_base_station_has_its_own_line_of_sight() -> None:
    place = scene((0, 0, 3), Trajectory((0.0,), ((100, 0, 1),)), house((40, -5, 0), (50, 5, 20)))
    place = replace(
        place, base_stations=(*place.base_stations, replace(place.base_stations[0], position_m=(100, 50, 3)))
    )
    assert [part.state for part in intervals(place, "3gpp", 0)] == ["NLOS"]
    assert [part.state for part in intervals(place, "3gpp", 1)] == ["LOS"]


def test_a_handset_inside_a_box_is_found_with_its_times() -> None:
    box = house((4, -1, 0), (6, 1, 3))
    assert inside(box, walk((0, 0, 1), (10, 0, 1)), 10.0) == [(pytest.approx(4.0), pytest.approx(6.0))]
    assert inside(box, walk((0, 1, 1), (10, 1, 1)), 10.0) == [], "along the wall is not inside"
    assert inside(box, walk((0, 0, 3), (10, 0, 3)), 10.0) == [], "nor is the roof"


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), ignore_height=st.booleans())
def test_edges_agree_with_looking_at_every_moment(seed: int, ignore_height: bool) -> None:
    rng = np.random.default_rng(seed)
    mast, start, end, corner, drift = (tuple(rng.uniform((-60, -60, 0), (60, 60, 30))) for _ in range(5))
    size = rng.uniform(5, 60, 3)
    low, high = np.array(corner), np.array(corner) + np.array(size)
    moving = Trajectory((0.0, 7.0), (tuple(corner), tuple(np.array(corner) + np.array(drift))))
    place = scene(mast, walk(start, end), house(tuple(low), tuple(high), moving))
    spans = blocked(place.obstacles[0], place, ignore_height=ignore_height)
    time_s = np.linspace(0, 10, 2001)
    shift = displacement(moving, time_s)
    axes = 2 if ignore_height else 3
    expected = seen_to_cross(
        (np.array(mast) - shift)[:, :axes],
        (positions(place.ue.trajectory, time_s) - shift)[:, :axes],
        low[:axes],
        high[:axes],
    )
    found = np.zeros(len(time_s), dtype=bool)
    near_an_edge = np.zeros(len(time_s), dtype=bool)
    for first, last in spans:
        found |= (time_s >= first) & (time_s < last)
        near_an_edge |= (np.abs(time_s - first) < 1e-6) | (np.abs(time_s - last) < 1e-6)
    assert (found == expected)[~near_an_edge].all()


def test_los_at_times_agrees_with_the_intervals() -> None:
    time_s = np.arange(0, 40, 0.001)
    free = los(BASE, "3gpp", time_s)
    assert free.sum() == pytest.approx(20000, abs=1)


def test_the_scene_of_the_guide_hides_the_base_station_for_a_while(tmp_path: Path) -> None:
    file = tmp_path / "street.toml"
    file.write_text(scene_of_the_guide(), encoding="utf-8")
    scene = load(file)
    assert [part.state for part in intervals(scene, "3gpp")] == ["LOS", "NLOS", "LOS"]
    assert [obstacle.name for obstacle in scene.obstacles] == ["kiosk", "van", "passer-by"]
