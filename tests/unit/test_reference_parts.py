"""The parts of mode reference: beams, levels, transition."""

from __future__ import annotations

import numpy as np
import pytest

from wavebed.channel.reference import beams, levels
from wavebed.channel.reference.transition import DEPTH_DB, LENGTH_S, blockage_db


@pytest.fixture
def fresh():
    beams.gains.cache_clear()
    levels.needed_db.cache_clear()
    yield
    beams.gains.cache_clear()
    levels.needed_db.cache_clear()


def test_single_antennas_have_no_gain_on_average() -> None:
    assert beams.gains((1, 1), (1, 1)).mean() == pytest.approx(1.0, abs=0.1)


def test_paths_in_one_direction_get_the_whole_gain_of_both_arrays(monkeypatch, fresh) -> None:
    monkeypatch.setattr(beams, "STATION_SPREAD_DEG", (0.0, 0.0))
    monkeypatch.setattr(beams, "UE_SPREAD_DEG", (0.0, 0.0))
    monkeypatch.setattr(beams, "MAX_CLUSTERS", 1)
    ratio = beams.gains((8, 8), (4, 4)) / beams.gains((1, 1), (1, 1))
    assert ratio == pytest.approx(64 * 16)


def test_a_beam_is_the_strongest_eigenvector_of_the_covariance() -> None:
    rng = np.random.default_rng(5)
    azimuth, elevation = rng.uniform(0, 2 * np.pi, (3, 6)), rng.normal(0, 0.2, (3, 6))
    rows = np.exp(1j * np.pi * np.sin(elevation)[..., None] * np.arange(3))
    columns = np.exp(1j * np.pi * (np.cos(elevation) * np.sin(azimuth))[..., None] * np.arange(4))
    steering = np.einsum("npr,npc->nprc", rows, columns).reshape(3, 6, 12)
    alike = beams._likeness((3, 4), azimuth, elevation)
    assert alike == pytest.approx(np.matmul(steering.conj(), steering.transpose(0, 2, 1)))
    for index in range(3):
        values, vectors = np.linalg.eigh(alike[index])
        found = beams._strongest(alike)[index]
        found = found / np.linalg.norm(found)
        assert abs(np.vdot(vectors[:, -1], found)) == pytest.approx(1.0, abs=1e-3), values


def test_the_instances_are_the_same_for_every_seed_and_call(fresh) -> None:
    first = beams.gains((8, 8), (4, 4))
    beams.gains.cache_clear()
    assert np.array_equal(first, beams.gains((8, 8), (4, 4)))


def test_the_information_of_qpsk_at_0_db_is_that_of_the_textbook() -> None:
    # Binary input, A/sigma = 1: 0.4859 bit (T. Richardson, R. Urbanke, Modern Coding Theory, BAWGN channel).
    assert levels._information(2, np.array([0.0]))[0] == pytest.approx(0.4859, abs=1e-3)


@pytest.mark.parametrize("bits", [2, 4, 6])
def test_information_rises_from_nothing_to_all(bits) -> None:
    curve = levels._information(bits, np.arange(-30.0, 38.0, 0.5))
    assert np.all(np.diff(curve) > -1e-9)
    assert curve[0] < 0.01
    assert curve[-1] == pytest.approx(1.0, abs=1e-4)


def test_a_flat_channel_needs_the_flat_thresholds_less_its_gain(monkeypatch, fresh) -> None:
    monkeypatch.setattr(levels, "gains", lambda *_: np.full((2, 72), 100.0))
    assert levels.needed_db((8, 8), (4, 4)) == pytest.approx(
        np.stack([levels.flat_thresholds_db() - 20.0] * 2), abs=0.05
    )


def test_a_selective_channel_needs_more_than_a_flat_one_of_the_same_mean(monkeypatch, fresh) -> None:
    monkeypatch.setattr(levels, "gains", lambda *_: np.tile([1.9, 0.1], (1, 36)))
    assert np.all(levels.needed_db((8, 8), (4, 4))[0] > levels.flat_thresholds_db() + 0.2)


def test_a_higher_level_never_needs_less() -> None:
    assert np.all(np.diff(levels.needed_db((8, 8), (4, 4)), axis=1) >= 0)


def test_blockage_is_smooth_deepens_to_its_end_and_goes() -> None:
    time_s = np.arange(0.0, 3.0, 1e-3)
    loss = blockage_db(time_s, [(1.0, 2.0)])
    down = loss[(time_s >= 1.0) & (time_s < 2.0)]
    assert np.all(np.diff(down) >= 0)
    assert down[-1] == pytest.approx(DEPTH_DB)
    up = loss[time_s >= 2.0]
    assert np.all(np.diff(up) <= 0)
    assert up[-1] == 0
    assert np.abs(np.diff(loss)).max() < 4.0


def test_a_short_shadow_is_left_from_the_depth_that_was_reached() -> None:
    time_s = np.arange(0.0, 0.2, 1e-4)
    loss = blockage_db(time_s, [(0.1, 0.1 + LENGTH_S / 2)])
    assert 0 < loss.max() < DEPTH_DB / 2
    assert np.abs(np.diff(loss)).max() < 0.5


def test_a_shadow_right_after_another_does_not_begin_from_nothing() -> None:
    time_s = np.arange(0.0, 0.5, 1e-3)
    loss = blockage_db(time_s, [(0.1, 0.2), (0.205, 0.3)])
    assert loss[(time_s >= 0.139) & (time_s < 0.3)].min() > 20
