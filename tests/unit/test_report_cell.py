"""The report of a trial in a cell: who had the slots, and the rates, waits and fairness of its devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.unit.cell_example import made_cell

from wavebed.report.build import page
from wavebed.report.cell import cell_figure
from wavebed.report.source import read_results

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cell_example import Given

    from wavebed.page.plots import TimeFigure


def steady(delivered: int, air_ns: int, wait_ns: int | None) -> Given:
    return lambda _: (delivered, air_ns, wait_ns)


def figure_of(folder: Path) -> TimeFigure | None:
    (trial,) = read_results(folder).trials
    return cell_figure(trial)


def test_the_areas_are_the_air_time_of_each_device_stacked(tmp_path: Path) -> None:
    links = {"a.down": steady(3000, 600_000, 2_000_000), "b.down": steady(1500, 300_000, None)}
    folder = made_cell(tmp_path, links, lasts_ms=4000)
    figure = figure_of(folder)
    assert figure is not None
    slots, rates, waits, fair = figure.panels
    assert [(line.name, set(np.round(line.points.value, 6))) for line in slots.lines] == [("a", {60.0}), ("b", {90.0})]
    assert slots.stacked
    assert [set(np.round(line.points.value, 6)) for line in rates.lines] == [{24.0}, {12.0}]
    assert set(np.round(waits.lines[0].points.value, 6)) == {2.0}
    assert np.isnan(waits.lines[1].points.value).all(), "nothing left its queue"
    assert fair.lines[0].points.value.tolist() == [pytest.approx(0.9)] * 4
    text = page(read_results(folder), 1)
    assert "Who had the slots" in text
    assert text.count('class="fill c0 stack"') == text.count('class="line c0 stack"') == 1
    assert text.index('class="fill c1 stack"') < text.index('class="fill c0 stack"'), "the lowest area is in front"


def test_many_devices_are_those_with_most_air_time_and_the_others_together(tmp_path: Path) -> None:
    links = {f"phone-{place}.up": steady(1500, 10_000 * place, 1_000_000) for place in range(1, 10)}
    figure = figure_of(made_cell(tmp_path, links, lasts_ms=2000))
    assert figure is not None
    names = [line.name for line in figure.panels[0].lines]
    assert names == ["phone-5", "phone-6", "phone-7", "phone-8", "phone-9", "4 others"]
    assert figure.panels[0].lines[-1].points.value.max() == pytest.approx(45.0)
    assert figure.panels[1].lines[-1].name == "mean of 4 others"


def test_a_result_without_air_time_has_rates_waits_and_fairness(tmp_path: Path) -> None:
    links = {"a.down": steady(1500, 0, 1_000_000), "b.down": steady(1500, 0, 1_000_000)}
    figure = figure_of(made_cell(tmp_path, links, lasts_ms=2000, with_air=False))
    assert figure is not None
    assert [panel.title.split(":")[0] for panel in figure.panels] == ["Rates, downlink", "Delays, downlink", "Fairness"]


def test_one_device_is_no_cell_to_share(tmp_path: Path) -> None:
    assert figure_of(made_cell(tmp_path, {"a.down": steady(1500, 0, None)}, lasts_ms=1000)) is None
