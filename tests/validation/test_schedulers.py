"""The independent schedulers against closed forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.validation import uplink_power
from tests.validation.cell_cases import fixture
from tests.validation.schedulers import (
    Errors,
    constant,
    equal_parts,
    fair_limit,
    fair_waits,
    jain,
    largest_ratio,
    rayleigh,
    shares,
    thin_flow,
    turns,
)

if TYPE_CHECKING:
    from collections.abc import Callable

RATES = (10.0, 20.0, 80.0)


@pytest.mark.parametrize("devices", [2, 3, 8, 16, 32])
def test_proportional_fair_gives_constant_rates_equal_air(devices):
    rates = np.geomspace(10, 300, devices)
    found = shares(constant(rates, 200 * devices), "proportional_fair")
    assert found.air == pytest.approx(np.full(devices, 1 / devices), rel=0.02)
    assert found.rate == pytest.approx(rates / devices, rel=0.02)


def test_proportional_fair_gains_the_harmonic_number_in_rayleigh_fading():
    # Rates proportional to an exponential SNR, an average over many slots: the gain over turns is 1 + 1/2 + ... + 1/n.
    devices = 8
    fading = np.random.default_rng(3).exponential(1.0, (40_000, devices)) * np.linspace(1, 4, devices)
    found = shares(fading, "proportional_fair", 2000.0)
    harmonic = sum(1 / number for number in range(1, devices + 1))
    assert found.air == pytest.approx(np.full(devices, 1 / devices), rel=0.06)
    assert found.rate * devices / np.linspace(1, 4, devices) == pytest.approx(np.full(devices, harmonic), rel=0.06)


def test_a_long_average_reaches_the_limit():
    fading = rayleigh([0, 10, 20, 30], 20_000, 20e6, 7.4, 5)
    limit = fair_limit(fading)
    found = shares(np.concatenate([fading, fading]), "proportional_fair", 2000.0)
    assert found.air == pytest.approx(limit.air, rel=0.02)
    assert found.rate == pytest.approx(limit.rate, rel=0.02)
    # No other division has a higher sum of logarithms.
    turns = fading.mean(axis=0) / 4
    assert np.log(limit.rate).sum() > np.log(turns).sum()


def test_round_robin_and_maximum_rate():
    served = shares(constant(RATES, 600), "round_robin")
    assert served.air == pytest.approx(np.full(3, 1 / 3))
    assert served.rate == pytest.approx(np.array(RATES) / 3)
    fading = rayleigh([0, 10, 20], 601, 20e6, 20.0, 5)
    assert turns(fading, 0).rate == pytest.approx(shares(fading, "round_robin").rate)
    best = shares(constant(RATES, 600), "maximum_rate")
    assert best.air.tolist() == [0, 0, 1]
    assert best.rate.tolist() == [0, 0, 80]
    assert jain(best.rate) == pytest.approx(1 / 3)
    tie = shares(constant((5.0, 5.0), 600), "maximum_rate")
    assert tie.air.tolist() == [0.5, 0.5]


def test_repetitions_take_their_part_of_the_air():
    rates = constant((10.0, 20.0), 40_000)
    found = shares(rates, "round_robin", errors=Errors((0.0, 0.25), 4))
    # For each block of the second device there is a quarter of a repetition.
    assert found.air == pytest.approx([1 / 2.25, 1.25 / 2.25], rel=0.02)
    assert found.rate == pytest.approx([10 / 2.25, 20 / 2.25], rel=0.02)
    # If they count as served, proportional fair keeps the air equal and the second device pays alone.
    counted = shares(rates, "proportional_fair", errors=Errors((0.0, 0.25), 4, counted=True))
    assert counted.air == pytest.approx([0.5, 0.5], rel=0.02)
    assert counted.rate == pytest.approx([5, 8], rel=0.02)


def test_the_ratio_of_a_device_before_its_turn():
    # Of three devices served in turn: R = (r / c) q^2 (1 + q^3 + q^6 + ...).
    q, c = 1 - 1 / 10, 10.0
    average = sum(q ** (2 + 3 * turn) for turn in range(400)) / c
    assert largest_ratio(3, 10.0) == pytest.approx(1 / average)


@pytest.mark.parametrize("others", [1, 3, 7, 15, 31])
@pytest.mark.parametrize("policy", ["round_robin", "proportional_fair"])
def test_waits_of_a_thin_flow_stay_within_their_bounds(policy, others):
    gap, load = 40, 0.2
    rates = constant([1.0] * (others + 1), 20_000)
    arrivals = [(start, load) for start in range(500, 19_000, gap)]
    sent = thin_flow(arrivals, rates, policy)
    waits = [slot - start for slot, (start, _) in zip(sent, arrivals, strict=True)]
    bounds = [others] * len(waits) if policy == "round_robin" else fair_waits(arrivals, others)
    assert min(waits) >= 0
    assert all(wait <= bound for wait, bound in zip(waits, bounds, strict=True))


def test_a_flow_above_its_share_waits_in_proportional_fair():
    # Half a slot in each third one, beside 15 full buffers: far more than a 16th of the slots.
    arrivals = [(start, 0.5) for start in range(500, 1400, 3)]
    sent = thin_flow(arrivals, constant([1.0] * 16, 6000), "proportional_fair")
    waits = [slot - start for slot, (start, _) in zip(sent, arrivals, strict=False)]
    assert waits[0] == 0
    assert waits[-1] > 100


def test_equal_parts_with_repetitions():
    found = equal_parts(constant((10.0, 20.0), 100), (0.0, 0.25))
    assert found.air.tolist() == [0.5, 0.5]
    assert found.rate == pytest.approx([5, 8])


@pytest.mark.parametrize(
    ("module", "name", "made"),
    [("cell_cases", "cell_shares", fixture), ("uplink_power", "cell_power", uplink_power.fixture)],
)
def test_the_figures_of_the_crates_tests_are_current(module: str, name: str, made: Callable[[], object]):
    path = Path(__file__).parents[2] / f"crates/wavebed-link/tests/all/{name}.json"
    assert json.loads(path.read_text()) == json.loads(json.dumps(made())), (
        f"write {path.name} by: python -m tests.validation.{module} > {path}"
    )
