"""Small-scale fading."""

from __future__ import annotations

import numpy as np
import pytest

from wavebed.channel.propagation.correlated import generators
from wavebed.channel.propagation.fading import (
    MOST_SUBBANDS,
    ROW,
    _average,
    delay_spread_s,
    fading_db,
    k_factor_db,
    subbands,
    wavelengths_moved,
)
from wavebed.channel.propagation.shadowing import UeRoute

TIME_S = np.arange(0, 10, 0.001)
WALK_M = 1.4 * TIME_S
DIRECT_M = 75 + WALK_M
LOS = np.ones(TIME_S.size, dtype=np.bool_)


def straight(walk_m: np.ndarray) -> UeRoute:
    return UeRoute.of(np.stack([75 + walk_m, 0 * walk_m, 1.5 + 0 * walk_m], axis=1))


ROUTE = straight(WALK_M)


def scattered(los: np.ndarray, scenario: str = "umi") -> np.ndarray:
    """The fraction that is scattered with the K factor of LOS, and no antennas: all of it in NLOS."""
    k_db = 0.0 if scenario == "free-space" else k_factor_db(generators([1], "k"), scenario, ROUTE)[0]
    return np.where(los, 1 / (1 + 10 ** (k_db / 10)), 1.0)


def spread_db(scenario: str, los: np.ndarray, frequency_hz: float, bandwidth_hz: float) -> float:
    rngs = generators(range(30), "fading")
    return float(
        fading_db(
            rngs, scenario, los, scattered(los, scenario), TIME_S, ROUTE, DIRECT_M, frequency_hz, bandwidth_hz
        ).std()
    )


def test_delay_spreads_of_the_table():
    assert delay_spread_s("umi", True, 28e9) == pytest.approx(10 ** (-7.14 - 0.24 * np.log10(29)))
    assert delay_spread_s("uma", False, 28e9) == pytest.approx(10 ** (-6.28 - 0.204 * np.log10(28)))
    assert delay_spread_s("inh", False, 28e9) == pytest.approx(10 ** (-7.173 - 0.28 * np.log10(29)))
    assert delay_spread_s("uma", False, 1e9) == delay_spread_s("uma", False, 6e9)
    assert delay_spread_s("rma", True, 28e9) == pytest.approx(10**-7.49)
    assert delay_spread_s("rma", False, 0.7e9) == pytest.approx(10**-7.43)
    assert delay_spread_s("free-space", True, 28e9) == 0


def test_a_narrow_band_is_one_subband_and_a_wide_one_many():
    assert subbands(1e3, 50e-9) == 1
    assert subbands(20e6, 0.0) == 1
    assert subbands(20e6, 100e-9) == pytest.approx(2 * 20e6 * 100e-9, abs=1)
    assert subbands(400e6, 100e-9) == MOST_SUBBANDS


def test_a_wide_band_fades_less_than_a_narrow_one_and_los_less_than_nlos():
    narrow, wide = spread_db("umi", ~LOS, 28e9, 1e4), spread_db("umi", ~LOS, 28e9, 400e6)
    assert narrow == pytest.approx(5.57, abs=0.5)  # Rayleigh in dB
    assert wide < narrow / 3
    assert spread_db("umi", LOS, 28e9, 1e4) < narrow / 1.5


def test_fading_follows_the_walk_and_stops_with_it():
    walk = np.minimum(WALK_M, 7.0)  # stands still from 5 s on
    rngs = generators([1], "fading")
    (fading,) = fading_db(rngs, "umi", ~LOS, scattered(~LOS), TIME_S, straight(walk), 75 + walk, 3.5e9, 1e4)
    change = np.abs(np.diff(fading))
    assert np.median(change[5100:]) < 0.1 * np.median(change[:4900])
    assert change[5100:].max() > 0


def test_the_doppler_shift_is_speed_times_frequency():
    moved = wavelengths_moved(TIME_S, WALK_M, 28e9)
    assert moved[1000] == pytest.approx(1.4 * 28e9 / 299_792_458, rel=1e-3)
    still = wavelengths_moved(TIME_S, 0 * WALK_M, 5e9)
    assert still[1000] == pytest.approx(0.41, abs=0.01)  # the Doppler spread of TGac at 5 GHz


def test_states_may_differ_from_seed_to_seed_and_change_on_the_way():
    states = np.stack([LOS, ~LOS, TIME_S < 5])
    arguments = (TIME_S, ROUTE, DIRECT_M, 28e9, 400e6)
    mixed = fading_db(generators(range(3), "f"), "umi", states, scattered(states), *arguments)
    line = fading_db(generators(range(3), "f"), "umi", LOS, scattered(LOS), *arguments)
    behind = fading_db(generators(range(3), "f"), "umi", ~LOS, scattered(~LOS), *arguments)
    assert mixed == pytest.approx(np.where(states, line, behind), abs=1e-4)


def test_nothing_fades_in_free_space():
    assert not fading_db(
        generators([1], "f"), "free-space", LOS, scattered(LOS), TIME_S, ROUTE, DIRECT_M, 28e9, 400e6
    ).any()


def test_a_member_of_an_ensemble_is_the_realisation_of_its_seed():
    arguments = ("umi", TIME_S < 5, scattered(TIME_S < 5), TIME_S, ROUTE, DIRECT_M, 28e9, 400e6)
    ensemble = fading_db(generators(range(6), "f"), *arguments)
    assert (ensemble[4] == fading_db(generators([4], "f"), *arguments)[0]).all()


def test_a_high_sinr_suffers_more_from_the_faded_subbands():
    arguments = ("umi", ~LOS, scattered(~LOS), TIME_S, ROUTE, DIRECT_M, 28e9, 400e6)
    low = fading_db(generators([1], "f"), *arguments, mean_sinr_db=-20.0)
    high = fading_db(generators([1], "f"), *arguments, mean_sinr_db=30.0)
    assert (high < low).all()
    assert np.mean(10 ** (low / 10)) == pytest.approx(1, abs=0.1)


def test_the_effective_sinr_carries_as_much_as_the_subbands_do():
    """The rate of both, log2(1 + SINR), from powers that a narrow band of the same draws has in each subband."""
    power = np.random.default_rng(4).exponential(size=(3, MOST_SUBBANDS, ROW)).astype(np.float32)
    for sinr_db in (-20.0, 0.0, 12.0, 35.0):
        sinr = np.full((3, 1, ROW), 10 ** (sinr_db / 10), dtype=np.float32)
        found = _average(power.copy(), sinr)[:, 0]
        expected = np.log2(1 + sinr * power).mean(axis=1)
        assert np.log2(1 + sinr[:, 0] * found) == pytest.approx(expected, rel=1e-3)


def test_each_step_has_the_mean_sinr_of_its_own():
    arguments = ("umi", ~LOS, scattered(~LOS), TIME_S, ROUTE, DIRECT_M, 28e9, 400e6)
    sinr_db = np.stack([np.where(TIME_S < 5, 0.0, 30.0), np.full(TIME_S.size, 30.0)])
    mixed = fading_db(generators([1, 2], "f"), *arguments, mean_sinr_db=sinr_db)
    low, high = (fading_db(generators([1, 2], "f"), *arguments, mean_sinr_db=each) for each in (0.0, 30.0))
    assert np.array_equal(mixed[0], np.where(TIME_S < 5, low[0], high[0]))
    assert np.array_equal(mixed[1], high[1])
