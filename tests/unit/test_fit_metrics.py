"""Figures of walks, on series whose figures are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import ks_2samp

from wavebed.fit import metrics

DIPS = np.array([500.0, 50, 50, 200, 450, 50, 300, 50, 600.0])
"""Three times below 100: 2 s, 1 s and 1 s; the first and the last recover to 400, after 1 s and at once."""


def test_the_distance_of_distributions_is_that_of_kolmogorov_and_smirnov():
    rng = np.random.default_rng(1)
    first, other = rng.normal(0, 1, 500), np.round(rng.normal(0.3, 2, 300), 1)
    assert metrics.ks_distance(first, other) == pytest.approx(ks_2samp(first, other).statistic)
    assert metrics.ks_distance(first, first) == 0
    assert math.isnan(metrics.ks_distance(first, np.empty(0)))


def test_dips_are_the_times_below_a_threshold():
    assert metrics.dips(DIPS, 100).tolist() == [2, 1, 1]
    assert metrics.longest_dip_s(DIPS, 100) == 2
    assert metrics.per_10_min(DIPS, 100) == 200
    assert metrics.share_below(DIPS, 100) == pytest.approx(4 / 9)
    assert metrics.longest_dip_s(DIPS, 1) == 0


def test_a_recovery_ends_where_the_rate_falls_again():
    times, ends = metrics.recoveries(DIPS, 100, 400)
    assert times.tolist() == [1, 0]
    assert ends == 3


def test_a_dip_that_does_not_end_is_no_recovery():
    times, ends = metrics.recoveries(np.array([500.0, 50, 50]), 100, 400)
    assert (len(times), ends) == (0, 0)


def test_the_autocorrelation_of_a_known_process():
    rng = np.random.default_rng(2)
    values = rng.normal(0, 1, 50_000)
    for place in range(1, len(values)):
        values[place] += 0.9 * values[place - 1]
    assert metrics.autocorrelation(values, 1) == pytest.approx(0.9, abs=0.01)
    assert metrics.autocorrelation(values, 5) == pytest.approx(0.9**5, abs=0.03)


def test_the_spectrum_of_noise_is_flat_and_that_of_a_random_walk_falls_by_two():
    rng = np.random.default_rng(3)
    noise = rng.normal(0, 1, 20_000)
    assert metrics.spectrum_slope(noise) == pytest.approx(0, abs=0.05)
    # Up to 0.1 Hz the slope of a sampled random walk is 2; near half the sampling frequency it is flatter.
    assert -2 < metrics.spectrum_slope(np.cumsum(noise)) < -1.6


def test_the_score_of_samples_is_its_definition():
    rng = np.random.default_rng(4)
    samples, measured = rng.gamma(2, 100, (3, 40)), np.array([50.0, 200.0, 900.0])
    for row, value, score in zip(samples, measured, metrics.crps(samples, measured), strict=True):
        error = np.abs(row - value).mean()
        spread = np.abs(row[:, None] - row).mean() / 2
        assert score == pytest.approx(error - spread)


def test_minutes_are_whole():
    assert metrics.minute_means(np.arange(130.0)).tolist() == [29.5, 89.5]
