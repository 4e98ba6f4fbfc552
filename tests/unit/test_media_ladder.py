"""Ladders: what may be written, and which picture is coded."""

from __future__ import annotations

import pytest

from wavebed.config.problems import Problem
from wavebed.workload.media.ladder import LADDERS, read_ladder


def test_the_studys_ladder_is_that_of_the_study() -> None:
    ladder = read_ladder("study")
    assert [(each.width, each.height, each.rate_bps / 1e6) for each in ladder.representations] == [
        (512, 288, 1.15),
        (768, 432, 1.82),
        (1280, 720, 4.14),
        (1920, 1080, 7.94),
    ]
    assert all((each.coded_width, each.coded_height) == (each.width, each.height) for each in ladder.representations)


def test_the_large_ladder_goes_to_100_mbit_in_small_pictures() -> None:
    top = LADDERS["uhd"].representations[-1]
    assert (top.name, top.rate_bps) == ("4320p", 100_000_000)
    assert top.coded_height <= 360


@pytest.mark.parametrize("name", LADDERS)
def test_every_representation_is_told_by_the_size_of_its_picture(name: str) -> None:
    each = LADDERS[name].representations
    assert len({(one.coded_width, one.coded_height) for one in each}) == len(each)
    assert len({one.name for one in each}) == len(each)


def test_an_own_ladder_is_sorted_by_bitrate_and_its_sizes_made_distinct() -> None:
    ladder = read_ladder([{"size": "1280x720", "rate": "6mbit"}, {"size": "1280x720", "rate": "3mbit"}])
    assert [each.rate_bps for each in ladder.representations] == [3_000_000, 6_000_000]
    assert [each.name for each in ladder.representations] == ["720p", "720p-2"]
    assert ladder.representations[0].coded_width != ladder.representations[1].coded_width


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("studi", "did you mean 'study'"),
        (4, "is not a ladder"),
        ([], "1 to 20"),
        ([{"size": "1280", "rate": "3mbit"}], "0.size: '1280' is not a picture size"),
        ([{"size": "1281x720", "rate": "3mbit"}], "even number"),
        ([{"size": "1280x720", "rate": "3kbit"}], "0.rate: is out of range"),
        ([{"size": "1280x720"}], "rate: is missing"),
        ([{"size": "1280x720", "rate": "3mbit"}, {"size": "640x360", "rate": "3mbit"}], "of one bitrate"),
    ],
)
def test_what_is_not_a_ladder_is_refused(value: object, says: str) -> None:
    with pytest.raises(Problem, match=says):
        read_ladder(value)
