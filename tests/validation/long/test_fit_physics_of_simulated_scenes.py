"""Physics fits: a scene whose parameters are known is found again from its walks."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
from tests.unit.test_fit_physics import KEYS, STREET, street  # noqa: F401

from wavebed.fit.judge import LTE, ks_distance
from wavebed.fit.physics import FitSettings, fit_physics, parameters_of, scene_text, value_of, walks_of, with_values
from wavebed.scene.read import scene_of

QUICK = FitSettings(seeds=16, first=16, rounds=8, descents=3, resamples=100)


def moved(document: dict[str, object], *values: float) -> dict[str, object]:
    return with_values(document, dict(zip(parameters_of(document, KEYS), values, strict=True)))


def test_finds_the_parameters_of_a_simulated_scene_within_their_intervals(street: dict[str, object]) -> None:
    walks = walks_of(street, range(501, 525))
    start = moved(street, 35.0, 20.0, 60_000.0)
    fit = fit_physics(walks[:18], start, LTE, keys=KEYS, settings=QUICK)
    for found, truth in zip(fit.parameters, (20.0, 60.0, 8_000.0), strict=True):
        assert found.low <= truth <= found.high, found.text()
        span = found.parameter.part(found.high) - found.parameter.part(found.low)
        assert 0 < span < 0.6, found.text()  # an interval of everything would say nothing
    unseen = np.concatenate(walks[18:])
    near, far = (np.concatenate(walks_of(scene, range(1001, 1013))) for scene in (fit.document, start))
    assert ks_distance(near, unseen) < 0.15 < ks_distance(far, unseen)
    assert [value_of(fit.document, each.parameter) for each in fit.parameters] == pytest.approx(
        [each.value for each in fit.parameters], rel=1e-3
    )
    written = tomllib.loads(scene_text(fit, "18 walks"))
    assert scene_of(written, Path("street.toml")).fitted == tuple(f"{each.text()}; 18 walks" for each in fit.parameters)
