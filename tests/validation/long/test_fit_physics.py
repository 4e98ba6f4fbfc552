"""The shipped scenes of the Lumos5G loop against walks that their fit has not seen.

Targets of the fit: a KS distance of the rates of at most 0.30 for mmWave and 0.35 for LTE. Seeds are others than those
of the fit, so that the distance holds the chance of few streets, too.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.validation.test_fit_physics import SCENES, document  # noqa: F401

from wavebed.channel import realise
from wavebed.fit.judge import ks_distance
from wavebed.fit.physics import TCP_PAYLOAD, walks_of
from wavebed.scene import load


@pytest.mark.parametrize("kind", ["mmwave", "lte"])
def test_coarse_steps_of_the_fit_have_the_rates_of_the_scene(kind: str) -> None:
    # 0.1 is a third of the distance that the target allows; beams that are measured once a second are late by a metre.
    fine = realise(load(f"loop-{kind}"), seed=3001)
    rate = fine.rate_bps * (1 - fine.bler) * (TCP_PAYLOAD / 1e6)
    seconds = rate.reshape(-1, round(1 / fine.scene.step_s)).mean(axis=1)
    coarse = walks_of(document(kind), [3001])[0]
    assert seconds.size == coarse.size
    assert ks_distance(seconds, coarse) <= 0.1
    assert np.corrcoef(seconds, coarse)[0, 1] > 0.8
