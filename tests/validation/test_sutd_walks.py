"""Link adaptation against the walks of the SUTD 5G dataset 2023: a private cell at 3.4 to 3.6 GHz, a phone, iperf3.

SINR is that of the synchronisation signals. The dataset does not say which table of MCS the cell used; the rate does.
At MCS 25, 128 resource blocks carry 335 Mbit/s: more than two layers of 64QAM in a usual TDD frame. The values below
are those of this network. There are few of them, and each is a constant of all walks.
"""

from __future__ import annotations

import csv

import numpy as np
import pytest
from tests.traces import FOLDER, WORD

from wavebed.channel.adaptation.formats import format_table
from wavebed.channel.adaptation.tbs import code_rate, modulation_order
from wavebed.scene.model import Carrier

FILES = ("sutd_Lvl4_AllRRUOn_Anomaly_label.csv", "sutd_Lvl6_AllRRUOn_Anomaly_label.csv")
CELL = Carrier(
    "nr",
    3.5e9,
    50e6,
    1,
    128,  # PDSCH PRBs of nearly every sample
    "DDDSU",
    layers=2,
    mcs_table="256qam",
    evm=0.063,  # -24 dB, transmitter and receiver together
    implementation_loss_db=1.0,
    layer_loss_db=7.0,  # from outdoor masts into a building
)
BRANCHES_DB = 6.0
"""Four receive branches of the phone together over one of them."""
SPREAD_DB = 4.0
"""Standard deviation of the SINR of the data around that of the synchronisation signals, which are 20 resource blocks
wide and measured at other times: samples at one SINR have MCS that differ by 8 between the percentiles 10 and 90."""
BINS_DB = np.arange(-5.0, 35.0, 2.0)


@pytest.fixture(scope="module")
def walks() -> dict[str, np.ndarray]:
    if not all((FOLDER / name).exists() for name in FILES):
        pytest.skip(WORD)
    rows = []
    for name in FILES:
        with (FOLDER / name).open(encoding="utf-8") as file:
            rows += [row for row in csv.DictReader(file) if row["PDSCH_MCS"]]
    keys = {"sinr_db": "SINR", "mcs": "PDSCH_MCS", "blocks": "PDSCH PRBs", "rate_bps": "throughput_DL"}
    columns = {key: np.array([float(row[column]) for row in rows]) for key, column in keys.items()}
    kept = (columns["blocks"] > 120) & (columns["rate_bps"] > 1e6)
    return {key: values[kept] for key, values in columns.items()}


def in_bin(walks: dict[str, np.ndarray], low_db: float) -> np.ndarray:
    return (walks["sinr_db"] >= low_db) & (walks["sinr_db"] < low_db + 2)


def modelled(sinr_db: float) -> tuple[float, float]:
    """Median of the MCS and mean of the layers, of what carries most at the SINR around one that is measured."""
    formats = format_table(CELL, "down").formats
    spread_db = np.random.default_rng(1).normal(0, SPREAD_DB, 20_001)
    place = np.searchsorted(formats.from_db, sinr_db + BRANCHES_DB + spread_db, side="right") - 1
    mcs, layers = (np.where(place < 0, 0, column[place]) for column in (formats.mcs, formats.layers))
    return float(np.median(mcs)), float(layers.mean())


@pytest.mark.parametrize("low_db", BINS_DB.tolist())
def test_the_median_mcs_at_each_sinr_is_within_two(walks: dict[str, np.ndarray], low_db: float) -> None:
    measured = walks["mcs"][in_bin(walks, low_db)]
    assert measured.size > 50
    assert abs(modelled(low_db + 1)[0] - np.median(measured)) <= 2


def measured_layers(walks: dict[str, np.ndarray], low_db: float, high_db: float) -> float:
    """Rate of a block and bit of a symbol, over that of one layer: the median at 11 to 17 dB, where it is constant."""
    symbol_bits = np.append(modulation_order("256qam") * code_rate("256qam"), [np.nan] * 4)
    per_symbol = walks["rate_bps"] / walks["blocks"] / symbol_bits[walks["mcs"].astype(int)]
    sinr_db = walks["sinr_db"]
    one = np.nanmedian(per_symbol[(sinr_db >= 11) & (sinr_db < 17)])
    return float(np.nanmedian(per_symbol[(sinr_db >= low_db) & (sinr_db < high_db)]) / one)


def test_the_second_layer_is_there_at_32_to_36_db_and_not_at_5(walks: dict[str, np.ndarray]) -> None:
    assert measured_layers(walks, 32, 36) == pytest.approx(2, abs=0.2)
    assert modelled(34.0)[1] == pytest.approx(2, abs=0.05)
    assert measured_layers(walks, 5, 11) == pytest.approx(0.95, abs=0.1)
    assert modelled(8.0)[1] < 1.2


def test_256qam_explains_the_rate_and_64qam_does_not(walks: dict[str, np.ndarray]) -> None:
    """At 32 to 36 dB: bits of a symbol that the rate needs, of two layers in the most of a usual TDD frame.

    7 slots of 10 and a special one with 10 symbols; 11 of 14 symbols carry data after control and DMRS.
    """
    strong = in_bin(walks, 32) | in_bin(walks, 34)
    median = {key: float(np.median(values[strong])) for key, values in walks.items()}
    most_symbols = 2 * 2000 * 0.78 * 12 * 12
    needed_bits = median["rate_bps"] / median["blocks"] / most_symbols
    mcs = int(median["mcs"])
    bits = {table: float((modulation_order(table) * code_rate(table))[mcs]) for table in ("64qam", "256qam")}
    assert bits["64qam"] < needed_bits < bits["256qam"]
