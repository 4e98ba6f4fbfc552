"""Normal fields in the plane: a place has one value, whatever the way to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wavebed.channel import realise
from wavebed.channel.propagation.places import Route, normal_field
from wavebed.channel.propagation.random_streams import generators
from wavebed.scene import load
from wavebed.scene.model import Trajectory

D = 10.0
CLOSE = 0.05
"""Straight lines between points of the route that are D/40 apart: within 0.006 standard deviations (rms)."""


def line(start: tuple[float, float], end: tuple[float, float], steps: int) -> np.ndarray:
    return np.linspace((*start, 1.5), (*end, 1.5), steps)


def field(places: np.ndarray, seeds: int = 20) -> np.ndarray:
    return normal_field(generators(range(seeds), "s"), Route.of(places), D)


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
    assert (field(places, 9)[7] == normal_field(generators([7], "s"), Route.of(places), D)[0]).all()


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
