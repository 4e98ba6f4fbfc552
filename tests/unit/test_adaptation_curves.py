"""Link adaptation: curves of block errors, formats of blocks, layers and the limits of the standards."""

from __future__ import annotations

from dataclasses import replace
from math import erfc, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.channel import ensemble, realise
from wavebed.channel.adaptation import Adapted, LoopSettings, adapt
from wavebed.channel.transport_formats import (
    GRID_DB,
    block_error_rate,
    code_blocks,
    code_rate,
    format_table,
    information_bits,
    lte_transport_block_bits,
    modulation_order,
    need_db,
    needed_snr_db,
    nr_transport_block_bits,
    slope_per_db,
    waterfall,
    wifi_efficiency,
    wifi_overhead_ns,
)
from wavebed.pattern.model import STATES
from wavebed.radio.presets import PRESETS, WifiSettings, technology_of
from wavebed.scene import load
from wavebed.scene.model import Array, BaseStation, Carrier, SceneModel, Trajectory, Ue
from wavebed.scene.read import resolved
from wavebed.scene.tables import CarrierTable
from wavebed.spec.network import WrittenQueue

TABLES = [("nr", "64qam"), ("nr", "256qam"), ("lte", "64qam"), ("lte", "256qam"), ("802.11ad", "64qam")]


@pytest.mark.parametrize(("technology", "table"), TABLES)
def test_a_tenth_fails_at_the_tabulated_snr(technology: str, table: str) -> None:
    curve = waterfall(technology, table)
    every = np.arange(curve.snr_db.size)
    assert block_error_rate(curve.snr_db, every, technology, table) == pytest.approx(0.1)


@given(st.floats(-150, 150), st.floats(0.01, 30), st.integers(0, 28))
def test_more_snr_never_fails_more(snr_db: float, more_db: float, mcs: int) -> None:
    assert 0 <= block_error_rate(snr_db + more_db, mcs) <= block_error_rate(snr_db, mcs) <= 1


@given(st.floats(-20, 40), st.integers(0, 26))
def test_a_faster_mcs_fails_more(snr_db: float, mcs: int) -> None:
    # The lowest MCS of a modulation needs up to 0.1 dB less than the highest of the one before; slopes differ by 2 %.
    assert block_error_rate(snr_db, mcs + 2) >= block_error_rate(snr_db, mcs) - 0.01


@given(st.sampled_from(["64qam", "256qam"]), st.floats(24, 8448))
def test_within_a_modulation_a_faster_mcs_needs_more(table: str, bits: float) -> None:
    order, rate = modulation_order(table), code_rate(table)
    needed = need_db(order, order * rate, bits)
    assert (np.diff(needed)[np.diff(order) == 0] > 0.3).all()


@given(st.sampled_from([2, 4, 6, 8]), st.floats(0.05, 0.95), st.floats(24, 8448), st.floats(0, 8000))
def test_bigger_blocks_never_need_more(order: int, rate: float, bits: float, more: float) -> None:
    small, large = need_db(order, order * rate, [bits, bits + more]).tolist()
    assert large <= small


def test_small_blocks_need_decibels_more() -> None:
    """Polyanskiy, Poor, Verdú by hand: 40 bits in 171 symbols at -7.5 dB are 1.2 dB wide, and 1.28 times that apart."""
    small, large = need_db(2, 0.234, [40, 8448]).tolist()
    assert small - large == pytest.approx(1.4, abs=0.1)


@pytest.mark.parametrize("carrier", [Carrier("nr", 28e9, 400e6, 3), Carrier("lte", 1.8e9, 20e6, layers=4)])
@pytest.mark.parametrize("table", ["64qam", "256qam"])
def test_reports_rise(carrier: Carrier, table: str) -> None:
    reports_db = format_table(replace(carrier, mcs_table=table), "down").reports_db
    assert reports_db is not None
    assert (np.diff(reports_db) > 0).all()
    assert reports_db.size >= 15


