"""Random streams by stage, shadowing, a drawn line of sight, and processes along the walk."""

from __future__ import annotations

import numpy as np
import pytest

from wavebed.channel.propagation.correlated import gaussian, generator, generators, normal_cdf, walked_m
from wavebed.channel.propagation.shadowing import UeRoute, draw_los, shadowing_db

WALK_M = np.linspace(0.0, 200.0, 5001)
ROUTE = UeRoute.of(np.stack([WALK_M, 0 * WALK_M, 1.5 + 0 * WALK_M], axis=1))


def test_stages_and_seeds_have_their_own_luck():
    draws = {
        generator(seed, stage).integers(2**62) for seed in (0, 1, 2**40) for stage in ("a", "b", "shadowing", "fading")
    }
    assert len(draws) == 12
    assert generator(5, "a").integers(2**62) == generator(5, "a").integers(2**62)


@pytest.mark.parametrize("seed", [0, 3, 9])
def test_a_member_of_an_ensemble_is_the_realisation_of_its_seed(seed):
    ensemble = shadowing_db(generators(range(10), "shadowing"), "umi", ROUTE)
    alone = shadowing_db(generators([seed], "shadowing"), "umi", ROUTE)
    for many, one in zip(ensemble, alone, strict=True):
        assert (many[seed] == one[0]).all()


def test_standing_still_keeps_the_value():
    stops = np.concatenate((WALK_M, np.full(1000, WALK_M[-1]), WALK_M[-1] + WALK_M))
    (process,) = gaussian(generators([1], "walk"), stops, 10.0)
    assert (process[5000:6001] == process[5000]).all()
    assert process[6500] != process[5000]


def test_the_value_at_a_place_depends_neither_on_the_step_nor_on_the_rest_of_the_walk():
    fine = gaussian(generators([1], "walk"), np.linspace(0.0, 400.0, 40001), 10.0)
    coarse = gaussian(generators([1], "walk"), np.linspace(0.0, 200.0, 201), 10.0)
    assert fine[0, :20001:100] == pytest.approx(coarse[0], abs=1e-9)


def test_neighbouring_steps_are_close():
    (process,) = gaussian(generators([1], "walk"), np.linspace(0.0, 50.0, 40_000), 10.0)
    assert np.abs(np.diff(process)).max() < 0.01


def test_los_and_nlos_are_separate_fields():
    line, behind = shadowing_db(generators([1], "s"), "umi", ROUTE)
    assert abs(np.corrcoef(line[0] / 4, behind[0] / 7.82)[0, 1]) < 0.9


def test_free_space_has_no_shadows():
    rngs = generators([1, 2], "s")
    assert not np.any(shadowing_db(rngs, "free-space", UeRoute.of(np.zeros((3, 3)))))
    assert draw_los(rngs, "free-space", np.ones(3), UeRoute.of(np.zeros((3, 3)))).all()


def test_certain_states_are_not_left_to_luck():
    rngs = generators(range(20), "los")
    assert draw_los(rngs, "umi", np.ones(WALK_M.size), ROUTE).all()
    assert not draw_los(rngs, "umi", np.zeros(WALK_M.size), ROUTE).any()


def test_the_normal_distribution_function():
    assert normal_cdf(np.array([-40.0, -1.0, 0.0, 1.959964, 40.0])) == pytest.approx(
        [0, 0.158655, 0.5, 0.975, 1], abs=1e-6
    )


def test_the_distance_walked():
    assert walked_m(np.array([[0.0, 0, 1], [3, 4, 1], [3, 4, 1], [3, 4, 13]])) == pytest.approx([0, 5, 5, 17])
