"""Physics fits: a scene whose parameters are known is found again from its walks."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from wavebed.errors import UserError
from wavebed.fit.judge import LTE, MMWAVE, dips
from wavebed.fit.physics import (
    Figures,
    FitSettings,
    SceneParameter,
    Target,
    figures,
    fit_physics,
    parameters_of,
    toml_text,
    walks_of,
    with_values,
)
from wavebed.scene import load, shipped
from wavebed.scene.read import scene_of

SCENES = Path(__file__).parents[2] / "python" / "wavebed" / "scenarios" / "scenes"
STREET = """
title = "A street with LTE"
anchor = "illustrative"
duration = "400s"
propagation = "uma"
cell-load = { mean = "60%", time-constant = "8s" }
shadowing = { spread = "3db", distance = 30 }
[carrier]
technology = "lte"
frequency = "2.1ghz"
bandwidth = "20mhz"
layers = 2
[[base-station]]
name = "roof"
at = [150, 100, 25]
power = "20dbm"
[ue]
start = [0, 0, 1.5]
trajectory = [{ go-to = [100, 0], until = "400s" }]
"""
KEYS = ("base-station.*.power", "cell-load.mean", "cell-load.time-constant")


@pytest.fixture(scope="module")
def street() -> dict[str, object]:
    return tomllib.loads(STREET)


def test_a_fit_is_repeatable_and_tells_of_each_realisation(street: dict[str, object]) -> None:
    walks = walks_of(street, range(501, 505))
    told: list[int] = []
    brief = FitSettings(seeds=2, first=2, rounds=1, descents=1, resamples=20)
    one, two = (
        fit_physics(walks, street, LTE, keys=KEYS, settings=brief, tell=lambda count, *_: told.append(count))
        for _ in range(2)
    )
    assert one.parameters == two.parameters
    assert one.document == two.document
    assert told == [*range(1, one.evaluations + 1)] * 2


def test_hidden_seconds_count_nowhere(street: dict[str, object]) -> None:
    walk = np.concatenate((np.full(100, 300.0), np.full(100, 50.0), np.full(200, 900.0)))
    hidden = walk.copy()
    hidden[100:200] = np.nan
    changed = np.where(np.isnan(hidden), 5000.0, hidden)
    changed[100:200] = np.nan
    target = Target([hidden, hidden], MMWAVE)
    assert np.array_equal(target.figures([hidden]).values(), target.figures([changed]).values(), equal_nan=True)


def test_figures_of_a_walk_by_hand() -> None:
    walk = np.array([500.0, 50.0, 50.0, 450.0, 2.0, 200.0, 80.0, 500.0])
    found = figures([walk], MMWAVE, np.array([60.0, 300.0]), np.array([300.0]), walk.mean())
    values, groups = found.values(), found.groups
    assert values[groups == "rates"] == pytest.approx([3 / 8, 5 / 8])
    assert values[groups == "shares"] == pytest.approx([1 / 8, 4 / 8])
    # Outages of 2, 1 and 1 s; three of them begin in 8 s.
    assert values[groups == "outages"] == pytest.approx([2 / 3, 1, 1, 1, 1, 1, 1, 10 * 3 / 8])
    # After the first and the third it reaches 400 Mbit/s at once; after the second it falls before.
    assert values[groups == "recovery"] == pytest.approx([2 / 3, 1, 1, 1, 1])
    assert values[groups == "places"] == pytest.approx([0, 1, 1, 0, 1, 1, 1, 0])
    assert dips(walk, 100.0).tolist() == [2.0, 1.0, 1.0]


def test_figures_of_a_resample_are_those_of_its_walks(street: dict[str, object]) -> None:
    walks = walks_of(street, range(1, 4))
    found = Target(walks, LTE)
    again = found.figures([walks[0], walks[2], walks[2]])
    assert found.measured.values(np.array([0, 2, 2])) == pytest.approx(again.values(), nan_ok=True)


def test_equal_walks_have_no_distance_and_a_missing_figure_has_one(street: dict[str, object]) -> None:
    walks = walks_of(street, range(1, 4))
    target = Target(walks, LTE)
    assert not target.residuals(target.values).any()
    assert target.residuals(np.full(target.values.shape, np.nan))[target.known].all()
    assert isinstance(target.measured, Figures)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (("cell-load",), "cell-load: cannot be fitted in this scene"),
        (("timers.t310",), "timers.t310: cannot be fitted in this scene"),
        ((), "the scene has 0 values to fit"),
    ],
)
def test_refuses_keys_that_are_none(street: dict[str, object], keys: tuple[str, ...], said: str) -> None:
    with pytest.raises(UserError, match=said):
        parameters_of(street, keys)


def test_refuses_more_than_twelve(street: dict[str, object]) -> None:
    mmwave = tomllib.loads((SCENES / "loop-mmwave.toml").read_text(encoding="utf-8"))
    mmwave["ue"]["body-loss"] = "20db"
    mmwave["carrier"]["evm"] = "8%"
    assert len(parameters_of(mmwave)) == 12, "those that its `fitted` names"
    del mmwave["fitted"]
    with pytest.raises(UserError, match=r"the scene has 1[3-6] values to fit: name 1 to 12"):
        parameters_of(mmwave)


@pytest.mark.parametrize(
    ("parameter", "value"), [(SceneParameter("a", -20, 30, "db"), -3.0), (SceneParameter("b", 1, 100, "%", True), 7.0)]
)
def test_a_parameter_has_a_place_in_its_range(parameter: SceneParameter, value: float) -> None:
    assert parameter.value(parameter.part(value)) == pytest.approx(value)
    assert (parameter.part(parameter.low), parameter.part(parameter.high)) == (0, 1)
    assert parameter.part(1e9) == 1


def test_one_value_of_all_base_stations(street: dict[str, object]) -> None:
    two = dict(street, **{"base-station": [{"name": "a", "power": "1dbm"}, {"name": "b", "power": "1dbm"}]})
    power = parameters_of(two, KEYS[:1])[0]
    changed = with_values(two, {power: 12.34567})["base-station"]
    assert [each["power"] for each in changed] == ["12.35dbm", "12.35dbm"]
    assert two["base-station"][0]["power"] == "1dbm"


@pytest.mark.parametrize("name", shipped())
def test_the_text_of_a_scene_is_the_scene(name: str) -> None:
    file = SCENES / f"{name}.toml"
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    assert tomllib.loads(toml_text(document)) == document
    assert scene_of(tomllib.loads(toml_text(document)), file) == load(file)


@pytest.mark.parametrize(("value", "said"), [(3.006e-5, "0db"), (-1.23456e-3, "-0.0012db"), (12.34567, "12.35db")])
def test_a_value_near_0_is_written_without_an_exponent(value: float, said: str) -> None:
    assert SceneParameter("nlos-offset", -20, 30, "db").written(value) == said
