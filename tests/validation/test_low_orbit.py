"""Drives with Starlink that were held out are as near to drawn ones as the other days are; 15 s are in the data."""

from __future__ import annotations

from functools import cache

import low_orbit
import pytest
from tests.traces import WORD

from wavebed.fit.low_orbit import phase_of, read_drives

pytestmark = pytest.mark.skipif(not low_orbit.DRIVES.is_dir(), reason=WORD)


@cache
def days(keep_ends: bool) -> dict[str, low_orbit.Day]:
    return low_orbit.held_out(keep_ends=keep_ends)


@pytest.mark.parametrize("keep_ends", [False, True])
def test_drawn_drives_are_as_near_to_each_day_as_the_other_days_are(keep_ends: bool) -> None:
    found = days(keep_ends)
    assert len(found) >= 6
    for day, each in found.items():
        assert each.found <= each.between_days + low_orbit.MARGIN, day


def test_the_phase_of_15_s_is_in_the_data() -> None:
    found = phase_of(read_drives(low_orbit.files(), []))
    assert (found.phase_s, found.chance) == (11, 0.0)
    assert found.ratio > 1.5
    assert 0.1 < found.missing_s < 0.3


def test_the_recorded_table_has_these_days() -> None:
    page = low_orbit.PAGE.read_text(encoding="utf-8")
    for day, each in days(False).items():
        assert f"| {day} | {len(each.rates)} | {each.between_days:.2f} | {each.found:.2f} |" in page
