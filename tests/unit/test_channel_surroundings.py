"""Interference of neighbours, walls around the UE, rain and rural cells, from a scene to the SINR."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from wavebed.channel import ensemble, realise
from wavebed.channel.propagation.pathloss import rain_db_per_km
from wavebed.scene import load
from wavebed.scene.model import Array, BaseStation, Indoor, SceneModel, Trajectory

if TYPE_CHECKING:
    from pathlib import Path

TOWN = """
title = "Two cells"
anchor = "illustrative"
duration = "4s"
step = "10ms"
propagation = "uma"
{top}
[carrier]
technology = "nr"
frequency = "3.5ghz"
bandwidth = "100mhz"
[[base-station]]
name = "mast"
at = [0, 0, 25]
power = "46dbm"
array = {{ rows = 4, columns = 8, element = "3gpp" }}
[[base-station]]
name = "next"
at = [400, 0, 25]
power = "46dbm"
array = {{ rows = 4, columns = 8, element = "3gpp" }}
{station}
[ue]
start = [80, 0, 1.5]
trajectory = [{{ go-to = [100, 0], speed = "10m/s" }}]
{ue}
[fallback]
propagation = "rma"
[fallback.carrier]
technology = "lte"
frequency = "0.7ghz"
bandwidth = "10mhz"
[fallback.base-station]
name = "roof"
at = [-300, 50, 35]
power = "46dbm"
"""


def town(folder: Path, *, top: str = "", station: str = "", ue: str = "") -> SceneModel:
    file = folder / "town.toml"
    file.write_text(TOWN.format(top=top, station=station, ue=ue), encoding="utf-8")
    return load(file)


def with_load(scene: SceneModel, fraction: float) -> SceneModel:
    return replace(scene, base_stations=(scene.base_stations[0], replace(scene.base_stations[1], load=fraction)))


def test_no_load_changes_nothing_and_more_of_it_never_helps(tmp_path: Path):
    scene = town(tmp_path)
    before = realise(scene, seed=3)
    assert np.array_equal(realise(with_load(scene, 0.0), seed=3).sinr_db, before.sinr_db)
    assert not before.losses_db["interference"].any()
    for fraction in (0.1, 0.3, 1.0):
        after = realise(with_load(scene, fraction), seed=3)
        assert (after.serving == 0).all()
        assert (after.sinr_db < before.sinr_db).all()
        assert after.rate_bps.mean() <= before.rate_bps.mean()
        assert np.array_equal(after.up_rate_bps, before.up_rate_bps)  # neighbours of the uplink are its noise-rise
        before = after


def test_interference_is_the_power_of_the_neighbour_through_its_own_path(tmp_path: Path):
    scene = with_load(town(tmp_path, top='line-of-sight = "geometry"'), 0.5)
    free = replace(scene, propagation="free-space", fallback=None)
    got = realise(free, seed=1)
    distance = math.hypot(320, 23.5)
    loss = 20 * math.log10(4 * math.pi * distance * 3.5e9 / 299_792_458)
    power_dbm = 46 + 8 - loss + 10 * math.log10(0.5)  # one element of 8 dBi that faces the UE, not the 32 of a beam
    rise = 10 * math.log10(1 + 10 ** ((power_dbm - (-174 + 80 + 9)) / 10))
    assert got.losses_db["interference"][0] == pytest.approx(rise, abs=0.02)  # 0.3 km of air
    alone = realise(with_load(free, 0.0), seed=1)
    np.testing.assert_allclose(alone.sinr_db - got.sinr_db, got.losses_db["interference"], atol=1e-9)


def test_a_loaded_neighbour_takes_over_when_it_is_stronger_not_when_it_is_free_of_interference(tmp_path: Path):
    scene = with_load(town(tmp_path), 1.0)
    assert (realise(scene, seed=3).serving == 0).all()  # the other one, 12 dB weaker, has the better SINR
    away = replace(
        scene, ue=replace(scene.ue, trajectory=Trajectory((0.0, 4.0), ((80.0, 0.0, 1.5), (340.0, 0.0, 1.5))))
    )
    assert realise(away, seed=3).serving[-1] == 1


def test_a_seed_with_interference_equals_its_member_of_an_ensemble(tmp_path: Path):
    scene = replace(with_load(town(tmp_path), 0.7), draws_los=True)
    for member in ensemble(scene, seeds=[5, 2, 9]):
        assert np.array_equal(member.sinr_db, realise(scene, seed=member.seed).sinr_db)


def test_a_noise_rise_costs_the_uplink_only(tmp_path: Path):
    scene = town(tmp_path)
    quiet, loud = (
        replace(scene, base_stations=tuple(replace(each, noise_rise_db=rise) for each in scene.base_stations))
        for rise in (0.0, 10.0)
    )
    alone, noisy = (realise(replace(each, ue=replace(each.ue, power_dbm=-20.0)), seed=1) for each in (quiet, loud))
    assert np.array_equal(alone.rate_bps, noisy.rate_bps)
    assert noisy.up_rate_bps.mean() < 0.8 * alone.up_rate_bps.mean()


def extra_db(scene: SceneModel, ue: dict[str, object], seed: int) -> np.ndarray:
    walls = realise(replace(scene, ue=replace(scene.ue, **ue)), seed=seed)
    return walls.losses_db["path loss"] - realise(scene, seed=seed).losses_db["path loss"]


def test_a_wall_costs_the_fallback_carrier_too(tmp_path: Path):
    scene = town(tmp_path)
    weak = replace(scene, base_stations=tuple(replace(each, power_dbm=-60.0) for each in scene.base_stations))
    weak = replace(weak, duration_s=8.0)
    behind = replace(weak, ue=replace(weak.ue, indoor=Indoor(wall="low-loss", depth_m=100.0)))
    late = slice(300, None)
    assert realise(behind, seed=1).sinr_db[late].mean() < realise(weak, seed=1).sinr_db[late].mean() - 50


def test_the_base_stations_of_an_office_are_inside_too(tmp_path: Path):
    office = replace(town(tmp_path), propagation="inh")
    assert not extra_db(office, {"indoor": Indoor(wall="low-loss")}, 1).any()


def test_rain_takes_its_decibels_along_the_path_in_every_scenario(tmp_path: Path):
    scene = town(tmp_path, top='rain = "25mm/h"')
    assert scene.rain_mm_per_h == 25
    high = replace(scene, carrier=replace(scene.carrier, frequency_hz=28e9), fallback=None)
    for propagation in ("umi", "uma", "rma", "inh", "free-space"):
        wet = replace(high, propagation=propagation)
        dry = replace(wet, rain_mm_per_h=0.0)
        lost = realise(wet, seed=2).losses_db["path loss"] - realise(dry, seed=2).losses_db["path loss"]
        assert lost[0] == pytest.approx(4.3 * math.hypot(80, 23.5) / 1000, abs=0.01)
    assert 0 < rain_db_per_km(0.5e9, 300.0) < 0.02


def test_a_rural_scene_has_its_streets_and_houses(tmp_path: Path):
    scene = town(tmp_path, top="street-width = 50\nbuilding-height = 10")
    assert (scene.street_width_m, scene.building_height_m) == (50, 10)
    rural = replace(scene, propagation="rma", draws_los=True, fallback=None, ue=replace(scene.ue, hold="portrait"))
    rural = replace(rural, base_stations=(BaseStation("mast", (3000.0, 0.0, 35.0), 46.0, 5.0, Array()),))
    usual = replace(rural, street_width_m=20.0, building_height_m=5.0)
    one, other = realise(rural, seed=1), realise(usual, seed=1)
    assert not one.los.all()
    assert (one.losses_db["path loss"] != other.losses_db["path loss"]).all()
    assert np.isfinite(one.sinr_db).all()
