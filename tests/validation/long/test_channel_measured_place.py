"""What a scene says of a measured place: users that come and go, NLOS loss, shadowing, the body."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.test_channel_measured_place import SCENE

from wavebed.channel import ensemble
from wavebed.channel.batch import own_fraction
from wavebed.scene.model import ShadowTable
from wavebed.scene.values import LoadProcess


def test_the_load_begins_in_balance() -> None:
    left = own_fraction(LoadProcess(0.6, 50.0), np.zeros(1), range(1, 2001))
    assert 1 - left.mean() == pytest.approx(0.6, abs=0.02)


def test_shadowing_of_the_place() -> None:
    scene = replace(SCENE, duration_s=800.0, step_s=1.0, fallback=None)
    values = {}
    for spread, distance in ((3.0, 10.0), (9.0, 100.0)):
        seeds = ensemble(
            replace(scene, shadowing=ShadowTable(spread_db=spread, distance_m=distance)), seeds=range(1, 9)
        )
        nlos = [np.where(one.los, np.nan, one.losses_db["shadowing"]) for one in seeds]
        values[spread] = np.array(nlos)
    steps = {spread: np.nanmean(np.abs(np.diff(each, axis=1))) for spread, each in values.items()}
    assert np.nanstd(values[3.0]) == pytest.approx(3.0, rel=0.2)
    assert np.nanstd(values[9.0]) == pytest.approx(9.0, rel=0.25)
    assert steps[9.0] < 2 * steps[3.0]  # three times as much, but over ten times the distance
