"""The geometry of kau-e5g: LOS and NLOS as the study's own script lists them."""

from __future__ import annotations

import numpy as np
import pytest

from wavebed.scene import load
from wavebed.scene.geometry import intervals, los, spans_of

TOLERANCE_S = 0.002

PUBLISHED = {
    "kau-e5g-1": [(2.134, 22.134)],
    "kau-e5g-3": [
        (2.134, 2.491),
        (5.348, 5.731),
        (6.094, 6.634),
        (7.093, 7.689),
        (9.985, 10.467),
        (12.134, 12.565),
        (12.772, 13.205),
        (16.638, 17.134),
        (22.848, 23.357),
        (25.07, 25.745),
        (29.407, 30.05),
    ],
}

# Scenario 2 is not listed. Seen from the base station (-25, 68), a building (x = 50 to 70) hides those places (80, y)
# whose ray touches it: on each side the nearer or the farther corner decides. A corner (X, Y) is on the ray to
# y = 68 + (Y - 68)·105/(X + 25). Building 1 (y = 0 to 6): from 68 - 68·105/75 = -27.2 (nearer corner) to
# 68 - 62·105/95 = -0.526 (farther corner). The car drives 8.33 m/s from y = -27.5 at 2 s, so that is
# 2 + 0.3/8.33 = 2.036 s to 2 + 26.974/8.33 = 5.238 s. The others follow in the same way, with the stops added.
SCENARIO_2 = [
    (2.036, 5.238),
    (5.565, 8.025),
    (12.095, 13.811),
    (15.624, 19.633),
    (21.588, 23.162),
    (24.374, 29.691),
]


@pytest.mark.parametrize("name", PUBLISHED)
def test_nlos_begins_and_ends_where_the_study_lists_it(name: str) -> None:
    found = spans_of(intervals(load(name), "reference"), "NLOS")
    assert len(found) == len(PUBLISHED[name])
    assert np.abs(np.array(found) - np.array(PUBLISHED[name])).max() <= TOLERANCE_S


def test_scenario_2_follows_from_the_same_rule() -> None:
    found = spans_of(intervals(load("kau-e5g-2"), "reference"), "NLOS")
    assert np.abs(np.array(found) - np.array(SCENARIO_2)).max() <= 0.001


def test_scenario_2_by_the_rays_through_the_corners() -> None:
    stops = [(2.0, 8.54), (11.54, 16.58), (19.58, 24.62), (27.62, 32.0)]

    def when(y: float) -> float:
        way = (y + 27.5) / 8.33
        for start, end in stops:
            if way <= end - start:
                return start + way
            way -= end - start
        raise AssertionError(y)

    expected = []
    for low in (0, 21, 42, 63, 84, 105):
        rays = [68 + (corner - 68) * 105 / (x + 25) for corner in (low, low + 6) for x in (50, 70)]
        expected.append((when(min(rays)), when(max(rays))))
    found = spans_of(intervals(load("kau-e5g-2"), "reference"), "NLOS")
    assert np.abs(np.array(found) - np.array(expected)).max() <= 1e-6


def test_the_gap_of_scenario_2_that_the_figure_shows_lasts_a_third_of_a_second() -> None:
    gap = spans_of(intervals(load("kau-e5g-2"), "reference"), "LOS")[1]
    assert gap[1] - gap[0] == pytest.approx(0.33, abs=0.01)


def test_each_outage_of_scenario_4_lasts_about_a_second() -> None:
    parts = intervals(load("kau-e5g-4"), "reference")
    lengths = [end - start for start, end in spans_of(parts, "OUTAGE")]
    assert len(lengths) == 11, "two of the twelve boxes stand in one ray"
    assert all(0.9 <= length <= 1.2 for length in lengths), lengths


def test_scenario_4_loses_the_syn_of_the_published_downloads_at_1_s_and_only_that() -> None:
    gone = spans_of(intervals(load("kau-e5g-4"), "reference"), "OUTAGE")

    def lost(time_s: float) -> bool:
        return any(start <= time_s < end for start, end in gone)

    assert [lost(time_s) for time_s in (0.0, 0.56, 1.0, 2.0, 2.57)] == [False, False, True, False, False]


def test_people_and_trees_decide_in_mode_reference_only() -> None:
    scene = load("kau-e5g-3")
    assert [part.state for part in intervals(scene, "3gpp")] == ["LOS"]
    time_s = np.array([2.0, 2.3, 2.6, 39.9])
    assert los(scene, "reference", time_s).tolist() == [True, False, True, True]
    assert los(scene, "3gpp", time_s).all()
