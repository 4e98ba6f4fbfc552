"""Propagation against published numbers and against the distributions that the standard asks for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from wavebed.channel.propagation.blockage import knife_edge_db
from wavebed.channel.propagation.correlated import gaussian, generators, normal_cdf
from wavebed.channel.propagation.fading import fading_db
from wavebed.channel.propagation.pathloss import los_probability, path_loss_db
from wavebed.channel.propagation.shadowing import SHADOWING, UeRoute, draw_los, normal_field, shadowing_db

if TYPE_CHECKING:
    from collections.abc import Callable

LIGHT_M_PER_S = 299_792_458.0
ONCE_IN_10000 = 2.23
"""√n times the Kolmogorov–Smirnov distance that n independent draws exceed once in 10⁴ samples."""


def ks_distance(sample: np.ndarray, distribution: Callable[[np.ndarray], np.ndarray]) -> float:
    """Greatest distance between the distribution of a sample and a continuous one."""
    ordered = np.sort(np.ravel(sample))
    expected = distribution(ordered)
    ranks = np.arange(ordered.size + 1) / ordered.size
    return float(max(np.max(ranks[1:] - expected), np.max(expected - ranks[:-1])))


def eastwards(walk_m: np.ndarray) -> UeRoute:
    return UeRoute.of(np.stack([75 + walk_m, 0 * walk_m, 1.5 + 0 * walk_m], axis=1))


def bessel_j0(x: np.ndarray) -> np.ndarray:
    angles = (np.arange(4000) + 0.5) * np.pi / 4000
    return np.cos(np.multiply.outer(x, np.cos(angles))).mean(axis=-1)


# ns-3's core gives 100.78 and 119.51 dB for this link.
def test_path_loss_of_a_28_ghz_street_cell_at_75_m():
    assert float(path_loss_db("umi", True, 75.0, 10.0, 1.5, 28e9)) == pytest.approx(100.78, abs=0.005)
    assert float(path_loss_db("umi", False, 75.0, 10.0, 1.5, 28e9)) == pytest.approx(119.51, abs=0.005)


def test_blockage_of_a_moving_handset_is_within_3_db_of_sionnas():
    # Relative RSRP of Sionna's CDL-E with a 2 x 10 m screen across x at (80, 10), 30 GHz, UE at (100, y, 1.5).
    published = -np.array([-0.9, -2.8, -13.1, -13.0, -3.3])
    ue = np.array([[100.0, y, 1.5] for y in range(10, 15)])
    loss = knife_edge_db((0.0, 0.0, 30.0), ue, np.array([80.0, 10.0, 0.0]), 2.0, 10.0, LIGHT_M_PER_S / 30e9, 0.0)
    error = loss - published
    assert np.abs(error).max() <= 3
    assert math.sqrt(np.mean(error**2)) <= 1.25


@pytest.mark.parametrize(
    ("name", "from_handset_m", "width_m", "height_m", "at_28_ghz_db", "at_60_ghz_db"),
    [
        ("human", 5.0, 0.3, 1.7, 6.6, 9.1),
        ("human", 1.0, 0.3, 1.7, 12.1, 15.2),
        ("vehicle", 5.0, 4.8, 1.4, 14.6, 17.7),
        ("building", 20.0, 20.0, 15.0, 24.5, 27.8),
    ],
)
def test_knife_edges_on_a_75_m_link(name, from_handset_m, width_m, height_m, at_28_ghz_db, at_60_ghz_db):
    # Ends 3 m and 1 m high: the geometry that these values imply.
    for frequency, expected in ((28e9, at_28_ghz_db), (60e9, at_60_ghz_db)):
        loss = knife_edge_db(
            (0.0, 0.0, 3.0),
            np.array([[75.0, 0.0, 1.0]]),
            np.array([75.0 - from_handset_m, 0.0, 0.0]),
            width_m,
            height_m,
            LIGHT_M_PER_S / frequency,
        )
        assert float(loss[0]) == pytest.approx(expected, abs=0.5), name


@pytest.mark.parametrize("scenario", ["umi", "uma", "rma", "inh"])
@pytest.mark.parametrize("los", [True, False])
def test_shadowing_is_normal_with_the_spread_of_the_table(scenario, los):
    seeds, walk = 3000, eastwards(np.linspace(0.0, 33.3, 5))
    values = shadowing_db(generators(range(seeds), "shadowing"), scenario, walk)[0 if los else 1]
    spread = SHADOWING[scenario].los_db if los else SHADOWING[scenario].nlos_db
    for step in range(5):
        distance = ks_distance(values[:, step] / spread, normal_cdf)
        assert distance * math.sqrt(seeds) < ONCE_IN_10000


@pytest.mark.parametrize("angle_deg", [0.0, 37.0, 90.0, 142.0])
@pytest.mark.parametrize("distance_m", [0.05, 0.3, 1.0, 5.0, 10.0, 20.0, 50.0])
def test_shadowing_is_correlated_by_an_exponential_of_the_distance_between_places(distance_m, angle_deg):
    seeds, angle = 4000, math.radians(angle_deg)
    there = (20 + distance_m * math.cos(angle), -7 + distance_m * math.sin(angle), 1.5)
    route = UeRoute.of(np.array([(20.0, -7.0, 1.5), (300.0, 80.0, 1.5), there]))  # far away between the two
    here, _, after = normal_field(generators(range(seeds), "s"), route, 10.0).T
    expected = math.exp(-distance_m / 10)
    error = 4 * (1 - expected**2) / math.sqrt(seeds) + 0.07  # 0.07: 256 waves, up to 5 D
    assert np.corrcoef(here, after)[0, 1] == pytest.approx(expected, abs=error)


@pytest.mark.parametrize("distance_m", [0.05, 0.3, 1.0, 5.0, 10.0, 20.0])
def test_the_process_of_the_crowd_is_correlated_by_an_exponential(distance_m):
    seeds = 4000
    before, after = gaussian(generators(range(seeds), "s"), np.array([0.0, 7.13, 7.13 + distance_m]), 10.0)[:, 1:].T
    expected = math.exp(-distance_m / 10)
    error = 4 * (1 - expected**2) / math.sqrt(seeds) + 0.0125  # between two points of the grid the process is straight
    assert np.corrcoef(before, after)[0, 1] == pytest.approx(expected, abs=error)


@pytest.mark.parametrize("scenario", ["umi", "uma", "rma", "inh", "inh-open"])
def test_los_is_drawn_with_its_probability_at_every_distance(scenario):
    # The probability of each distance, at 60 places of a walk of 500 m.
    seeds, distance = 3000, np.geomspace(1.0, 300.0, 60)
    probability = los_probability(scenario, distance)
    states = draw_los(generators(range(seeds), "los"), scenario, probability, eastwards(np.linspace(0, 500, 60)))
    error = 4.5 * np.sqrt(probability * (1 - probability) / seeds)
    assert (np.abs(states.mean(axis=0) - probability) <= error + 1e-9).all()


def test_the_number_behind_the_los_state_is_uniform_and_the_state_lasts():
    seeds = 3000
    walk = eastwards(np.linspace(0.0, 50.0, 11))
    thresholds = np.linspace(0.05, 0.95, 19)
    counts = np.array(
        [draw_los(generators(range(seeds), "los"), "umi", np.full(11, p), walk)[:, 10].mean() for p in thresholds]
    )
    assert np.abs(counts - thresholds).max() * math.sqrt(seeds) < ONCE_IN_10000
    half = draw_los(generators(range(seeds), "los"), "umi", np.full(11, 0.5), walk)
    same = np.mean(half[:, 0] == half[:, 10])  # after 50 m the correlation is 1/e: P(same) = 1/2 + asin(1/e)/π
    assert same == pytest.approx(0.5 + math.asin(math.exp(-1)) / math.pi, abs=0.04)


def narrow_fading(seeds: int, los: bool, moved_wavelengths: np.ndarray, scattered: float = 1.0) -> np.ndarray:
    """Power of one subband at places that are given in wavelengths; time stands still."""
    walk = moved_wavelengths * 0.01
    power_db = fading_db(
        generators(range(seeds), "fading"),
        "umi",
        np.full(walk.size, los),
        np.full(1, scattered),
        0 * walk,
        eastwards(walk),
        75 + 0.7 * walk,
        LIGHT_M_PER_S / 0.01,
        1e3,
    )
    return 10 ** (power_db / 10)


def test_nlos_fading_has_an_exponential_power_in_the_ensemble_and_along_the_walk():
    ensemble = narrow_fading(4000, False, np.array([0.0, 123.4]))
    # 24 waves are not infinitely many: their sum is within 0.01 of Rayleigh.
    assert ks_distance(ensemble[:, 1], lambda p: 1 - np.exp(-p)) < 0.01 + ONCE_IN_10000 / math.sqrt(4000)
    walk = narrow_fading(1, False, np.arange(4000) * 10.37)
    assert ks_distance(walk, lambda p: 1 - np.exp(-p)) < 0.05
    assert ensemble.mean() == pytest.approx(1, abs=0.05)
    assert walk.mean() == pytest.approx(1, abs=0.1)


def test_nlos_fading_decorrelates_as_the_square_of_j0():
    lags = np.array([0.1, 0.2, 0.38, 0.5, 0.6, 1.0, 2.1, 4.0, 6.0])
    power = narrow_fading(6000, False, np.concatenate(([0.0], lags)))
    correlation = [np.corrcoef(power[:, 0], power[:, 1 + i])[0, 1] for i in range(lags.size)]
    # Power of a complex normal process: the square of the amplitudes' correlation; 24 waves are off by 1/24 at most.
    assert correlation == pytest.approx(bessel_j0(2 * np.pi * lags) ** 2, abs=4.5 / math.sqrt(6000) + 1 / 24)


@pytest.mark.parametrize("k_db", [0.0, 6.0, 12.0])
def test_los_fading_is_rician(k_db):
    k = 10 ** (k_db / 10)
    power = narrow_fading(4000, True, np.array([0.0, 123.4]), 1 / (1 + k))[:, 1]
    grid = np.linspace(0, max(20.0, power.max() + 1), 200_001)
    root = 2 * np.sqrt(k * (1 + k) * grid)
    density = (1 + k) * np.exp(-k - (1 + k) * grid + root) * (np.i0(root) * np.exp(-root))
    cumulated = np.concatenate(([0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))))
    distance = ks_distance(power, lambda p: np.interp(p, grid, cumulated))
    assert distance < 0.01 + ONCE_IN_10000 / math.sqrt(4000)
    assert power.mean() == pytest.approx(1, abs=0.06)
