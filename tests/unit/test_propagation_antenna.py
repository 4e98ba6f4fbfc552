"""Elements, arrays and beams."""

from __future__ import annotations

import math

import numpy as np
import pytest

from wavebed.channel.propagation.antenna import angles_deg, array_db, beam_db, element_db, gain_db
from wavebed.channel.propagation.random_streams import generators
from wavebed.scene.model import Array

TIME_S = np.arange(0, 2, 0.001)
STILL_M = np.tile([30.0, 40.0, 0.0], (TIME_S.size, 1))


def test_an_array_gains_ten_log_n():
    assert array_db(Array(8, 8)) == pytest.approx(18.06, abs=0.01)
    assert array_db(Array()) == 0


def test_the_element_of_the_table():
    gain = element_db(np.array([0.0, 32.5, 65.0, 180.0, 0.0]), np.array([0.0, 0.0, 0.0, 0.0, 32.5]))
    assert gain == pytest.approx([8, 5, -4, -22, 5])


def test_angles_are_counted_from_x_towards_y_and_up_from_the_horizon():
    azimuth, elevation = angles_deg(np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 1.0], [1.0, -1.0, -math.sqrt(2)]]))
    assert azimuth == pytest.approx([90, 180, -45])
    assert elevation == pytest.approx([0, 45, -45])


def test_a_beam_loses_3_db_at_half_its_width_and_nothing_at_its_peak():
    array = Array(1, 16)
    half_width = math.degrees(0.886 / 16)  # 0.886·λ/(N·d) is the half-power width; d = λ/2, so half of it is this
    loss = beam_db(array, np.array([0.0, half_width, -half_width]), np.zeros(3))
    assert loss == pytest.approx([0, -3, -3], abs=0.1)


def test_a_beam_never_falls_below_its_floor():
    errors = np.linspace(-180, 180, 10001)
    loss = beam_db(Array(8, 8), errors, errors[::-1])
    assert loss.min() == -30
    assert loss.max() <= 1e-9


def test_a_wide_row_does_not_narrow_the_other_plane():
    assert beam_db(Array(1, 16), np.zeros(1), np.array([40.0])) == 0


def test_a_beam_that_tracks_a_still_end_without_error_has_its_full_gain():
    gain = gain_db(Array(8, 8, "3gpp"), STILL_M, TIME_S, generators([1, 2], "beam"))
    assert gain.shape == (2, TIME_S.size)
    assert gain == pytest.approx(18.06 + 8, abs=0.01)


def test_a_fixed_panel_loses_at_its_side_and_one_that_faces_does_not():
    azimuth = math.degrees(math.atan2(40, 30))
    aside = gain_db(
        Array(1, 1, "3gpp", azimuth_deg=azimuth + 32.5, elevation_deg=0.0), STILL_M, TIME_S, generators([1], "b")
    )
    assert aside == pytest.approx(5)
    facing = gain_db(Array(1, 1, "3gpp"), STILL_M, TIME_S, generators([1], "b"))
    assert facing == pytest.approx(8)


def test_between_choices_the_beam_points_to_where_the_other_end_was():
    passing = np.stack([np.full(TIME_S.size, 2.0), np.linspace(-10, 10, TIME_S.size), np.zeros(TIME_S.size)], axis=1)
    gain = gain_db(Array(1, 32, update_s=0.1), passing, TIME_S, generators([1], "beam"))[0]
    assert gain[::100] == pytest.approx(10 * math.log10(32))
    middle = slice(1000, 1100)  # 1 m in 0.1 s at a distance of 2 m: 27 degrees
    assert gain[middle][-1] < gain[middle][0] - 10


def test_pointing_errors_cost_more_the_narrower_the_beam():
    losses = []
    for columns in (4, 16, 64):
        array = Array(1, columns, tracking_error_deg=2.0)
        gain = gain_db(array, STILL_M, TIME_S, generators(range(50), "beam"))
        losses.append(array_db(array) - gain.mean())
    assert losses == sorted(losses)
    # A narrow error e loses (10/ln 10)·(π·N·e)²/12 dB at the peak; four columns are that narrow at 2 degrees.
    assert losses[0] == pytest.approx(4.343 * (math.pi / 2 * math.radians(2)) ** 2 * (16 - 1) / 3, rel=0.2)


def test_the_error_stays_between_two_choices_and_changes_with_each():
    gain = gain_db(Array(8, 8, tracking_error_deg=2.0), STILL_M, TIME_S, generators([1], "beam"))[0].reshape(100, 20)
    assert (gain == gain[:, :1]).all()
    assert np.unique(gain[:, 0]).size == 100


def test_a_member_of_an_ensemble_is_the_realisation_of_its_seed():
    array = Array(8, 8, tracking_error_deg=2.0)
    ensemble = gain_db(array, STILL_M, TIME_S, generators(range(8), "beam"))
    assert (ensemble[5] == gain_db(array, STILL_M, TIME_S, generators([5], "beam"))[0]).all()
