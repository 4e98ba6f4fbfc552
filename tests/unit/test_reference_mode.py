"""Mode reference: its parts, and the whole chain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wavebed.channel import reference
from wavebed.channel.reference import (
    DEPTH_DB,
    LENGTH_S,
    TRAFFIC_STARTS_S,
    blockage_db,
    realise_reference,
    received_bps,
    study_pattern,
)
from wavebed.errors import UserError
from wavebed.scene import load


@pytest.fixture
def fresh():
    cached = [reference.gains, reference.needed_db]  # a test may replace them
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


def test_single_antennas_have_no_gain_on_average() -> None:
    assert reference.gains((1, 1), (1, 1)).mean() == pytest.approx(1.0, abs=0.1)


def test_paths_in_one_direction_get_the_whole_gain_of_both_arrays(monkeypatch, fresh) -> None:
    monkeypatch.setattr(reference, "STATION_SPREAD_DEG", (0.0, 0.0))
    monkeypatch.setattr(reference, "UE_SPREAD_DEG", (0.0, 0.0))
    monkeypatch.setattr(reference, "MAX_CLUSTERS", 1)
    ratio = reference.gains((8, 8), (4, 4)) / reference.gains((1, 1), (1, 1))
    assert ratio == pytest.approx(64 * 16)


def test_a_beam_is_the_strongest_eigenvector_of_the_covariance() -> None:
    rng = np.random.default_rng(5)
    azimuth, elevation = rng.uniform(0, 2 * np.pi, (3, 6)), rng.normal(0, 0.2, (3, 6))
    rows = np.exp(1j * np.pi * np.sin(elevation)[..., None] * np.arange(3))
    columns = np.exp(1j * np.pi * (np.cos(elevation) * np.sin(azimuth))[..., None] * np.arange(4))
    steering = np.einsum("npr,npc->nprc", rows, columns).reshape(3, 6, 12)
    alike = reference._likeness((3, 4), azimuth, elevation)
    assert alike == pytest.approx(np.matmul(steering.conj(), steering.transpose(0, 2, 1)))
    for index in range(3):
        values, vectors = np.linalg.eigh(alike[index])
        found = reference._strongest(alike)[index]
        found = found / np.linalg.norm(found)
        assert abs(np.vdot(vectors[:, -1], found)) == pytest.approx(1.0, abs=1e-3), values


def test_the_instances_are_the_same_for_every_seed_and_call(fresh) -> None:
    first = reference.gains((8, 8), (4, 4))
    reference.gains.cache_clear()
    assert np.array_equal(first, reference.gains((8, 8), (4, 4)))


def test_the_information_of_qpsk_at_0_db_is_that_of_the_textbook() -> None:
    # Binary input, A/sigma = 1: 0.4859 bit (T. Richardson, R. Urbanke, Modern Coding Theory, BAWGN channel).
    assert reference._information(2, np.array([0.0]))[0] == pytest.approx(0.4859, abs=1e-3)


@pytest.mark.parametrize("bits", [2, 4, 6])
def test_information_rises_from_nothing_to_all(bits) -> None:
    curve = reference._information(bits, np.arange(-30.0, 38.0, 0.5))
    assert np.all(np.diff(curve) > -1e-9)
    assert curve[0] < 0.01
    assert curve[-1] == pytest.approx(1.0, abs=1e-4)


def test_a_flat_channel_needs_the_flat_thresholds_less_its_gain(monkeypatch, fresh) -> None:
    monkeypatch.setattr(reference, "gains", lambda *_: np.full((2, 72), 100.0))
    assert reference.needed_db((8, 8), (4, 4)) == pytest.approx(
        np.stack([reference.flat_thresholds_db() - 20.0] * 2), abs=0.05
    )


def test_a_selective_channel_needs_more_than_a_flat_one_of_the_same_mean(monkeypatch, fresh) -> None:
    monkeypatch.setattr(reference, "gains", lambda *_: np.tile([1.9, 0.1], (1, 36)))
    assert np.all(reference.needed_db((8, 8), (4, 4))[0] > reference.flat_thresholds_db() + 0.2)


def test_a_higher_level_never_needs_less() -> None:
    assert np.all(np.diff(reference.needed_db((8, 8), (4, 4)), axis=1) >= 0)


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


@pytest.fixture(scope="module")
def scene():
    return load("kau-e5g-1")


@pytest.fixture(scope="module")
def walk(scene):
    return realise_reference(scene, [1])[0]


def test_a_seed_gives_the_same_alone_and_among_others(scene, walk) -> None:
    among = realise_reference(scene, [3, 1])[1]
    assert among.seed == 1
    assert np.array_equal(among.sinr_db, walk.sinr_db)
    assert np.array_equal(among.rate_bps, walk.rate_bps)


def test_another_seed_gives_another_gain_over_the_same_geometry(scene, walk) -> None:
    other = realise_reference(scene, [2])[0]
    assert not np.array_equal(other.sinr_db, walk.sinr_db)
    assert other.intervals == walk.intervals
    assert np.array_equal(other.losses_db["blockage"], walk.losses_db["blockage"])


def test_the_gain_holds_for_100_ms(walk) -> None:
    gain = walk.losses_db["gain"].reshape(-1, 100)
    assert np.all(gain == gain[:, :1])
    assert len(set(gain[:, 0].tolist())) > 100


def test_losses_and_gain_make_up_the_sinr(walk) -> None:
    noise_dbm = -174 + 10 * np.log10(72 * 13.889e6) + 5
    parts = walk.losses_db
    budget_db = 30 - noise_dbm - parts["path loss"] - parts["blockage"] + parts["gain"]
    assert walk.sinr_db == pytest.approx(budget_db)


def test_the_uplink_is_given_the_pattern_of_the_downlink_as_in_the_testbed(walk) -> None:
    assert np.array_equal(walk.up_rate_bps, walk.rate_bps)
    assert np.array_equal(walk.up_bler, walk.bler)


def test_the_rate_is_capacity_and_the_errors_stand_beside_it(walk) -> None:
    assert set(walk.rate_bps[walk.time_s < 1].tolist()) <= {3_135_000_000}
    assert 0 < walk.bler.max() <= 1
    assert walk.bler.mean() < 0.02


def test_a_report_that_is_too_good_fails_the_first_blocks_of_a_worse_channel(walk) -> None:
    late = np.flatnonzero(walk.bler > 0.5)
    assert len(late) > 10
    in_transition = (walk.time_s > 2.13) & (walk.time_s < 2.18)
    redrawn = np.isclose(np.round(walk.time_s * 1e3) % 100, 0)
    assert np.all((redrawn | in_transition)[late])


def test_a_scene_without_the_table_is_refused_in_one_line(scene) -> None:
    with pytest.raises(UserError, match=r"no \[reference\] table"):
        realise_reference(replace(scene, reference=None), [1])
    with pytest.raises(UserError, match=r"no \[reference\] table"):
        study_pattern(replace(scene, reference=None), 1)


def test_a_scene_outside_the_range_is_realised_with_warnings(scene) -> None:
    carrier = replace(scene.carrier, frequency_hz=39e9, bandwidth_hz=4e8)
    warnings = realise_reference(replace(scene, carrier=carrier), [1])[0].warnings
    assert any("28 GHz" in warning for warning in warnings)
    assert any("1 GHz" in warning for warning in warnings)


def test_what_is_received_is_neither_more_than_offered_nor_than_served(scene, walk) -> None:
    step_s = scene.step_s
    received = received_bps(walk, scene.reference)
    assert np.all(received <= walk.rate_bps)
    assert received.sum() * step_s <= scene.reference.offered_bps * (scene.duration_s - TRAFFIC_STARTS_S) + 1
    assert not received[walk.time_s < TRAFFIC_STARTS_S - step_s / 2].any()


def test_the_full_queue_drains_at_the_capacity_after_the_building(scene, walk) -> None:
    received = received_bps(walk, scene.reference)
    seen_again = 22.134 + 0.039
    draining = (walk.time_s > seen_again) & (walk.time_s < seen_again + 0.03)
    assert np.all(received[draining] == pytest.approx((walk.rate_bps * (1 - walk.bler))[draining]))
    steady = (walk.time_s > 23) & (walk.time_s < 24)
    assert received[steady] == pytest.approx(scene.reference.offered_bps)
    beyond = np.maximum(received - scene.reference.offered_bps, 0.0)
    extra = beyond[walk.time_s > 22.134].sum() * scene.step_s / 8
    assert extra == pytest.approx(scene.reference.rlc_buffer_bytes, rel=1e-6)


def test_the_pattern_keeps_what_was_received(scene, walk) -> None:
    pattern = study_pattern(scene, 1)
    total = received_bps(walk, scene.reference).sum() * scene.step_s
    assert pattern.total_bits() == pytest.approx(total, rel=1e-6)


def test_switches_are_at_least_a_millisecond_apart(scene) -> None:
    fine = replace(scene, step_s=0.0002, duration_s=4.0)
    assert np.diff(study_pattern(fine, 1).index).min() >= 1_000_000
