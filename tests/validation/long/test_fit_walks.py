"""Maps of measured walks predict walks that they have not seen; docs/validation/recorded has the figures found.

What they shall be is asked of the page: its figures are found again once, by one test of each kind.
"""

from __future__ import annotations

import fit_walks
import pytest
from tests.traces import FOLDER, WORD
from tests.validation.test_fit_walks import NUMBER, numbers, on_the_page, rows

TOLERANCE = 0.03
"""Of a figure: libraries of mathematics differ in the last bit, and a drawn level may turn on it."""


def found(kind: str) -> dict[str, str]:
    if not (FOLDER / "lumos-5g").is_dir():
        pytest.skip(WORD)
    return fit_walks.tables(FOLDER, kind)


def words(cells: list[str]) -> list[str]:
    return [NUMBER.sub("", cell) for cell in cells]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", fit_walks.KINDS)
def test_the_page_has_the_figures_that_are_found(kind):
    for name, table in found(kind).items():
        new, old = rows(table), on_the_page(name)
        assert list(new) == list(old)
        for row, cells in new.items():
            assert words(cells) == words(old[row]), (name, row)
            assert numbers(cells) == pytest.approx(numbers(old[row]), abs=TOLERANCE, rel=TOLERANCE), (name, row)
