"""The figures of the named conditions: they are current, they are where published ones are, and the texts are true."""

from __future__ import annotations

import shutil
from statistics import median
from typing import cast

import condition_figures
import pytest

from wavebed.conditions.condition import variant_names
from wavebed.conditions.text import stored


@pytest.mark.parametrize("name", variant_names())
def test_the_stored_idle_round_trip_is_that_of_the_engine(name: str) -> None:
    if shutil.which("cargo") is None:
        pytest.skip("cargo not present: it runs the radio stage in virtual time")
    rows = stored()[name]
    rates = [round(median(cast("list[int]", rows[key]))) for key in ("down_median_bps", "up_median_bps")]
    assert condition_figures.rtt_idle_us(name, *rates) == rows["rtt_idle_us"]
