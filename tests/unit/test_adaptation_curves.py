"""Error rate over SNR, needed SNR, transport blocks: properties that hold everywhere."""

from __future__ import annotations

from dataclasses import replace
from math import erfc, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.channel.adaptation import (
    block_error_rate,
    lte_transport_block_bits,
    need_db,
    nr_transport_block_bits,
    slope_per_db,
    wifi_efficiency,
    wifi_overhead_ns,
)
from wavebed.channel.adaptation.bler import waterfall
from wavebed.channel.adaptation.formats import format_table
from wavebed.channel.adaptation.information import GRID_DB, information_bits, needed_snr_db
from wavebed.channel.adaptation.tbs import code_blocks, code_rate, modulation_order
from wavebed.config.queue import Queue
from wavebed.radio.model import WifiSettings
from wavebed.radio.presets import PRESETS, technology_of
from wavebed.scene.model import Carrier

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
        return WifiSettings("802.11ad", Queue("infinite"), 262_143, frames, overhead_ns, 7, 40)

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
