"""Blockage by the user and by a crowd, model A."""

from __future__ import annotations

import numpy as np
import pytest

from wavebed.channel.propagation.random_streams import generators
from wavebed.channel.propagation.regions import region_blocking_db, self_blocking_db

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
