"""A part of a campaign: the cells of some levels, and the baselines beside them; trials are simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.campaign_example import example

from wavebed.campaign.read import read_campaign
from wavebed.cli import main
from wavebed.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.campaign.read import Campaign

FACTOR = '[[factor]]\nname = "rate"\nkey = "path.up-rate"\nvalues = ["1mbit", "2mbit"]\n'


def part(folder: Path, only: Mapping[str, Sequence[str]], more: str = "") -> Campaign:
    example(folder)
    file = folder / "c.toml"
    file.write_text(file.read_text().replace("[[primary]]", f"{FACTOR}{more}[[primary]]"))
    return read_campaign(file, only=only)


def names(campaign: Campaign) -> list[str]:
    return [cell.name for cell in campaign.cells]


def test_without_levels_it_is_the_whole_campaign(tmp_path: Path) -> None:
    assert len(part(tmp_path, {}).cells) == 6


def test_the_baseline_is_a_part_of_every_part(tmp_path: Path) -> None:
    campaign = part(tmp_path, {"delay": ["40ms"]})
    assert names(campaign) == ["5ms-1mbit", "5ms-2mbit", "40ms-1mbit", "40ms-2mbit"]
    assert [factor.levels.keys() for factor in campaign.factors] == [{"5ms", "40ms"}, {"1mbit", "2mbit"}]
    assert {(pair.baseline, pair.cell) for pair in campaign.comparisons} == {
        ("5ms-1mbit", "40ms-1mbit"),
        ("5ms-2mbit", "40ms-2mbit"),
    }


def test_other_factors_have_the_named_levels_alone(tmp_path: Path) -> None:
    assert names(part(tmp_path, {"rate": ["2mbit"], "delay": ["20ms"]})) == ["5ms-2mbit", "20ms-2mbit"]


def test_exclusions_may_name_what_the_part_has_not(tmp_path: Path) -> None:
    campaign = part(tmp_path, {"delay": ["20ms"]}, '[[exclude]]\ndelay = "40ms"\nrate = "2mbit"\n')
    assert len(campaign.cells) == 4


@pytest.mark.parametrize(
    ("only", "line"),
    [
        ({"delay": ["30ms"]}, r"c.toml: --only.delay: '30ms' is not a choice: did you mean"),
        ({"delays": ["5ms"]}, r"c.toml: --only.delays: unknown key: did you mean 'delay'"),
    ],
)
def test_a_factor_or_level_that_the_campaign_has_not_is_named(
    tmp_path: Path, only: Mapping[str, Sequence[str]], line: str
) -> None:
    with pytest.raises(UserError, match=line):
        part(tmp_path, only)


def test_a_part_without_cells_is_refused(tmp_path: Path) -> None:
    excluded = '[[exclude]]\ndelay = ["5ms", "40ms"]\nrate = "2mbit"\n'
    with pytest.raises(UserError, match="--only: leaves no cell of the campaign: name other levels"):
        part(tmp_path, {"delay": ["40ms"], "rate": ["2mbit"]}, excluded)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["plan", "demo", "--only", "treatment"], "--only: 'treatment' is not FACTOR=LEVEL"),
        (["run", "--resume", "gone", "--only", "a=b"], "--only: a campaign goes on with the part that it began"),
    ],
)
def test_the_option_is_checked(options: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["campaign", *options]) == 2
    assert line in capsys.readouterr().err
