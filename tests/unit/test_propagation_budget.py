"""Air, rain, materials, entry losses and noise."""

from __future__ import annotations

import math

import pytest

from wavebed.channel.propagation.atmosphere import gas_db_per_km, rain_db_per_km
from wavebed.channel.propagation.entry import building_entry_db, car_entry_db, wall_db
from wavebed.channel.propagation.noise import noise_dbm
from wavebed.channel.propagation.random_streams import generators
from wavebed.config.problems import Problem
from wavebed.scene.kinds import transmission_loss_db


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
