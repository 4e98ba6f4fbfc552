"""Boxes in the direct path: exact edges, against dense looking and by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavebed.scene import load
from wavebed.scene.geometry import (
    blocked,
    displacement,
    heading_deg,
    inside,
    intervals,
    los,
    positions,
    present,
    spans_of,
)
from wavebed.scene.model import Box, Obstacle, Scene, Screen, Trajectory

if TYPE_CHECKING:
    from wavebed.scene.tables import Vector

BASE = load("kau-e5g-1")


def scene(mast: Vector, way: Trajectory, *obstacles: Obstacle, duration_s: float = 10.0) -> Scene:
    station = replace(BASE.base_stations[0], position_m=mast)
    ue = replace(BASE.ue, trajectory=way)
    return replace(BASE, base_stations=(station,), ue=ue, obstacles=obstacles, duration_s=duration_s, reference=None)


def house(
    low: Vector, high: Vector, trajectory: Trajectory | None = None, present_s: tuple[tuple[float, float], ...] = ()
):
    return Obstacle("house", "building", Box(low, high), trajectory, present_s)


def walk(start: Vector, end: Vector, end_s: float = 10.0) -> Trajectory:
    return Trajectory((0.0, end_s), (start, end))


def seen_to_cross(mast: np.ndarray, phone: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Another way to decide: clip the ray by the box, for each moment."""
    way = phone - mast
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = (low - mast) / way, (high - mast) / way
    entry = np.nanmax(np.minimum(one, other), axis=1).clip(min=0)
    leave = np.nanmin(np.maximum(one, other), axis=1).clip(max=1)
    return entry < leave


def test_a_track_moves_evenly_and_stands_before_and_after() -> None:
    trajectory = Trajectory((0.0, 2.0, 4.0), ((0.0, 0.0, 1.0), (0.0, 0.0, 1.0), (3.0, 4.0, 1.0)))
    found = positions(trajectory, np.array([-1.0, 1.0, 3.0, 9.0]))
    assert found.tolist() == [[0, 0, 1], [0, 0, 1], [1.5, 2, 1], [3, 4, 1]]
    assert displacement(trajectory, np.array([3.0])).tolist() == [[1.5, 2, 0]]
    assert displacement(None, np.array([3.0])).tolist() == [[0, 0, 0]]


def test_the_user_looks_where_the_last_movement_led() -> None:
    trajectory = Trajectory((0.0, 2.0, 4.0, 6.0, 8.0), ((0, 0, 1), (0, 0, 1), (0, 5, 1), (0, 5, 1), (-5, 5, 1)))
    ue = replace(BASE.ue, trajectory=trajectory)
    assert heading_deg(ue, np.array([0.0, 3.0, 5.0, 7.0, 9.0])).tolist() == [90, 90, 90, 180, 180]
    assert heading_deg(replace(ue, heading_deg=30.0), np.array([0.0, 7.0])).tolist() == [30, 30]
    still = replace(ue, trajectory=Trajectory((0.0,), ((0, 0, 1),)))
    assert heading_deg(still, np.array([0.0])).tolist() == [0]


def test_something_is_there_from_the_beginning_of_a_period_until_before_its_end() -> None:
    plate = Obstacle("plate", "metal", Screen((0, 0, 0), 1, 1), present_s=((1.0, 2.0), (3.0, 4.0)))
    assert present(plate, np.array([0.9, 1.0, 1.9, 2.0, 3.5, 4.0])).tolist() == [False, True, True, False, True, False]


def test_a_house_hides_the_handset_between_the_rays_through_its_corners() -> None:
    place = scene((0, 0, 3), walk((100, -50, 1), (100, 50, 1)), house((40, 0, 0), (50, 10, 20)))
    # rays through (50, 0) and (40, 10) reach x = 100 at y = 0 and y = 25; 10 m/s
    assert intervals(place, "3gpp") == (
        ("LOS", 0.0, pytest.approx(5.0)),
        ("NLOS", pytest.approx(5.0), pytest.approx(7.5)),
        ("LOS", pytest.approx(7.5), 10.0),
    )


def test_a_ray_passes_over_a_low_house_unless_height_is_ignored() -> None:
    place = scene((0, 0, 30), walk((100, -50, 1), (100, 50, 1)), house((40, 0, 0), (50, 10, 10)))
    assert spans_of(intervals(place, "3gpp"), "NLOS") == []
    assert spans_of(intervals(place, "reference"), "NLOS") == [(pytest.approx(5.0), pytest.approx(7.5))]


