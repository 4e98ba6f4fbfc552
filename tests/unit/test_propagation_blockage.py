"""Blockage by screens, model B."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.channel.propagation.blockage import NEGLIGIBLE_DB, blockage_db, knife_edge_db
from wavebed.scene.model import Box, Obstacle, Screen, Trajectory

WAVELENGTH_M = 0.01
FREQUENCY_HZ = 299_792_458 / WAVELENGTH_M
BASE = (0.0, 0.0, 1.5)


def crossing(steps: int = 2001) -> tuple[np.ndarray, np.ndarray]:
    """Walk from y = -10 m to 10 m, 50 m away from the base station."""
    time = np.arange(steps) * 0.001
    return np.stack([np.full(steps, 50.0), np.linspace(-10, 10, steps), np.full(steps, 1.5)], axis=1), time


def test_the_edge_of_a_large_screen_takes_half_the_field():
    place = np.array([[50.0, 0.0, 1.5]])
    loss = knife_edge_db(BASE, place, np.array([25.0, 500.0, -500.0]), 1000.0, 1000.0, WAVELENGTH_M, 0.0)
    assert loss == pytest.approx(20 * math.log10(2), abs=0.1)


def test_loss_is_alike_on_both_sides_and_falls_away_from_the_screen():
    place, _ = crossing()
    loss = knife_edge_db(BASE, place, np.array([25.0, 0.0, 0.0]), 0.5, 3.0, WAVELENGTH_M)
    assert loss == pytest.approx(loss[::-1], abs=1e-9)
    assert loss[1000] == loss.max()
    assert loss[0] < 0.1


def test_loss_is_the_same_whichever_end_sends():
    one, other = np.array([[50.0, 3.0, 1.5]]), np.array([[0.0, 0.0, 3.0]])
    there = knife_edge_db((0.0, 0.0, 3.0), one, np.array([45.0, 2.5, 0.0]), 0.5, 1.8, WAVELENGTH_M)
    back = knife_edge_db((50.0, 3.0, 1.5), other, np.array([45.0, 2.5, 0.0]), 0.5, 1.8, WAVELENGTH_M)
    assert there == pytest.approx(back, abs=1e-9)
    assert there[0] > 1


@pytest.mark.parametrize("x", [-5.0, 55.0])
def test_a_screen_behind_either_end_takes_nothing(x):
    assert knife_edge_db(BASE, np.array([[50.0, 0.0, 1.5]]), np.array([x, 0.0, 0.0]), 5.0, 5.0, WAVELENGTH_M) == 0


def test_a_screen_below_the_ray_takes_little_and_one_edge_on_none():
    high = np.array([[50.0, 0.0, 1.5]])
    assert knife_edge_db((0.0, 0.0, 30.0), high, np.array([25.0, 0.0, 0.0]), 5.0, 1.7, WAVELENGTH_M) < 0.1
    thin = knife_edge_db(BASE, high, np.array([25.0, 0.0, 0.0]), 5.0, 5.0, WAVELENGTH_M, 90.0)
    assert thin == pytest.approx(0, abs=1e-6)


def test_a_heading_turns_the_screen_out_of_the_ray():
    place, centre = np.array([[50.0, 0.0, 1.5]]), np.array([25.0, 0.0, 0.0])
    losses = [float(knife_edge_db(BASE, place, centre, 2.0, 3.0, WAVELENGTH_M, h)[0]) for h in (0, 30, 60, 80)]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] == pytest.approx(float(knife_edge_db(BASE, place, centre, 2.0, 3.0, WAVELENGTH_M)[0]))


def test_losses_of_several_obstacles_add():
    place, time = crossing()
    near = Obstacle("near", "person", Screen((45.0, 0.0, 0.0), 0.5, 1.8))
    far = Obstacle("far", "person", Screen((10.0, 0.0, 0.0), 0.5, 1.8))
    apart = blockage_db(BASE, place, time, [near], FREQUENCY_HZ) + blockage_db(BASE, place, time, [far], FREQUENCY_HZ)
    assert blockage_db(BASE, place, time, [near, far], FREQUENCY_HZ) == pytest.approx(apart, abs=1e-9)


def test_buildings_are_left_to_the_line_of_sight():
    place, time = crossing()
    house = Obstacle("house", "building", Box((20.0, -5.0, 0.0), (30.0, 5.0, 20.0)))
    assert not blockage_db(BASE, place, time, [house], FREQUENCY_HZ).any()


def test_an_obstacle_counts_only_while_it_is_there():
    _, time = crossing()
    still = np.tile([50.0, 0.0, 1.5], (time.size, 1))
    sheet = Obstacle("sheet", "metal", Screen((25.0, 0.0, 0.0), 1.0, 2.0), present_s=((0.5, 0.75), (1.5, 9.0)))
    loss = blockage_db(BASE, still, time, [sheet], FREQUENCY_HZ)
    there = ((time >= 0.5) & (time < 0.75)) | (time >= 1.5)
    assert (loss[there] > 9).all()
    assert not loss[~there].any()


def test_a_moving_obstacle_is_where_its_track_says():
    _, time = crossing()
    still = np.tile([50.0, 0.0, 1.5], (time.size, 1))
    trajectory = Trajectory((0.0, 2.0), ((7.0, 7.0, 0.0), (7.0, 27.0, 0.0)))  # 20 m towards +y
    bus = Obstacle("bus", "bus", Screen((25.0, -10.0, 0.0), 1.0, 3.0), trajectory=trajectory)
    loss = blockage_db(BASE, still, time, [bus], FREQUENCY_HZ)
    assert loss.argmax() == pytest.approx(1000, abs=1)
    fixed = knife_edge_db(BASE, still[:1], np.array([25.0, 0.0, 0.0]), 1.0, 3.0, WAVELENGTH_M)
    assert loss[1000] == pytest.approx(float(fixed[0]), abs=1e-6)


def test_a_box_is_as_wide_as_its_silhouette():
    _, time = crossing(10)
    place = np.tile([50.0, 0.0, 1.5], (10, 1))
    box = Obstacle("car", "car", Box((23.0, -1.0, 0.0), (27.0, 1.0, 1.6)))
    expected = knife_edge_db(BASE, place, np.array([25.0, 0.0, 0.0]), 2.0, 1.6, WAVELENGTH_M)
    assert blockage_db(BASE, place, time, [box], FREQUENCY_HZ) == pytest.approx(expected)
    aslant = np.tile([0.0, 50.0, 1.5], (10, 1))
    turned = Obstacle("car", "car", Box((-2.0, 24.0, 0.0), (2.0, 26.0, 1.6)))
    expected = knife_edge_db(BASE, aslant, np.array([0.0, 25.0, 0.0]), 4.0, 1.6, WAVELENGTH_M)
    assert blockage_db(BASE, aslant, time, [turned], FREQUENCY_HZ) == pytest.approx(expected)


@pytest.mark.parametrize("through_db", [0.0, 1.0, 7.6, 20.0])
def test_a_screen_never_loses_more_than_what_goes_through_it(through_db):
    place, time = crossing()
    sheet = Obstacle("sheet", "glass", Screen((25.0, 0.0, 0.0), 2.0, 3.0), transmission_loss_db=through_db)
    loss = blockage_db(BASE, place, time, [sheet], FREQUENCY_HZ)
    assert loss.max() <= through_db + 1e-9
    opaque = Obstacle("sheet", "metal", Screen((25.0, 0.0, 0.0), 2.0, 3.0))
    assert (loss <= blockage_db(BASE, place, time, [opaque], FREQUENCY_HZ) + 1e-9).all()


@given(
    x=st.floats(-10, 70),
    y=st.floats(-25, 25),
    width=st.floats(0.1, 12),
    height=st.floats(0.2, 12),
    speed=st.floats(-20, 20),
    base_height=st.floats(1, 30),
    heading=st.one_of(st.none(), st.floats(0, 360)),
)
def test_what_is_skipped_would_have_lost_less_than_a_tenth_of_a_decibel(
    x, y, width, height, speed, base_height, heading
):
    place, time = crossing()
    base = (0.0, 0.0, base_height)
    end = float(time[-1])
    screen = Screen((x, y, 0.0), width, height, heading)
    trajectory = Trajectory((0.0, end), ((0.0, 0.0, 0.0), (0.0, speed * end, 0.0)))
    loss = blockage_db(base, place, time, [Obstacle("o", "box", screen, trajectory)], FREQUENCY_HZ)
    centre = np.array([x, y, 0.0]) + np.outer(time, (0.0, speed, 0.0))
    full = knife_edge_db(base, place, centre, width, height, WAVELENGTH_M, heading)
    skipped = loss == 0
    assert loss[~skipped] == pytest.approx(full[~skipped], abs=1e-6)
    assert (full[skipped] < NEGLIGIBLE_DB).all()


def test_far_obstacles_are_not_computed(monkeypatch):
    place, time = crossing()
    far = [Obstacle(f"{i}", "person", Screen((25.0, 100.0 + i, 0.0), 0.5, 1.8)) for i in range(20)]
    monkeypatch.setattr("wavebed.channel.propagation.blockage._blocked_fraction", lambda *_: pytest.fail("computed"))
    assert not blockage_db(BASE, place, time, far, FREQUENCY_HZ).any()
