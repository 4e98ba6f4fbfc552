"""Path loss, LOS probability and the ranges in which they hold."""

from __future__ import annotations

import math

import numpy as np
import pytest

from wavebed.channel.propagation.pathloss import (
    breakpoint_m,
    free_space_db,
    los_probability,
    path_loss_db,
    range_warnings,
    rural_breakpoint_m,
)
from wavebed.channel.propagation.shadowing import los_spread_db

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
