"""Formats of sending: layers and their power, resource blocks of the uplink, errors of transmitter and receiver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.channel import ensemble, realise
from wavebed.channel.adaptation import Adapted, LoopSettings, adapt
from wavebed.channel.adaptation.formats import format_table
from wavebed.config.queue import Queue
from wavebed.pattern.model import STATES
from wavebed.radio.model import WifiSettings
from wavebed.radio.presets import PRESETS
from wavebed.scene import load
from wavebed.scene.carrier import resolved
from wavebed.scene.model import Array, BaseStation, Carrier, Scene, Trajectory, Ue
from wavebed.scene.tables import CarrierTable

REAL = {"evm": 0.08, "implementation_loss_db": 2.0, "layer_loss_db": 3.0}
MMWAVE = Carrier("nr", 28e9, 400e6, 3, 264, "DDDSU", **REAL)
FOUR = replace(MMWAVE, layers=4, uplink_layers=4)
LTE = Carrier("lte", 1.8e9, 15e6, None, 75, layers=2, **REAL)
MID = Carrier("nr", 3.5e9, 100e6, 1, 273, "DDDSU", layers=4, mcs_table="256qam", evm=0.035, layer_loss_db=3.0)
CARRIERS = [MMWAVE, FOUR, LTE, MID]
STILL = LoopSettings(step_db=0.0)


def settled(sinr_db: float, carrier: Carrier, direction: str = "down") -> Adapted:
    found = adapt(np.full(20_000, sinr_db), 1e-3, carrier, "down" if direction == "down" else "up")
    return Adapted(*(values[10_000:] for values in found))


def goodput_bps(found: Adapted) -> float:
    return float((found.rate_bps * (1 - found.bler)).mean())


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("direction", ["down", "up"])
def test_every_way_needs_more_and_carries_more_than_the_one_before(carrier: Carrier, direction: str) -> None:
    formats = format_table(carrier, "down" if direction == "down" else "up").formats
    assert (np.diff(formats.from_db) >= 0).all()
    assert (np.diff(formats.rate_bps) > 0).all()


def test_four_layers_are_never_worse_than_one_at_any_sinr() -> None:
    for sinr_db in np.arange(-9.9, 40, 1.3).tolist():
        one, four = settled(sinr_db, MMWAVE), settled(sinr_db, FOUR)
        assert goodput_bps(four) >= goodput_bps(one)


def test_where_one_layer_carries_the_lowest_mcs_four_are_no_outage() -> None:
    """TS 38.214 5.2.2.2: with all four layers always in use, 20 s at -1.9 dB were an outage in both directions."""
    array = Array()
    scene = Scene(
        name="weak",
        title="A weak cell with four layers",
        anchor="illustrative",
        source=None,
        duration_s=20.0,
        step_s=0.001,
        carrier=FOUR,
        propagation="free-space",
        base_stations=(BaseStation("mast", (0.0, 0.0, 10.0), 0.0, 7.0, array),),
        ue=Ue(Trajectory((0.0,), ((100.0, 0.0, 1.5),)), 23.0, 9.0, array),
        radio=PRESETS["nr-120khz"],
    )
    level_db = float(realise(scene).sinr_db[0])
    station = replace(scene.base_stations[0], power_dbm=-1.9 - level_db)
    got = realise(replace(scene, base_stations=(station,)))
    assert got.sinr_db == pytest.approx(-1.9)
    assert not (got.state == STATES.index("outage")).any()
    assert got.rate_bps.min() > 30e6
    assert got.up_rate_bps.min() > 0


@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_layers_share_the_power_and_pay_for_their_separation(layers: int) -> None:
    formats = format_table(replace(FOUR, evm=0.0, implementation_loss_db=0.0), "down").formats
    noise = formats.noise[formats.layers == layers]
    assert noise.size
    assert noise == pytest.approx(layers * 10 ** (0.3 * (layers - 1)))


def test_more_layers_come_with_more_sinr() -> None:
    layers = [int(settled(sinr_db, FOUR).layers[-1]) for sinr_db in range(-4, 50, 4)]
    assert layers == sorted(layers)
    assert set(layers) == {1, 2, 3, 4}


def test_the_default_loss_of_a_layer_lies_between_those_of_two_polarisations() -> None:
    """Two polarisations with the mean cross-polar ratios of UMi (TR 38.901 Table 7.5-6): 9 dB in LOS, 8 dB in NLOS.

    What the better one of the two eigenchannels alone has above the mean of both, in decibels.
    """
    rng = np.random.default_rng(1)

    def gaussian(*shape: int) -> np.ndarray:
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)) / np.sqrt(2)

    def loss_db(co_polar: np.ndarray, ratio_db: float) -> float:
        channel = gaussian(20_000, 2, 2) * 10 ** (-ratio_db / 20)
        channel[:, 0, 0], channel[:, 1, 1] = co_polar.T
        gains_db = 20 * np.log10(np.linalg.svd(channel, compute_uv=False))
        return float((gains_db[:, 0] - gains_db.mean(axis=1)).mean())

    los = loss_db(np.exp(2j * np.pi * rng.random((20_000, 2))), 9.0)
    nlos = loss_db(gaussian(20_000, 2), 8.0)
    assert (los, nlos) == (pytest.approx(1.9, abs=0.1), pytest.approx(4.3, abs=0.1))
    default = resolved(CarrierTable(technology="nr", frequency_hz=28e9, bandwidth_hz=400e6)).layer_loss_db
    assert default == pytest.approx((los + nlos) / 2, abs=0.15)


@given(st.floats(-40, 45), st.floats(0, 6), st.sampled_from(CARRIERS), st.sampled_from(["down", "up"]))
def test_more_sinr_never_carries_less_once_it_has_settled(
    sinr_db: float, more_db: float, carrier: Carrier, direction: str
) -> None:
    low, high = (goodput_bps(settled(value, carrier, direction)) for value in (sinr_db, sinr_db + more_db))
    # The outer loop swings: 10 s hold a thousand reports, and it needs some ten for one step back.
    assert high >= low * 0.99


# Uplink


@pytest.mark.parametrize("carrier", [MMWAVE, LTE, MID])
def test_with_little_power_the_uplink_takes_fewer_blocks(carrier: Carrier) -> None:
    """TS 38.213 7.1.1, TS 38.321 5.4.6: the power of the UE is the same on any number of blocks."""
    one = replace(carrier, layers=1)
    formats = format_table(one, "up").formats
    assert set(format_table(one, "down").formats.blocks.tolist()) == {carrier.resource_blocks}
    assert formats.blocks[0] == 1
    assert formats.blocks[-1] == carrier.resource_blocks
    alone_db = float(formats.need_db[0]) + carrier.implementation_loss_db - 10 * np.log10(carrier.resource_blocks)
    assert formats.from_db[0] == pytest.approx(alone_db, abs=0.1)
    found = adapt([alone_db - 0.1, alone_db + 0.1], 1.0, one, "up", loop=STILL)
    assert (found.rate_bps > 0).tolist() == [False, True]


def town(distance_m: float) -> Scene:
    """LTE of 15 MHz in a town: a mast with 46 dBm, a phone with 23 dBm."""
    return Scene(
        name="town",
        title="A phone far from an LTE mast",
        anchor="illustrative",
        source=None,
        duration_s=1.0,
        step_s=0.001,
        carrier=replace(LTE, layers=1),
        propagation="uma",
        base_stations=(BaseStation("mast", (0.0, 0.0, 25.0), 46.0, 5.0, Array(8, 1, "3gpp")),),
        ue=Ue(Trajectory((0.0, 1.0), ((distance_m, 0.0, 1.5), (distance_m, 1.5, 1.5))), 23.0, 9.0, Array()),
        radio=PRESETS["lte"],
        draws_los=True,
    )


@pytest.mark.parametrize(("distance_m", "most"), [(1000.0, 0.002), (1500.0, 0.02), (2000.0, 0.15)])
def test_where_the_downlink_works_the_uplink_does(distance_m: float, most: float) -> None:
    """With every block in use, the uplink carried nothing in 23, 58 and 80 % of this time.

    What is left lacks the power for the lowest MCS on one block.
    """
    got = list(ensemble(town(distance_m), seeds=range(1, 31)))
    down = np.concatenate([each.rate_bps * (1 - each.bler) for each in got])
    up = np.concatenate([each.up_rate_bps for each in got])
    assert (up[down > 1e6] == 0).mean() <= most


def test_a_frame_without_uplink_carries_nothing_there() -> None:
    found = adapt([30.0], 1e-3, replace(MMWAVE, frame="DDDS"), "up")
    assert found.rate_bps.tolist() == [0]


# Errors of transmitter and receiver


def test_no_signal_gives_a_layer_more_than_the_evm_allows() -> None:
    for evm, ceiling_db in ((0.08, 21.94), (0.035, 29.12)):
        found = adapt(np.linspace(-30, 90, 500), 1e-3, replace(FOUR, evm=evm), "down")
        assert found.sinr_db.max() == pytest.approx(ceiling_db, abs=0.01)


def test_the_implementation_loss_moves_everything() -> None:
    ideal = replace(MMWAVE, evm=0.0, implementation_loss_db=0.0)
    for direction in ("down", "up"):
        link = "down" if direction == "down" else "up"
        lossy, free = format_table(replace(ideal, implementation_loss_db=2.0), link), format_table(ideal, link)
        assert lossy.formats.from_db == pytest.approx(free.formats.from_db + 2)
        assert lossy.formats.need_db == pytest.approx(free.formats.need_db)


def test_what_the_data_have_is_what_the_formula_says() -> None:
    sinr_db = np.linspace(0, 40, 4000)
    found = adapt(sinr_db, 1e-3, FOUR, "down")
    noise = found.layers * 10 ** (0.2 + 0.3 * (found.layers - 1) - sinr_db / 10)
    assert found.sinr_db == pytest.approx(-10 * np.log10(noise + 0.08**2))
    slope = format_table(FOUR, "down").formats.slope_per_db.mean()
    assert found.bler == pytest.approx(1 / (1 + 9 * np.exp(slope * (found.sinr_db - found.need_db))), abs=0.01)


def test_the_limits_of_the_standards_are_the_defaults_and_802_11ad_has_its_loss_already() -> None:
    small, large = (
        resolved(CarrierTable(technology="nr", frequency_hz=28e9, bandwidth_hz=400e6, mcs_table=table))
        for table in ("64qam", "256qam")
    )
    assert (small.evm, large.evm) == (0.08, 0.035)
    assert small.implementation_loss_db == large.implementation_loss_db == 2.0
    given_evm = CarrierTable(technology="lte", frequency_hz=1.8e9, bandwidth_hz=20e6, evm=0.05)
    assert resolved(given_evm).evm == 0.05
    wifi = load("cas-mmwave-bench").carrier
    assert (wifi.evm, wifi.implementation_loss_db) == (0.0, 0.0)
    aggregates = WifiSettings("802.11ad", Queue("infinite"), 262_143, 64, 30_000, 7, 40)
    found = adapt([20.0], 1e-3, wifi, "down", wifi=aggregates)
    assert found.sinr_db[0] == pytest.approx(20.0)
