"""What a scene says of a measured place: users that come and go, NLOS loss, shadowing, the body."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

from wavebed.channel import ensemble, realise
from wavebed.channel.batch import left_by_users, own_fraction, users_of_load
from wavebed.scene import load
from wavebed.scene.model import ShadowTable
from wavebed.scene.values import LoadProcess

TIME_S = np.arange(0, 4000, 0.5)
SCENE = replace(load("loop-mmwave"), duration_s=40.0, step_s=0.1, nlos_offset_db=0.0, shadowing=None)


@pytest.mark.parametrize("mean", [0.05, 0.4, 0.9])
def test_the_load_has_its_mean(mean: float) -> None:
    left = own_fraction(LoadProcess(mean, 5.0), TIME_S, range(1, 41))
    assert left.shape == (40, TIME_S.size)
    assert left.min() > 0
    assert left.max() <= 1
    assert 1 - left.mean() == pytest.approx(mean, abs=0.015)
    weights = 1 / left - 1
    users = users_of_load(mean)
    assert weights.mean() == pytest.approx(users, rel=0.05)
    assert weights.var() == pytest.approx(2 * users, rel=0.15)  # Poisson sum of exponential weights
    assert (left == 1).mean() == pytest.approx(np.exp(-users), abs=0.02)


@pytest.mark.parametrize("users", [0.1, 1.0, 10.0, 1000.0])
def test_the_mean_that_users_leave_is_that_of_the_integral(users: float) -> None:
    exact, _ = quad(lambda t: np.exp(-t - users * t / (1 + t)), 0, np.inf, limit=500, epsabs=1e-13)
    assert left_by_users(users) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("time_constant_s", [2.0, 20.0])
def test_the_load_forgets_itself_in_its_time_constant(time_constant_s: float) -> None:
    weights = 1 / own_fraction(LoadProcess(0.5, time_constant_s), TIME_S, range(1, 41)) - 1
    centred = weights - weights.mean()
    lag = round(time_constant_s / 0.5)
    correlation = (centred[:, lag:] * centred[:, :-lag]).mean() / centred.var()
    assert correlation == pytest.approx(np.exp(-1), abs=0.05)


def test_no_load_leaves_all() -> None:
    assert (own_fraction(LoadProcess(0.0, 5.0), TIME_S, [1, 2]) == 1).all()


def test_a_drawn_load_scales_the_rates_of_its_seed() -> None:
    busy = replace(SCENE, cell_load=LoadProcess(0.7, 3.0), fallback=None)
    free = replace(busy, cell_load=())
    left = own_fraction(busy.cell_load, realise(free).time_s, [3, 4])
    for row, (one, other) in enumerate(zip(ensemble(busy, seeds=[3, 4]), ensemble(free, seeds=[3, 4]), strict=True)):
        assert np.array_equal(one.rate_bps, (other.rate_bps * left[row]).astype(np.int64))
        assert np.array_equal(one.sinr_db, other.sinr_db)
        alone = realise(busy, seed=one.seed)
        assert np.array_equal(alone.rate_bps, one.rate_bps)


def test_more_loss_in_nlos_leaves_los_alone() -> None:
    # One element at each end, so that no beam is chosen anew; nothing else stands in the way.
    bare = replace(SCENE, base_stations=SCENE.base_stations[2:], fallback=None, cell_load=())
    one = replace(bare.base_stations[0], array=replace_array(bare.base_stations[0].array))
    bare = replace(bare, base_stations=(one,), ue=replace(bare.ue, array=type(bare.ue.array)(), hold="none"))
    plain, lossy = (realise(replace(bare, nlos_offset_db=offset), seed=2) for offset in (0.0, 10.0))
    change = lossy.losses_db["path loss"] - plain.losses_db["path loss"]
    assert change[~plain.los] == pytest.approx(10.0)
    assert np.abs(change[plain.los]).max() < 1.0  # the waves of NLOS are a small part there
    assert plain.los.any()
    assert (~plain.los).any()


def replace_array(array: object) -> object:
    return type(array)()


def test_less_loss_by_the_body_never_costs_rate() -> None:
    thick, thin = (
        realise(replace(SCENE, ue=replace(SCENE.ue, body_loss_db=loss), fallback=None), seed=1) for loss in (40.0, 5.0)
    )
    assert thin.rate_bps.mean() > thick.rate_bps.mean()
    assert (thin.losses_db["blockage"] <= thick.losses_db["blockage"] + 20).all()


def test_the_fallback_carrier_is_without_the_place() -> None:
    plain = realise(replace(SCENE, base_stations=far(SCENE)), seed=1)
    other = replace(SCENE, base_stations=far(SCENE), nlos_offset_db=20.0, shadowing=ShadowTable(spread_db=1.0))
    changed = realise(other, seed=1)
    assert (plain.state[-100:] == changed.state[-100:]).all()
    assert np.array_equal(plain.rate_bps[-100:], changed.rate_bps[-100:])
    assert plain.rate_bps[-100:].all()


def far(scene: object) -> object:
    return tuple(replace(station, power_dbm=-80.0) for station in scene.base_stations)
