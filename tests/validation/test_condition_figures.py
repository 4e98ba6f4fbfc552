"""The figures of the named conditions: they are current, they are where published ones are, and the texts are true."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import condition_figures
import numpy as np
import pytest
from tests.samples_by_seed import sample

from wavebed.channel import ensemble
from wavebed.conditions.condition import RATES, condition, condition_names, radio_scene, variant_names
from wavebed.conditions.text import SEED_FIGURES, SEEDS, compute, figures_of, seconds_bps, stored
from wavebed.pattern.model import STATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.channel.realisation import Realisation

AGAIN = (SEEDS[0], SEEDS[-1])
"""The seeds that are computed again in every run; `docs/validation/condition_figures.py --check` does all of them."""
TOLERANCE = 0.02
"""Of a rate: libraries of mathematics differ in the last bit, and a step of the link adaptation may turn on it."""
COMPARED = [
    (variant.name, number)
    for name in condition_names()
    for variant in condition(name).variants
    for number, figure in enumerate(variant.published)
    if figure.value is not None
]


def test_figures_are_stored_of_every_variant_and_seed_and_of_no_other() -> None:
    assert sorted(stored()) == sorted(variant_names())
    for rows in stored().values():
        assert set(rows) == {*SEED_FIGURES, "rtt_idle_us"}
        assert all(len(rows[key]) == len(SEEDS) for key in SEED_FIGURES)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sample(variant_names(), 8))
def test_the_stored_figures_are_current(name: str) -> None:
    found = compute(name, AGAIN)
    for key in SEED_FIGURES:
        rows = stored()[name][key]
        assert isinstance(rows, list)
        kept = [rows[SEEDS.index(seed)] for seed in AGAIN]
        least = 20_000 if key.endswith("ppm") else 50 if key.endswith("ms") else 50_000
        assert found[key] == pytest.approx(kept, rel=TOLERANCE, abs=least), f"{key}: run condition_figures.py {name}"


def test_the_table_of_the_guide_has_the_stored_figures() -> None:
    page = condition_figures.PAGE.read_text(encoding="utf-8")
    assert page == condition_figures.page(), "run: python docs/validation/condition_figures.py --page"


@pytest.mark.parametrize(("name", "number"), COMPARED)
def test_ours_is_as_near_to_a_published_figure_as_is_said(name: str, number: int) -> None:
    of, _, technology = name.partition("/")
    variant = next(each for each in condition(of).variants if each.technology == technology)
    figure, ours = variant.published[number], figures_of(name)
    assert figure.within is not None
    if figure.figure == "no-service":
        assert ours.no_service.median == pytest.approx(figure.number(), abs=figure.within)
    else:
        assert figure.figure in RATES
        direction = "down" if figure.figure == "down-rate" else "up"
        value = getattr(ours, f"{direction}_{figure.statistic}_bps").median
        assert value == pytest.approx(figure.number(), rel=figure.within)


@cache
def realised(name: str, seeds: int = 3) -> Sequence[Realisation]:
    return list(ensemble(radio_scene(name), "3gpp", range(1, seeds + 1)))


def seconds(name: str, begin_s: int, end_s: int) -> float:
    """Return the median over seeds of the mean downlink rate in this time."""
    return float(np.median([seconds_bps(each, "down")[begin_s:end_s].mean() for each in realised(name)]))


def in_state(realisation: Realisation, *states: str) -> NDArray[np.bool_]:
    return np.isin(realisation.state, [STATES.index(state) for state in states])


def handovers(realisation: Realisation) -> int:
    return int(np.count_nonzero(np.diff(realisation.serving)))


def test_the_bus_takes_the_rate_of_mmwave_and_not_that_of_the_lower_bands() -> None:
    before, behind, after = (seconds("walk-past-bus/mmwave", *span) for span in ((10, 19), (21, 25), (26, 31)))
    assert behind < 0.6 * before
    assert behind < 0.4 * after
    for realisation in realised("walk-past-bus/mid-band"):
        assert not in_state(realisation, "outage", "handover").any()


def test_the_corner_takes_mmwave_away_and_leaves_the_lower_bands() -> None:
    assert seconds("street-corner/mmwave", 30, 60) < 0.4 * seconds("street-corner/mmwave", 0, 24)
    assert any(in_state(each, "fallback").any() for each in realised("street-corner/mmwave"))
    for technology in ("mid-band", "lte"):
        assert not any(in_state(each, "outage").any() for each in realised(f"street-corner/{technology}"))


@pytest.mark.parametrize("technology", ["mid-band", "lte"])
def test_the_lift_takes_most_of_the_rate_while_its_door_is_closed(technology: str) -> None:
    name = f"lift/{technology}"
    assert seconds(name, 14, 26) < 0.35 * seconds(name, 0, 11)
    assert seconds(name, 50, 60) > 2 * seconds(name, 33, 44)


HANDOVERS = [
    ("motorway-handover/mid-band", 2, 120, 404),  # the longest of two or more that are drawn
    ("motorway-handover/lte", 2, 40, 40),
    ("high-speed-train/mid-band", 3, 60, 60),
    ("high-speed-train/lte", 3, 40, 40),
]


@pytest.mark.parametrize(("name", "least", "low_ms", "high_ms"), sample(HANDOVERS, 1))
def test_cells_are_handed_over_with_the_gap_that_was_measured(name: str, least: int, low_ms: int, high_ms: int) -> None:
    for realisation in realised(name):
        assert handovers(realisation) >= least
    assert low_ms / 1e3 - 1e-9 <= figures_of(name).longest_gap_s.median <= high_ms / 1e3 + 1e-9


def test_the_lift_and_the_garage_fail_for_longer_than_a_timer_of_the_radio() -> None:
    assert figures_of("parking-garage/mid-band").longest_gap_s.median > 10
    assert figures_of("underground/lte").longest_gap_s.median > 20
    assert max(stored()["lift/mid-band"]["longest_gap_ms"]) > 5000  # type: ignore[call-overload]


@pytest.mark.parametrize("technology", ["mid-band", "lte"])
def test_there_is_service_at_both_platforms_and_little_in_the_tunnel(technology: str) -> None:
    name = f"underground/{technology}"
    tunnel = seconds(name, 40, 60)
    assert tunnel < 0.1 * seconds(name, 0, 20)
    assert tunnel < 0.1 * seconds(name, 90, 120)


@pytest.mark.parametrize("technology", ["mid-band", "lte"])
def test_the_rush_hour_is_slower_and_less_steady_than_the_night(technology: str) -> None:
    night, rush = (figures_of(f"cell-edge-{time}/{technology}") for time in ("night", "rush-hour"))
    assert rush.down_median_bps.median < 0.5 * night.down_median_bps.median
    steadiness = [each.down_p5_bps.median / each.down_median_bps.median for each in (night, rush)]
    assert steadiness[1] < steadiness[0]


def test_the_branches_take_a_part_of_the_rate_of_the_receiver() -> None:
    closed = (4, 6, 13, 17, 26, 29, 38, 43)
    shut = np.concatenate([np.arange(*pair) for pair in zip(closed[::2], closed[1::2], strict=True)])
    for realisation in realised("home-cpe-tree/mmwave"):
        sinr_db = realisation.sinr_db.reshape(60, -1).mean(axis=1)
        others = np.setdiff1d(np.arange(60), np.concatenate([shut, [9, 10, 21, 34, 47, 48, 52, 53, 54, 55]]))
        assert sinr_db[shut].mean() < sinr_db[others].mean() - 2


def test_the_row_of_the_stadium_is_in_the_beam_when_it_stands() -> None:
    for realisation in realised("stadium/mmwave"):
        blocked = in_state(realisation, "blocked").reshape(60, -1).mean(axis=1)
        assert blocked[16:21].min() > 0.9
        assert blocked[25:38].max() < 0.5
