"""Propagation: link budgets, path loss, regions, and places."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from wavebed.channel import realise
from wavebed.channel.propagation.antenna import region_blocking_db, self_blocking_db
from wavebed.channel.propagation.correlated import generators
from wavebed.channel.propagation.pathloss import (
    breakpoint_m,
    building_entry_db,
    car_entry_db,
    free_space_db,
    gas_db_per_km,
    los_probability,
    noise_dbm,
    path_loss_db,
    rain_db_per_km,
    range_warnings,
    rural_breakpoint_m,
    wall_db,
)
from wavebed.channel.propagation.shadowing import UeRoute, los_spread_db, normal_field
from wavebed.config.problems import Problem
from wavebed.scene import load
from wavebed.scene.model import Trajectory
from wavebed.scene.tables import transmission_loss_db


def test_air_takes_little_at_28_ghz_and_much_at_60():
    assert gas_db_per_km(28e9) == pytest.approx(0.10, abs=0.005)
    assert gas_db_per_km(60e9) == pytest.approx(14.8, abs=0.1)


def test_rain_of_25_mm_per_hour():
    assert rain_db_per_km(28e9, 25.0) == pytest.approx(4.3, abs=0.1)
    assert rain_db_per_km(60e9, 25.0) == pytest.approx(9.8, abs=0.1)
    assert rain_db_per_km(60e9, 0.0) == 0


def test_materials_of_the_table_at_28_ghz():
    assert transmission_loss_db("glass", 28e9) == pytest.approx(7.6)
    assert transmission_loss_db("irr-glass", 28e9) == pytest.approx(31.4)
    assert transmission_loss_db("concrete", 28e9) == pytest.approx(117)


@pytest.mark.parametrize("kind", ["metal", "car", "bus", "person", "box", "building"])
def test_bodies_are_opaque(kind):
    assert transmission_loss_db(kind, 28e9) == math.inf


@pytest.mark.parametrize("kind", ["tree", "cardboard"])
def test_what_has_no_usual_value_has_to_be_given(kind):
    with pytest.raises(Problem, match="transmission-loss: is missing"):
        transmission_loss_db(kind, 28e9)


def test_a_wall_loses_no_more_than_its_worse_part_and_no_less_than_its_better_one():
    # Glass is 7.6 dB at 28 GHz and takes 30 % of the wall; concrete lets nothing through.
    assert wall_db("low-loss", 28e9) == pytest.approx(5 + 7.6 - 10 * math.log10(0.3), abs=1e-6)
    assert wall_db("high-loss", 28e9) == pytest.approx(5 + 31.4 - 10 * math.log10(0.7), abs=1e-6)


def test_entry_losses_have_the_spread_of_the_table():
    rngs = generators(range(4000), "entry")
    losses = building_entry_db(rngs, "low-loss", 10.0, 28e9)
    assert losses.mean() == pytest.approx(wall_db("low-loss", 28e9) + 5, abs=5 * 4.4 / math.sqrt(4000))
    assert losses.std() == pytest.approx(4.4, rel=0.06)
    cars = car_entry_db(rngs)
    assert cars.mean() == pytest.approx(9, abs=0.4)
    assert car_entry_db(rngs, metallised=True).mean() == pytest.approx(20, abs=0.4)


def test_noise_of_a_channel():
    assert noise_dbm(400e6, 7.0) == pytest.approx(-174 + 86.02 + 7, abs=0.01)


TIME_S = np.arange(0, 40, 0.01)
LEVEL_DEG = np.full(TIME_S.size, 90.0)
AHEAD_DEG = np.zeros(TIME_S.size)


@pytest.mark.parametrize(("hold", "half_width"), [("portrait", 60.0), ("landscape", 80.0)])
@pytest.mark.parametrize("heading", [0.0, 90.0, 200.0])
def test_the_users_body_is_behind_the_handset(hold, half_width, heading):
    behind = heading + 180.0
    azimuth = np.array([behind, behind - half_width + 1, behind + half_width - 1, behind + half_width + 1, heading])
    loss = self_blocking_db(azimuth, np.full(5, 100.0), heading, hold)
    assert loss.tolist() == [30, 30, 30, 0, 0]


def test_the_body_ends_above_and_below():
    zenith = np.array([59.0, 61.0, 139.0, 141.0])
    assert self_blocking_db(np.full(4, 180.0), zenith, 0.0, "portrait").tolist() == [0, 30, 30, 0]


def test_a_handset_that_nobody_holds_is_free():
    assert not self_blocking_db(np.linspace(0, 360, 99), np.full(99, 90.0), 0.0, "none").any()


def test_a_crowd_covers_the_share_of_directions_that_its_regions_do():
    # Four regions of 2 · 10° on average (the angles in which each can matter) of 360°, at most.
    loss = region_blocking_db(generators(range(300), "crowd"), "umi", AHEAD_DEG, LEVEL_DEG, 0 * TIME_S, TIME_S, 28e9)
    assert np.mean(loss > 0) == pytest.approx(4 * 20 / 360, rel=0.12)
    assert (loss >= 0).all()


def test_people_are_not_in_the_sky_nor_in_free_space():
    rngs = generators(range(5), "crowd")
    assert not region_blocking_db(rngs, "umi", AHEAD_DEG, LEVEL_DEG - 20, TIME_S, TIME_S, 28e9).any()
    assert not region_blocking_db(rngs, "free-space", AHEAD_DEG, LEVEL_DEG, TIME_S, TIME_S, 28e9).any()


def test_offices_block_more_often_than_streets():
    street = region_blocking_db(generators(range(50), "crowd"), "umi", AHEAD_DEG, LEVEL_DEG, TIME_S, TIME_S, 28e9)
    office = region_blocking_db(generators(range(50), "crowd"), "inh", AHEAD_DEG, LEVEL_DEG, TIME_S, TIME_S, 28e9)
    assert np.mean(office > 1) > 1.5 * np.mean(street > 1)


def test_a_member_of_an_ensemble_is_the_realisation_of_its_seed():
    arguments = ("umi", AHEAD_DEG, LEVEL_DEG, TIME_S, TIME_S, 28e9)
    ensemble = region_blocking_db(generators(range(8), "crowd"), *arguments)
    assert (ensemble[5] == region_blocking_db(generators([5], "crowd"), *arguments)[0]).all()


D = 10.0
CLOSE = 0.05
"""Straight lines between points of the route that are D/40 apart: within 0.006 standard deviations (rms)."""


def line(start: tuple[float, float], end: tuple[float, float], steps: int) -> np.ndarray:
    return np.linspace((*start, 1.5), (*end, 1.5), steps)


def field(places: np.ndarray, seeds: int = 20) -> np.ndarray:
    return normal_field(generators(range(seeds), "s"), UeRoute.of(places), D)


def test_a_place_that_is_met_again_has_the_same_value():
    loop = np.concatenate(
        [
            line((0, 0), (80, 0), 4001),
            line((80, 0), (80, 60), 3001),
            line((80, 60), (0, 0), 5001)[:-1],
            line((0, 0), (80, 0), 4001),
        ]
    )
    values = field(loop)
    first, again = values[:, 50:3950], values[:, 12003 + 49 : 12003 + 3949]
    assert loop[12003 + 49 :][:3900] == pytest.approx(loop[50:3950], abs=1e-9)
    assert np.abs(first - again).max() < CLOSE
    assert first.std() > 0.5


def test_the_way_back_meets_the_values_of_the_way_there():
    there = line((3, -4), (153, 50), 9001)
    assert np.abs(field(there) - field(there[::-1])[:, ::-1]).max() < CLOSE


def test_two_routes_through_a_place_agree_there():
    crossing = field(line((-61.3, 20), (60, 20), 12131))[:, 6130]
    straight = field(line((0, -100.7), (0, 50), 15071))[:, 12070]
    assert np.abs(crossing - straight).max() < CLOSE
    assert np.abs(crossing - field(line((0, 10.0), (1, 10.0), 101))[:, 0]).max() > 0.5


@pytest.mark.parametrize("metres", [0.001, 0.09, 0.25, 2.0, 20.0])
def test_the_value_at_a_place_does_not_depend_on_the_step(metres):
    coarse = line((7, 7), (207, 7), round(200 / metres) + 1)
    fine = line((7, 7), (207, 7), 20001)
    places = np.searchsorted(fine[:, 0], coarse[:: max(1, round(1 / metres)), 0] - 1e-6)
    assert np.abs(field(coarse, 3)[:, :: max(1, round(1 / metres))] - field(fine, 3)[:, places]).max() < CLOSE


def test_standing_still_keeps_the_value():
    walk = line((0, 0), (5, 0), 501)
    values = field(np.concatenate([walk, np.repeat(walk[-1:], 1000, axis=0), line((5, 0), (9, 0), 401)]))
    assert (values[:, 501:1501] == values[:, 500:501]).all()
    assert (field(np.repeat(walk[:1], 5, axis=0)) == field(walk)[:, :1]).all()


def test_every_place_has_the_standard_normal_distribution():
    values = field(line((0, 0), (40, 3), 1601)[::37], 3000)
    assert np.abs(values.mean(axis=0)).max() < 4.5 / np.sqrt(3000)
    assert np.abs(values.std(axis=0) - 1).max() < 4.5 / np.sqrt(6000)
    assert np.mean(np.abs(values) > 1.959964) == pytest.approx(0.05, abs=0.01)


def test_a_member_of_an_ensemble_is_the_field_of_its_seed():
    places = line((0, 0), (90, 5), 3001)
    assert (field(places, 9)[7] == normal_field(generators([7], "s"), UeRoute.of(places), D)[0]).all()


def test_a_ue_that_comes_back_meets_the_same_shadow():
    scene = load("kau-e5g-lte")
    corners = ((0.0, 0.0, 1.5), (40.0, 0.0, 1.5), (40.0, 30.0, 1.5), (0.0, 0.0, 1.5), (40.0, 0.0, 1.5))
    scene = replace(
        scene,
        propagation="umi",
        obstacles=(),
        fallback=None,
        duration_s=40.0,
        step_s=0.01,
        ue=replace(scene.ue, trajectory=Trajectory((0.0, 10.0, 20.0, 30.0, 40.0), corners)),
    )
    shadowing = realise(scene, seed=4).losses_db["shadowing"]
    assert np.abs(shadowing[50:950] - shadowing[3050:3950]).max() < 0.25
    assert np.abs(shadowing[50:950] - shadowing[1050:1950]).max() > 1


SCENARIOS = ("umi", "uma", "rma", "inh", "inh-open", "free-space")


@pytest.mark.parametrize(("scenario", "height_bs_m"), [("umi", 10.0), ("uma", 25.0)])
def test_street_loss_bends_without_a_step_at_the_breakpoint(scenario, height_bs_m):
    bend = float(breakpoint_m(height_bs_m, 1.5, 3.5e9))
    around = path_loss_db(scenario, True, np.array([bend - 1e-6, bend + 1e-6]), height_bs_m, 1.5, 3.5e9)
    assert around[1] - around[0] == pytest.approx(0, abs=1e-5)
    far = path_loss_db(scenario, True, np.array([4 * bend, 40 * bend]), height_bs_m, 1.5, 3.5e9)
    assert far[1] - far[0] == pytest.approx(40, abs=0.1)  # the fourth power of the distance


def test_the_breakpoint_of_a_street_cell_is_at_187_m_for_28_ghz_per_half_metre():
    # 4 · 9 m · 0.5 m / λ
    assert float(breakpoint_m(10.0, 1.5, 28e9)) == pytest.approx(4 * 9 * 0.5 * 28e9 / 299_792_458)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_loss_never_falls_with_distance_and_nlos_never_loses_less(scenario):
    distance = np.geomspace(1, 5000, 400)
    line = path_loss_db(scenario, True, distance, 10.0, 1.5, 28e9)
    behind = path_loss_db(scenario, False, distance, 10.0, 1.5, 28e9)
    assert (np.diff(line) >= 0).all()
    assert (behind >= line).all()


def test_arguments_broadcast():
    los = np.array([[True], [False]])
    loss = path_loss_db("umi", los, np.array([20.0, 75.0, 200.0]), 10.0, 1.5, 28e9)
    assert loss.shape == (2, 3)
    assert loss[1, 1] == path_loss_db("umi", False, 75.0, 10.0, 1.5, 28e9)


def test_free_space_is_that_of_friis_and_the_air():
    expected = 20 * math.log10(4 * math.pi * 1000 * 60e9 / 299_792_458)
    assert float(free_space_db(1000.0, 60e9)) == pytest.approx(expected + 14.8, abs=1e-9)


def test_office_loss_of_the_table():
    assert float(path_loss_db("inh", True, 10.0, 1.0, 1.0, 1e9)) == pytest.approx(32.4 + 17.3)
    assert float(path_loss_db("inh", False, 10.0, 1.0, 1.0, 10e9)) == pytest.approx(17.3 + 38.3 + 24.9)


def test_macro_loss_of_the_table():
    assert float(path_loss_db("uma", True, 75.0, 25.0, 25.0, 10e9)) == pytest.approx(28 + 22 * math.log10(75) + 20)
    nlos = 13.54 + 39.08 * math.log10(75) + 20 - 0.6 * 23.5
    assert float(path_loss_db("uma", False, 75.0, 25.0, 25.0, 10e9)) == pytest.approx(nlos)


def test_rural_loss_of_the_table():
    # 700 MHz, 35 m and 1.5 m high, 500 m away in space: breakpoint 2π · 35 · 1.5 · 0.7e9 / 2.998e8 = 770.2 m.
    plane = math.sqrt(500**2 - 33.5**2)
    # 5^1.72 = 15.929; 20 lg(40π · 500 · 0.7 / 3) = 20 lg 14660.8 = 83.323; 0.47787 lg 500 = 1.290; 0.70088;
    # 0.002 · lg 5 · 500 = 0.699: 83.323 + 1.290 - 0.701 + 0.699 = 84.611 dB
    assert float(path_loss_db("rma", True, plane, 35.0, 1.5, 0.7e9)) == pytest.approx(84.611, abs=0.002)
    # 161.04 - 7.1 · 1.30103 = 151.803; + 7.5 · 0.69897 = 157.045; (24.37 - 3.7 / 49) · 1.544068 = 37.512: 119.533;
    # (43.42 - 3.1 · 1.544068) · (2.69897 - 3) = 38.6334 · -0.30103 = -11.630: 107.903; + 20 lg 0.7 = -3.098: 104.805;
    # 3.2 · (lg 17.625)² - 4.97 = 3.2 · 1.246129² - 4.97 = -0.001: 104.806 dB
    assert float(path_loss_db("rma", False, plane, 35.0, 1.5, 0.7e9)) == pytest.approx(104.806, abs=0.002)
    # Wider streets and higher buildings: -7.1 lg(50/20) = -2.825; 7.5 lg 2 = 2.258;
    # 3.7 · ((10/35)² - (5/35)²) · 1.544068 = 0.350
    other = float(path_loss_db("rma", False, plane, 35.0, 1.5, 0.7e9, 50.0, 10.0))
    assert other == pytest.approx(104.806 - 2.825 + 2.258 + 0.350, abs=0.003)


def test_rural_loss_beyond_the_breakpoint_falls_with_the_fourth_power():
    assert float(rural_breakpoint_m(35.0, 1.5, 0.7e9)) == pytest.approx(770.2, abs=0.1)
    # PL1(770.2): 20 lg(40π · 770.2 · 0.7 / 3) = 20 lg 22583 = 87.075; 0.47787 · 2.88661 = 1.379; -0.701; + 1.077:
    # 88.830 dB; 40 lg(2000 / 770.2) = 16.578: 105.408 dB at 2000 m in space
    plane = math.sqrt(2000**2 - 33.5**2)
    assert float(path_loss_db("rma", True, plane, 35.0, 1.5, 0.7e9)) == pytest.approx(105.408, abs=0.003)
    around = path_loss_db("rma", True, np.array([770.1, 770.3]), 35.0, 1.5, 0.7e9)
    assert 0 < around[1] - around[0] < 0.03


def test_rural_los_probability_and_spreads():
    assert float(los_probability("rma", 10.0)) == 1
    assert float(los_probability("rma", 1010.0)) == pytest.approx(math.exp(-1))
    spread = los_spread_db("rma", np.array([700.0, 800.0]), 35.0, 1.5, 0.7e9)
    assert np.asarray(spread).tolist() == [4, 6]
    assert los_spread_db("uma", np.array([700.0]), 25.0, 1.5, 0.7e9) == 4


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_los_is_certain_nearby_and_never_more_likely_further_away(scenario):
    probability = los_probability(scenario, np.linspace(0, 1000, 20001))
    assert probability[0] == 1
    assert (np.diff(probability) <= 4e-3).all()  # the open office's parts are 0.537 and 0.54 where they meet
    assert ((probability >= 0) & (probability <= 1)).all()


def test_los_probability_at_anchors_of_the_table():
    assert float(los_probability("umi", 75.0)) == pytest.approx(0.24 + math.exp(-75 / 36) * 0.76)
    assert float(los_probability("uma", 75.0)) == pytest.approx(0.24 + math.exp(-75 / 63) * 0.76)
    assert float(los_probability("inh", 6.5)) == pytest.approx(0.32)
    assert float(los_probability("inh-open", 49.0)) == pytest.approx(math.exp(-44 / 70.8))


def test_high_handsets_see_a_macro_cell_more_often():
    assert float(los_probability("uma", 300.0, 22.5)) > float(los_probability("uma", 300.0, 13.0))
    assert float(los_probability("uma", 300.0, 13.0)) == float(los_probability("uma", 300.0, 1.5))


def test_a_link_within_the_tables_range_gives_no_warning():
    assert range_warnings("umi", np.array([10.0, 5000.0]), 10.0, 1.5, 28e9) == ()
    assert range_warnings("uma", 75.0, 25.0, 1.5, 3.5e9) == ()
    assert range_warnings("rma", np.array([10.0, 5000.0]), 35.0, 1.0, 30e9) == ()
    assert range_warnings("inh", 75.0, 3.0, 1.0, 60e9) == ()
    assert range_warnings("free-space", 6000.0, 3.0, 1.0, 60e9) == ()


@pytest.mark.parametrize(
    ("scenario", "arguments", "words"),
    [
        ("umi", (75.0, 10.0, 1.5, 140e9), "frequency 140 GHz is outside 0.5 to 100 GHz (TR 38.901 Table 7.4.1-1)"),
        ("umi", (6000.0, 10.0, 1.5, 28e9), "distance in the plane 6000 m is outside 10 to 5000 m"),
        ("umi", (np.array([5.0, 75.0]), 10.0, 1.5, 28e9), "distance in the plane 5 to 75 m is outside"),
        ("umi", (75.0, 3.0, 1.5, 28e9), "height of the base station 3 m is not 10 m"),
        ("uma", (75.0, 10.0, 1.5, 28e9), "height of the base station 10 m is not 25 m"),
        ("umi", (75.0, 10.0, 1.0, 28e9), "height of the UE 1 m is outside 1.5 to 22.5 m"),
        ("uma", (75.0, 25.0, 20.0, 28e9), "UE above 13 m"),
        ("rma", (75.0, 35.0, 1.5, 39e9), "frequency 39 GHz is outside 0.5 to 30 GHz"),
        ("rma", (75.0, 5.0, 1.5, 1e9), "height of the base station 5 m is outside 10 to 150 m"),
        ("rma", (75.0, 35.0, 12.0, 1e9), "height of the UE 12 m is outside 1 to 10 m"),
        ("rma", (6000.0, 35.0, 1.5, 1e9), "above 5000 m: NLOS is outside"),
        ("inh", (200.0, 3.0, 1.5, 28e9), "distance 200.006 m is outside 1 to 150 m"),
    ],
)
def test_each_way_out_of_the_range_has_its_warning(scenario, arguments, words):
    (line,) = range_warnings(scenario, *arguments)
    assert words in line


def test_outside_the_range_the_loss_is_still_a_number():
    assert np.isfinite(path_loss_db("umi", np.array([True, False]), 0.0, 1.0, 1.0, 300e9)).all()
