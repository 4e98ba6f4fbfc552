"""The figures of docs/validation/recorded/real-traces.txt are what its script finds."""

from __future__ import annotations

import shutil

import pytest
import real_traces
import real_traces_data as data
from tests.traces import FOLDER, WORD

TOLERANCE = 0.02
"""Of a distance: libraries of mathematics differ in the last bit, and a step of the link adaptation may turn on it."""


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    if not FOLDER.is_dir():
        pytest.skip(WORD)
    if shutil.which("cargo") is None:
        pytest.skip("cargo not present: it runs the radio stage in virtual time")
    return real_traces.tables(FOLDER, data.rate_pairs(FOLDER), data.efficiency(FOLDER), data.probes(FOLDER))


def rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def on_the_page(name: str) -> list[list[str]]:
    page = real_traces.PAGE.read_text(encoding="utf-8")
    return rows(page.split(f"<!-- table {name} -->\n")[1].split(real_traces.END)[0])


@pytest.mark.parametrize("name", ["rates", "changes", "walks", "outages", "idle"])
def test_the_page_has_the_distances_that_are_found(found: dict[str, str], name: str) -> None:
    head, _, *expected = rows(found[name])
    printed_head, _, *printed = on_the_page(name)
    distances = [column for column, title in enumerate(head) if title.startswith("KS")]
    assert printed_head == head
    assert distances
    assert [row[:2] for row in printed] == [row[:2] for row in expected]
    for new, old in zip(expected, printed, strict=True):
        for column in distances:
            if real_traces.NONE in (new[column], old[column]):
                assert new[column] == old[column], new
            else:
                assert float(new[column]) == pytest.approx(float(old[column]), abs=TOLERANCE), new


def test_the_page_has_what_is_found_of_sinr_and_rate(found: dict[str, str]) -> None:
    for new, old in zip(rows(found["sinr"])[2:], on_the_page("sinr")[2:], strict=True):
        assert new[0] == old[0]
        assert float(new[1]) == pytest.approx(float(old[1]), abs=TOLERANCE)
