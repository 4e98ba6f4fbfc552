"""Interference of neighbours, walls around the UE, rain and rural cells, from a scene to the SINR."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.unit.test_channel_surroundings import TOWN, extra_db, town  # noqa: F401

from wavebed.channel.propagation.pathloss import wall_db
from wavebed.scene.model import InCar, Indoor

if TYPE_CHECKING:
    from pathlib import Path


def test_a_wall_adds_its_loss_while_the_ue_is_behind_it(tmp_path: Path):
    scene = town(tmp_path, ue='indoor = { wall = "low-loss", depth = 5, during = [["1s", "3s"]] }')
    assert scene.ue.indoor == Indoor(wall="low-loss", depth_m=5.0, during_s=((1.0, 3.0),))
    outdoors = replace(scene, ue=replace(scene.ue, indoor=None))
    losses = np.stack([extra_db(outdoors, {"indoor": scene.ue.indoor}, seed) for seed in range(60)])
    inside = losses[:, 100:300]
    assert not losses[:, :100].any()
    assert not losses[:, 300:].any()
    assert np.abs(inside - inside[:, :1]).max() < 1e-9  # drawn once for a UE
    assert inside[:, 0].mean() == pytest.approx(wall_db("low-loss", 3.5e9) + 2.5, abs=4 * 4.4 / math.sqrt(60))
    assert inside[:, 0].std() == pytest.approx(4.4, rel=0.35)


def test_a_depth_that_is_not_given_is_drawn(tmp_path: Path):
    scene = town(tmp_path)
    given = [extra_db(scene, {"indoor": Indoor(wall="high-loss", depth_m=0.0)}, seed)[0] for seed in range(40)]
    drawn = [extra_db(scene, {"indoor": Indoor(wall="high-loss")}, seed)[0] for seed in range(40)]
    metres = (np.array(drawn) - np.array(given)) / 0.5
    assert metres.min() >= 0
    assert metres.max() <= 25
    assert metres.mean() == pytest.approx(25 / 3, abs=4)


def test_a_car_takes_9_db_or_20_with_metallised_windows(tmp_path: Path):
    scene = town(tmp_path, ue='in-car = { windows = "metallised" }')
    assert scene.ue.in_car == InCar(windows="metallised")
    outdoors = replace(scene, ue=replace(scene.ue, in_car=None))
    plain, metal = (
        np.array([extra_db(outdoors, {"in_car": InCar(windows=windows)}, seed)[0] for seed in range(40)])
        for windows in ("plain", "metallised")
    )
    assert plain.mean() == pytest.approx(9, abs=4 * 5 / math.sqrt(40))
    assert metal - plain == pytest.approx(np.full(40, 11.0))