def test_walking_away_from_a_wall_brings_the_mast_back_above_its_edge() -> None:
    # The edge (x = 10, z = 12) is on the ray from (0, 0, 20) to z = 2 where 8/10 = 18/x, at x = 22.5.
    place = scene((0, 0, 20), walk((12, 0, 2), (32, 0, 2)), house((8, -50, 0), (10, 50, 12)))
    assert spans_of(intervals(place, "3gpp"), "NLOS") == [(0.0, pytest.approx(5.25))]


def test_a_house_that_moves_hides_as_seen_from_itself() -> None:
    tram = house((40, -60, 0), (50, -50, 20), Trajectory((0.0, 10.0), ((0, 0, 0), (0, 100, 0))))
    place = scene((0, 0, 3), Trajectory((0.0,), ((100, 0, 1),)), tram)
    assert spans_of(intervals(place, "3gpp"), "NLOS") == [(pytest.approx(5.0), pytest.approx(6.0))]


def test_a_house_hides_only_while_it_is_there() -> None:
    gate = house((40, -5, 0), (50, 5, 20), present_s=((2.0, 3.0), (6.0, 6.5)))
    place = scene((0, 0, 3), Trajectory((0.0,), ((100, 0, 1),)), gate)
    assert spans_of(intervals(place, "3gpp"), "NLOS") == [(2.0, 3.0), (6.0, 6.5)]


def test_a_ray_along_a_wall_is_free() -> None:
    place = scene((0, 0, 3), Trajectory((0.0,), ((100, 0, 1),)), house((40, 0, 0), (50, 5, 20)))
    assert spans_of(intervals(place, "3gpp"), "NLOS") == []


def test_each_base_station_has_its_own_line_of_sight() -> None:
    place = scene((0, 0, 3), Trajectory((0.0,), ((100, 0, 1),)), house((40, -5, 0), (50, 5, 20)))
    place = replace(
        place, base_stations=(*place.base_stations, replace(place.base_stations[0], position_m=(100, 50, 3)))
    )
    assert [part.state for part in intervals(place, "3gpp", 0)] == ["NLOS"]
    assert [part.state for part in intervals(place, "3gpp", 1)] == ["LOS"]


def test_a_handset_inside_a_box_is_found_with_its_times() -> None:
    box = house((4, -1, 0), (6, 1, 3))
    assert inside(box, walk((0, 0, 1), (10, 0, 1)), 10.0) == [(pytest.approx(4.0), pytest.approx(6.0))]
    assert inside(box, walk((0, 1, 1), (10, 1, 1)), 10.0) == [], "along the wall is not inside"
    assert inside(box, walk((0, 0, 3), (10, 0, 3)), 10.0) == [], "nor is the roof"


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), ignore_height=st.booleans())
def test_edges_agree_with_looking_at_every_moment(seed: int, ignore_height: bool) -> None:
    rng = np.random.default_rng(seed)
    mast, start, end, corner, drift = (tuple(rng.uniform((-60, -60, 0), (60, 60, 30))) for _ in range(5))
    size = rng.uniform(5, 60, 3)
    low, high = np.array(corner), np.array(corner) + np.array(size)
    moving = Trajectory((0.0, 7.0), (tuple(corner), tuple(np.array(corner) + np.array(drift))))
    place = scene(mast, walk(start, end), house(tuple(low), tuple(high), moving))
    spans = blocked(place.obstacles[0], place, ignore_height=ignore_height)
    time_s = np.linspace(0, 10, 2001)
    shift = displacement(moving, time_s)
    axes = 2 if ignore_height else 3
    expected = seen_to_cross(
        (np.array(mast) - shift)[:, :axes],
        (positions(place.ue.trajectory, time_s) - shift)[:, :axes],
        low[:axes],
        high[:axes],
    )
    found = np.zeros(len(time_s), dtype=bool)
    near_an_edge = np.zeros(len(time_s), dtype=bool)
    for first, last in spans:
        found |= (time_s >= first) & (time_s < last)
        near_an_edge |= (np.abs(time_s - first) < 1e-6) | (np.abs(time_s - last) < 1e-6)
    assert (found == expected)[~near_an_edge].all()


def test_los_at_times_agrees_with_the_intervals() -> None:
    time_s = np.arange(0, 40, 0.001)
    free = los(BASE, "3gpp", time_s)
    assert free.sum() == pytest.approx(20000, abs=1)
