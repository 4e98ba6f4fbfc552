"""Applications over drawn walks behave as over walks that were held out; the page has the figures that are found."""

from __future__ import annotations

import re
from functools import cache

import fit_applications
import pytest
from tests.traces import FOLDER, WORD

pytestmark = pytest.mark.timeout(900)

TOLERANCE = 0.03
"""Of a figure: libraries of mathematics differ in the last bit, and a drawn level may turn on it."""
NUMBER = re.compile(r"−?[0-9]+(?:\.[0-9]+)?")


@cache
def found(kind: str) -> tuple[fit_applications.Measures, ...]:
    """Return the figures of held-out walks, of drawn ones, of fitted ones, and of seconds without memory."""
    if not (FOLDER / "lumos-5g").is_dir():
        pytest.skip(WORD)
    walks = fit_applications.walks_of(FOLDER, kind)
    return tuple(fit_applications.measures(each) for each in (walks.held_out, walks.drawn, walks.fitted, walks.pooling))


def on_the_page(kind: str) -> list[list[str]]:
    page = fit_applications.PAGE.read_text(encoding="utf-8")
    table = page.split(f"<!-- table {kind} -->\n")[1].split(fit_applications.END)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def first_number(cell: str) -> float:
    return float(NUMBER.findall(cell)[0].replace("−", "-"))


@pytest.mark.parametrize("kind", ["mmwave", "lte"])
def test_the_page_has_the_figures_that_are_found(kind):
    held_out, drawn, fitted, pooling = found(kind)
    rows = on_the_page(kind)
    assert len(rows) == len(held_out)
    for row, (key, measured) in zip(rows, held_out.items(), strict=True):
        assert row[0].startswith(measured.name)
        assert first_number(row[1]) == pytest.approx(measured.middle, rel=TOLERANCE)
        assert first_number(row[2]) == pytest.approx(drawn[key].middle, rel=TOLERANCE)
        for other, deviation, distance in ((drawn, 3, 4), (fitted, 6, 7), (pooling, 8, 9)):
            new = fit_applications.compared(other[key], measured)
            assert first_number(row[deviation]) == pytest.approx(100 * new[0], abs=100 * TOLERANCE, rel=0.1)
            assert first_number(row[distance]) == pytest.approx(new[1], abs=TOLERANCE)


def test_downloads_and_stalls_over_mmwave_meet_the_targets():
    held_out, drawn, _, pooling = found("mmwave")
    keys = [f"download_{size}_mb_s" for size in fit_applications.SIZES_MB]
    stalls = ("duration_of_a_stall", "stalls_in_a_session")
    for key in [*keys, *(f"video_4_s_{each}" for each in stalls), "video_18_s_stalls_in_a_session"]:
        deviation, distance = fit_applications.compared(drawn[key], held_out[key])
        assert abs(deviation) <= fit_applications.MOST_DEVIATION, key
        assert distance <= fit_applications.MOST_DISTANCE, key
    # The right rates in a wrong order are not enough.
    assert fit_applications.compared(pooling["download_200_mb_s"], held_out["download_200_mb_s"])[1] > 0.25


def test_stalls_over_lte_take_as_long_as_over_measured_walks():
    held_out, drawn, fitted, _ = found("lte")
    pairs = [(held_out, f"video_18_s_{what}") for what in ("time_stalled", "stalls_in_a_session")]
    # Held-out walks stall 40 % more than the fitted ones: no map can know.
    for measured, key in [*pairs, (held_out, "video_4_s_duration_of_a_stall"), (fitted, "video_4_s_time_stalled")]:
        deviation, distance = fit_applications.compared(drawn[key], measured[key])
        assert abs(deviation) <= fit_applications.MOST_DEVIATION, key
        assert distance <= fit_applications.MOST_DISTANCE, key


def test_all_distributions_over_mmwave_are_within_the_target():
    held_out, drawn, *_ = found("mmwave")
    assert all(fit_applications.compared(drawn[key], each)[1] <= 0.2 for key, each in held_out.items())
