"""Maps of measured walks predict walks that they have not seen; docs/validation/recorded has the figures found.

What they shall be is asked of the page: its figures are found again once, by one test of each kind.
"""

from __future__ import annotations

import re

import fit_applications
import fit_walks
import numpy as np
import pytest
from tests.traces import WORD

from wavebed.channel.within import PARTS, draw_within, learn_within, means_and_parts
from wavebed.fit.judge import ks_distance

NUMBER = re.compile(r"−?[0-9]+(?:\.[0-9]+)?")


def rows(table: str) -> dict[str, list[str]]:
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return {" ".join(line[:2]) if line[0].isdigit() else line[0]: line[1:] for line in lines}


def on_the_page(name: str) -> dict[str, list[str]]:
    page = fit_walks.PAGE.read_text(encoding="utf-8")
    return rows(page.split(f"<!-- table {name} -->\n")[1].split(fit_walks.END)[0])


def numbers(cells: list[str]) -> list[float]:
    return [float(number.replace("−", "-")) for cell in cells for number in NUMBER.findall(cell)]


def test_unseen_walks_of_a_known_loop_are_predicted():
    distances = on_the_page("mmwave distances")
    assert distances["KS of 1 s rates, median of walks"][4] == "yes"
    assert distances["KS of durations below 100 Mbit/s"][4] == "yes"
    median, ninetieth = (
        numbers(distances[f"KS of 1 s rates, {what}"]) for what in ("median of walks", "90th percentile")
    )
    # Drawn walks are as near to the held-out walks as the measured ones are, within a tenth of the target.
    assert median[1] <= median[2] + 0.02
    assert ninetieth[1] <= ninetieth[2] + 0.03
    traits = on_the_page("mmwave traits")
    assert len(traits) == 13
    assert all(cells[3] == "yes" for name, cells in traits.items() if "autocorrelation" in name)
    assert [cells[3] for cells in traits.values()].count("yes") == 11


def test_the_second_ten_seconds_ahead_is_predicted_from_the_past():
    cells = on_the_page("mmwave seconds")["map, 10 s ahead"]
    assert "missed" not in " ".join(cells)
    error, gain, correlation = (numbers([cell])[0] for cell in cells[1:4])
    assert error <= 300
    assert gain >= 20
    assert correlation >= 0.6


def test_unseen_lte_walks_are_predicted():
    assert on_the_page("lte distances")["KS of 1 s rates, median of walks"][4] == "yes"
    traits = on_the_page("lte traits")
    assert [cells[3] for cells in traits.values()].count("yes") == 11
    # Medians of drawn and of held-out walks; each has its band beside it.
    values = numbers(traits["autocorrelation at 1 s"])
    assert values[0] == pytest.approx(values[6], abs=0.01)


@pytest.mark.parametrize("kind", ["mmwave", "lte"])
def test_drawn_walks_stall_as_long_as_all_walks_when_each_is_held_out_once(kind):
    page = fit_applications.PAGE.read_text(encoding="utf-8")
    folds = rows(page.split(f"<!-- table {kind} folds -->\n")[1].split(fit_applications.END)[0])
    for what in ("time stalled, %", "stalls in a session"):
        measured, drawn, *_ = numbers(folds[f"video, 4 s of buffer: {what}"])
        assert abs(drawn / measured - 1) <= fit_applications.MOST_DEVIATION


def day(name: str) -> str:
    return name.partition("-")[0]


def lag_1(ratios: np.ndarray) -> float:
    return float(((ratios[:, 1:] - 1) * (ratios[:, :-1] - 1)).sum() / ((ratios[:, 1:] - 1) ** 2).sum())


def test_parts_of_seconds_of_an_unseen_day_are_as_far_as_those_of_other_days():
    if not fit_applications.RECORDINGS.is_dir():
        pytest.skip(WORD)
    found = fit_applications.recordings(fit_applications.RECORDINGS)
    for held_out in sorted({day(name) for name, _ in found}):
        others = [each for each in found if day(each[0]) != held_out]
        within = learn_within(others)
        measured, drawn = [], []
        for name, pattern in found:
            if day(name) == held_out:
                means, ratios = means_and_parts(pattern)
                whole = np.rint(1e6 * means).astype(np.int64)
                parts = draw_within(within, whole, 1)
                assert (parts.sum(axis=1) == PARTS * whole).all()
                measured.append(ratios[means > 1])
                drawn.append((parts / np.maximum(whole, 1)[:, None])[means > 1])
        unseen, new = np.concatenate(measured), np.concatenate(drawn)
        days = np.concatenate([ratios[means > 1] for means, ratios in (means_and_parts(each) for _, each in others)])
        assert ks_distance(new.ravel(), unseen.ravel()) <= ks_distance(days.ravel(), unseen.ravel()) + 0.03
        # Days differ: 0.12, 0.42 and 0.15.
        assert abs(lag_1(new) - lag_1(unseen)) <= abs(lag_1(days) - lag_1(unseen)) + 0.1


def test_an_unseen_quarter_is_as_near_as_pooling():
    quarters = {name: numbers(cells) for name, cells in on_the_page("quarters").items() if name[0].isdigit()}
    medians = [values for name, values in quarters.items() if "median" in name]
    assert len(medians) == 4
    for values in medians:
        _, _, held_out, pooling = [0, *values][-4:]
        assert held_out <= pooling + 0.05
