"""Speed Index of pictures whose index is known by hand."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from wavebed.workload.browser.speed_index import Frame, VisualProgress, visual_progress

SIZE = 10
WHITE = (255, 255, 255)
BLUE = (20, 40, 200)


def picture(painted_rows: int, colour: tuple[int, int, int] = BLUE, rest: tuple[int, int, int] = WHITE) -> bytes:
    """Return ten by ten pixels of which some rows are painted; PNG, so that every value is exact."""
    image = Image.new("RGB", (SIZE, SIZE), rest)
    image.paste(colour, (0, 0, SIZE, painted_rows))
    file = io.BytesIO()
    image.save(file, "png")
    return file.getvalue()


def progress(*frames: tuple[float, bytes]) -> VisualProgress:
    found = visual_progress([Frame(*frame) for frame in frames])
    assert found is not None
    return found


def test_a_page_painted_at_once_has_the_time_of_its_painting_as_index() -> None:
    found = progress((700.0, picture(10)))
    assert found.speed_index_ms == pytest.approx(700)
    assert found.first_change_ms == 700
    assert found.complete_ms == 700


def test_each_part_counts_until_it_is_there() -> None:
    found = progress((100.0, picture(3)), (300.0, picture(8)), (1000.0, picture(10)))
    assert list(found.percent) == [0, 30, 80, 100]
    assert found.speed_index_ms == pytest.approx(100 + 200 * 0.7 + 700 * 0.2)
    assert found.first_change_ms == 100
    assert found.complete_ms == 1000


def test_white_pictures_before_the_first_paint_change_nothing() -> None:
    without = progress((400.0, picture(5)), (600.0, picture(10)))
    with_white = progress((50.0, picture(0)), (150.0, picture(0)), (400.0, picture(5)), (600.0, picture(10)))
    assert with_white.speed_index_ms == pytest.approx(without.speed_index_ms)
    assert with_white.first_change_ms == 400


@pytest.mark.parametrize(("level", "expected"), [(249, 0), (248, 50)])
def test_pixels_of_249_in_every_channel_are_background(level: int, expected: int) -> None:
    first = picture(10, (level, 249, 255))
    assert progress((100.0, first), (200.0, picture(5, BLUE, (level, 249, 255)))).percent[1] == expected


def test_progress_is_rounded_down_to_whole_percents() -> None:
    found = progress((100.0, picture(1)), (200.0, picture(3)))
    assert list(found.percent) == [0, 33, 100]


def test_colours_that_the_final_picture_does_not_have_are_no_progress() -> None:
    found = progress((100.0, picture(10, (90, 10, 10))), (200.0, picture(10)))
    assert list(found.percent) == [0, 0, 100]


def test_visually_complete_is_the_first_time_though_progress_falls_back() -> None:
    found = progress((100.0, picture(10)), (200.0, picture(9)), (300.0, picture(10)))
    assert found.complete_ms == 100
    assert found.complete_at_least_ms(95) == 300
    assert found.complete_at_least_ms(85) == 100


def test_a_page_that_stays_white_has_no_index() -> None:
    assert visual_progress([]) is None
    assert visual_progress([Frame(100.0, picture(0))]) is None