def test_a_modulation_carries_its_bits_at_most_and_less_than_the_capacity() -> None:
    for order in (2, 4, 6, 8):
        carried = information_bits(order)
        assert (np.diff(carried) >= -1e-9).all()
        assert carried[-1] == pytest.approx(order, abs=1e-3)
        assert (carried <= np.log2(1 + 10 ** (GRID_DB / 10)) + 1e-3).all()
    assert needed_snr_db(2, [2.0, 2.1]).tolist() == [np.inf, np.inf]


@pytest.mark.parametrize(("snr_db", "bits"), [(0.0, 0.9719), (5.0, 1.7184)])
def test_qpsk_carries_what_two_binary_channels_do(snr_db: float, bits: float) -> None:
    """1 - E[log2(1 + e^(-2x))] of BPSK, by a sum over a fine grid."""
    snr = 10 ** (snr_db / 10)
    x = np.linspace(-60, 90, 400_001)
    density = np.exp(-((x - snr) ** 2) / (2 * snr)) / np.sqrt(2 * np.pi * snr)
    one = 1 - float((density * np.log2(1 + np.exp(-2 * x))).sum() * (x[1] - x[0]))
    assert 2 * one == pytest.approx(bits, abs=1e-3)
    assert np.interp(snr_db, GRID_DB, information_bits(2)) == pytest.approx(2 * one, abs=1e-3)


@pytest.mark.parametrize(
    ("technology", "bits", "rate", "count", "coded"),
    [
        ("nr", 192_624, 948 / 1024, 23, 192_624 + 24 + 23 * 24),  # 192 648 bits over 8424
        ("nr", 8424, 0.5, 1, 8448),
        ("nr", 8456, 0.5, 2, 8456 + 24 + 48),
        ("nr", 4000, 0.2, 2, 4000 + 24 + 48),  # base graph 2: 3840 at most
        ("nr", 208, 0.9, 1, 224),
        ("lte", 75_376, 0.9, 13, 75_376 + 24 + 13 * 24),  # TS 36.212: 75 400 bits over 6120
        ("lte", 6120, 0.9, 1, 6144),
    ],
)
def test_a_transport_block_is_cut_as_the_standards_say(
    technology: str, bits: int, rate: float, count: int, coded: int
) -> None:
    found = code_blocks(np.array([bits]), np.array([rate]), "lte" if technology == "lte" else "nr")
    assert [int(part[0]) for part in found] == [count, coded]


def test_the_slope_is_that_of_the_normal_approximation_with_the_spread() -> None:
    """The same curve by another way: Q of the distance in decibels, differentiated by differences."""
    mcs, step_db = 16, 1e-3
    bits_per_symbol = 4 * 658 / 1024
    threshold_db = float(waterfall("nr").snr_db[mcs])
    symbols = 8448 / bits_per_symbol

    def deviation(snr_db: float) -> float:
        snr = 10 ** (snr_db / 10)
        return log(1 + snr) / log(2) * sqrt(symbols / (snr * (snr + 2) / (1 + snr) ** 2)) * log(2)

    per_db = (deviation(threshold_db + step_db) - deviation(threshold_db - step_db)) / (2 * step_db)
    # The dispersion's own change with the SNR, which the formula leaves out, is a fiftieth of it here.
    width_db = sqrt((1 / per_db) ** 2 + 0.5**2)

    def logit(shift_db: float) -> float:
        share = erfc((1.2815515655 + shift_db / width_db) / sqrt(2)) / 2
        return log(share / (1 - share))

    slope = (logit(-step_db) - logit(step_db)) / (2 * step_db)
    assert waterfall("nr").slope_per_db[mcs] == pytest.approx(slope, rel=0.02)


def test_the_slope_for_harq_is_near_four_per_decibel() -> None:
    assert slope_per_db("nr") == pytest.approx(3.84, abs=0.01)
    for preset in ("nr-120khz", "lte"):
        assert slope_per_db(technology_of(preset)) == pytest.approx(PRESETS[preset].slots.harq.slope_per_db, abs=0.1)


