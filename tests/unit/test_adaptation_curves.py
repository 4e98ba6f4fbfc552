"""Error rate over SNR, effective SINR, transport blocks: properties that hold everywhere."""

from __future__ import annotations

from math import erfc, log, log10, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.channel.adaptation import (
    block_error_rate,
    effective_sinr_db,
    lte_transport_block_bits,
    nr_transport_block_bits,
    slope_per_db,
    wifi_efficiency,
    wifi_overhead_ns,
)
from wavebed.channel.adaptation.bler import cqi_snr_db, waterfall
from wavebed.config.queue import Queue
from wavebed.radio.model import WifiSettings
from wavebed.radio.presets import PRESETS, technology_of

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
def test_a_faster_mcs_fails_more_but_for_the_grid_of_the_source(snr_db: float, mcs: int) -> None:
    # Neighbours may tie in the source, whose grid is 1.8 dB; slopes differ by less than 2 %.
    assert block_error_rate(snr_db, mcs + 2) >= block_error_rate(snr_db, mcs) - 0.01


@pytest.mark.parametrize(("technology", "table"), [entry for entry in TABLES if entry[0] != "802.11ad"])
def test_thresholds_rise_with_the_mcs_and_with_the_cqi(technology: str, table: str) -> None:
    assert (np.diff(waterfall(technology, table).snr_db) >= 0).all()
    assert (np.diff(cqi_snr_db(table)) > 0).all()


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


@given(st.floats(-20, 40), st.integers(0, 28), st.integers(1, 20))
def test_equal_subbands_keep_their_sinr(sinr_db: float, mcs: int, subbands: int) -> None:
    assert effective_sinr_db(np.full(subbands, sinr_db), mcs) == pytest.approx(sinr_db, abs=1e-6)


@given(st.lists(st.floats(-20, 40), min_size=2, max_size=12), st.integers(0, 28))
def test_the_effective_sinr_lies_between_the_worst_and_the_mean(sinr_db: list[float], mcs: int) -> None:
    found = float(effective_sinr_db(sinr_db, mcs))
    mean_db = 10 * log10(float(np.mean(10 ** (np.array(sinr_db) / 10))))
    assert min(sinr_db) - 1e-9 <= found <= mean_db + 1e-9


def test_the_effective_sinr_takes_the_last_axis() -> None:
    sinr_db = np.random.default_rng(1).normal(10, 5, (3, 4, 6))
    mcs = np.arange(12).reshape(3, 4)
    found = effective_sinr_db(sinr_db, mcs)
    assert found.shape == (3, 4)
    assert found[2, 1] == pytest.approx(float(effective_sinr_db(sinr_db[2, 1], 9)))


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
    columns = [lte_transport_block_bits(every, blocks, mcs_table=table) for blocks in (6, 15, 25, 50, 75, 100)]
    assert (np.diff(columns, axis=0) > 0).all()
    assert (np.diff(columns, axis=1) >= 0).all()
    assert not (np.array(columns) % 8).any()


def test_lte_refuses_resource_blocks_that_no_bandwidth_has() -> None:
    with pytest.raises(ValueError, match="7 resource blocks is not one of 6, 15, 25"):
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
