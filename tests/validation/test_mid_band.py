"""Three carriers of Spain and one of Italy at 3.7 GHz, beside SIGCOMM 2024: medians of rate, MCS, layers, blocks.

The median rate fixes the distance of the UE; the others follow. The limit is the goal of this comparison, 15 %: the
mast, the panel and the walls around the UE are not published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mid_band
import numpy as np
import pytest
from mid_band import DATA, END, OPERATORS, PAGE, Operator
from tests.traces import WORD

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 0.15
SPAIN = ("O_Sp_100Mhz", "O_Sp_90Mhz", "V_Sp_90Mhz")


def recorded(name: str) -> list[list[str]]:
    """Return the rows of a table of the page, without its head."""
    table = PAGE.read_text(encoding="utf-8").split(mid_band.BEGIN.format(name))[1].split(END)[0]
    return [[cell.strip() for cell in line.strip("| \n").split("|")] for line in table.splitlines()[2:]]


def medians(operator: Operator, place: int) -> dict[str, float]:
    """Return the medians of a carrier on the page: 3 measured, 4 of the scene."""
    return {row[2]: float(row[place]) for row in recorded("scenes") if row[0] == operator.name}


def distance_m(operator: Operator) -> float:
    return next(float(row[1].removesuffix(" m")) for row in recorded("scenes") if row[0] == operator.name)


def measured(operator: Operator) -> dict[str, np.ndarray]:
    if not (DATA / f"{operator.file}.txt").exists():
        pytest.skip(WORD)
    return mid_band.measured(DATA, operator)


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_the_scene_has_the_medians_of_the_page_and_they_are_within_the_limit(operator: Operator) -> None:
    ours = {key: float(np.median(values)) for key, values in mid_band.modelled(operator, distance_m(operator)).items()}
    assert ours == pytest.approx(medians(operator, 4), rel=0.02), "the page rounds the distance to a metre"
    assert ours == pytest.approx(medians(operator, 3), rel=LIMIT)


@pytest.mark.parametrize("name", SPAIN)
def test_the_page_has_the_medians_of_the_files(name: str) -> None:
    rows = measured(OPERATORS[name])
    assert {key: float(np.median(values)) for key, values in rows.items()} == pytest.approx(
        medians(OPERATORS[name], 3), rel=0.005
    )


@pytest.mark.parametrize("name", SPAIN)
def test_the_measured_rate_follows_from_measured_mcs_layers_and_blocks(name: str) -> None:
    """Within 10 %: the outer loop's target of 10 % may be missed, and the special slot is not published."""
    rows = measured(OPERATORS[name])
    found = mid_band.rate_of_formats(OPERATORS[name], rows)
    assert np.median(found / rows["rate"]) == pytest.approx(1, abs=0.10)


def test_layers_and_modulation_of_section_4_are_most_often_those_that_were_predicted() -> None:
    """From its rates alone. Section 5 differs: there Orange has 3.7 layers at 90 MHz, 3.3 at 100 MHz."""
    rows = recorded("section 4")
    assert len(rows) == 2 * len(SPAIN)
    assert all(len(set(row[5].split(", "))) == 1 for row in rows)


@pytest.mark.parametrize("name", ["O_Sp_90Mhz", "V_Sp_90Mhz"])
def test_a_quiet_second_varies_as_one_of_the_scene(name: str) -> None:
    """Lower quartiles within 0.04: other measured seconds have pauses of 100 ms, which no scene has."""
    operator = OPERATORS[name]
    if not (DATA / f"Tput_{name}.txt").exists():
        pytest.skip(WORD)
    ours = mid_band.Inside.of(mid_band.modelled(operator, distance_m(operator), 0.1)["rate"])
    found = mid_band.measured_inside(DATA, operator)
    assert np.quantile(ours.variation, 0.25) == pytest.approx(np.quantile(found.variation, 0.25), abs=0.04)


def test_a_file_is_read_by_its_columns_and_pauses_around_a_transfer_do_not_count(tmp_path: Path) -> None:
    operator = OPERATORS["V_Sp_90Mhz"]
    (tmp_path / "V_Sp_90Mhz.txt").write_text("Tput(Mbps)\tMCS\tRBs\tlayers\tconfig\n500.5\t17.0\t228.0\t3.5\tV\n")
    assert {key: values.tolist() for key, values in mid_band.measured(tmp_path, operator).items()} == {
        "rate": [500.5],
        "MCS": [17.0],
        "layers": [3.5],
        "blocks": [228.0],
    }
    rates = [0.0, 0.1, *[400.0, 600.0] * 5, *[500.0] * 9, 100.0, *[1.0] * 5]
    (tmp_path / "Tput_V_Sp_90Mhz.txt").write_text("Tput(Mbps)\tconfig\n" + "".join(f"{x}\tV\n" for x in rates))
    found = mid_band.measured_inside(tmp_path, operator)
    assert found.variation.tolist() == pytest.approx([0.2, 0.2609], abs=1e-3)
    assert found.halved == 1 / 20


def test_a_download_through_the_engine_has_the_decoded_rate_of_its_channel() -> None:
    """TCP data are 1448 of about 1510 bytes: 0.96. Repetitions that succeed late or early move it by some percent."""
    quotients = [float(row[4].split(" ")[0]) for row in recorded("engine")]
    assert len(quotients) == len(OPERATORS)
    assert quotients == pytest.approx([0.96] * len(quotients), abs=0.04)
    measured_mbps = [float(row[6]) for row in recorded("engine")]
    middle_mbps = [float(row[7].split(", ")[1]) for row in recorded("engine")]
    assert middle_mbps == pytest.approx(measured_mbps, rel=LIMIT)


def test_no_operator_exceeds_the_formula_of_ts_38_306_in_more_than_two_seconds() -> None:
    """Two of 2757 and one of 6491 seconds do. Each is alone, at twice the seconds around it."""
    found = [row[6] for row in recorded("peaks") if row[6] != "–"]
    assert len(found) == len(mid_band.PEAKS)
    assert all(int(each) <= 2 for each in found)