@given(st.integers(1, 273), st.integers(2, 14), st.integers(1, 4), st.sampled_from(["64qam", "256qam"]), st.data())
def test_nr_blocks_are_whole_bytes_near_what_the_code_rate_gives(
    blocks: int, symbols: int, layers: int, table: str, data: st.DataObject
) -> None:
    mcs = data.draw(st.integers(0, 28 if table == "64qam" else 27))
    bits = int(nr_transport_block_bits(mcs, blocks, symbols=symbols, layers=layers, mcs_table=table))
    assert bits % 8 == 0
    more = nr_transport_block_bits(mcs, blocks + 1, symbols=symbols, layers=layers, mcs_table=table)
    assert bits <= more
    wider = nr_transport_block_bits(mcs, blocks, symbols=symbols, layers=layers + 1, mcs_table=table)
    assert bits <= wider


def test_an_empty_slot_carries_nothing() -> None:
    assert nr_transport_block_bits([0, 28], 264, symbols=0).tolist() == [0, 0]
    assert nr_transport_block_bits([0, 28], 264, symbols=1).tolist() == [0, 0]


@pytest.mark.parametrize("table", ["64qam", "256qam"])
def test_lte_blocks_grow_with_blocks_and_mcs(table: str) -> None:
    every = np.arange(29 if table == "64qam" else 28)
    # One block has 328 bits with the TBS index 6 in the standard, more than two blocks have: no QPSK carries them.
    columns = [
        lte_transport_block_bits(every, blocks, mcs_table=table) for blocks in (2, 3, 4, 6, 10, 15, 25, 50, 75, 100)
    ]
    assert (np.diff(columns, axis=0) > 0).all()
    assert (np.diff(columns, axis=1) >= 0).all()
    assert not (np.array(columns) % 8).any()


def test_lte_refuses_resource_blocks_that_no_bandwidth_has() -> None:
    with pytest.raises(ValueError, match="7 resource blocks is not one of 1, 2, 3, 4, 6"):
        lte_transport_block_bits(0, 7)


def test_longer_aggregates_keep_more_of_the_rate() -> None:
    def settings(frames: int, overhead_ns: int) -> WifiSettings:
        return WifiSettings("802.11ad", WrittenQueue("infinite"), 262_143, frames, overhead_ns, 7, 40)

    assert (wifi_efficiency(settings(64, 30_000)) > wifi_efficiency(settings(8, 30_000))).all()
    assert (wifi_efficiency(settings(64, 0)) == 1).all()
    assert (np.diff(wifi_efficiency(settings(64, 30_000))) < 0).all()
    # 262 143 bytes hold 170 packets of 1540 bytes
    assert (wifi_efficiency(settings(500, 30_000)) == wifi_efficiency(settings(170, 30_000))).all()


def test_the_overhead_of_an_aggregate_shares_the_contention() -> None:
    # 2473 + 3000 + (2473 + 256 bit at 385 Mbit/s = 665) + 3000, and 3000 + 3·5000 + 7.5·5000 for each TXOP
    assert wifi_overhead_ns(1) == 2473 + 3000 + 2473 + 665 + 3000 + 55_500
    assert wifi_overhead_ns(10**9) == 2473 + 3000 + 2473 + 665 + 3000


def test_the_radio_stage_takes_that_overhead_by_default() -> None:
    preset = PRESETS["802.11ad"]
    assert isinstance(preset, WifiSettings)
    assert preset.overhead_ns == pytest.approx(wifi_overhead_ns(), rel=0.005)


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
    scene = SceneModel(
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


def town(distance_m: float) -> SceneModel:
    """LTE of 15 MHz in a town: a mast with 46 dBm, a phone with 23 dBm."""
    return SceneModel(
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
    aggregates = WifiSettings("802.11ad", WrittenQueue("infinite"), 262_143, 64, 30_000, 7, 40)
    found = adapt([20.0], 1e-3, wifi, "down", wifi=aggregates)
    assert found.sinr_db[0] == pytest.approx(20.0)
